"""The document of arrivals is whole, harmless, and shows the numbers of the run."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from handmade_answers import HOSTILE

from fairlead.mechanisms.dynamic_run import DynamicRun, run_dynamic
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.report import dynamic, page
from fairlead.report.dynamic import dynamic_document, shown_users
from fairlead.report.numbers import precise_percent
from fairlead.report.page import to_page
from fairlead.report.terminal import to_terminal
from page_reader import Reader, read_harmless

# Users, resources, whether they have weights, and how many demands are zero.
RUNS = {
    "one": (1, 2, False, 0.0),
    "few": (6, 2, False, 0.0),
    "weighted, with zeros": (30, 3, True, 0.4),
    "many": (150, 12, False, 0.0),
    "weighted and many": (60, 3, True, 0.4),
}
# Pictures have six digits.
approx = partial(pytest.approx, rel=1e-5)


@cache
def run_of(name: str) -> DynamicRun:
    users, resources, weighted, zeros = RUNS[name]
    random = np.random.default_rng(2)
    demand = random.uniform(0.1, 1, (users, resources))
    demand[random.random(demand.shape) < zeros] = 0.0
    demand[~(demand > 0).any(axis=1), 0] = 1.0
    problem = Problem.from_arrays(
        [[20.0] * resources],
        demand,
        weight=random.choice([1, 2], users) if weighted else np.full(users, 2.0),
        users=[f"{HOSTILE}{n}" for n in range(users)],
        resources=[f"{HOSTILE}r{r}" for r in range(resources)],
    )
    return run_dynamic(problem)


VERDICTS = [
    Verdict("sharing-incentive", "holds", {}, 6, "all 6 steps"),
    Verdict("dynamic-envy-freeness", "unknown", {}, 6, "6 of 7 steps"),
    Verdict("strategy-proofness", "fails", {"agent": HOSTILE, "its_share": 0.5}, 6),
]


def page_of(name: str) -> str:
    return to_page(dynamic_document(run_of(name), VERDICTS, HOSTILE, [HOSTILE]))


def text_of(name: str, width: int | None = None) -> str:
    return to_terminal(dynamic_document(run_of(name), VERDICTS, "x"), width=width, plain=True)


def figure_of(name: str, about: str) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = Reader(page_of(name)).figure(about)["data"]
    return data


@pytest.mark.parametrize("name", RUNS)
def test_a_page_fetches_nothing_and_every_picture_has_its_data(name: str) -> None:
    page = page_of(name)
    assert len(read_harmless(page).pictures()) == 3


@pytest.mark.parametrize("name", RUNS)
def test_each_line_of_the_staircase_is_what_its_user_had_at_every_step(name: str) -> None:
    run = run_of(name)
    *lines, split, known = figure_of(name, "Share of each user after each step")
    users = shown_users(run)
    assert len(lines) == len(users)
    unit = 1.0 if name.startswith("weighted") else 2.0
    for n, line in zip(users, lines, strict=True):
        for k in range(n + 1, run.n_steps + 1):
            last = max(i for i, x in enumerate(line["x"]) if x <= k)
            level = run.shares_at(k)[n] / run.problem.weight[n]
            assert line["y"][last] == approx(unit * level)
        assert line["x"][0] == n + 1
        assert line["x"][-1] == run.n_steps + 1  # a step of its own length
        assert line["y"][-1] == line["y"][-2]
    assert split["y"] == approx([unit / run.problem.weight.sum()] * 2)
    assert known["y"][:-1] == approx((unit * run.full_knowledge_levels).tolist())


def test_of_many_users_a_sample_has_lines_and_the_page_says_so() -> None:
    users = shown_users(run_of("many"))
    assert len(users) == dynamic.LINES
    assert users[0] == 0
    assert users[-1] == 149
    assert "60 of 150 users, evenly spaced" in Reader(page_of("many")).text
    assert "evenly spaced" not in Reader(page_of("few")).text


@pytest.mark.parametrize("name", RUNS)
def test_what_was_used_is_drawn_beside_the_budget(name: str) -> None:
    run = run_of(name)
    *resources, budget = figure_of(name, "Part of each resource")
    for r, line in enumerate(resources):
        steps = [int(k) for k in line["x"][:-1]]
        used = [run.shares_at(k) @ run.demand[:k, r] for k in steps]
        assert line["y"][:-1] == approx(used)
        assert line["y"][-1] == approx(run.used[r])
    assert budget["y"][:-1] == approx([run.budget[int(k) - 1] for k in budget["x"][:-1]])


@pytest.mark.parametrize("name", RUNS)
def test_shares_in_the_end_are_drawn_beside_drf(name: str) -> None:
    run = run_of(name)
    about = "Share of each user in the end"
    drawn = {trace["name"]: trace for trace in figure_of(name, about)}
    arrived, drf = drawn["dynamic, in the end"], drawn["DRF, had all been known"]
    axis = "y" if "many" in name else "x"
    unit = run.problem.weight if name == "weighted and many" else 1.0
    assert arrived[axis] == approx((run.shares / unit).tolist())
    assert drf[axis] == approx((run.full_knowledge_shares / unit).tolist())
    first = run.shares[0]  # in words it is what it is, whatever the unit
    assert precise_percent(float(first)) in arrived["hovertext"][0]


@pytest.mark.parametrize("name", RUNS)
def test_the_table_of_the_page_holds_the_numbers(name: str) -> None:
    run = run_of(name)
    table = Reader(page_of(name)).table("Users")
    cells = [float(str(a["data-value"])) for _, a in table if "data-value" in a]
    weight = [run.problem.weight] if name.startswith("weighted") else []
    ratio = run.shares / run.full_knowledge_shares
    step = np.arange(1, run.n_steps + 1)
    columns = [*weight, step, run.levels, run.shares, run.full_knowledge_shares, ratio]
    assert cells == pytest.approx(np.stack(columns, axis=1).ravel())


def test_a_long_table_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "ROWS_ON_PAGE", 50)
    read = Reader(page_of("many"))
    assert "and 100 users between them; all are in the output of --json" in read.text
    steps = [a["data-value"] for tag, a in read.table("Users") if tag == "td"][::5]
    assert steps == [str(k) for k in (*range(1, 26), *range(126, 151))]


def test_long_lines_are_thinned_to_what_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic, "POINTS", 10)
    *lines, _, known = figure_of("many", "Share of each user after each step")
    assert max(len(line["x"]) for line in lines) <= 11
    assert (known["x"][0], known["x"][-2], len(known["x"])) == (1, 150, 11)


@pytest.mark.parametrize(
    ("width", "most", "listed"), [(None, 2000, 150), (None, 60, 60), (100, 9, 40)]
)
def test_of_many_users_tables_list_the_first_and_the_last(
    width: int | None, most: int, listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamic, "ROWS_IN_PIPE", most)
    text = text_of("many", width)
    steps = [
        int(line.split()[-9]) for line in text.splitlines() if line.startswith(f" {HOSTILE[:8]}")
    ]
    half = listed // 2
    assert steps == [*range(1, half + 1), *range(151 - listed + half, 151)]
    assert (f"{150 - listed} users between them" in text) == (listed < 150)


def test_resources_and_findings_in_words() -> None:
    lines = text_of("few").splitlines()
    run = run_of("few")
    for r, used in enumerate(run.used.tolist()):
        assert f"{HOSTILE}r{r} used  {100 * used:.2f} %" in lines
    findings = {
        line.split()[1]: " ".join(line.split()[2:]) for line in lines if line[:1] in ("✓", "✗", "?")
    }
    assert findings["sharing-incentive"].startswith("holds nobody ever has less than an equal")
    assert findings["sharing-incentive"].endswith("(all 6 steps)")
    envy = findings["dynamic-envy-freeness"]
    assert envy.startswith("not refuted nobody envies")
    assert envy.endswith("(6 of 7 steps looked at)")
    assert findings["strategy-proofness"] == f"FAILS agent {HOSTILE}, its share 0.5"
    assert findings["proof"].startswith("holds at every step nothing is used beyond")
    row = next(line for line in lines if line.startswith(f" {HOSTILE}5"))
    ratio = run.shares[5] / run.full_knowledge_shares[5]
    assert row.endswith(f"{100 * ratio:.2f} %")


@pytest.mark.parametrize(
    ("verdicts", "mark", "said"),
    [
        (VERDICTS[:1], "✓", "The one property holds."),
        (VERDICTS[:2], "✓", "1 of 2 properties holds; the rest could not be refuted."),
        (VERDICTS, "✗", "NOT EVERY PROPERTY HOLDS: strategy-proofness."),
    ],
)
def test_it_opens_with_the_least_level_and_what_holds(
    verdicts: list[Verdict], mark: str, said: str
) -> None:
    run = run_of("many")
    document = dynamic_document(run, verdicts, "x")
    opening = to_terminal(document, width=None, plain=True).splitlines()[1]
    ratio = run.levels / run.full_knowledge_levels
    assert opening.startswith(f"{mark} In the end the least level is {100 * ratio[-1]:.3g} %")
    least = f"{100 * ratio.min():.3g} %, after step {ratio.argmin() + 1}."
    assert f"it was lowest, {least} {said}" in opening
    assert opening[2:] in Reader(to_page(document)).text.replace("\u00a0", " ")
