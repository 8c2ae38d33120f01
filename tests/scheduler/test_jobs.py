"""Jobs are placed as the definitions place them, while they come and go, and nothing gets lost."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.model.problem import Problem
from fairlead.model.workload import DRAIN, JOIN, LEAVE
from fairlead.scheduler.jobs import JobScheduler
from fairlead.scheduler.online_policy import parse_policy
from fairlead.simulation.kinds import kinds_of
from oracles.plain_offers import PlainOffers
from oracles.plain_simulation import PlainSimulation
from oracles.random_workloads import random_workload

FIRST_FIT = parse_policy("drf/first-fit")


def in_step(base, workload, policy, **options):
    """A plain simulation beside which the scheduler does the same, checked after every step."""

    class InStep(base):
        def __init__(self):
            super().__init__(workload, policy, **options)
            kinds = kinds_of(workload, gangs_apart=True)
            self.scheduler = JobScheduler(
                kinds.problem,
                kinds.owner,
                kinds.of_set,
                parse_policy(policy),
                set_gang=kinds.gang,
                strict_fifo=self.strict,
                there=workload.there_at_start,
                refuse_seconds=5.0,
            )
            self.kind_of = kinds.of_set
            self.scheduler.check()

        def submit(self, job):
            super().submit(job)
            for k in self.sets(job):
                if self.waiting[k]:
                    self.scheduler.submit(k, len(self.waiting[k]))
                    self.scheduler.check()

        def withdraw(self, k):
            assert self.scheduler.withdraw(k) == len(self.waiting[k])
            super().withdraw(k)
            self.scheduler.check()

        def finish(self, position, k, i, now, *, lost):
            before = len(self.waiting[k])
            super().finish(position, k, i, now, lost=lost)
            self.scheduler.finish(self.kind_of[k], i, now)
            self.scheduler.check()
            if len(self.waiting[k]) > before:
                self.lost.append(k)

        def change_server(self, event, i, now):
            self.lost = []
            if event in (DRAIN, LEAVE):
                self.scheduler.drain(i)
            super().change_server(event, i, now)
            if event == LEAVE:
                for k in self.lost:
                    self.scheduler.submit(k, 1)
                    self.scheduler.check()
                self.scheduler.leave(i)
            if event == JOIN:
                self.scheduler.join(i, now)
            self.scheduler.check()

        def place_all(self, now):
            begin = len(self.log)
            super().place_all(now)
            placed = [
                (int(self.kind_of[number]), server, number)
                for portion in self.scheduler.place(now)
                for _, server, number in zip(*(c.tolist() for c in portion), strict=True)
            ]
            starts = [r for r in self.running if r[1] >= begin]
            plainly = [(int(self.kind_of[k]), i, k) for _, _, k, i in starts]
            assert placed == plainly
            self.scheduler.check()

    return InStep()


@pytest.mark.parametrize("strict", [False, True], ids=["passed-over", "strict-fifo"])
@pytest.mark.parametrize(
    "policy", ["drf/first-fit", "tsf/best-fit", "ps-dsf/joint", "drf/best-fit-first", "slots:4"]
)
@pytest.mark.usefixtures("uncompiled")
def test_every_step_is_by_definition_and_leaves_order(policy: str, strict: bool) -> None:
    for seed in range(100, 112):
        in_step(PlainSimulation, random_workload(seed), policy, strict=strict).run()


@pytest.mark.parametrize("policy", ["ps-dsf/rrr", "drf/rrr/oblivious"])
@pytest.mark.usefixtures("uncompiled")
def test_every_offer_is_by_definition_and_leaves_order(policy: str) -> None:
    for seed in range(100, 112):
        in_step(PlainOffers, random_workload(seed), policy).run()


def placed_by(scheduler: JobScheduler) -> list[tuple[int, int, int]]:
    return [
        placement
        for portion in scheduler.place()
        for placement in zip(*(column.tolist() for column in portion), strict=True)
    ]


def test_a_job_that_does_not_fit_is_passed_over() -> None:
    kinds = Problem.from_arrays([[4]], [[4], [1]])
    for strict, expected in ((False, [(1, 0, 0), (1, 0, 2)]), (True, [(1, 0, 0)])):
        scheduler = JobScheduler(
            kinds, np.array([0, 0]), np.array([1, 0, 1]), FIRST_FIT, strict_fifo=strict
        )
        for number in range(3):
            scheduler.submit(number, 1)
        assert placed_by(scheduler) == expected


def test_what_a_user_holds_of_all_kinds_counts() -> None:
    """Ana's first task holds half the memory: her others wait until bo holds as much."""
    kinds = Problem.from_arrays([[10, 10]], [[1, 5], [1, 0.5], [1, 1]])
    scheduler = JobScheduler(kinds, np.array([0, 0, 1]), np.array([0, 1, 2]), FIRST_FIT)
    for number, tasks in ((0, 1), (1, 2), (2, 4)):
        scheduler.submit(number, tasks)
    assert [kind for kind, _, _ in placed_by(scheduler)] == [0, 2, 2, 2, 2, 1, 1]


