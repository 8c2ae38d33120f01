"""Documents of fillings show whole tasks, and how far random ones vary."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from handmade_answers import HOSTILE

from fairlead.model.problem import Problem
from fairlead.model.ties import largest_first
from fairlead.report import filling as module
from fairlead.report.filling import filling_document
from fairlead.report.page import to_page
from fairlead.report.terminal import to_terminal
from fairlead.scheduler.policies import find_policy
from fairlead.simulation.trials import Trials, run_trials
from page_reader import Reader, figure_of, read_harmless

# Users, groups, selection and trials.
FILLINGS = {
    "one filling": (3, 2, "best-fit", 1),
    "one random": (3, 2, "rrr", 1),
    "a few": (3, 2, "rrr", 4),
    "one group": (3, 1, "rrr", 4),
    "many": (60, 10, "rrr", 3),
    "no tasks": (0, 0, "rrr", 3),
}


@cache
def trials_of(name: str) -> Trials:
    users, groups, select, trials = FILLINGS[name]
    random = np.random.default_rng(1)
    problem = Problem.from_arrays([[1]], [[2]])
    if users:
        problem = Problem.from_arrays(
            random.integers(20, 60, (groups, 2)),
            random.integers(1, 9, (users, 2)),
            users=[f"{HOSTILE}{n}" for n in range(users)],
            groups=[f"g{HOSTILE}{g}" for g in range(groups)],
        )
    return run_trials(problem, find_policy("drf", select), trials, 1)


def text_of(name: str, width: int | None = None) -> str:
    return to_terminal(filling_document(trials_of(name), "t"), width=width, plain=True)


@pytest.mark.parametrize("name", FILLINGS)
def test_a_page_is_harmless_and_draws_spread(name: str) -> None:
    read = read_harmless(to_page(filling_document(trials_of(name), HOSTILE, [HOSTILE])))
    drawn = [about for about in read.pictures() if about.startswith("Mean tasks")]
    assert len(drawn) == trials_of(name).varies


@pytest.mark.parametrize("name", ["a few", "one group"])
def test_means_margins_and_deviations_are_listed(name: str) -> None:
    trials = trials_of(name)
    read = Reader(to_page(filling_document(trials, "t")))
    assert trials.total.margin is not None
    assert trials.total.sd is not None
    assert trials.tasks.margin is not None
    assert trials.tasks.sd is not None
    expected = []
    for n, g in np.argwhere(trials.tasks.mean > 0).tolist():
        summary = trials.tasks
        mean, margin, sd = (float(v[n, g]) for v in (summary.mean, summary.margin, summary.sd))
        expected += [mean, margin, sd, sd / mean, float(trials.user_tasks.mean[n])]
    mean, margin, sd = (float(v) for v in (trials.total.mean, trials.total.margin, trials.total.sd))
    expected += [mean, margin, sd, sd / mean]
    values = [value for row in read.numbers("Mean tasks") for value in row]
    assert values == pytest.approx(expected)


def test_free_amounts_are_listed_with_their_spread() -> None:
    trials = trials_of("a few")
    unused, capacity = trials.unused, trials.problem.group_capacity
    assert unused.margin is not None
    assert unused.sd is not None
    columns = (unused.mean, unused.margin, unused.sd, capacity, unused.mean / capacity)
    read = Reader(to_page(filling_document(trials, "t")))
    expected = np.stack(columns, axis=-1).reshape(-1, len(columns))
    assert np.array(read.numbers("Free amounts")) == pytest.approx(expected)


def test_lines_are_deviation_and_margin() -> None:
    trials = trials_of("many")
    summary = trials.user_tasks
    assert summary.sd is not None
    assert (summary.sd > 0).any()
    assert summary.margin is not None
    *lines, means = figure_of(filling_document(trials, "t"), "Mean tasks")["data"]
    order = largest_first(trials.allocation.dominant_share)
    mean = summary.mean[order]
    assert means["x"] == pytest.approx(mean.tolist(), rel=1e-5)
    ends = np.array([line["x"][:2] for line in lines])
    reach = np.concatenate([summary.sd[order], summary.margin[order]])
    assert ends[:, 0] == pytest.approx(np.tile(mean, 2) - reach)
    assert ends[:, 1] == pytest.approx(np.tile(mean, 2) + reach)
    assert [line["y"][0] for line in lines] == 2 * means["y"]


def test_many_means_are_listed_by_user_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "group by group" not in text_of("many")
    monkeypatch.setattr(module, "MOST_PAIRS", 100)
    text = text_of("many")
    assert "on all servers; group by group: --json" in text
    users = [line for line in text.splitlines() if line.startswith(f" {HOSTILE}")]
    assert len(users) == 60
    assert "... and 20 users with smaller shares" in text_of("many", 80)


@pytest.mark.parametrize("trials", [1, 3])
def test_a_fraction_of_a_task_is_not_placed(trials: int) -> None:
    problem = Problem.from_arrays([[8]], [[1], [1]], users=["ana", "bo"], task_limit=[2.5, 2])
    found = run_trials(problem, find_policy("drf", "rrr"), trials, 1)
    text = to_terminal(filling_document(found, "t"), width=None, plain=True)
    assert "Only whole tasks are placed: 2 of 2.5 of ana." in text
    assert "Only whole tasks are placed" not in text_of("a few")
