"""Easy: jobs of logs in SWF wait as under a plain easy, wide ones and all others."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.workload import Workload
from fairlead.simulation.replay import replay
from fairlead.traces.logs.swf import read_swf_workload
from fairlead.traces.what_if import with_perfect_estimates
from oracles.plain_easy import Job, PlainEasy
from oracles.random_workloads import random_workload

# Processors of the machines, and how wide jobs were on them: mostly powers of 2; or also whole
# nodes of two processors, in any number.
MACHINES = {
    "SDSC-like": (128, [1, 1, 1, 2, 4, 5, 8, 8, 16, 16, 32, 64, 128]),
    "HPC2N-like": (240, [1, 1, 1, 1, 2, 2, 3, 6, 10, 14, 20, 36, 62, 120, 240]),
}
SAID = [300, 900, 1800, 3600, 7200, 14400, 43200, 64800, 129600]


def log_like(machine: str, folder: Path, jobs: int, seed: int) -> Path:
    """Write a log: run times over four orders, round limits, some too short, some not given."""
    processors, widths = MACHINES[machine]
    rng = np.random.default_rng(seed)
    wide = rng.choice(widths, jobs)
    run = np.maximum(rng.lognormal(7, 1.8, jobs).round(), 1)
    guess = run * rng.choice([0.5, 1, 1, 2, 4], jobs)
    said = np.array(SAID)[np.searchsorted(SAID, guess).clip(max=len(SAID) - 1)]
    said[rng.random(jobs) < 0.05] = -1
    submit = np.sort(rng.random(jobs) * (wide * run).sum() / processors / 0.6).round()
    rows = [
        f"{n} {s:.0f} -1 {r:.0f} {p} -1 -1 {p} {limit} -1 1 {n % 7} 1 -1 1 -1 -1 -1"
        for n, (s, r, p, limit) in enumerate(
            zip(submit.tolist(), run.tolist(), wide.tolist(), said.tolist(), strict=True)
        )
    ]
    path = folder / f"{machine}.swf"
    path.write_text("\n".join([f"; MaxProcs: {processors}", *rows, ""]))
    return path


def waits(workload: Workload, policy: str) -> FloatArray:
    """(J,) seconds; all tasks of a job start at once."""
    log = replay(workload, policy)
    start = np.empty(workload.n_tasks)
    start[log.task] = log.start
    found: FloatArray = start[workload.first_task[:-1]] - workload.job_submit
    return found


def plain_waits(workload: Workload, processors: int) -> FloatArray:
    run = workload.task_duration[workload.first_task[:-1]].tolist()
    wide = (workload.set_tasks * workload.shapes[workload.set_shape, 0]).astype(int).tolist()
    columns = workload.job_submit.tolist(), wide, run, workload.job_limit.tolist()
    jobs = [Job(*row) for row in zip(*columns, strict=True)]
    return np.array(PlainEasy(jobs, processors).run()) - workload.job_submit


def test_wide_jobs_wait_as_under_a_plain_easy(tmp_path: Path) -> None:
    machine = "HPC2N-like"
    processors = MACHINES[machine][0]
    workload = read_swf_workload(log_like(machine, tmp_path, 300, 5))
    expected = plain_waits(workload, processors)
    wide = workload.shapes[workload.set_shape, 0] >= processors / 2
    assert (expected[wide] > 0).sum() > 20
    np.testing.assert_array_equal(waits(workload, "easy/first-fit"), expected)
    known = with_perfect_estimates(workload)
    by_actual_times = plain_waits(known, processors)
    assert (by_actual_times != expected).any()
    np.testing.assert_array_equal(waits(known, "easy/best-fit"), by_actual_times)


def test_the_longest_task_of_a_job_is_its_perfect_estimate() -> None:
    workload = random_workload(3)
    known = with_perfect_estimates(workload)
    job = np.repeat(workload.set_job, workload.set_tasks)
    longest = [workload.task_duration[job == j].max() for j in range(workload.n_jobs)]
    assert known.job_limit.tolist() == longest
    assert len(set(longest)) > 1


def test_so_do_gangs(tmp_path: Path) -> None:
    """Where all are on one server, each processor of a job is a task."""
    machine = "SDSC-like"
    processors = MACHINES[machine][0]
    path = log_like(machine, tmp_path, 90, 6)
    gangs = read_swf_workload(path, servers=1, cores=processors)
    assert gangs.job_gang.sum() > 30
    expected = plain_waits(read_swf_workload(path), processors)
    np.testing.assert_array_equal(waits(gangs, "easy/first-fit"), expected)
    assert (expected > 0).sum() > 20
