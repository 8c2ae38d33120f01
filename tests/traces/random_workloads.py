"""Small workloads with all that a trace may say, by seed, and their comparison."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload
from oracles import random_workloads


def random_workload(seed: int) -> Workload:
    """Return a workload with odd names, labels, dates, and numbers that no decimal gives.

    Recorded starts are known unless 3 divides the seed, and servers where it leaves 2.
    """
    rng = np.random.default_rng([seed, 2])
    plain = random_workloads.random_workload(seed)
    cluster, n_jobs = plain.cluster, plain.n_jobs
    n_groups, n_resources, n_tasks = len(cluster.groups), len(cluster.resources), plain.n_tasks
    job = np.repeat(plain.set_job, plain.set_tasks)
    wait = rng.exponential(5.0, n_tasks).round(1)
    start = np.minimum(plain.job_submit[job] + wait, plain.job_cancel[job])
    start[rng.random(n_tasks) < 0.2] = np.inf  # never started
    start[rng.random(n_tasks) < 0.2] = np.nan  # unknown
    server = rng.integers(-1, plain.n_servers, n_tasks, dtype=np.int32)
    server[~np.isfinite(start)] = -1
    return replace(
        plain,
        cluster=replace(
            cluster,
            groups=tuple(f'g-{g}, "odd" é' if g % 2 else f"g{g}" for g in range(n_groups)),
            resources=("cpu", "memory", "nvidia.com/gpu")[:n_resources],
            capacity=cluster.capacity / 3,
            units=("cores", "", "GPUs")[:n_resources],
            labels=tuple({"zone": f"a;{g}"} if g % 2 else {} for g in range(n_groups)),
        ),
        users=tuple(f"user {n}" for n in range(plain.n_users)),
        job_names=np.array([f"job,{j}" for j in rng.permutation(n_jobs)]),
        job_limit=plain.job_limit if seed % 3 else np.full(n_jobs, np.inf),
        task_duration=rng.lognormal(3, 3, n_tasks),
        task_start=start if seed % 3 else np.full(n_tasks, np.nan),
        task_server=server if seed % 3 == 2 else np.full(n_tasks, -1, dtype=np.int32),
        origin=f"seed {seed}",
        start_date=(None, 1.7e9 + rng.random(), 0.0)[seed % 3],
        notes={"something left out": int(rng.integers(1, 9))},
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
