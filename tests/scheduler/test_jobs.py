"""Jobs of several kinds are placed as the definitions place them, while they come and go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import InputError, RefusalError
from fairlead.model.problem import Problem
from fairlead.scheduler.jobs import JobScheduler
from fairlead.scheduler.policy import Policy, find_policy
from filling_problems import filling_problems
from oracles.plain_jobs import PlainJobScheduler

POLICIES = [
    find_policy(criterion, select)
    for criterion in ("drf", "tsf", "ps-dsf")
    for select in ("first-fit", "best-fit")
]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "finish", "fail", "withdraw", "close", "open"]),
        st.integers(0, 999),
    ),
    max_size=40,
)


@st.composite
def kinds_and_owners(draw: st.DrawFn) -> tuple[Problem, list[int]]:
    """Kinds of tasks of fewer users, whose weights are those of their first kinds."""
    kinds = draw(filling_problems(largest_users=6, largest_servers=6))
    n_owners = draw(st.integers(1, kinds.n_users))
    rest = [draw(st.integers(0, n_owners - 1)) for _ in range(kinds.n_users - n_owners)]
    owner = draw(st.permutations([*range(n_owners), *rest]))
    weight = kinds.weight[:n_owners][np.array(owner)]
    return Problem(kinds.cluster, replace(kinds.users, weight=weight)), owner


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@settings(deadline=None, max_examples=150)
@given(
    drawn=kinds_and_owners(),
    set_choices=st.lists(st.integers(0, 99), min_size=1, max_size=12),
    events=EVENTS,
    portion=st.integers(1, 5),
)
def test_jobs_are_placed_by_definition(
    policy: Policy,
    drawn: tuple[Problem, list[int]],
    set_choices: list[int],
    events: list[tuple[str, int]],
    portion: int,
) -> None:
    kinds, owner = drawn
    set_kinds = [choice % kinds.n_users for choice in set_choices]
    fast = JobScheduler(kinds, np.array(owner), np.array(set_kinds), policy)
    plain = PlainJobScheduler(kinds, owner, set_kinds, policy.criterion, policy.select)
    running: list[tuple[int, int, int]] = []
    n_servers = len(fast.state.group)
    for k in range(0, len(events) + 1, portion):
        for event, number in events[k : k + portion]:
            some_set = number % len(set_kinds)
            if event == "submit":
                fast.submit(some_set, 1 + number % 4)
                plain.submit_set(some_set, 1 + number % 4)
            elif event in ("finish", "fail") and running:
                kind, server, of_set = running.pop(number % len(running))
                fast.finish(kind, server)
                plain.finish(kind, server)
                if event == "fail":
                    fast.submit(of_set, 1)
                    plain.submit_set(of_set, 1)
            elif event == "withdraw":
                assert fast.withdraw(some_set) == plain.withdraw(some_set)
            elif event == "close":
                fast.close(number % n_servers)
                plain.close(number % n_servers)
            elif event == "open":
                fast.open(number % n_servers)
                plain.open(number % n_servers)
            fast.check()
        placed = [
            placement
            for portions in fast.place()
            for placement in zip(*(column.tolist() for column in portions), strict=True)
        ]
        assert placed == plain.place_sets()
        fast.check()
        running += placed


def test_a_job_that_does_not_fit_is_passed_over() -> None:
    kinds = Problem.from_arrays([[4]], [[4], [1]])
    scheduler = JobScheduler(
        kinds, np.array([0, 0]), np.array([1, 0, 1]), find_policy("drf", "first-fit")
    )
    for number in range(3):
        scheduler.submit(number, 1)
    ((placed, _, sets),) = scheduler.place()
    assert (placed.tolist(), sets.tolist()) == ([1, 1], [0, 2])


def test_what_a_user_holds_of_all_kinds_counts() -> None:
    """Ana's first task holds half the memory: her others wait until bo holds as much."""
    kinds = Problem.from_arrays([[10, 10]], [[1, 5], [1, 0.5], [1, 1]])
    scheduler = JobScheduler(
        kinds, np.array([0, 0, 1]), np.array([0, 1, 2]), find_policy("drf", "first-fit")
    )
    for number, tasks in ((0, 1), (1, 2), (2, 4)):
        scheduler.submit(number, tasks)
    ((placed, _, _),) = scheduler.place()
    assert placed.tolist() == [0, 2, 2, 2, 2, 1, 1]


def test_what_cannot_be_is_refused() -> None:
    kinds = Problem.from_arrays([[4]], [[4], [1]], weight=[1, 2])
    policy = find_policy("drf", "first-fit")
    with pytest.raises(InputError, match="the same for all kinds of a user"):
        JobScheduler(kinds, np.array([0, 0]), np.array([0]), policy)
    with pytest.raises(InputError, match="must number the users"):
        JobScheduler(kinds, np.array([0, 2]), np.array([0]), policy)
    with pytest.raises(InputError, match="numbers of kinds"):
        JobScheduler(kinds, np.array([0, 1]), np.array([2]), policy)
    with pytest.raises(RefusalError, match="first-fit and best-fit only"):
        JobScheduler(kinds, np.array([0, 1]), np.array([0]), find_policy("ps-dsf", "joint"))
    with pytest.raises(InputError, match="positive whole number"):
        JobScheduler(kinds, np.array([0, 1]), np.array([0]), policy).submit(0, 0)
