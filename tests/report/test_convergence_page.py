"""The document of servers that divide themselves is whole, harmless, and shows the numbers."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest
from handmade_answers import HOSTILE

from fairlead.model.problem import Problem
from fairlead.report.page import to_page
from fairlead.report.terminal import to_terminal
from fairlead_papers.distributed import figures as convergence_figures
from fairlead_papers.distributed.asynchronous import run_asynchronously
from fairlead_papers.distributed.convergence import Settlement, compare_with_exact
from fairlead_papers.distributed.figures import shown_samples, shown_users, utilisation_pictures
from fairlead_papers.distributed.messages import Delay
from fairlead_papers.distributed.page import changes_text, convergence_document
from fairlead_papers.distributed.presence import JoinOrLeave
from fairlead_papers.distributed.setting import AsynchronousSetting
from page_reader import Reader, read_harmless
from random_problems import random_problem

# Pictures have six digits.
approx = partial(pytest.approx, rel=1e-5)


def named(problem: Problem) -> Problem:
    return Problem.from_arrays(
        problem.cluster.capacity,
        problem.demand,
        groups=[f"{HOSTILE}g{g}" for g in range(problem.n_groups)],
        users=[f"{HOSTILE}{n}" for n in range(problem.n_users)],
        resources=[f"{HOSTILE}r{r}" for r in range(problem.n_resources)],
    )


@cache
def settlement_of(name: str) -> Settlement:
    if name == "rates":
        problem = Problem.from_arrays(
            [[1.0]], [[1.0]] * 2, rates=[[1.0], [2.0]], users=[HOSTILE, "b"]
        )
        return compare_with_exact(
            run_asynchronously(AsynchronousSetting(problem, 5.0, time_shared=True))
        )
    users, groups = {"few": (4, 2), "many": (60, 12), "nobody": (1, 1)}[name]
    problem = named(random_problem(np.random.default_rng(1), users, groups, 2))
    changes = [JoinOrLeave(7.0, 0, False), JoinOrLeave(19.0, 0, True)]
    if name == "many":
        changes += [JoinOrLeave(7.0, n, False) for n in range(1, 6)]
    until = 40.0 if name == "many" else 60.0
    setting = AsynchronousSetting(problem, until, tuple(changes), delay=Delay(0.02, 0.1))
    return compare_with_exact(run_asynchronously(setting, sample=0.5))


@cache
def page_of(name: str) -> Reader:
    return Reader(to_page(convergence_document(settlement_of(name), HOSTILE, [HOSTILE])))


def text_of(name: str, width: int | None) -> str:
    return to_terminal(convergence_document(settlement_of(name), "x"), width=width, plain=True)


NAMES = ["few", "many", "nobody", "rates"]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_fetches_nothing_and_every_picture_has_its_data(name: str) -> None:
    page = to_page(convergence_document(settlement_of(name), HOSTILE, [HOSTILE]))
    assert len(read_harmless(page).pictures()) == 2 + len(utilisation_pictures(settlement_of(name)))


@pytest.mark.parametrize("name", NAMES)
def test_use_is_drawn_beside_the_exact_answers(name: str) -> None:
    settlement = settlement_of(name)
    run = settlement.run
    cluster = run.setting.problem.cluster
    toggles = [a["data-toggles"] for _, a in page_of(name).elements if "data-toggles" in a]
    for g, r in utilisation_pictures(settlement):
        about = f"Use of {cluster.resources[r]} on {cluster.groups[g]} over time"
        *exact, own = page_of(name).figure(about)["data"]
        assert {line["legendgroup"] for line in (own, *exact)} <= set(toggles)
        assert own["x"] == approx(run.times.tolist())
        assert own["y"] == approx(run.utilisation[:, g, r].tolist())
        assert len(exact) == len(settlement.exact) - 1
        for mechanism, line in zip(list(settlement.exact)[1:], exact, strict=True):
            used = [
                settlement.exact_utilisation(mechanism, k)[g, r] for k in range(len(run.phases))
            ]
            assert line["y"] == approx(np.repeat(used, 2).tolist())
            assert line["x"][0] == 0
            assert line["x"][-1] == run.setting.until


@pytest.mark.parametrize("name", NAMES)
def test_the_violation_is_drawn_between_its_bounds(name: str) -> None:
    run = settlement_of(name).run
    (line,) = page_of(name).figure("Violation of the condition")["data"]
    assert line["y"] == approx(np.clip(run.violation, 1e-12, 1e2).tolist())
    assert ("infinite" in "".join(line["hovertext"])) == bool(np.isinf(run.violation).any())


def test_shares_are_drawn_beside_the_exact_ones() -> None:
    settlement = settlement_of("few")
    run = settlement.run
    lines = page_of("few").figure("Dominant shares over time")["data"]
    for n in range(4):
        own, exact = lines[2 * n : 2 * n + 2]
        assert own["y"] == approx(run.dominant_share[:, n].tolist())
        assert exact["y"][-1] == pytest.approx(own["y"][-1], rel=1e-4)


def test_of_many_users_and_groups_some_are_drawn_and_the_page_says_so() -> None:
    settlement = settlement_of("many")
    assert len(shown_users(settlement.run)) == convergence_figures.LINES
    assert len(utilisation_pictures(settlement)) == convergence_figures.PICTURES
    assert "16 of 24 pictures" in page_of("many").text
    assert "20 users whose are ever largest, of 60" in page_of("many").text
    assert changes_text(settlement, settlement.run.phases[1]) == "6 users leave"


def test_long_runs_are_thinned_but_not_near_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convergence_figures, "POINTS", 24)
    run = settlement_of("few").run
    samples = shown_samples(run)
    assert len(samples) < 50 < len(run.times)
    assert {0, len(run.times) - 1} <= set(samples.tolist())
    for phase in run.phases:
        begin = int(np.searchsorted(run.times, phase.begin))
        assert {begin, begin + 1} <= set(samples.tolist())


@pytest.mark.parametrize("name", NAMES)
def test_the_table_of_the_page_holds_those_who_are_there(name: str) -> None:
    settlement = settlement_of(name)
    run = settlement.run
    table = page_of(name).table("Users in the end")
    cells = [float(str(a["data-value"])) for _, a in table if "data-value" in a]
    there = run.phases[-1].active
    last = len(run.phases) - 1
    columns = [
        run.dominant_share[-1],
        run.user_tasks[-1],
        *(settlement.exact_tasks(m, last) for m in settlement.exact),
    ]
    assert cells == pytest.approx(np.stack(columns, axis=1)[there].ravel().tolist())


def test_what_refuses_is_named() -> None:
    refused = "TSF: its definition does not admit given rates"
    assert refused in text_of("rates", None)
    assert refused in page_of("rates").text


@pytest.mark.parametrize(("width", "listed"), [(None, 55), (160, 40)])
def test_of_many_users_a_terminal_shows_the_largest(width: int | None, listed: int) -> None:
    text = text_of("many", width)
    rows = [line for line in text.splitlines() if line.count("%") == 1]  # groups have two
    assert len(rows) == listed
    assert ("and 15 users with smaller shares" in text) == (listed == 40)


def test_the_phases_and_the_use_of_groups_are_listed() -> None:
    settlement = settlement_of("few")
    run = settlement.run
    lines = text_of("few", None).splitlines()
    for settled, begin in zip(settlement.settled, ("0 s ", "7 s ", "19 s "), strict=True):
        (row,) = [line for line in lines if line.strip().startswith(begin)]
        assert changes_text(settlement, settled.phase) in row
        took = [
            "not by then" if seconds is None else f"{seconds:.4g} s"
            for seconds in (settled.close, settled.certified)
        ]
        assert " ".join(row.split()).endswith(f" {len(settled.phase.users)} {' '.join(took)}")
    for g, group in enumerate(run.setting.problem.cluster.groups):
        (row,) = [line for line in lines if line.startswith(f" {group} ")]
        assert row.split()[-4::2] == [f"{100 * used:.2f}" for used in run.utilisation[-1, g]]
