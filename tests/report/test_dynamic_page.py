"""The page and the tables of arrivals are whole, harmless, and show the numbers of the run."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from handmade_answers import HOSTILE
from page_reader import Reader
from plotly.offline import get_plotlyjs

from fairlead.mechanisms.dynamic_run import DynamicRun, run_dynamic
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.report import dynamic_figures, dynamic_page, dynamic_tables
from fairlead.report.dynamic_figures import shown_users
from fairlead.report.numbers import precise_percent

# Users, resources, whether they have weights, and how many demands are zero.
RUNS = {
    "one": (1, 2, False, 0.0),
    "few": (6, 2, False, 0.0),
    "weighted, with zeros": (30, 3, True, 0.4),
    "many": (150, 12, False, 0.0),
    "weighted and many": (60, 3, True, 0.4),
}


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
    return dynamic_page.dynamic_page(run_of(name), VERDICTS, HOSTILE, [HOSTILE])


def figures_of(name: str) -> dict[str, Any]:
    figures = Reader(page_of(name)).embedded("figures")
    assert isinstance(figures, dict)
    return figures


@pytest.mark.parametrize("name", RUNS)
def test_a_page_fetches_nothing_and_every_picture_has_its_data(name: str) -> None:
    page = page_of(name)
    read = Reader(page)
    assert read.open == []
    assert "b" not in [tag for tag, _ in read.elements]
    assert not re.search(r"https?:|url\(|@import|fetch\(", page.replace(get_plotlyjs(), ""))
    drawn = [a["data-figure"] for _, a in read.elements if "data-figure" in a]
    assert sorted(read.embedded("figures")) == sorted(d for d in drawn if d)


@pytest.mark.parametrize("name", RUNS)
def test_each_line_of_the_staircase_is_what_its_user_had_at_every_step(name: str) -> None:
    run = run_of(name)
    *lines, split, known = figures_of(name)["staircase"]["data"]
    users = shown_users(run)
    assert len(lines) == len(users)
    unit = 1.0 if name.startswith("weighted") else 2.0
    for n, line in zip(users, lines, strict=True):
        for k in range(n + 1, run.n_steps + 1):
            last = max(i for i, x in enumerate(line["x"]) if x <= k)
            level = run.shares_at(k)[n] / run.problem.weight[n]
            assert line["y"][last] == pytest.approx(unit * level)
        assert line["x"][0] == n + 1
        assert line["x"][-1] == run.n_steps + 1  # a step of its own length
        assert line["y"][-1] == line["y"][-2]
    assert split["y"] == pytest.approx([unit / run.problem.weight.sum()] * 2)
    assert known["y"][:-1] == pytest.approx((unit * run.full_knowledge_levels).tolist())


def test_of_many_users_a_sample_has_lines_and_the_page_says_so() -> None:
    users = shown_users(run_of("many"))
    assert len(users) == dynamic_figures.LINES
    assert users[0] == 0
    assert users[-1] == 149
    shown = "".join(Reader(page_of("many")).shown)
    assert "60 of 150 users, evenly spaced" in shown
    assert "evenly spaced" not in "".join(Reader(page_of("few")).shown)


@pytest.mark.parametrize("name", RUNS)
def test_what_was_used_is_drawn_beside_the_budget(name: str) -> None:
    run = run_of(name)
    *resources, budget = figures_of(name)["use"]["data"]
    for r, line in enumerate(resources):
        used = [run.shares_at(k) @ run.demand[:k, r] for k in line["x"][:-1]]
        assert line["y"][:-1] == pytest.approx(used)
        assert line["y"][-1] == pytest.approx(run.used[r])
    assert budget["y"][:-1] == pytest.approx([run.budget[k - 1] for k in budget["x"][:-1]])


@pytest.mark.parametrize("name", RUNS)
def test_shares_in_the_end_are_drawn_beside_drf(name: str) -> None:
    run = run_of(name)
    drawn = {trace["name"]: trace for trace in figures_of(name)["shares"]["data"]}
    dynamic, drf = drawn["dynamic, in the end"], drawn["DRF, had all been known"]
    axis = "y" if "many" in name else "x"
    unit = run.problem.weight if name == "weighted and many" else 1.0
    assert dynamic[axis] == pytest.approx((run.shares / unit).tolist())
    assert drf[axis] == pytest.approx((run.full_knowledge_shares / unit).tolist())
    first = run.shares[0]  # in words it is what it is, whatever the unit
    assert precise_percent(float(first)) in dynamic["hovertext"][0]


@pytest.mark.parametrize("name", RUNS)
def test_the_table_of_the_page_holds_the_numbers(name: str) -> None:
    run = run_of(name)
    cells = [
        float(str(a["data-value"])) for _, a in Reader(page_of(name)).elements if "data-value" in a
    ]
    weight = [run.problem.weight] if name.startswith("weighted") else []
    ratio = run.shares / run.full_knowledge_shares
    step = np.arange(1, run.n_steps + 1)
    columns = [*weight, step, run.levels, run.shares, run.full_knowledge_shares, ratio]
    assert cells == pytest.approx(np.stack(columns, axis=1).ravel())


def test_a_long_table_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic_page, "LONGEST_TABLE", 50)
    assert "The first 50 of 150 users" in "".join(Reader(page_of("many")).shown)


def test_long_lines_are_thinned_to_what_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic_figures, "POINTS", 10)
    figures = figures_of("many")
    *lines, _, known = figures["staircase"]["data"]
    assert max(len(line["x"]) for line in lines) <= 11
    assert (known["x"][0], known["x"][-2], len(known["x"])) == (1, 150, 11)


@pytest.mark.parametrize(
    ("width", "most", "listed"), [(None, 2000, 150), (None, 60, 60), (100, 9, 40)]
)
def test_of_many_users_tables_list_the_first_and_the_last(
    width: int | None, most: int, listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamic_tables, "ROWS_IN_PIPE", most)
    text = dynamic_tables.dynamic_tables(run_of("many"), VERDICTS, width=width, plain=True)
    rows = [line for line in text.splitlines() if line.startswith(f" {HOSTILE[:8]}")]
    assert len(rows) == listed + len(run_of("many").used)
    assert (f"{150 - listed} users between them" in text) == (listed < 150)


def test_verdicts_in_words() -> None:
    text = dynamic_tables.dynamic_tables(run_of("few"), VERDICTS, width=None, plain=True)
    assert "sharing-incentive: holds (all 6 steps): nobody ever has less" in text
    assert "dynamic-envy-freeness: not refuted (6 of 7 steps looked at): nobody envies" in text
    assert f"strategy-proofness: FAILS (agent {HOSTILE}, its share 0.5)" in text
    assert "proof: " in text
    row = next(line for line in text.splitlines() if f"{HOSTILE}5" in line)
    ratio = run_of("few").shares[5] / run_of("few").full_knowledge_shares[5]
    assert row.split()[-1] == f"{ratio:.4g}"
