"""Fillings place what the definitions place, task for task."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import cases
from fairlead.model.problem import Problem
from fairlead.scheduler.policies import Policy, parse_policy
from fairlead.simulation.filling import fill_by
from filling_problems import POLICIES, filling_problems, random_filling_problem
from oracles.plain_replay import plain_fill

by_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
IN_ROUNDS = ["drf/rrr", "ps-dsf/rrr", "drf/rrr/residual", "tsf/rrr/residual", "ps-dsf/rrr/residual"]


def assert_as_defined(problem: Problem, policy: Policy, seed: int) -> None:
    order = fill_by(problem, policy, seed).order.tolist()
    assert [tuple(row) for row in order] == plain_fill(problem, policy.name, seed)


@by_policy
@settings(deadline=None, max_examples=cases(5))
@given(problem=filling_problems(), seed=st.integers(0, 3))
def test_a_filling_is_what_the_definition_places(
    policy: Policy, problem: Problem, seed: int
) -> None:
    assert_as_defined(problem, policy, seed)
    assert fill_by(problem, policy, seed).certificate.holds


@pytest.mark.parametrize("number", range(len(POLICIES)), ids=lambda n: POLICIES[n].name)
def test_so_it_is_with_amounts_of_sixteen_digits(number: int) -> None:
    random = np.random.default_rng(number)
    assert_as_defined(random_filling_problem(random, 4, 5, 1 + number % 3), POLICIES[number], 1)


@pytest.mark.parametrize("select", ["first-fit", "best-fit", "best-fit-first", "rrr"])
@pytest.mark.parametrize("bits", [58, 40, 24])
def test_room_of_which_hardly_any_is_left_is_known_as_well(select: str, bits: int) -> None:
    """A giant takes half of what there is at once, and the rest when others have some tasks."""
    for seed in range(2):
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
        assert_as_defined(problem, parse_policy(f"tsf/{select}/residual"), seed)


@pytest.mark.parametrize("name", IN_ROUNDS)
def test_a_weight_that_is_larger_by_a_billionth_counts(name: str) -> None:
    problem = Problem.from_arrays([[12]], [[1], [1]], weight=[1, 1 + 1e-9])
    users = fill_by(problem, parse_policy(name)).order[:, 0].tolist()
    assert users == [0, 1] + [1, 0] * 5


def test_progress_expects_users_of_weight_0_last() -> None:
    problem = Problem.from_arrays([[10, 10]], [[1, 2], [2, 1]], weight=[0, 1])
    seen: list[tuple[int, int]] = []
    policy = parse_policy("drf/best-fit")
    filled = fill_by(problem, policy, on_portion=lambda *done: seen.append(done))
    assert filled.user_tasks.tolist() == [0, 5]
    assert seen == [(5, 5)]
