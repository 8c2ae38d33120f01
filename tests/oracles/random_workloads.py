"""Small random workloads with all features, and few different times, so that events coincide."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import Cluster
from fairlead.model.workload import DRAIN, JOIN, LEAVE, Workload


def random_workload(seed: int, *, gangs: bool = True, server_events: bool = True) -> Workload:
    """Return a workload of up to 4 users and 14 jobs on up to 9 servers, with many ties."""
    rng = np.random.default_rng(seed)
    n_groups, n_resources = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    amounts = [2, 3, 4, 6] if rng.random() < 0.5 else [0.5, 1.1, 1.7, 2.3]
    capacity = rng.choice(amounts, size=(n_groups, n_resources)) * rng.integers(1, 3)
    if n_resources > 2 and rng.random() < 0.5:
        capacity[0, 2] = 0.0
    count = rng.integers(1, 4, size=n_groups)
    cluster = _cluster(capacity, count)
    n_users, n_jobs = int(rng.integers(1, 5)), int(rng.integers(2, 15))
    job_sets = rng.integers(1, 4, size=n_jobs)
    n_sets = int(job_sets.sum())
    pieces = [0.5, 1, 2] if amounts[0] == 2 else [0.1, 0.3, 0.7, 1.1]
    shapes = rng.choice(pieces, size=(5, n_resources)) * (rng.random((5, n_resources)) < 0.8)
    shapes[shapes.sum(axis=1) == 0, 0] = pieces[0]
    places = rng.random((3, n_groups)) < 0.7
    places[~places.any(axis=1), 0] = True
    tasks = rng.integers(1, 5, size=n_sets)
    submit = np.sort(rng.integers(0, 12, size=n_jobs)).astype(float)
    cancel = np.where(rng.random(n_jobs) < 0.2, submit + rng.integers(0, 8, size=n_jobs), np.inf)
    times, events, servers = _server_events(rng, int(count.sum())) if server_events else ((),) * 3
    limits = np.random.default_rng([seed, 1]).choice([np.inf, 1, 2, 3, 4, 6, 9], size=n_jobs)
    return Workload.from_arrays(
        cluster,
        [f"u{n}" for n in range(n_users)],
        weight=rng.choice([1.0, 2.0, 0.7], size=n_users),
        job_user=rng.integers(0, n_users, size=n_jobs),
        job_submit=submit,
        job_cancel=cancel,
        job_gang=(rng.random(n_jobs) < 0.35) & gangs,
        job_limit=limits,
        set_job=np.repeat(np.arange(n_jobs), job_sets),
        set_shape=rng.integers(0, 5, size=n_sets),
        shapes=shapes,
        places=places,
        set_place=rng.integers(0, 3, size=n_sets),
        set_tasks=tasks,
        task_duration=rng.integers(1, 7, size=int(tasks.sum())).astype(float),
        server_time=times,
        server_event=events,
        server=servers,
    )


def _cluster(capacity, count):
    n_groups, n_resources = capacity.shape
    return Cluster(
        groups=tuple(f"g{g}" for g in range(n_groups)),
        resources=tuple(f"r{r}" for r in range(n_resources)),
        capacity=capacity.astype(float),
        count=count.astype(np.int64),
        units=("",) * n_resources,
        labels=({},) * n_groups,
    )


def _server_events(rng, n_servers):
    """Return consistent joins, drains and leaves: only present servers drain or leave."""
    present, rows = np.ones(n_servers, dtype=bool), []
    late = rng.random(n_servers) < 0.3
    present[late] = False
    drained = np.zeros(n_servers, dtype=bool)
    for time in np.sort(rng.integers(0, 16, size=int(rng.integers(0, 9)))).tolist():
        i = int(rng.integers(0, n_servers))
        if not present[i]:
            rows.append((float(time), JOIN, i))
            present[i], drained[i] = True, False
        elif drained[i] and rng.random() < 0.5:
            rows.append((float(time), JOIN, i))
            drained[i] = False
        elif not drained[i] and rng.random() < 0.5:
            rows.append((float(time), DRAIN, i))
            drained[i] = True
        else:
            rows.append((float(time), LEAVE, i))
            present[i], drained[i] = False, False
    never = [(20.0, JOIN, i) for i in np.flatnonzero(late) if i not in {r[2] for r in rows}]
    rows += never
    return zip(*rows, strict=True) if rows else ((),) * 3


def crowded_workload(seed: int) -> Workload:
    """Return a workload of two users with more tasks than fit at once, some of them constrained.

    Some tasks take none of a resource; up to two servers leave, and their tasks wait again.
    """
    rng = np.random.default_rng(seed)
    count = rng.integers(1, 3, size=2)
    shapes = rng.choice([0.75, 1.5, 3.0], size=(2, 2)) * (rng.random((2, 2)) < 0.7)
    shapes[shapes.sum(axis=1) == 0, 0] = 0.75
    n_jobs = int(rng.integers(3, 8))
    job_sets = rng.integers(1, 3, size=n_jobs)
    n_sets = int(job_sets.sum())
    tasks = rng.integers(1, 5, size=n_sets)
    leaving = rng.choice(int(count.sum()), size=int(rng.integers(0, 3)), replace=False)
    if len(leaving) == count.sum():
        leaving = leaving[1:]
    return Workload.from_arrays(
        _cluster(rng.choice([3.0, 4.0, 6.0], size=(2, 2)), count),
        ["u0", "u1"],
        job_user=rng.integers(0, 2, size=n_jobs),
        job_submit=np.sort(rng.integers(0, 4, size=n_jobs)).astype(float),
        job_gang=rng.random(n_jobs) < 0.1,
        set_job=np.repeat(np.arange(n_jobs), job_sets),
        set_shape=rng.integers(0, 2, size=n_sets),
        shapes=shapes,
        places=np.array([[True, True], [True, False], [False, True]]),
        set_place=rng.integers(0, 3, size=n_sets),
        set_tasks=tasks,
        task_duration=rng.integers(1, 6, size=int(tasks.sum())).astype(float),
        server_time=np.sort(rng.integers(2, 6, size=len(leaving))).astype(float),
        server_event=np.full(len(leaving), LEAVE),
        server=leaving,
    )


def odd_amounts_workload(seed: int) -> Workload:
    """Return a workload of three users on up to ten servers with amounts that must be rounded.

    In quanta that divide all amounts, the total of the first resource would exceed 64 bits.
    """
    rng = np.random.default_rng(seed)
    count = rng.integers(2, 6, size=2)
    shapes = np.array([[0.999, 0.1], [0.5, 0.3], [np.pi / 10_000, np.e / 100_000]])
    n_jobs = int(rng.integers(4, 9))
    tasks = rng.integers(1, 7, size=n_jobs)
    return Workload.from_arrays(
        _cluster(np.array([[1.0, 1.0], [1.0, 0.4]]), count),
        ["u0", "u1", "u2"],
        weight=rng.choice([1.0, 2.0], size=3),
        job_user=rng.integers(0, 3, size=n_jobs),
        job_submit=np.sort(rng.integers(0, 3, size=n_jobs)).astype(float),
        set_job=np.arange(n_jobs),
        set_shape=rng.integers(0, 3, size=n_jobs),
        shapes=shapes,
        set_place=np.zeros(n_jobs, dtype=int),
        places=np.array([[True, True]]),
        set_tasks=tasks,
        task_duration=rng.integers(1, 6, size=int(tasks.sum())).astype(float),
    )
