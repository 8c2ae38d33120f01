"""Runs of small workloads: by hand, and by a plain simulation of random ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fairlead.model.cluster import Cluster
from fairlead.model.problem import Problem
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload

POLICIES = ("drf/best-fit", "ps-dsf/first-fit", "drf/first-fit", "tsf/best-fit")
Run = tuple[Workload, RunLog]


@cache
def run_by_seed(seed: int) -> Run:
    """A run; in one of three a user has weight 0 afterwards, and the placements stay."""
    workload = random_workload(seed)
    log = plain_replay(workload, POLICIES[seed % len(POLICIES)])
    if seed % 3 == 0:
        weight = workload.weight.copy()
        weight[seed % workload.n_users] = 0.0
        workload = replace(workload, weight=weight)
    return workload, log


def one_server(amount: float) -> Cluster:
    """One server with one resource."""
    return Problem.from_arrays([[amount]], [[1.0]], resources=["cpu"], groups=["all"]).cluster


def jobs_on_a_server(
    cores: float,
    rows: Sequence[tuple[int, float, float, float]],
    users: Sequence[str] = ("ana", "bo"),
    **options: Any,
) -> Workload:
    """Jobs of one task on one server: number of the user, submission, cores, seconds."""
    user, submit, size, seconds = zip(*rows, strict=True)
    return Workload.from_arrays(
        one_server(cores),
        users,
        job_user=user,
        job_submit=submit,
        set_job=range(len(rows)),
        set_tasks=[1] * len(rows),
        shapes=[[each] for each in size],
        task_duration=seconds,
        **options,
    )


def run_by_hand(workload: Workload, starts: Sequence[float]) -> Run:
    """The run in which each task starts on the only server at a time, in seconds; NaN is never."""
    start = np.array(starts, dtype=float)
    task = np.argsort(start)[: np.isfinite(start).sum()]
    return workload, RunLog(
        "by hand",
        task=task.astype(np.int32),
        server=np.zeros(len(task), dtype=np.int32),
        start=start[task],
        end=start[task] + workload.task_duration[task],
        lost=np.zeros(len(task), dtype=bool),
        set_unplaceable=np.zeros(workload.n_sets, dtype=bool),
    )


def runs() -> st.SearchStrategy[Run]:
    return st.integers(0, 9_999).map(run_by_seed)
