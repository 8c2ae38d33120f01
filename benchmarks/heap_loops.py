"""The plain version of DRF on whole tasks: a heap and a loop over tasks, in Python and compiled."""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit
from numpy.typing import NDArray

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]


def serve_in_python(demand: Whole, capacity: Whole, step: Floats) -> list[int]:
    """Serve the least dominant share, task by task; who does not fit leaves."""
    rows, room = demand.tolist(), capacity.tolist()
    sizes = step.tolist()
    resources = range(len(room))
    tasks = [0] * len(rows)
    waiting = [(0.0, -size, n) for n, size in enumerate(sizes)]
    heapq.heapify(waiting)
    while waiting:
        _, size, n = waiting[0]
        row = rows[n]
        for r in resources:
            if row[r] > room[r]:
                heapq.heappop(waiting)
                break
        else:
            for r in resources:
                room[r] -= row[r]
            tasks[n] += 1
            heapq.heapreplace(waiting, (-tasks[n] * size, size, n))
    return tasks


@njit(cache=True)
def serve_compiled(demand: Whole, capacity: Whole, step: Floats) -> Whole:
    """Do the same on a heap of indices, compiled."""
    n_users, n_resources = demand.shape
    room = capacity.copy()
    tasks = np.zeros(n_users, np.int64)
    level = np.zeros(n_users)
    heap = np.argsort(-step, kind="mergesort")  # all levels are 0: a heap already
    size = n_users
    while size > 0:
        n = heap[0]
        row = demand[n]
        fits = True
        for r in range(n_resources):
            if row[r] > room[r]:
                fits = False
                break
        if fits:
            for r in range(n_resources):
                room[r] -= row[r]
            tasks[n] += 1
            level[n] = tasks[n] * step[n]
        else:
            size -= 1
            n = heap[size]
        k = 0
        while 2 * k + 1 < size:
            child = 2 * k + 1
            m = heap[child]
            if child + 1 < size:
                other = heap[child + 1]
                if level[other] < level[m] or (
                    level[other] == level[m]
                    and (step[other] > step[m] or (step[other] == step[m] and other < m))
                ):
                    child, m = child + 1, other
            if not (
                level[m] < level[n]
                or (level[m] == level[n] and (step[m] > step[n] or (step[m] == step[n] and m < n)))
            ):
                break
            heap[k] = m
            k = child
        heap[k] = n
    return tasks
