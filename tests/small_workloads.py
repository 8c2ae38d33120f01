"""Workloads so small that a plain replay of them takes no time."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import Cluster
from fairlead.model.workload import DRAIN, JOIN, LEAVE, Workload


def small_workload(rng: np.random.Generator) -> Workload:
    """Return a few jobs on a few servers that come and go, in whole numbers."""
    n_groups, n_jobs = rng.integers(1, 4), rng.integers(1, 6)
    sets = rng.integers(1, 3, n_jobs)
    n_sets, count = int(sets.sum()), rng.integers(1, 4, n_groups)
    tasks, n_servers = rng.integers(1, 4, n_sets), int(count.sum())
    coming = rng.permutation(n_servers)[: rng.integers(0, n_servers + 1)]
    places = rng.random((n_sets, n_groups)) < 0.7
    places[~places.any(axis=1)] = True
    return Workload.from_arrays(
        Cluster(
            groups=tuple(f"g{g}" for g in range(n_groups)),
            resources=("cpu", "memory"),
            capacity=rng.integers(1, 5, (n_groups, 2)).astype(float),
            count=count,
            units=("", ""),
            labels=({},) * n_groups,
        ),
        ["ana", "bo"],
        job_user=rng.integers(0, 2, n_jobs),
        job_submit=np.sort(rng.integers(0, 5, n_jobs)),
        job_gang=rng.random(n_jobs) < 0.5,
        set_job=np.repeat(np.arange(n_jobs), sets),
        set_tasks=tasks,
        shapes=rng.integers(1, 4, (n_sets, 2)).astype(float),
        places=places,
        task_duration=rng.random(tasks.sum()) + 0.1,
        server_time=np.sort(rng.integers(0, 9, 2 * len(coming))),
        server_event=[JOIN] * len(coming) + rng.choice([LEAVE, DRAIN], len(coming)).tolist(),
        server=np.concatenate([coming, coming]),
    )
