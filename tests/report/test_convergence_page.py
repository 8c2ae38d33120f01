"""The page of servers that divide themselves is whole, harmless, and shows the numbers."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from handmade_answers import HOSTILE
from page_reader import Reader
from plotly.offline import get_plotlyjs

from fairlead.distributed.asynchronous import run_asynchronously
from fairlead.distributed.convergence import Comparison, compare_with_exact
from fairlead.distributed.messages import Delay
from fairlead.distributed.presence import Change
from fairlead.distributed.setting import Setting
from fairlead.model.problem import Problem
from fairlead.report import convergence_figures
from fairlead.report.convergence_figures import shown_samples, shown_users, utilisation_pictures
from fairlead.report.convergence_page import convergence_page
from fairlead.report.convergence_tables import changes_text, convergence_tables
from random_problems import random_problem


def named(problem: Problem) -> Problem:
    return Problem.from_arrays(
        problem.cluster.capacity,
        problem.demand,
        groups=[f"{HOSTILE}g{g}" for g in range(problem.n_groups)],
        users=[f"{HOSTILE}{n}" for n in range(problem.n_users)],
        resources=[f"{HOSTILE}r{r}" for r in range(problem.n_resources)],
    )


@cache
def comparison_of(name: str) -> Comparison:
    if name == "rates":
        problem = Problem.from_arrays(
            [[1.0]], [[1.0]] * 2, rates=[[1.0], [2.0]], users=[HOSTILE, "b"]
        )
        return compare_with_exact(run_asynchronously(Setting(problem, 5.0, time_shared=True)))
    users, groups = {"few": (4, 2), "many": (60, 12), "nobody": (1, 1)}[name]
    problem = named(random_problem(np.random.default_rng(1), users, groups, 2))
    changes = [Change(7.0, 0, False), Change(19.0, 0, True)]
    if name == "many":
        changes += [Change(7.0, n, False) for n in range(1, 6)]
    until = 40.0 if name == "many" else 60.0
    setting = Setting(problem, until, tuple(changes), delay=Delay(0.02, 0.1))
    return compare_with_exact(run_asynchronously(setting, sample=0.5))


def figures_of(name: str) -> dict[str, Any]:
    figures = Reader(convergence_page(comparison_of(name), HOSTILE)).embedded("figures")
    assert isinstance(figures, dict)
    return figures


NAMES = ["few", "many", "nobody", "rates"]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_fetches_nothing_and_every_picture_has_its_data(name: str) -> None:
    page = convergence_page(comparison_of(name), HOSTILE, [HOSTILE])
    read = Reader(page)
    assert read.open == []
    assert "b" not in [tag for tag, _ in read.elements]
    assert not re.search(r"https?:|url\(|@import|fetch\(", page.replace(get_plotlyjs(), ""))
    drawn = [a["data-figure"] for _, a in read.elements if "data-figure" in a]
    assert sorted(read.embedded("figures")) == sorted(d for d in drawn if d)


@pytest.mark.parametrize("name", NAMES)
def test_use_is_drawn_beside_the_exact_answers(name: str) -> None:
    comparison = comparison_of(name)
    run = comparison.run
    figures = figures_of(name)
    for g, r in utilisation_pictures(comparison):
        *exact, own = figures[f"use-{g}-{r}"]["data"]
        assert own["x"] == pytest.approx(run.times.tolist())
        assert own["y"] == pytest.approx(run.utilisation[:, g, r].tolist())
        assert len(exact) == len(comparison.exact) - 1
        for mechanism, line in zip(list(comparison.exact)[1:], exact, strict=True):
            used = [
                comparison.exact_utilisation(mechanism, k)[g, r] for k in range(len(run.phases))
            ]
            assert line["y"] == pytest.approx(np.repeat(used, 2).tolist())
            assert line["x"][0] == 0
            assert line["x"][-1] == run.setting.until


@pytest.mark.parametrize("name", NAMES)
def test_the_violation_is_drawn_between_its_bounds(name: str) -> None:
    run = comparison_of(name).run
    (line,) = figures_of(name)["violation"]["data"]
    assert line["y"] == pytest.approx(np.clip(run.violation, 1e-12, 1e2).tolist())
    assert ("infinite" in "".join(line["hovertext"])) == bool(np.isinf(run.violation).any())


def test_shares_are_drawn_beside_the_exact_ones() -> None:
    comparison = comparison_of("few")
    run = comparison.run
    lines = figures_of("few")["shares"]["data"]
    for n in range(4):
        own, exact = lines[2 * n : 2 * n + 2]
        assert own["y"] == pytest.approx(run.dominant_share[:, n].tolist())
        assert exact["y"][-1] == pytest.approx(own["y"][-1], rel=1e-4)


def test_of_many_users_and_groups_some_are_drawn_and_the_page_says_so() -> None:
    comparison = comparison_of("many")
    assert len(shown_users(comparison.run)) == convergence_figures.LINES
    assert len(utilisation_pictures(comparison)) == convergence_figures.PICTURES
    shown = "".join(Reader(convergence_page(comparison, "x")).shown)
    assert "16 of 24 pictures" in shown
    assert "20 users whose are ever largest, of 60" in shown
    assert changes_text(comparison, comparison.run.phases[1]) == "6 users leave"


def test_long_runs_are_thinned_but_not_near_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convergence_figures, "POINTS", 24)
    run = comparison_of("few").run
    samples = shown_samples(run)
    assert len(samples) < 50 < len(run.times)
    assert {0, len(run.times) - 1} <= set(samples.tolist())
    for phase in run.phases:
        begin = int(np.searchsorted(run.times, phase.begin))
        assert {begin, begin + 1} <= set(samples.tolist())


@pytest.mark.parametrize("name", NAMES)
def test_the_table_of_the_page_holds_those_who_are_there(name: str) -> None:
    comparison = comparison_of(name)
    run = comparison.run
    cells = [
        float(str(a["data-value"]))
        for _, a in Reader(convergence_page(comparison, "x")).elements
        if "data-value" in a
    ]
    there = run.phases[-1].active
    last = len(run.phases) - 1
    columns = [
        run.dominant_share[-1],
        run.user_tasks[-1],
        *(comparison.exact_tasks(m, last) for m in comparison.exact),
    ]
    assert cells == pytest.approx(np.stack(columns, axis=1)[there].ravel().tolist())


def test_what_refuses_is_named() -> None:
    text = convergence_tables(comparison_of("rates"), width=None, plain=True)
    assert "without tsf: tsf: its definition does not admit given rates" in text
    assert "TSF: tsf: its definition" in convergence_page(comparison_of("rates"), "x")


@pytest.mark.parametrize(("width", "listed"), [(None, 55), (160, 40)])
def test_of_many_users_a_terminal_shows_the_largest(width: int | None, listed: int) -> None:
    text = convergence_tables(comparison_of("many"), width=width, plain=True)
    rows = [line for line in text.splitlines() if line.count("%") == 1]  # groups have two
    assert len(rows) == listed
    assert ("and 15 users with smaller shares" in text) == (listed == 40)
