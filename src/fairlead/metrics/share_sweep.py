"""One sweep over all starts, ends and submissions: every user's dominant share, and the least.

And who wants what, and who holds what, at given instants.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.metrics.course import TaskOutcomes
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import IndexArray, Workload
from fairlead.optimize.compiling import compiled

# What an event is about when it is not about a task: the numbers of shapes are not negative.
NO_SHAPE, NEW_CAPACITY, NEW_BIN = -1, -2, -3


@compiled
def sweep(
    time: FloatArray,
    shape: IndexArray,
    user: IndexArray,
    running: NDArray[np.int8],
    active: IndexArray,
    shapes: FloatArray,
    capacity: FloatArray,
    weight: FloatArray,
    share: FloatArray,
    active_time: FloatArray,
    least: FloatArray,
    any_time: FloatArray,
) -> None:
    """Integrate over each bin what `fairlead.metrics.shares` defines.

    Parameters
    ----------
    time : (E,) float
        Of each event, ascending. The first are steps of capacity and the first bin's beginning;
        events of tasks before that are not allowed.
    shape, user : (E,) int32
        Of the task, or `NO_SHAPE` where no task starts or stops; or `NEW_CAPACITY`, or `NEW_BIN`.
    running : (E,) int8
        1 for a start, -1 for a stop of a task.
    active : (E,) int32
        By how many more tasks the user waits or runs.
    shapes : (D, R) float
    capacity : (S, R) float
        After each step.
    weight : (N,) float
    share, active_time : (B, N) float
        Zeros; gain the integrals of each user's dominant share, and the time that it is active.
    least, any_time : (B,) float
        Zeros; gain the integrals of the least weighted share of active users, without those of
        weight 0, and the time that there are any.

    Notes
    -----
    Cost O(E (R + log N) + (B + S) N). The least share is at the root of a tree of minima.
    """
    n_users, n_bins, n_resources = len(weight), len(share), shapes.shape[1]
    leaves = 1
    while leaves < n_users:
        leaves *= 2
    tree = np.full(2 * leaves, np.inf)
    held = np.zeros((n_users, n_resources))
    tasks, wanting = np.zeros(n_users, dtype=np.int64), np.zeros(n_users, dtype=np.int64)
    now_share, since = np.zeros(n_users), np.zeros(n_users)
    step, place, before = -1, -1, 0.0
    for e in range(len(time)):
        now = time[e]
        if 0 <= place < n_bins and tree[1] < np.inf:
            least[place] += tree[1] * (now - before)
            any_time[place] += now - before
        before = now
        everybody = shape[e] in (NEW_CAPACITY, NEW_BIN)
        first = 0 if everybody else user[e]
        last = n_users if everybody else user[e] + 1
        for u in range(first, last):
            if 0 <= place < n_bins:
                share[place, u] += now_share[u] * (now - since[u])
                if wanting[u] > 0:
                    active_time[place, u] += now - since[u]
            since[u] = now
        step += shape[e] == NEW_CAPACITY
        place += shape[e] == NEW_BIN
        if shape[e] == NEW_BIN:
            continue
        if not everybody:
            u = user[e]
            wanting[u] += active[e]
            if shape[e] >= 0:
                tasks[u] += running[e]
                for r in range(n_resources):
                    held[u, r] += running[e] * shapes[shape[e], r]
                if tasks[u] == 0:
                    held[u] = 0.0  # without the dust of adding and taking away
        for u in range(first, last):
            largest = 0.0
            for r in range(n_resources):
                if capacity[step, r] > 0:
                    largest = max(largest, held[u, r] / capacity[step, r])
            now_share[u] = largest
            node = leaves + u
            counts = wanting[u] > 0 and weight[u] > 0
            tree[node] = largest / weight[u] if counts else np.inf
            while node > 1:
                node //= 2
                tree[node] = min(tree[2 * node], tree[2 * node + 1])


def in_order(
    parts: list[tuple[FloatArray, IndexArray, IndexArray, NDArray[np.int8], IndexArray]],
) -> tuple[FloatArray, IndexArray, IndexArray, NDArray[np.int8], IndexArray]:
    """Put events in the order of time, earlier parts first where times are equal."""
    time, shape, user, running, active = (
        np.concatenate([part[k] for part in parts]) for k in range(5)
    )
    order: IntArray = np.argsort(time, kind="stable")
    return time[order], shape[order], user[order], running[order], active[order]


class Snapshot(NamedTuple):
    """Tasks of each of K sets at an instant, in seconds: (K,) that run, (K,) that run or wait.

    What starts or comes at the instant is there, what ends then is not.
    """

    time: float
    running: IntArray
    active: IntArray


def snapshots(
    workload: Workload, log: RunLog, course: TaskOutcomes, times: FloatArray
) -> Iterator[Snapshot]:
    """Yield what runs and what wants to at each instant; the arrays change with the next one.

    Parameters
    ----------
    workload : Workload
    log : RunLog
    course : TaskOutcomes
        As `fairlead.metrics.course.follow_tasks` returned it.
    times : (I,) float
        Ascending, seconds.

    Notes
    -----
    Cost O(P log I + I K).
    """
    n_sets = workload.n_sets
    is_over = ~course.never_active
    came = np.bincount(course.set[is_over], minlength=n_sets)
    runs_of, wants_of = course.set[log.task], course.set[is_over]
    start, end, over = (
        _by_instant(of, time, times)
        for of, time in ((runs_of, log.start), (runs_of, log.end), (wants_of, course.over[is_over]))
    )
    submit = np.searchsorted(times, workload.job_submit[workload.set_job], side="left")
    running, active = np.zeros((2, n_sets), dtype=np.int64)
    for i, time in enumerate(times.tolist()):
        running += np.bincount(start[i], minlength=n_sets)
        running -= np.bincount(end[i], minlength=n_sets)
        active += np.where(submit == i, came, 0)
        active -= np.bincount(over[i], minlength=n_sets)
        yield Snapshot(time, running, active)


def _by_instant(of: IndexArray, time: FloatArray, times: FloatArray) -> list[IndexArray]:
    """Return the sets of what happened since the instant before, for each instant."""
    since = np.searchsorted(times, time, side="left")
    order = np.argsort(since.astype(np.min_scalar_type(len(times))), kind="stable")
    bounds = np.searchsorted(since[order], np.arange(len(times) + 1))
    return [of[order[one:other]] for one, other in pairwise(bounds)]
