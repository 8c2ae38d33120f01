"""A part of a workload: some of its sets of tasks on some of its servers, or its first seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import BoolArray, IntArray
from fairlead.model.workload import JOIN, IndexArray, Workload


@dataclass(frozen=True, eq=False)
class Excerpt:
    """A part of a workload, and the numbers of its tasks (T',) and servers (S',) in the whole.

    Both ascend; the part's users are those of the whole.
    """

    workload: Workload
    task: IntArray
    server: IntArray


def excerpt(
    workload: Workload, sets: BoolArray, servers: BoolArray, events: BoolArray | None = None
) -> Excerpt:
    """Take some sets of tasks and some servers, with the jobs and groups they need.

    Parameters
    ----------
    sets : (K,) bool
        Sets to take, at least one.
    servers : (servers,) bool
        Servers to take, at least one.
    events : (X,) bool, optional
        Events to take, of servers that are taken; all of theirs when absent.

    Returns
    -------
    Excerpt
        Adjacent sets of a job that differ only in groups that are gone become one.

    Raises
    ------
    ProblemError
        When one of the sets may run on none of the servers.

    Notes
    -----
    Cost O(J + K + T + X + servers).
    """
    cluster = workload.cluster
    jobs = np.zeros(workload.n_jobs, dtype=bool)
    jobs[workload.set_job[sets]] = True
    count = np.diff(np.append(0, np.cumsum(servers))[workload.first_server])
    groups = np.flatnonzero(count)
    tasks = np.repeat(sets, workload.set_tasks)
    of_them = servers[workload.server] & (True if events is None else events)
    places, set_place = np.unique(workload.set_place[sets], return_inverse=True)
    part = Workload.from_arrays(
        replace(
            cluster,
            groups=tuple(cluster.groups[g] for g in groups),
            capacity=cluster.capacity[groups],
            count=count[groups],
            labels=tuple(cluster.labels[g] for g in groups),
        ),
        workload.users,
        weight=workload.weight,
        job_names=workload.job_names[jobs],
        job_user=workload.job_user[jobs],
        job_submit=workload.job_submit[jobs],
        job_gang=workload.job_gang[jobs],
        job_cancel=workload.job_cancel[jobs],
        job_limit=workload.job_limit[jobs],
        set_job=_renumbered(workload.set_job[sets], jobs),
        set_tasks=workload.set_tasks[sets],
        set_shape=workload.set_shape[sets],
        shapes=workload.shapes,
        set_place=set_place,
        places=workload.places[places][:, groups],
        task_duration=workload.task_duration[tasks],
        task_start=workload.task_start[tasks],
        # Who ran on none of the servers kept, or nobody knows where, is on number -1.
        task_server=np.append(np.where(servers, np.cumsum(servers) - 1, -1), -1)[
            workload.task_server[tasks]
        ],
        server_time=workload.server_time[of_them],
        server_event=workload.server_event[of_them],
        server=_renumbered(workload.server[of_them], servers),
        origin=workload.origin,
        notes=workload.notes,
    )
    return Excerpt(part, np.flatnonzero(tasks), np.flatnonzero(servers))


def first_seconds(workload: Workload, seconds: float) -> Workload:
    """Return the workload as if it had ended then: no job and no event of a server comes later.

    Tasks submitted before run as long as they do. Servers that would first join later go, but a
    group without others keeps the first of them, which joins when it would have. Raises InputError
    for no positive number, or when no job is submitted before.
    """
    if not 0 < seconds < np.inf:
        raise InputError(f"must be a positive number, not {seconds:g}", "until")
    jobs = workload.job_submit < seconds
    if not jobs.any():
        first = float(workload.job_submit[0])
        raise InputError(f"no job comes before {seconds:g} s; the first comes at {first:g} s")
    before = workload.server_time < seconds
    there = workload.there_at_start.copy()
    there[workload.server[before & (workload.server_event == JOIN)]] = True
    first_server = workload.first_server[:-1]
    kept_alone = first_server[np.add.reduceat(there, first_server, dtype=np.int64) == 0]
    there[kept_alone] = True
    events = before | np.isin(workload.server, kept_alone)
    return excerpt(workload, jobs[workload.set_job], there, events).workload


def _renumbered(numbers: IndexArray, kept: BoolArray) -> IntArray:
    """Return what the numbers are when only some of the numbered are kept."""
    among: IntArray = np.cumsum(kept)[numbers] - 1
    return among