def test_a_gang_starts_with_all_its_tasks_or_none() -> None:
    kinds = Problem.from_arrays([[2], [2]], [[2], [1], [2]])
    scheduler = JobScheduler(
        kinds,
        np.array([0, 0, 1]),
        np.array([0, 1, 2]),
        FIRST_FIT,
        set_gang=np.array([7, 7, -1]),
    )
    scheduler.submit(2, 1)
    assert placed_by(scheduler) == [(2, 0, 2)]
    scheduler.submit(0, 1)
    scheduler.submit(1, 1)
    assert placed_by(scheduler) == []
    scheduler.finish(2, 0)
    assert placed_by(scheduler) == [(0, 0, 0), (1, 1, 1)]


def test_a_weight_counts_from_when_it_is_given() -> None:
    kinds = Problem.from_arrays([[6]], [[1], [1]])
    scheduler = JobScheduler(kinds, np.array([0, 1]), np.array([0, 1]), FIRST_FIT)
    scheduler.set_weight(1, 2.0)
    scheduler.submit(0, 9)
    scheduler.submit(1, 9)
    assert [kind for kind, _, _ in placed_by(scheduler)] == [0, 1, 1, 0, 1, 1]
    for kind in (0, 1, 1):
        scheduler.finish(kind, 0)
    scheduler.set_weight(1, 0.5)
    assert [kind for kind, _, _ in placed_by(scheduler)] == [0, 0, 0]


def test_shares_are_of_the_servers_that_are_there() -> None:
    """A quantum of memory is a fifth of the first server's, a fiftieth of both servers'."""
    kinds = Problem.from_arrays([[4, 1], [0, 9]], [[1, 0.2], [2, 0]])
    there = np.array([True, False])
    scheduler = JobScheduler(kinds, np.array([0, 1]), np.array([0, 1]), FIRST_FIT, there=there)
    np.testing.assert_allclose(scheduler.state.share[0], [1 / 4, 1 / 5])
    scheduler.join(1)
    scheduler.check()
    np.testing.assert_allclose(scheduler.state.share[0], [1 / 4, 1 / 50])
    scheduler.drain(1)
    np.testing.assert_allclose(scheduler.state.share[0], [1 / 4, 1 / 50])
    scheduler.leave(1)
    np.testing.assert_allclose(scheduler.state.share[0], [1 / 4, 1 / 5])


def test_what_cannot_be_is_refused() -> None:
    kinds = Problem.from_arrays([[4]], [[4], [1]], weight=[1, 2])
    with pytest.raises(InputError, match="the same for all kinds of a user"):
        JobScheduler(kinds, np.array([0, 0]), np.array([0]), FIRST_FIT)
    with pytest.raises(InputError, match="must number the users"):
        JobScheduler(kinds, np.array([0, 2]), np.array([0]), FIRST_FIT)
    with pytest.raises(InputError, match="numbers of kinds"):
        JobScheduler(kinds, np.array([0, 1]), np.array([2]), FIRST_FIT)
    gang = np.array([3, 3])
    with pytest.raises(InputError, match="those of one set each"):
        JobScheduler(kinds, np.array([0, 1]), np.array([0, 0]), FIRST_FIT, set_gang=gang)
    with pytest.raises(InputError, match="positive whole number"):
        JobScheduler(kinds, np.array([0, 1]), np.array([0]), FIRST_FIT).submit(0, 0)
    with pytest.raises(InputError, match="positive number"):
        JobScheduler(kinds, np.array([0, 1]), np.array([0]), FIRST_FIT).set_weight(0, 0.0)


@pytest.mark.parametrize(
    "name", ["drf", "fair/first-fit", "drf/worst-fit", "slots:0", "slots:x", "drf/rrr/odd", ""]
)
def test_names_that_are_no_policy(name: str) -> None:
    with pytest.raises(InputError):
        parse_policy(name)


@pytest.mark.parametrize(
    "name",
    [
        "drf/joint",
        "ps-dsf/best-fit/residual",
        "drf/best-fit/oblivious",
        "tsf/rrr/oblivious",
        "drf/rrr/residual/oblivious",
    ],
)
def test_policies_without_a_meaning_are_refused(name: str) -> None:
    with pytest.raises(RefusalError):
        parse_policy(name)


@pytest.mark.parametrize("name", ["drf/best-fit", "ps-dsf/joint/residual", "drf/rrr/oblivious"])
def test_a_policy_has_the_name_it_is_found_by(name: str) -> None:
    assert parse_policy(name).name == name
    assert parse_policy("slots:014").name == "slots:14"
