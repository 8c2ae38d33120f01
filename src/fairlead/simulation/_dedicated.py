"""Divide the servers among users, and replay each user alone on its own servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.errors import RefusalError
from fairlead.model.cluster import BoolArray, IntArray
from fairlead.model.problem_changes import format_servers
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Excerpt, Workload, excerpt
from fairlead.scheduler.policies import Policy

# Differences below this fraction of a group's servers are rounding errors.
_EQUAL = 1e-9


def dedicated_servers(workload: Workload) -> IntArray:
    """Divide the servers among users; return (servers,) the user of each.

    Wang, Liang and Li 2014, IV-D and Fig. 8, compare the tasks that each user completes on its
    own part of the servers with those in the shared cluster.

    A user is due a fraction of each group: its weight over all users' weights (in queues, from the
    root down). The number of servers is rounded down. Each server left over goes to the user with
    the largest claim, or the earlier user where claims are equal. A claim is the remainder in this
    group, plus the fractions of servers that the user lacks from earlier groups (negative if it
    got too many). So users of equal weight have equal numbers of servers, give or take one, in all
    and in every group. With fewer servers than users, some users have none. In a group each user's
    servers are consecutive, users in order. O(G N log N + servers).
    """
    if not workload.weight.any():
        raise RefusalError("dedicated", "all users have weight 0, and are due no server")
    part = workload.weight / workload.weight.sum()
    if workload.queues is not None:
        part = workload.queues.parts(workload.weight, workload.weight > 0)[1]
    missed = np.zeros(workload.n_users)
    owner: list[IntArray] = []
    for count in workload.cluster.count.tolist():
        due = count * part
        near = np.rint(due)
        whole = np.floor(np.where(np.abs(due - near) < _EQUAL * count, near, due))
        remainder = due - whole
        left = count - int(whole.sum())
        # Without a remainder a user is not rounded up.
        claim = np.where(remainder > _EQUAL * count, remainder + missed, -np.inf)
        given = whole.astype(np.int64)
        given[np.argsort(-np.round(claim, 9), kind="stable")[:left]] += 1
        missed += due - given
        owner.append(np.repeat(np.arange(workload.n_users), given))
    return np.concatenate(owner)


def replay_dedicated(
    workload: Workload,
    policy: str | Policy,
    replay: Callable[..., RunLog],
    *,
    on_progress: Callable[[int, float], None] | None = None,
) -> RunLog:
    """Replay every user alone on its own servers with `replay`; return one log of all users.

    Tasks and servers keep their numbers. Sets that fit on none of their user's own servers are
    unplaceable. Progress is reported as starts so far and time in seconds, which restarts with each
    user. One replay for each user, and O(J + K + T).
    """
    owner = dedicated_servers(workload)
    unplaceable = np.ones(workload.n_sets, dtype=bool)
    # For each user its starts: arrays of task, server, start, end and whether the task was lost.
    empty = (np.empty(0, dtype=np.int32),) * 2 + (np.empty(0),) * 2 + (np.empty(0, dtype=bool),)
    starts: list[tuple[NDArray[Any], ...]] = [empty]
    n_starts = 0

    def report(starts_of_user: int, time: float) -> None:
        if on_progress is not None:
            on_progress(n_starts + starts_of_user, time)

    for user in range(workload.n_users):
        part = _part_of(workload, user, owner)
        if part is not None:
            log = replay(part.workload, policy, on_progress=report)
            starts.append(
                (part.task[log.task], part.server[log.server], log.start, log.end, log.lost)
            )
            placeable = part.task[~np.repeat(log.set_unplaceable, part.workload.set_tasks)]
            sets = np.searchsorted(workload.first_task, placeable, side="right") - 1
            unplaceable[sets] = False
            n_starts += len(log.task)
    columns = [np.concatenate(column) for column in zip(*starts, strict=True)]
    order = np.argsort(columns[2], kind="stable")
    task, server, start, end, lost = (column[order] for column in columns)
    name = policy if isinstance(policy, str) else policy.name
    return RunLog(
        name, task.astype(np.int32), server.astype(np.int32), start, end, lost, unplaceable
    )


def dedicated_caution(workload: Workload, shared: RunLog, alone: RunLog) -> str:
    """Warn if over half of the tasks cannot run on their user's own servers; else ""."""
    tasks = workload.set_tasks[~shared.set_unplaceable]
    unplaceable = int(tasks[alone.set_unplaceable[~shared.set_unplaceable]].sum())
    if 2 * unplaceable <= tasks.sum():
        return ""
    return (
        f"{unplaceable:,} of {tasks.sum():,} tasks fit on no server that their user has alone "
        f"({workload.n_users:,} users divide {format_servers(workload.n_servers)}): dedicated "
        "servers are a poor baseline here"
    )


def _part_of(workload: Workload, user: int, owner: IntArray) -> Excerpt | None:
    """Return a user's workload on its own servers, None if nothing could run there."""
    own = owner == user
    if not own.any():
        return None
    groups = np.add.reduceat(own, workload.first_server[:-1], dtype=np.int64) > 0
    is_admitted: BoolArray = (workload.places @ groups)[workload.set_place]
    is_partly_excluded = np.zeros(workload.n_jobs, dtype=bool)
    is_partly_excluded[workload.set_job[~is_admitted]] = True
    sets = is_admitted & (workload.job_user[workload.set_job] == user)
    # A gang runs only if servers admit all of its sets.
    sets &= ~(is_partly_excluded & workload.job_gang)[workload.set_job]
    return excerpt(workload, sets, own) if sets.any() else None
