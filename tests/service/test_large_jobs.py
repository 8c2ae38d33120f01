"""Large jobs take time proportional to tasks plus bundles, not to their product."""

from __future__ import annotations

import random
from itertools import groupby

import pytest

from fairlead.service.jobs import Job, Running
from fairlead.service.service_state import ServiceState
from service.test_state import end, place, submit, with_servers
from state_invariants import check

Members = list[tuple[dict[str, float], int]]


def a_gang(state: ServiceState, members: Members) -> int:
    tasks = sum(tasks for _, tasks in members)
    return submit(state, tasks=tasks, gang=True, members=members)


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """At each walk over the running tasks of a job, their number."""
    lengths: list[int] = []

    def counted(job: Job) -> list[Running]:
        lengths.append(len(job.running))
        return [job.running[index] for index in sorted(job.running)]

    monkeypatch.setattr(Job, "running_by_index", counted)
    return lengths


@pytest.mark.parametrize("seed", range(4))
def test_demands_of_tasks_are_those_of_a_walk(seed: int) -> None:
    rng = random.Random(seed)
    demands = [{"cpu": 1.0}, {"cpu": 2.0}, {"memory": 1.0}]
    members = [(rng.choice(demands), rng.randint(1, 4)) for _ in range(rng.randint(1, 8))]
    state = with_servers(a=1)
    job = state.jobs[a_gang(state, members)]
    by_task = [demand for demand, tasks in members for _ in range(tasks)]
    assert [job.demand_of(index) for index in range(job.tasks)] == by_task
    some = sorted(rng.sample(range(job.tasks), k=rng.randint(1, job.tasks)))
    for indices in (range(job.tasks), some):
        alike = groupby(by_task[index] for index in indices)
        assert job.members_of(indices) == [(demand, len(list(these))) for demand, these in alike]


def test_ends_of_a_gang_do_not_walk_over_it(walks: list[int]) -> None:
    state = with_servers(a=20)
    submit(state, tasks=20, gang=True)
    keys = [run.split()[0] for run in place(state)]
    for key in keys[:10]:
        end(state, key)
    assert walks == []
    for key in keys[10:]:
        end(state, key, None)
    assert walks == [10, 10]  # to stop the other tasks, and to let all tasks wait again
    check(state)
    assert state.jobs[1].state == "pending"


def test_lost_servers_of_a_gang_walk_over_it_twice(walks: list[int]) -> None:
    names = [f"n{i}" for i in range(10)]
    state = with_servers(**dict.fromkeys(names, 2.0))
    submit(state, tasks=20, gang=True)
    assert len(place(state)) == 20
    for name in names:
        state.apply("lost", {"name": name}, 2.0)
        check(state)
    assert walks == [20, 20]
    assert state.servers == {}
    assert [past.reason for past in state.take_effects().attempts] == ["server lost"] * 20


def test_holds_of_a_long_job_keep_no_lists() -> None:
    state = with_servers(a=20)
    submit(state, tasks=1000)
    for _ in range(20):
        assert state.apply("place", {"limit": 1}, 1.0)
        state.apply("hold", {"job": 1}, 1.0)
        state.apply("release", {"job": 1}, 1.0)
    check(state)
    entries = state.jobs[1].entries.values()
    assert sum(len(entry.indices) for entry in entries) == 1000 - 20
    assert ServiceState.restore(state.snapshot()).snapshot() == state.snapshot()
