"""The invariants of a service's state."""

from __future__ import annotations

from fairlead.service.bounds import PREEMPTED
from fairlead.service.jobs import RUNS, WAITS
from fairlead.service.service_state import ServiceState
from scheduler.consistency import check as check_scheduler


def check(state: ServiceState) -> None:
    check_scheduler(state.scheduler)
    jobs = list(state.jobs.values())
    waits = {job.id: job.status.count(WAITS) for job in jobs}
    for job in jobs:
        assert job.status.count(RUNS) == len(job.running)
        assert job.ended == len(job.status) - waits[job.id] - len(job.running)
        assert sum(job_group.running for job_group in job.groups.values()) == len(job.running)
        entered = 0 if job.withheld else waits[job.id]
        if job.at_most:
            entered = min(entered, max(job.at_most - len(job.running), 0))
            assert len(job.running) <= job.at_most
        assert sum(job_group.waiting for job_group in job.groups.values()) == entered
        assert not job.is_finished
        assert job.awaiting_gang == sum(run.is_over for run in job.running.values())
        for run in job.running.values():
            assert state.servers[run.server].running[run.key] is run
    on_servers = sum(len(server.running) for server in state.servers.values())
    assert on_servers == sum(len(job.running) for job in jobs)
    for name, user in state.users.items():
        mine = [job for job in jobs if job.user == name]
        assert user.live_bytes == sum(job.size for job in mine)
        assert user.live_jobs == len(mine)
        assert user.running == sum(len(job.running) for job in mine)
        assert user.pending == sum(waits[job.id] for job in mine)
    scheduled = {job_group.group for job in jobs for job_group in job.groups.values()}
    assert state.groups.keys() == state.scheduler._state.groups.keys() == scheduled
    assert len(state.scheduler._state.running) == sum(len(job.running) for job in jobs)
    after = {(other, job.id) for job in jobs for other in job.after}
    assert after == {(job, k) for job, waiting in state._dependents.items() for k in waiting}
    assert all(state._dependents.values())
    runs = [run for job in jobs for run in job.running.values()]
    awaited = [(key, run.key) for run in runs for key in run.awaits]
    listed = [(key, run.key) for key, waiting in state._awaiting.items() for run in waiting]
    assert sorted(awaited) == sorted(listed)
    for key, _ in awaited:
        victim = state.find(key)
        assert victim is not None
        is_stopping = victim.task in state.scheduler._state.stopping
        assert is_stopping or victim.stopping != PREEMPTED
    for why, tasks in state.withheld.items():
        assert tasks == sum(waits[job.id] for job in jobs if job.withheld == why)
