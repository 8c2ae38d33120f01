"""Fillings place what the definitions place, and lack what fractions say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import cases
from fairlead.model.problem import Problem
from fairlead.model.quantity import exact
from fairlead.scheduler.policies import Policy, parse_policy
from fairlead.simulation.filling import RoomLeft, fill, fill_by
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


@by_policy
def test_an_idle_user_with_rates_is_given_nothing(policy: Policy) -> None:
    idle = Problem.from_arrays(
        [[4.0], [2.0]], [[1.0], [0.0]], task_limit=[9, 0], rates=[[np.nan, np.nan], [3, 0]]
    )
    filled = fill_by(idle, policy, 0, lambda _done, _total: None)
    assert filled.user_tasks.tolist() == [6, 0]
    assert filled.certificate.holds


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


@settings(deadline=None, max_examples=30)
@given(problem=filling_problems())
def test_lacks_are_those_of_fractions(problem: Problem) -> None:
    filling = fill(problem)
    room = RoomLeft(filling)
    group = np.repeat(np.arange(problem.n_groups), problem.count)
    free = [[exact(a) for a in problem.cluster.capacity[g].tolist()] for g in group]
    demand = [[exact(a) for a in row] for row in problem.demand.tolist()]
    for user, server in filling.order.tolist():
        free[server] = [a - b for a, b in zip(free[server], demand[user], strict=True)]
    left = np.floor(problem.task_limit) - filling.user_tasks
    assert sorted(room.unfinished) == np.flatnonzero(left > 0).tolist()
    for n in room.unfinished:
        lack = room.lack(n)
        where = [s for s, g in enumerate(group) if problem.users.eligible[n, g]]
        short = [[a < b for a, b in zip(free[s], demand[n], strict=True)] for s in where]
        counts = dict(
            zip(problem.cluster.resources, map(sum, zip(*short, strict=True)), strict=True)
        )
        assert (lack.left, lack.servers) == (left[n], len(where))
        assert lack.lacking == {name: count for name, count in counts.items() if count}
        assert all(map(any, short))  # no further task fits
        parts = (
            min(a / b for a, b in zip(free[s], demand[n], strict=True) if b > 0) for s in where
        )
        nearest = min(there / asked for there, asked in lack.amounts.values())
        assert nearest == pytest.approx(float(max(parts)), rel=1e-9)


def test_parts_of_devices_are_left_that_no_task_can_take() -> None:
    """Each of two servers runs two tasks of .6 of a GPU, and .4 is left of each GPU."""
    problem = Problem.from_arrays(
        [[8, 2]],
        [[1, 0.6], [1, 2]],
        count=[2],
        task_limit=[4, 3],
        resources=["cpu", "gpu"],
        users=["ana", "bo"],
        groups=["a"],
        weight=[100, 1],
        devices=["gpu"],
    )
    filling = fill(problem, select="first-fit")
    room = RoomLeft(filling)
    assert filling.order.tolist() == [[0, 0], [1, 1], [0, 0]]
    assert room.unfinished == [0, 1]
    ana, bo = room.lack(0), room.lack(1)
    assert (ana.left, ana.servers, ana.lacking) == (2, 2, {"gpu": 2})
    assert (ana.nearest, ana.amounts) == ("a-0", {1: (0.4, 0.6)})
    assert (bo.left, bo.lacking, bo.amounts) == (2, {"gpu": 2}, {1: (0, 2)})


def test_a_task_may_have_room_where_its_server_is_not_the_best() -> None:
    """The second task goes on no server: the best one, with as much of both, has only 1."""
    problem = Problem.from_arrays(
        [[3, 3], [9, 3]], [[2, 2]], task_limit=[9], groups=["even", "wide"]
    )
    filling = fill(problem, select="best-fit-first")
    lack = RoomLeft(filling).lack(0)
    assert filling.tasks.tolist() == [[1, 0]]
    assert (lack.nearest, lack.amounts, lack.lacking) == ("wide", {}, {"r1": 1, "r2": 1})
