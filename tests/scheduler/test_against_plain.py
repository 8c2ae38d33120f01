"""Fillings place what the definitions place, task for task."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.config import BOUNDSCHECK

from fairlead.core.policies import Policy, parse_policy
from fairlead.model.problem import Problem
from fairlead.scheduler.placing_at_hand import FEW
from fairlead.simulation.filling import fill_by
from filling_problems import POLICIES, filling_problems, random_filling_problem
from oracles.plain_filling import PlainScheduler, fill_plainly

# Each kernel that places, once; the first one always, all where indices are checked.
COMPILED = ["drf/best-fit"]
if BOUNDSCHECK:
    COMPILED += ["drf/rrr", "tsf/rrr/residual", "tsf/first-fit", "drf/best-fit-first"]
    COMPILED += ["ps-dsf/joint", "ps-dsf/joint/residual"]
    COMPILED += [f"{c}/{s}/residual" for c in ("drf", "tsf") for s in ("first-fit", "best-fit")]
    COMPILED += ["drf/best-fit-first/residual", "tsf/best-fit-first/residual"]
by_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)


def plain(problem: Problem, policy: Policy, seed: int) -> PlainScheduler:
    orders = np.random.default_rng(seed).permutation
    return PlainScheduler(
        problem, policy.criterion, policy.select, policy.residual, lambda n: orders(n).tolist()
    )


@by_policy
@pytest.mark.usefixtures("uncompiled")
@settings(deadline=None, max_examples=25)
@given(problem=filling_problems(), seed=st.integers(0, 3))
def test_a_filling_is_what_the_definition_places(
    policy: Policy, problem: Problem, seed: int
) -> None:
    filled = fill_by(problem, policy, seed)
    assert [tuple(row) for row in filled.order.tolist()] == plain(problem, policy, seed).place_all()
    assert filled.certificate.holds


@by_policy
@pytest.mark.usefixtures("uncompiled")
def test_so_it_is_with_amounts_of_sixteen_digits(policy: Policy) -> None:
    assert_filled_by_definition(policy)


@pytest.mark.parametrize("name", COMPILED)
def test_so_it_is_compiled(name: str) -> None:
    assert_filled_by_definition(parse_policy(name))


def assert_filled_by_definition(policy: Policy) -> None:
    """Fill small clusters of one to three resources."""
    rng = np.random.default_rng(5)
    for n_resources in (1, 2, 3):
        problem = random_filling_problem(rng, 5, 7, n_resources)
        filled = fill_by(problem, policy, 1)
        expected = plain(problem, policy, 1).place_all()
        assert [tuple(row) for row in filled.order.tolist()] == expected
        assert filled.certificate.holds


BY_ROOM = [f"tsf/{select}/residual" for select in ("first-fit", "best-fit", "best-fit-first")]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", BY_ROOM)
def test_of_many_users_few_are_looked_at(name: str) -> None:
    """Of up to `FEW` all are, until some have all their tasks; alike ones tie all the time."""
    policy = parse_policy(name)
    problem = random_filling_problem(np.random.default_rng(11), FEW + 16, 8, 2)
    rows = np.arange(problem.n_users) // 2  # two of each
    alike = Problem.from_arrays(
        problem.cluster.capacity,
        problem.demand[rows],
        count=problem.count,
        weight=problem.weight[rows],
        task_limit=np.where(rows % 2, 3.0, np.inf),
    )
    order = fill_by(alike, policy, 1).order
    assert len(np.unique(order[:, 0])) > FEW // 4
    assert [tuple(row) for row in order.tolist()] == plain(alike, policy, 1).place_all()


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", [*BY_ROOM, "tsf/rrr/residual"])
@pytest.mark.parametrize("bits", [58, 40, 24])
def test_room_of_which_hardly_any_is_left_is_known_as_well(name: str, bits: int) -> None:
    """A giant takes half of what there is at once, and the rest when others have some tasks.

    What is left then is about what the roundings of so much come to.
    """
    for seed in range(8):
        random = np.random.default_rng(seed)
        resources = 1 + seed % 2
        giant = np.full((1, resources), 2.0**bits)
        few = random.integers(30, 70, (2, resources)), random.integers(1, 7, (5, resources))
        problem = Problem.from_arrays(
            np.vstack([giant, few[0]]),
            np.vstack([giant / 2, few[1]]),
            weight=np.array([2.0**bits / 24, *[1.0] * 5]),
            task_limit=np.array([2.0, *[30.0] * 5]),
            eligible=np.array([[True, False, False], *[[False, True, True]] * 5]),
        )
        policy = parse_policy(name)
        order = fill_by(problem, policy, seed).order
        assert [tuple(row) for row in order.tolist()] == plain(problem, policy, seed).place_all()


IN_ROUNDS = ["drf/rrr", "ps-dsf/rrr", "drf/rrr/residual", "tsf/rrr/residual", "ps-dsf/rrr/residual"]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", IN_ROUNDS)
def test_more_users_than_a_word_has_bits(name: str) -> None:
    """Rounds look at 64 users at a time."""
    policy = parse_policy(name)
    problem = random_filling_problem(np.random.default_rng(7), 150, 6, 2)
    filled = fill_by(problem, policy, 1)
    assert len(np.unique(filled.order[:, 0] // 64)) > 2
    assert [tuple(row) for row in filled.order.tolist()] == plain(problem, policy, 1).place_all()


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", IN_ROUNDS)
@pytest.mark.parametrize("between", [0, 64])
def test_a_weight_that_is_larger_by_a_billionth_counts(name: str, between: int) -> None:
    """Of two users of one server; those in between may run on another one alone."""
    users = 2 + between
    outer = np.isin(np.arange(users), [0, users - 1])
    problem = Problem.from_arrays(
        [[12], [1]],
        [[1]] * users,
        weight=np.where(np.arange(users) == users - 1, 1 + 1e-9, 1.0),
        eligible=np.column_stack([outer, ~outer]),
    )
    order = fill_by(problem, parse_policy(name)).order
    assert (order[order[:, 1] == 0, 0] > 0).tolist() == [False, True] + [True, False] * 5


@by_policy
@pytest.mark.usefixtures("uncompiled")
def test_the_printed_example_by_both(policy: Policy) -> None:
    problem = Problem.from_arrays([[100, 30], [30, 100]], [[5, 1], [1, 5]])
    orders = np.random.default_rng(2).permutation
    expected = fill_plainly(
        problem, policy.criterion, policy.select, policy.residual, lambda n: orders(n).tolist()
    )
    assert [tuple(row) for row in fill_by(problem, policy, 2).order.tolist()] == expected
