"""Easy with 500,000 jobs: on one pool, and on servers where each processor of a job is a task.

Prints seconds of a processor beside fifo's, and beside the plain easy of the tests on the first
jobs; how many jobs wait tells how much there is to look at. Half the load of wide jobs would fill
any machine: at the higher load the queue grows to the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from fairlead.model.cluster import Cluster, FloatArray
from fairlead.model.workload import Workload
from fairlead.simulation.replay import replay
from oracles.plain_easy import Job, PlainEasy

JOBS, PLAIN, PROCESSORS = 500_000, 5_000, 128
WIDE = [1, 1, 1, 2, 4, 5, 8, 8, 16, 16, 32, 64, 128]
SAID = np.array([300, 900, 1800, 3600, 7200, 14400, 43200, 64800, 129600])


def drawn(jobs: int, load: float, servers: int = 0) -> Workload:
    """Draw run times over four orders, and round limits, some of them too short or not given."""
    rng = np.random.default_rng(3)
    wide = rng.choice(WIDE, jobs)
    run = np.maximum(rng.lognormal(7.5, 1.8, jobs).round(), 1)
    guess = run * rng.choice([0.5, 1, 1, 2, 4], jobs)
    limit = SAID[np.searchsorted(SAID, guess).clip(max=len(SAID) - 1)].astype(float)
    limit[rng.random(jobs) < 0.03] = np.inf
    submit = np.sort(rng.random(jobs) * (wide * run).sum() / PROCESSORS / load).round()
    cluster = Cluster(
        groups=("pool",),
        resources=("cpu",),
        capacity=np.array([[PROCESSORS / max(servers, 1)]]),
        count=np.array([max(servers, 1)]),
        units=("cores",),
        labels=({},),
    )
    tasks = wide if servers else np.ones(jobs, dtype=int)
    return Workload.from_arrays(
        cluster,
        ["ana", "bo"],
        job_user=np.arange(jobs) % 2,
        job_submit=submit - submit[0],
        job_limit=limit,
        job_gang=tasks > 1,
        set_job=np.arange(jobs),
        set_tasks=tasks,
        shapes=(np.ones(jobs) if servers else wide)[:, None].astype(float),
        task_duration=np.repeat(run, tasks),
    )


def timed(workload: Workload, policy: str) -> tuple[float, FloatArray]:
    """Return seconds, and (J,) when each job started."""
    start = time.process_time()
    log = replay(workload, policy)
    took, begun = time.process_time() - start, np.empty(workload.n_tasks)
    begun[log.task] = log.start
    return took, begun[workload.first_task[:-1]]


@pytest.mark.parametrize(("load", "servers"), [(0.5, 0), (0.7, 0), (0.95, 0), (0.5, 64)])
def test_half_a_million_jobs(load: float, servers: int, report: Callable[[str], None]) -> None:
    workload = drawn(JOBS, load, servers)
    for policy in ("easy/first-fit", "fifo/first-fit"):
        replay(drawn(20, load, servers), policy)  # warms up
    took, begun = timed(workload, "easy/first-fit")
    other, later = timed(workload, "fifo/first-fit")
    wait = begun - workload.job_submit
    waiting = wait.sum() / max(begun.max(), workload.span)
    where = f"{servers} servers" if servers else "one pool"
    report(
        f"{where}, load {load}: {took:.1f} s, fifo {other:.1f} s; {waiting:,.0f} jobs wait on "
        f"average, for {wait.mean() / 3600:,.1f} h, under fifo "
        f"{(later - workload.job_submit).mean() / 3600:,.1f} h"
    )


def test_beside_the_plain_one(report: Callable[[str], None]) -> None:
    workload = drawn(PLAIN, 0.5)
    replay(drawn(20, 0.5), "easy/first-fit")
    wide, run = workload.shapes[workload.set_shape, 0].astype(int), workload.task_duration
    columns = (workload.job_submit, wide, run, workload.job_limit)
    jobs = [Job(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]
    start = time.process_time()
    plain = PlainEasy(jobs, PROCESSORS).run()
    of_plain = time.process_time() - start
    took, begun = timed(workload, "easy/first-fit")
    assert begun.tolist() == plain
    report(f"{PLAIN:,} jobs: plain easy {of_plain:.2f} s, {of_plain / took:,.0f} times as long")
