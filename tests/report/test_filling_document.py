"""Documents of fillings show whole tasks, and how far random ones vary."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from handmade_answers import HOSTILE

from fairlead.model.problem import Problem
from fairlead.report.filling_document import filling_document
from fairlead.report.page import to_page
from fairlead.report.terminal import to_terminal
from fairlead.scheduler.policies import find_policy
from fairlead.simulation.trials import Trials, run_trials
from page_reader import Reader, read_harmless

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
def test_a_page_is_harmless(name: str) -> None:
    read_harmless(to_page(filling_document(trials_of(name), HOSTILE)))


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


@pytest.mark.parametrize("trials", [1, 3])
def test_a_fraction_of_a_task_is_not_placed(trials: int) -> None:
    problem = Problem.from_arrays([[8]], [[1], [1]], users=["ana", "bo"], task_limit=[2.5, 2])
    found = run_trials(problem, find_policy("drf", "rrr"), trials, 1)
    text = to_terminal(filling_document(found, "t"), width=None, plain=True)
    assert "Only whole tasks are placed: 2 of 2.5 of ana." in text
    assert "Only whole tasks are placed" not in text_of("a few")
