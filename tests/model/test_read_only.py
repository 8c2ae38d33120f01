"""Arrays of problems and answers are read-only, and copies of the given ones."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import Allocation, Certificate, Problem, ProblemError, audit, solve
from fairlead.errors import FairleadError
from fairlead.model.cluster import Cluster, Users
from fairlead.model.holdings import Holdings
from fairlead.model.reductions import merge_groups, merge_users, split_groups

TABLES = ("capacity", "demand", "count", "weight", "eligible", "task_limit", "rates")
DERIVED = (
    "group_capacity",
    "total_capacity",
    "fitting",
    "unconstrained_gamma",
    "gamma",
    "runnable",
)


def tables(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    n, g, r = rng.integers(1, 5, 3)
    given: dict[str, Any] = {
        "capacity": rng.uniform(1, 9, (g, r)),
        "demand": rng.uniform(0.1, 1, (n, r)),
        "count": rng.integers(1, 9, g),
        "weight": rng.uniform(1, 2, (n, r) if rng.random() < 0.5 else n),
        "eligible": (rng.random((n, g)) < 0.5) | (np.arange(g) == 0),
        "task_limit": rng.uniform(1, 9, n),
        "rates": rng.uniform(1, 2, (n, g)),
    }
    optional = [name for name in TABLES[2:] if rng.random() < 0.3]
    return {name: table for name, table in given.items() if name not in optional}


def arrays_of(value: Any, name: str = "problem") -> Iterator[tuple[str, np.ndarray]]:
    """Every array that can be reached from a problem, by its name."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, Problem | Cluster | Users | Allocation | Holdings):
        if isinstance(value, Problem):
            for derived in DERIVED:
                getattr(value, derived)
        for field, inner in vars(value).items():
            yield from arrays_of(inner, f"{name}.{field}")


def assert_read_only(value: Any) -> None:
    for name, array in arrays_of(value):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        assert not array.flags.writeable, name


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
def test_arrays_are_read_only_and_ones_own(seed: int) -> None:
    given = tables(seed)
    before = {name: table.copy() for name, table in given.items()}
    problem = Problem.from_arrays(**given)
    kept = {name: array.copy() for name, array in arrays_of(problem)}
    for table in given.values():
        table[...] = 0  # the caller's own stays writable
    for name, array in arrays_of(problem):
        np.testing.assert_array_equal(array, kept[name])
    again = Problem.from_arrays(**before)
    for each in (
        problem,
        again.pooled(),
        merge_groups(again)[0],
        merge_users(again)[0],
        split_groups(again)[0],
        pickle.loads(pickle.dumps(problem)),
        copy.copy(problem),
        copy.deepcopy(problem),
        Holdings(again, np.ones((again.n_users, again.n_groups))),
    ):
        assert_read_only(each)


def test_views_of_what_others_can_write_are_copied() -> None:
    given = np.ones((2, 1))
    view = given[:]
    view.setflags(write=False)
    held = Allocation(Problem.from_arrays([[4]], [[1], [1]]), "", view, Certificate("", 0, 0))
    given[...] = 7
    assert held.tasks.tolist() == [[1], [1]]
    assert_read_only(held)


def test_masks_are_not_dropped() -> None:
    masked = np.ma.array([[1.0]], mask=[[True]])
    with pytest.raises(ProblemError, match=r"^tasks: has masked values"):
        Holdings(Problem.from_arrays([[4]], [[1]]), masked)


@pytest.mark.parametrize("mechanism", ["drf", "drf-tasks"])
def test_answers_are_read_only(mechanism: str) -> None:
    answer = solve(Problem.from_arrays([[4.0, 2.0]], [[1.0, 0.5], [0.5, 1.0]]), mechanism)
    for array in (answer.tasks, answer.user_tasks, answer.usage, answer.dominant_share):
        assert not array.flags.writeable
    assert_read_only(answer)


def test_a_rule_cannot_change_what_it_is_asked() -> None:
    problem = Problem.from_arrays([[9.0, 18.0]], [[1.0, 4.0], [3.0, 1.0]], task_limit=[3, 4])

    def rule(asked: Problem) -> np.ndarray:
        asked.demand[...] *= 2
        return solve(asked, "drf").tasks

    with pytest.raises(FairleadError, match="read-only"):
        audit(problem, rule, lies=3)
    assert problem.demand.tolist() == [[1, 4], [3, 1]]
