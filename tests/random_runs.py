"""Small workloads and what a plain simulation does with them, by seed, a bit of everything."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import strategies as st

from fairlead.model.cluster import Cluster
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from oracles.plain_simulation import PlainSimulation

POLICIES = ("drf/best-fit", "ps-dsf/first-fit", "drf/first-fit", "tsf/best-fit")
Run = tuple[Workload, RunLog]


def workload_by_seed(seed: int) -> Workload:
    """A workload with few distinct times, so that many things happen at once."""
    rng = np.random.default_rng(seed)
    n_groups, n_users, n_jobs = rng.integers(1, 4), rng.integers(1, 5), rng.integers(1, 8)
    capacity = rng.integers(1, 9, (n_groups, 2)) / rng.choice([1, 4, 3])
    if rng.random() < 0.3:
        capacity[rng.integers(n_groups), 1] = 0.0
    count = rng.integers(1, 3, n_groups)
    sets = rng.integers(1, 3, n_jobs)
    n_sets, n_servers = int(sets.sum()), int(count.sum())
    tasks = rng.integers(1, 5, n_sets)
    shapes = rng.integers(0, 4, (n_sets, 2)) / rng.choice([1, 2, 3])
    shapes[~shapes.any(axis=1), 0] = 1.0
    places = rng.random((n_sets, n_groups)) < 0.7
    places[~places.any(axis=1)] = True
    submit = np.sort(rng.integers(0, 12, n_jobs) * rng.choice([0.0, 1.0, 1.0, 0.7]))
    cancel = np.where(rng.random(n_jobs) < 0.7, np.inf, submit + rng.integers(0, 9, n_jobs))
    time, event, server = _server_events(n_servers, rng)
    return Workload.from_arrays(
        Cluster(
            groups=tuple(f"g{g}" for g in range(n_groups)),
            resources=("cpu", "memory"),
            capacity=capacity,
            count=count,
            units=("cores", "GiB"),
            labels=({},) * n_groups,
        ),
        [f"user {n}" for n in range(n_users)],
        weight=rng.choice([1.0, 1.0, 2.0, 0.3], n_users),
        job_user=rng.integers(0, n_users, n_jobs),
        job_submit=submit,
        job_gang=rng.random(n_jobs) < 0.2,
        job_cancel=cancel,
        set_job=np.repeat(np.arange(n_jobs), sets),
        set_tasks=tasks,
        shapes=shapes,
        places=places,
        set_place=np.arange(n_sets),
        task_duration=rng.integers(1, 9, tasks.sum()) * rng.choice([1.0, 1.0, 0.3]),
        server_time=time,
        server_event=event,
        server=server,
    )


def _server_events(
    n_servers: int, rng: np.random.Generator
) -> tuple[list[float], list[int], list[int]]:
    """Some servers go, or drain and maybe go, and maybe come back; some come late."""
    events: list[tuple[float, int, int]] = []
    for i in range(n_servers):
        courses = [[], [], [], [1], [2], [2, 1], [1, 0], [2, 1, 0], [0], [0, 1], [1, 0, 1]]
        course = courses[rng.integers(len(courses))]
        times = np.sort(rng.integers(0, 15, len(course)))
        events += [(float(t), e, i) for t, e in zip(times, course, strict=True)]
    events.sort(key=lambda event: event[0])
    return [e[0] for e in events], [e[1] for e in events], [e[2] for e in events]


@cache
def run_by_seed(seed: int) -> Run:
    workload = workload_by_seed(seed)
    return workload, PlainSimulation(workload, POLICIES[seed % len(POLICIES)]).as_log()


def one_server(amount: float) -> Cluster:
    """One server with one resource."""
    return Cluster(
        groups=("all",),
        resources=("cpu",),
        capacity=np.array([[amount]]),
        count=np.array([1]),
        units=("",),
        labels=({},),
    )


def runs() -> st.SearchStrategy[Run]:
    return st.integers(0, 9_999).map(run_by_seed)
