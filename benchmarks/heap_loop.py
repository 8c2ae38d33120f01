"""DRF on whole tasks by a heap and a loop over tasks, as a reference for benchmarks."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]


def serve_task_by_task(demand: Whole, capacity: Whole, step: Floats) -> list[int]:
    """Serve the user with the least dominant share, task by task; return the tasks of each user.

    A user whose task does not fit leaves. `demand` (N, R) and `capacity` (R,) are whole quanta,
    `step` (N,) the dominant share of one task.
    """
    rows, free = demand.tolist(), capacity.tolist()
    sizes = step.tolist()
    resources = range(len(free))
    tasks = [0] * len(rows)
    waiting = [(0.0, -size, n) for n, size in enumerate(sizes)]
    heapq.heapify(waiting)
    while waiting:
        _, size, n = waiting[0]
        row = rows[n]
        for r in resources:
            if row[r] > free[r]:
                heapq.heappop(waiting)
                break
        else:
            for r in resources:
                free[r] -= row[r]
            tasks[n] += 1
            heapq.heapreplace(waiting, (-tasks[n] * size, size, n))
    return tasks
