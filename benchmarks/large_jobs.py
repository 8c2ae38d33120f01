"""Measure how long large jobs wait behind small ones, with and without reservations.

A job is large if a task demands at least `--part` of the largest capacity of some resource, or if
it is a gang of ten tasks or more. Prints waits of large and other jobs, the fairness error, and the
seconds of a replay.

    python benchmarks/large_jobs.py TRACE [--machines FILE] [--load 2] [-p POLICY ...]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.task_outcomes import follow_tasks
from fairlead.simulation.simulate import simulate
from fairlead.traces.readers import MachineOptions, read_workload
from fairlead.traces.what_if import with_load, with_perfect_estimates

GANG = 10
POLICIES = ("drf/best-fit", "drf/best-fit/reserve", "drf/best-fit/reserve:10", "easy/best-fit")


def is_large(workload: Workload, part: float) -> np.ndarray:
    """Return whether each task is of a large job, (T,)."""
    largest = workload.cluster.capacity.max(axis=0)
    shapes = (workload.shapes >= part * largest) & (workload.shapes > 0)
    of_set = shapes.any(axis=1)[workload.set_shape]
    tasks = np.bincount(workload.set_job, workload.set_tasks, workload.n_jobs)
    of_set |= (workload.job_gang & (tasks >= GANG))[workload.set_job]
    return np.repeat(of_set, workload.set_tasks)


def format_waits(waits: FloatArray) -> str:
    """Format the mean, 95 % quantile and maximum of waits, in hours."""
    if not len(waits):
        return "-"
    hours = np.nan_to_num(waits, nan=np.inf) / 3600
    return f"{hours.mean():8.2f} {np.quantile(hours, 0.95):8.2f} {hours.max():8.2f}"


def main() -> None:
    """Print a row for each policy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("trace", type=Path)
    parser.add_argument("--machines", type=Path)
    parser.add_argument("--load", type=float, default=1.0)
    parser.add_argument("--part", type=float, default=1.0)
    parser.add_argument("--perfect-estimates", action="store_true")
    parser.add_argument("-p", "--policy", action="append")
    options = parser.parse_args()
    machines = MachineOptions(options.machines, None, None, None)
    workload = with_load(read_workload(options.trace, machines)[0], options.load)
    if options.perfect_estimates:
        workload = with_perfect_estimates(workload)
    large = is_large(workload, options.part)
    print(f"{int(large.sum()):,} of {len(large):,} tasks are of large jobs; waits in hours")
    print(f"{'policy':32} {'large: mean, 95 %, max':>26} {'others':>26}  error  seconds")
    for policy in options.policy or POLICIES:
        began = perf_counter()
        (outcome,) = simulate(workload, policy, processes=1).values()
        seconds = perf_counter() - began
        found = follow_tasks(outcome.workload, outcome.log)
        can_run = ~found.unplaceable
        waits = (found.wait[large & can_run], found.wait[~large & can_run])
        rows = [format_waits(each) for each in waits]
        fairness = outcome.summary.fairness
        error = float("nan") if fairness is None else fairness.mean
        print(f"{policy:32} {rows[0]} {rows[1]}  {error:.3f}  {seconds:.1f}", flush=True)


if __name__ == "__main__":
    main()
