"""Whole tasks on one pool: the papers' numbers, and task by task in fractions on random pools."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import Problem, RefusalError, solve
from fairlead.mechanisms.catalogue import CATALOGUE, DIVISIBLE, LIMITS, RESOURCE_WEIGHTS
from fairlead.mechanisms.drf import precompute_tasks
from fairlead.model.quanta import to_whole_pool
from fairlead.solvers.level_bisection import serve_by_turns, top_up
from fairlead.solvers.turn_heap import UserInTurn
from oracles import whole_tasks as oracle
from strategies import problems

WHOLE = tuple(name for name in CATALOGUE if name not in DIVISIBLE)
FEATURES = (LIMITS, RESOURCE_WEIGHTS)


def tasks_of(problem: Problem, mechanism: str) -> list[float]:
    return solve(problem, mechanism).user_tasks.tolist()


@pytest.mark.parametrize("mechanism", WHOLE)
@settings(max_examples=25)
@given(problem=problems(features=FEATURES, kinds=("whole", "few", "any", "wide")))
def test_answers_are_those_of_serving_task_by_task(mechanism: str, problem: Problem) -> None:
    if oracle.count_at_most(problem) > oracle.MOST_TASKS:
        problem = replace(
            problem,
            users=replace(problem.users, task_limit=np.minimum(problem.users.task_limit, 60.0)),
        )
    allocation = solve(problem, mechanism)
    assert allocation.user_tasks.tolist() == oracle.oracle_tasks(problem, mechanism)
    assert allocation.certificate.violation == 0.0
    assert allocation.problem.n_groups == 1
    assert allocation.problem.users.names == problem.users.names


@given(problem=problems(features=FEATURES, kinds=("whole", "few", "wide")))
def test_machine_words_and_big_integers_agree(problem: Problem) -> None:
    pool = to_whole_pool(problem)
    names = ("capacity", "demand", "numerator", "denominator")
    big = replace(pool, **{name: getattr(pool, name).astype(object) for name in names})
    for stops in (False, True):
        found = [serve_by_turns(each, stops=stops).tolist() for each in (pool, big)]
        assert found[0] == found[1]
    base = precompute_tasks(pool)
    assert base.tolist() == precompute_tasks(big).tolist()
    assert top_up(pool, base).tolist() == top_up(big, base.astype(object)).tolist()


def test_billions_of_tasks() -> None:
    # A cycle is one task of the second user and two of the first: 4 units.
    problem = Problem.from_arrays([[4e12]], [[1], [2]])
    for mechanism in WHOLE:
        assert tasks_of(problem, mechanism) == [2e12, 1e12]
    # A user without need of the used-up resource goes on, for billions of tasks.
    split = Problem.from_arrays([[1e6, 1e12]], [[1, 1], [0, 1]], weight=[1000, 1])
    assert tasks_of(split, "drf-tasks") == [1e6, 1e12 - 1e6]


def test_a_total_beyond_a_machine_word() -> None:
    # In thousandths the pool has 4e21 of memory.
    problem = Problem.from_arrays(
        [[2e6, 4e9]], [[1, 5e5 + 0.001], [3, 1e6]], count=[10**9], task_limit=[np.inf, 1e6]
    )
    assert to_whole_pool(problem).demand.dtype != np.int64
    expected = [(4 * 10**21 - 10**15) // (5 * 10**8 + 1), 10**6]
    assert tasks_of(problem, "drf-tasks") == expected


def test_amounts_of_several_groups_are_added_up_without_rounding() -> None:
    # 0.1 and 0.2 make 0.3, which holds three tasks of 0.1; in floats 0.7 - 0.1 - ... would not.
    problem = Problem.from_arrays([[0.1], [0.2], [0.4]], [[0.1], [0.1]])
    for mechanism in ("drf-tasks", "drf-algorithm-1", "pdrf"):
        assert tasks_of(problem, mechanism) == [4, 3]


@pytest.mark.parametrize("mechanism", WHOLE)
def test_more_tasks_than_can_be_counted_are_refused(mechanism: str) -> None:
    with pytest.raises(RefusalError, match=r"user 'u2' could run 1e\+16 tasks"):
        solve(Problem.from_arrays([[1e16]], [[1e9], [1]]), mechanism)
    limited = Problem.from_arrays([[1e16]], [[1e9], [1]], task_limit=[np.inf, 7])
    assert tasks_of(limited, mechanism)[1] == 7


def user(number: int, share: Fraction, taken: int = 0) -> UserInTurn:
    """Return a user whose tasks have this dominant share."""
    return UserInTurn(
        number, taken, float("inf"), [], share.numerator, share.denominator, float(share)
    )


@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.fractions(Fraction(1, 12), 3, max_denominator=12),
                # Apart by less than a float can tell.
                st.integers(2**58, 2**58 + 3).map(lambda k: Fraction(k, 2**58 + 1)),
                # Products of these fit no machine word.
                st.integers(2**70, 2**70 + 3).map(lambda k: Fraction(k, 2**70 + 1)),
            ),
            st.integers(0, 12),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_the_order_is_level_then_larger_share_then_index(
    drawn: list[tuple[Fraction, int]],
) -> None:
    users = [user(n, share, taken) for n, (share, taken) in enumerate(drawn)]
    expected = sorted(range(len(drawn)), key=lambda n: (drawn[n][1] * drawn[n][0], -drawn[n][0], n))
    assert [one.number for one in sorted(users)] == expected
