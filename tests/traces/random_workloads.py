"""Small workloads with a bit of everything, by seed."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload


def random_workload(seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    n_groups, n_users, n_jobs = rng.integers(1, 5), rng.integers(1, 5), rng.integers(1, 8)
    n_resources = int(rng.integers(1, 4))
    cluster = Cluster(
        groups=tuple(f'g-{g}, "odd" é' if g % 2 else f"g{g}" for g in range(n_groups)),
        resources=("cpu", "memory", "nvidia.com/gpu")[:n_resources],
        capacity=rng.random((n_groups, n_resources)) + 0.1,
        count=rng.integers(1, 5, n_groups),
        units=("cores", "", "GPUs")[:n_resources],
        labels=tuple({"zone": f"a;{g}"} if g % 2 else {} for g in range(n_groups)),
    )
    sets = rng.integers(1, 4, n_jobs)
    n_sets = int(sets.sum())
    tasks = rng.integers(1, 5, n_sets)
    places = rng.random((3, n_groups)) < 0.6
    places[~places.any(axis=1)] = True
    submit = np.sort(rng.random(n_jobs).round(1) * rng.choice([1, 1e9]) / 3)
    n_servers = int(cluster.count.sum())
    coming = rng.permutation(n_servers)[: rng.integers(0, n_servers + 1)]
    times = np.sort(rng.random(2 * len(coming)) * 100)
    duration = rng.lognormal(3, 3, tasks.sum())
    cancel = np.where(rng.random(n_jobs) < 0.5, np.inf, submit + rng.random(n_jobs))
    recorded = _recorded(rng, submit, cancel, np.repeat(np.repeat(range(n_jobs), sets), tasks))
    return Workload.from_arrays(
        cluster,
        [f"user {n}" for n in range(n_users)],
        weight=rng.random(n_users) + 0.1,
        job_names=[f"job,{j}" for j in rng.permutation(n_jobs)],
        job_user=rng.integers(0, n_users, n_jobs),
        job_submit=submit,
        job_gang=rng.random(n_jobs) < 0.5,
        job_cancel=cancel,
        job_limit=rng.choice([np.inf, 60.5, 3600.0], n_jobs) if seed % 3 else None,
        set_job=np.repeat(np.arange(n_jobs), sets),
        set_tasks=tasks,
        set_shape=rng.integers(0, 3, n_sets),
        shapes=rng.random((3, n_resources)) + 1e-9,
        set_place=rng.integers(0, 3, n_sets),
        places=places,
        task_duration=duration,
        task_start=recorded if seed % 3 else None,
        task_server=rng.integers(-1, n_servers, len(duration)) if seed % 3 > 1 else None,
        server_time=times,
        server_event=[0] * len(coming) + [int(e) for e in rng.integers(1, 3, len(coming))],
        server=np.concatenate([coming, coming]),
        origin=f"seed {seed}",
        start_date=(None, 1.7e9 + rng.random(), 0.0)[seed % 3],
        notes={"something left out": int(rng.integers(1, 9))},
    )


def _recorded(rng, submit, cancel, job):
    """When tasks started: some never did, and some times are unknown."""
    wait = rng.exponential(5.0, len(job)).round(1)
    start = np.minimum(submit[job] + wait, cancel[job])
    return np.select(
        [rng.random(len(job)) < 0.2, rng.random(len(job)) < 0.3], [np.nan, np.inf], start
    )


def assert_equal(one: Workload, other: Workload) -> None:
    """Every array is the same to the bit, and of the same kind."""
    for kind, pair in ((Workload, (one, other)), (Cluster, (one.cluster, other.cluster))):
        for name in (field.name for field in fields(kind) if field.name != "cluster"):
            value, found = (getattr(each, name) for each in pair)
            if isinstance(value, np.ndarray):
                assert found.dtype.kind == value.dtype.kind, name
                assert found.shape == value.shape, name
                assert np.array_equal(found, value, equal_nan=value.dtype.kind == "f"), name
            else:
                assert found == value, name
