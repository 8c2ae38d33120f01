"""Arrays of problems and answers are read-only, and copies of the given ones."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fairlead import Allocation, Certificate, Problem, ProblemError, audit, solve
from fairlead.errors import FairleadError
from fairlead.model.cluster import Cluster, Users
from fairlead.model.holdings import Holdings
from fairlead.model.reductions import merge_groups, merge_users, split_groups

DERIVED = {
    Problem: (
        "group_capacity", "total_capacity", "fitting", "unconstrained_gamma", "gamma", "runnable"
    ),
    Allocation: ("user_tasks", "usage", "dominant_share"),
}  # fmt: skip


def arrays_of(value: Any, name: str = "problem") -> Iterator[tuple[str, np.ndarray]]:
    """Every array that can be reached from a problem, by its name."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, Problem | Cluster | Users | Allocation | Holdings):
        for derived in DERIVED.get(type(value), ()):
            getattr(value, derived)
        for field, inner in vars(value).items():
            yield from arrays_of(inner, f"{name}.{field}")


def assert_read_only(value: Any) -> None:
    for name, array in arrays_of(value):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        assert not array.flags.writeable, name


def test_arrays_are_read_only_and_ones_own() -> None:
    given = {
        "capacity": np.array([[4.0, 8.0], [8.0, 4.0]]),
        "demand": np.array([[1.0, 2.0], [2.0, 1.0]]),
        "count": np.array([2, 3]),
        "weight": np.array([1.0, 2.0]),
        "eligible": np.array([[True, True], [False, True]]),
        "task_limit": np.array([9.0, 5.0]),
        "rates": np.array([[1.0, 2.0], [2.0, 1.0]]),
    }
    per_resource = np.array([[1.0, 2.0], [2.0, 1.0]])
    problem = Problem.from_arrays(**given)
    weighted = Problem.from_arrays(given["capacity"], given["demand"], weight=per_resource)
    kept = [(array, array.copy()) for _, array in (*arrays_of(problem), *arrays_of(weighted))]
    # The caller's own stay writable, also behind a view of them that is not.
    tasks = np.ones((2, 2))
    view = tasks[:]
    view.setflags(write=False)
    held = Allocation(problem, "", view, Certificate("", 0, 0))
    for table in (*given.values(), per_resource, tasks):
        table[...] = 0
    assert held.tasks.tolist() == [[1, 1], [1, 1]]
    for array, before in kept:
        np.testing.assert_array_equal(array, before)
    for each in (
        problem,
        weighted,
        held,
        problem.pooled(),
        merge_groups(problem)[0],
        merge_users(problem)[0],
        split_groups(problem)[0],
        pickle.loads(pickle.dumps(problem)),
        copy.copy(problem),
        copy.deepcopy(problem),
        Holdings(problem, np.ones((2, 2))),
    ):
        assert_read_only(each)


def test_masks_are_not_dropped() -> None:
    masked = np.ma.array([[1.0]], mask=[[True]])
    with pytest.raises(ProblemError, match=r"^tasks: has masked values"):
        Holdings(Problem.from_arrays([[4]], [[1]]), masked)


def test_a_rule_cannot_change_what_it_is_asked() -> None:
    problem = Problem.from_arrays([[9.0, 18.0]], [[1.0, 4.0], [3.0, 1.0]], task_limit=[3, 4])

    def rule(asked: Problem) -> np.ndarray:
        asked.demand[...] *= 2
        return solve(asked, "drf").tasks

    with pytest.raises(FairleadError, match="read-only"):
        audit(problem, rule, lies=3)
    assert problem.demand.tolist() == [[1, 4], [3, 1]]
