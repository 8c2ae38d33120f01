"""The scheduler places what the definitions place, task for task, while tasks come and go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.model.problem import Problem
from fairlead.scheduler.filling import fill_by
from fairlead.scheduler.policy import Policy, find_policy
from fairlead.scheduler.scheduler import Scheduler
from filling_problems import POLICIES, filling_problems, random_filling_problem
from oracles.plain_filling import PlainScheduler, fill_plainly

by_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)


def plain(problem: Problem, policy: Policy, seed: int) -> PlainScheduler:
    orders = np.random.default_rng(seed).permutation
    return PlainScheduler(
        problem, policy.criterion, policy.select, policy.residual, lambda n: orders(n).tolist()
    )


def place(scheduler: Scheduler) -> list[tuple[int, int]]:
    return [
        (user, server)
        for users, servers in scheduler.place()
        for user, server in zip(users.tolist(), servers.tolist(), strict=True)
    ]


@by_policy
@settings(deadline=None, max_examples=40)
@given(problem=filling_problems(), seed=st.integers(0, 3))
def test_a_filling_is_what_the_definition_places(
    policy: Policy, problem: Problem, seed: int
) -> None:
    filled = fill_by(problem, policy, seed)
    assert [tuple(row) for row in filled.order.tolist()] == plain(problem, policy, seed).place_all()
    assert filled.certificate.holds


@by_policy
def test_so_it_is_with_amounts_of_sixteen_digits(policy: Policy) -> None:
    rng = np.random.default_rng(5)
    for n_resources in (1, 2, 3):
        problem = random_filling_problem(rng, 5, 7, n_resources)
        filled = fill_by(problem, policy, 1)
        expected = plain(problem, policy, 1).place_all()
        assert [tuple(row) for row in filled.order.tolist()] == expected
        assert filled.certificate.holds


KINDS_OF_EVENTS = ["finish", "submit", "close", "open"]
EVENTS = st.lists(
    st.tuples(st.sampled_from(KINDS_OF_EVENTS), st.integers(0, 99)),
    max_size=25,
)


@by_policy
@pytest.mark.usefixtures("uncompiled")
@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(problem=filling_problems(), events=EVENTS, portion=st.integers(1, 6))
def test_so_it_is_while_tasks_and_servers_come_and_go(
    policy: Policy, problem: Problem, events: list[tuple[str, int]], portion: int
) -> None:
    assert_it_is_while_all_come_and_go(policy, problem, events, portion)


# One policy for each of what is kept beside the state.
COMPILED = [
    find_policy("drf", "best-fit"),
    find_policy("tsf", "best-fit", residual=True),
    find_policy("drf", "best-fit-first"),
    find_policy("ps-dsf", "joint"),
    find_policy("ps-dsf", "joint", residual=True),
    find_policy("tsf", "rrr", residual=True),
]


@pytest.mark.parametrize("policy", COMPILED, ids=lambda policy: policy.name)
def test_so_it_is_compiled(policy: Policy) -> None:
    rng = np.random.default_rng(8)
    for n_resources in (1, 2, 3):
        problem = random_filling_problem(rng, 4, 6, n_resources)
        events = list(zip(rng.choice(KINDS_OF_EVENTS, 20), rng.integers(0, 99, 20), strict=True))
        assert_it_is_while_all_come_and_go(policy, problem, events, 3)


def assert_it_is_while_all_come_and_go(
    policy: Policy, problem: Problem, events: list[tuple[str, int]], portion: int
) -> None:
    """Both are asked to place after each portion of the events."""
    scheduler = Scheduler(problem, policy, 3)
    oracle = plain(problem, policy, 3)
    running: list[tuple[int, int]] = []
    n_servers = len(scheduler.state.group)
    for k in range(0, len(events) + 1, portion):
        placed = place(scheduler)
        assert placed == oracle.place_all()
        scheduler.check()
        running += placed
        for kind, number in events[k : k + portion]:
            if kind == "finish" and running:
                task = running.pop(number % len(running))
                scheduler.finish(*task)
                oracle.finish(*task)
            elif kind == "submit":
                user = number % problem.n_users
                scheduler.submit(user, 1 + number % 3)
                oracle.submit(user, 1 + number % 3)
            elif kind == "close":
                scheduler.close(number % n_servers)
                oracle.close(number % n_servers)
            elif kind == "open":
                scheduler.open(number % n_servers)
                oracle.open(number % n_servers)
            scheduler.check()


@by_policy
def test_the_printed_example_by_both(policy: Policy) -> None:
    problem = Problem.from_arrays([[100, 30], [30, 100]], [[5, 1], [1, 5]])
    orders = np.random.default_rng(2).permutation
    expected = fill_plainly(
        problem, policy.criterion, policy.select, policy.residual, lambda n: orders(n).tolist()
    )
    assert [tuple(row) for row in fill_by(problem, policy, 2).order.tolist()] == expected
