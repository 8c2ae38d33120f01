"""What slots leave out is said in one line, and nothing is said where they do."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from fairlead.executors.executor import Processes
from fairlead.model.problem import Problem
from fairlead.model.task_kinds import kinds_of, unplaceable_sets
from fairlead.scheduler.scheduler import Scheduler
from fairlead.simulation import runs as run_processes
from fairlead.simulation._slots import in_slots, slots_caution
from fairlead.simulation.runs import run_policies
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload
from scheduler.consistency import check


def caution(
    capacity: list[list[float]], demand: list[list[float]], slots: int, **more: object
) -> str:
    kinds = Problem.from_arrays(capacity, demand, **more)
    return slots_caution(kinds, np.arange(len(demand)) + 3, slots)


def test_nothing_is_said_where_slots_hold_the_tasks() -> None:
    assert caution([[8, 16], [4, 8]], [[1, 2], [0.5, 2], [2, 4]], 8, count=[3, 5]) == ""


def test_tasks_that_fit_into_no_servers_slots_are_counted() -> None:
    """The first server has 2 of 8 slots for its few cores, and the second 2 for its one GPU."""
    said = caution([[4, 8], [16, 2]], [[4, 4], [12, 1], [1, 1]], 8, count=[3, 5])
    assert said == (
        "slots:8: a slot is 2 r1, 1 r2; 7 of 12 tasks fit on a server, but take more slots than "
        "any server has on which they may run"
    )


def test_one_pool_runs_as_many_tasks_as_there_are_slots() -> None:
    said = caution([[1000.0]], [[1.0], [2.0]], 14)
    assert said.endswith("tasks fill 2.2% of the slots they take, and at most 14 run at once")


def test_what_is_beside_slots_is_named() -> None:
    said = caution([[8, 8], [8, 0]], [[1, 1], [1, 0]], 8)
    assert said.endswith("users are ordered only by slots, however much r2 they hold")
    assert caution([[8, 8], [8, 0]], [[1, 0], [1, 0]], 8) == ""


@pytest.mark.parametrize("slots", [1, 3, 7])
def test_as_many_are_counted_as_a_replay_finds_unplaceable(slots: int) -> None:
    for seed in range(25):
        workload = random_workload(seed, gangs=False)
        kinds = kinds_of(workload)
        tasks = np.bincount(kinds.of_set, workload.set_tasks).astype(np.int64)
        by_amount = unplaceable_sets(workload, kinds)
        by_slots = unplaceable_sets(workload, kinds, in_slots(kinds.problem, slots))
        lost = int(workload.set_tasks[by_slots & ~by_amount].sum())
        said = slots_caution(kinds.problem, tasks, slots)
        assert (f"; {lost} of {workload.n_tasks} tasks fit" in said) == (lost > 0)


def test_a_simulation_warns_once_for_each_number_of_slots(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_processes, "replay", plain_replay)
    policies = ["slots:1", "drf/first-fit", "slots:1"]
    with caplog.at_level(logging.WARNING, logger="fairlead"):
        run_policies(random_workload(3, gangs=False), policies, executor=Processes(1))
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("slots:1: a slot is 12 r0; ")


def test_slots_are_counted_anew_after_gangs_have_gone() -> None:
    scheduler = Scheduler(["cpu"], "slots:4")
    scheduler.add_server("small", {"cpu": 4})
    scheduler.add_queue("ana")
    for n in range(20):  # more lines than there are rows for queues
        scheduler.submit("ana", {"cpu": 0.5 + n / 100})
    scheduler.place()
    for gang in [scheduler.submit("ana", {"cpu": 9}, tasks=2, gang=True) for _ in range(3)]:
        scheduler.cancel(gang)
    scheduler.add_server("large", {"cpu": 8})
    check(scheduler)
    assert len(scheduler.place()) == 4
