"""A time of a replay as a live scheduler: the same tasks wait, with reasons."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.scheduler._state import what_if
from fairlead.simulation.replay import StartedReplay, replay
from fairlead.simulation.runs import recorded_run
from fairlead.simulation.waiting_job import explain_job, longest_wait, middle_of_wait
from oracles.random_workloads import random_workload

POLICIES = ["drf/best-fit", "tsf/first-fit", "ps-dsf/joint", "slots:3", "fifo/first-fit", "drf/rrr"]


def moments(workload: Workload, log: RunLog) -> list[float]:
    """Return moments at which something happened, and between them."""
    times = np.unique(np.concatenate([log.start, log.end, workload.job_submit]))
    middles = (times[1:] + times[:-1]) / 2
    return [*times[:: max(len(times) // 6, 1)].tolist(), *middles[::5].tolist()]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_moment_is_that_of_the_replay(policy: str) -> None:
    waited = 0
    for seed in range(1, 4):
        workload, strict = random_workload(seed), seed == 2
        log = replay(workload, policy, strict_fifo=strict)
        for time in moments(workload, log):
            stopped = StartedReplay(workload, policy, strict)
            stopped.run(until=time)
            state = stopped.loop.state
            running = (log.start <= time) & (log.end > time)
            counts = np.bincount(log.server[running], minlength=workload.n_servers)
            assert len(state.running) == running.sum()
            for server in state.servers.values():
                assert server.running == counts[server.order]
            with what_if(state):
                assert stopped.loop.cycle.start_tasks(1) == []  # all was decided
            waited += any(queue.waiting for queue in state.queues.values())
            stopped.run()
            assert list(stopped.loop.task) == log.task.tolist()
            assert list(stopped.loop.start) == log.start.tolist()
            assert list(stopped.loop.server) == log.server.tolist()
    assert waited >= 10


def test_who_waited_longest_is_told_why_and_when_it_starts() -> None:
    told = 0
    for seed in range(5):
        workload = random_workload(seed)
        log = replay(workload, "drf/best-fit")
        for user in workload.users:
            found = longest_wait(workload, log, user)
            if found is None:
                continue
            job, time = found
            why = explain_job(workload, log, job, time)
            j = list(workload.job_names).index(job)
            assert why.sets == workload.first_set[j + 1] - workload.first_set[j]
            of = workload.first_set[j] + why.set - 1
            is_gang = workload.job_gang[j] and workload.job_tasks[j] > 1
            sets = workload.first_set[[j, j + 1]] if is_gang else [of, of + 1]
            first = workload.first_task[sets]
            starts = log.start[(log.task >= first[0]) & (log.task < first[1])]
            assert (why.job, why.user, why.time) == (job, user, time)
            assert why.submitted == workload.job_submit[j] <= time <= why.starts
            assert why.starts == min([x for x in starts if x > time], default=inf)
            assert why.explanation.waiting + why.explanation.running > 0
            assert middle_of_wait(workload, log, job) == pytest.approx(time)
            assert not why.explanation.starts
            assert why.explanation.never or not log.set_unplaceable[workload.first_set[j]]
            assert why.to_dict()["state"] == "pending"
            told += 1
    assert told >= 6


def test_a_job_that_does_not_wait_is_told_what_became_of_it() -> None:
    workload = random_workload(3)
    workload = replace(workload, job_cancel=np.full(workload.n_jobs, inf))
    log = replay(workload, "drf/first-fit")
    job, submit = str(workload.job_names[0]), float(workload.job_submit[0])
    for time, fault in [(submit - 1, "is submitted at"), (log.makespan + 9, "all had started by")]:
        with pytest.raises(InputError, match=fault):
            explain_job(workload, log, job, time)
    gone = replace(workload, job_cancel=np.full(workload.n_jobs, workload.job_submit + 1e-9))
    with pytest.raises(InputError, match="was withdrawn at"):
        explain_job(gone, log, job, log.makespan + 9)
    for call in (lambda: middle_of_wait(workload, log, "nobody"),
                 lambda: explain_job(workload, log, "nobody", 0.0),
                 lambda: longest_wait(workload, log, "nobody")):  # fmt: skip
        with pytest.raises(InputError, match="there is no"):
            call()


def test_recorded_starts_are_not_explained() -> None:
    workload = random_workload(1)
    job = str(workload.job_names[0])
    started = replace(workload, task_start=np.repeat(workload.job_submit, workload.job_tasks))
    with pytest.raises(RefusalError, match="why tasks waited"):
        explain_job(started, recorded_run(started), job, 0.0)


def test_a_declined_offer_explains_a_wait() -> None:
    reasons = set()
    for seed in range(1, 9):
        workload = random_workload(seed)
        workload = replace(workload, job_gang=np.zeros(workload.n_jobs, dtype=bool))
        log = replay(workload, "drf/rrr/oblivious")
        for user in workload.users:
            found = longest_wait(workload, log, user)
            if found is not None:
                reasons.add(explain_job(workload, log, *found).explanation.held_by)
    assert "declined" in reasons
