"""Placing by scores with a task at hand: by looking at every queue for each task."""

from __future__ import annotations

from typing import Any

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import entry_kernel, inner_kernel, separate_kernel
from fairlead.optimize.double_double import compare, divide
from fairlead.scheduler.best_fitting import best_fit
from fairlead.scheduler.cycle import start
from fairlead.scheduler.queues import JOINT, JOINT_RESIDUAL, TSF_RESIDUAL
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.servers import end_round, first_fit, may_take, wake_for_fresh
from fairlead.scheduler.shares_at_hand import share_of, would_fit_anywhere
from fairlead.scheduler.waiting import block, park


@entry_kernel
def place_by_scan(core: Core, index: Any, pool: IntArray, limit: int, out: IntArray) -> int:
    """Place tasks until nothing more fits or the limit is reached; return how many."""
    n = 0
    wake_for_fresh(core)
    while n < limit:
        for r in range(pool.shape[1]):
            pool[0, r] = 0
            for position in range(core.numbers[0].servers):
                pool[0, r] += max(core.free[core.sequence[position], r], 0)
        chosen, server, position = NONE, NONE, 0
        least, least_low = 0.0, 0.0
        while position < core.numbers[0].turn:
            q = core.turn[position]
            s, high, low = _look(core, index, pool, q)
            if s == NONE:  # it takes no turn any more, and others have moved
                chosen, position = NONE, 0
                continue
            order = -1 if chosen == NONE else compare(high, low, least, least_low)
            if order < 0 or (order == 0 and core.queues[q].serial < core.queues[chosen].serial):
                chosen, server, least, least_low = q, s, high, low
            position += 1
        if chosen == NONE:
            end_round(core)
            break
        out[n] = start(core, index, core.lines[core.queues[chosen].first].first, server)
        n += 1
    return n


@separate_kernel
def _look(core: Core, index: Any, pool: IntArray, q: int) -> tuple[int, float, float]:
    """Return where a queue's first task that fits would go, and the score; NONE without any."""
    criterion, queue = core.numbers[0].criterion, core.queues[q]
    while queue.place != NONE:
        k = core.lines[queue.first].task_shape
        if core.shapes[k].blocked:
            park(core, queue.first)
            continue
        if criterion in (JOINT, JOINT_RESIDUAL):
            s, high, low = _least_share(core, q, k, criterion == JOINT_RESIDUAL)
        elif index is None:
            s, high, low = first_fit(core, k), 0.0, 0.0
        else:
            s, high, low = best_fit(core, index, k), 0.0, 0.0
        if s == NONE:
            block(core, k)
            continue
        if criterion == TSF_RESIDUAL:
            high, low = share_of(core, core.demand, k, q, k)
            total, total_low = would_fit_anywhere(core, k)
            high, low = divide(high, low, total, total_low)
        elif criterion not in (JOINT, JOINT_RESIDUAL):
            high, low = share_of(core, pool, 0, q, k)
        return s, high, low
    return NONE, 0.0, 0.0


@inner_kernel
def _least_share(core: Core, q: int, k: int, residual: bool) -> tuple[int, float, float]:
    best, least, least_low = NONE, 0.0, 0.0
    for position in range(core.numbers[0].servers):
        s = core.sequence[position]
        if not may_take(core, k, s):
            continue
        if residual:
            high, low = share_of(core, core.free, s, q, k)
        else:
            high, low = share_of(core, core.capacity, s, q, k)
        if best == NONE or compare(high, low, least, least_low) < 0:
            best, least, least_low = s, high, low
    return best, least, least_low
