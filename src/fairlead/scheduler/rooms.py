"""How many tasks of a shape all free amounts would take, kept up from a log of changes.

A server takes min over r of F[r] / d[r]. Sums over servers are kept apart by the resource that is
least there, in whole quanta: nothing is rounded, however often amounts are taken and given back. A
shape catches up with the log when its sum is asked for, or is counted anew where that is less.

The first shapes have bounds beside it, in plain floats, which every change brings up to date: in
one loop that the compiler makes vectors of that takes less than the log of one shape. Only who is
nearly equal needs the sums.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.optimize.double_double import add, compare, divide, of_whole
from fairlead.scheduler.records import Core

# Ratios in plain floats that differ by more than this, relative, differ in truth.
ROUGH = 1e-14
# How many shapes have bounds.
MOST_BOUNDED = 4096
# Sums that are right to this, relative, do for most comparisons.
CLOSE = 1e-9
# Stands for nothing: infinity times this, and anything over this, are not undefined.
HARDLY_ANY = 1e-280
# What the roundings of one change come to at most, of a sum before it and after.
ROUNDED = 2.0**-50


@by_address
class Rooms(NamedTuple):
    """Sums for K shapes, and the last L changes of what servers have free.

    Attributes
    ----------
    least : (K, R) int
        Quanta free on the servers where the resource is the least.
    seen : (K,) int
        How many changes each shape has taken in, or -1 where it was never counted.
    changes, rises : (1,) int
        Changes so far, and whether one gave something back since scores were last found.
    rough : (K,) float
        The sums in plain floats, as of what each shape has taken in.
    log : (2 L, R) int
        Free amounts before and after each change; the n-th is in rows 2 (n modulo L) and after it.
    inverse : (R, B) float
        One over what a task takes, infinite for what it does not; for the first shapes, once
        counted, and 0 before.
    about, doubt : (B,) float
        The sums of those shapes as of now, and how far off they may be.
    before, after : (B,) float
        Workspace.
    task_shape : (Q,) int
        What each queue's first task was when its key was found.
    share : (Q,) float
        The most that it held of what that takes, over it, by weight.
    """

    least: IntArray
    seen: IntArray
    changes: IntArray
    rises: IntArray
    rough: FloatArray
    log: IntArray
    inverse: FloatArray
    about: FloatArray
    doubt: FloatArray
    before: FloatArray
    after: FloatArray
    task_shape: IntArray
    share: FloatArray


def no_rooms(core: Core) -> Rooms:
    """Return that no shape is counted."""
    shapes, resources = core.demand.shape
    bounded = min(shapes, MOST_BOUNDED)
    return Rooms(
        least=np.zeros((shapes, resources), dtype=np.int64),
        seen=np.full(shapes, -1),
        changes=np.zeros(1, dtype=np.int64),
        rises=np.ones(1, dtype=np.int64),
        rough=np.full(shapes, np.inf),
        log=np.zeros((2 * max(len(core.servers) // 2, 1), resources), dtype=np.int64),
        inverse=np.zeros((resources, bounded)),
        about=np.zeros(bounded),
        doubt=np.zeros(bounded),
        before=np.zeros(bounded),
        after=np.zeros(bounded),
        task_shape=np.zeros(len(core.queues), dtype=np.int64),
        share=np.zeros(len(core.queues)),
    )


@inner_kernel
def log_before(core: Core, rooms: Rooms, s: int, is_there: bool) -> None:
    """Begin a change of what a server has free; without it, nothing."""
    row = 2 * rooms.changes[0] % rooms.log.shape[0]
    for r in range(core.free.shape[1]):
        rooms.log[row, r] = max(core.free[s, r], 0) if is_there else 0


@inner_kernel
def log_after(core: Core, rooms: Rooms, s: int, is_there: bool, rises: bool) -> None:
    """End it."""
    row = 2 * rooms.changes[0] % rooms.log.shape[0] + 1
    for r in range(core.free.shape[1]):
        rooms.log[row, r] = max(core.free[s, r], 0) if is_there else 0
    if rises:
        rooms.rises[0] = 1
    rooms.changes[0] += 1
    _keep_bounds(rooms, min(rooms.about.size, core.numbers[0].shapes), row)


@separate_kernel
def _keep_bounds(rooms: Rooms, shapes: int, row: int) -> None:
    """Bring the bounds of the first shapes up to date with a change: loops without a branch."""
    resources = rooms.log.shape[1]
    second = min(1, resources - 1)
    had, has = _at_least_some(rooms.log[row - 1, 0]), _at_least_some(rooms.log[row, 0])
    had_other = _at_least_some(rooms.log[row - 1, second])
    has_other = _at_least_some(rooms.log[row, second])
    for k in range(shapes):  # what was written a moment ago is slow to read: two in one loop
        a, b = had * rooms.inverse[0, k], had_other * rooms.inverse[second, k]
        rooms.before[k] = a if a < b else b
        a, b = has * rooms.inverse[0, k], has_other * rooms.inverse[second, k]
        rooms.after[k] = a if a < b else b
    for r in range(2, resources):
        had, has = _at_least_some(rooms.log[row - 1, r]), _at_least_some(rooms.log[row, r])
        for k in range(shapes):
            a, b = had * rooms.inverse[r, k], rooms.before[k]
            rooms.before[k] = a if a < b else b
            a, b = has * rooms.inverse[r, k], rooms.after[k]
            rooms.after[k] = a if a < b else b
    for k in range(shapes):
        was, after = rooms.about[k], rooms.after[k]
        rooms.about[k] = was + (after - rooms.before[k])
        # What stands for nothing is no more than that; which resource it is of may change.
        rooms.doubt[k] += ROUNDED * (was + after) + HARDLY_ANY


@inner_kernel
def _at_least_some(amount: int) -> float:
    return max(float(amount), HARDLY_ANY)


@inner_kernel
def _least_of(core: Core, k: int, amounts: IntArray, row: int) -> int:
    """Return the resource whose amounts take the fewest tasks, the first of equals."""
    least, close = core.shapes[k].lead, False
    has, takes = float(amounts[row, least]), float(core.demand[k, least])
    for r in range(least + 1, core.demand.shape[1]):
        if core.demand[k, r] > 0:  # one ratio is less than the other: multiplied out
            its, own = float(amounts[row, r]) * takes, has * float(core.demand[k, r])
            if its < own * (1.0 - ROUGH):
                least, close = r, False
                has, takes = float(amounts[row, r]), float(core.demand[k, r])
            elif its <= own * (1.0 + ROUGH):
                close = True
    if close:
        least = _exactly_least_of(core, k, amounts, row)
    return int(least)


@separate_kernel
def _exactly_least_of(core: Core, k: int, amounts: IntArray, row: int) -> int:
    least, most, most_low = core.shapes[k].lead, np.inf, 0.0
    for r in range(core.demand.shape[1]):
        if core.demand[k, r] > 0:
            high, low = of_whole(amounts[row, r])
            over, over_low = of_whole(core.demand[k, r])
            high, low = divide(high, low, over, over_low)
            if compare(high, low, most, most_low) < 0:
                least, most, most_low = r, high, low
    return int(least)


@separate_kernel
def _catch_up(core: Core, rooms: Rooms, k: int) -> None:
    """Bring the sums of a shape up to date."""
    changes, length = rooms.changes[0], rooms.log.shape[0] // 2
    if rooms.seen[k] < 0 or changes - rooms.seen[k] > length:
        for r in range(core.demand.shape[1]):
            rooms.least[k, r] = 0
        for position in range(core.numbers[0].servers):
            s = core.sequence[position]
            r = _least_of(core, k, core.free, s)
            rooms.least[k, r] += max(core.free[s, r], 0)
    else:
        row = 2 * (rooms.seen[k] % length)
        for _ in range(rooms.seen[k], changes):
            r = _least_of(core, k, rooms.log, row)
            rooms.least[k, r] -= rooms.log[row, r]
            r = _least_of(core, k, rooms.log, row + 1)
            rooms.least[k, r] += rooms.log[row + 1, r]
            row = row + 2 if row + 2 < 2 * length else 0
    rooms.seen[k], rooms.rough[k] = changes, 0.0
    for r in range(core.demand.shape[1]):
        if rooms.least[k, r] > 0:
            rooms.rough[k] += float(rooms.least[k, r]) / float(core.demand[k, r])
    if k < rooms.about.size:
        rooms.about[k], rooms.doubt[k] = rooms.rough[k], rooms.rough[k] * ROUNDED
        for r in range(core.demand.shape[1]):
            wanted = core.demand[k, r]
            rooms.inverse[r, k] = 1.0 / float(wanted) if wanted > 0 else np.inf


@separate_kernel
def would_fit_anywhere(core: Core, rooms: Rooms, k: int) -> tuple[float, float]:
    """Return how many tasks of a shape, whole or not, all free amounts would take, as a pair."""
    _catch_up(core, rooms, k)
    total, total_low = 0.0, 0.0
    for r in range(core.demand.shape[1]):
        if rooms.least[k, r] > 0:
            high, low = of_whole(rooms.least[k, r])
            over, over_low = of_whole(core.demand[k, r])
            high, low = divide(high, low, over, over_low)
            total, total_low = add(total, total_low, high, low)
    return total, total_low


@inner_kernel
def about_room(core: Core, rooms: Rooms, k: int) -> tuple[float, float]:
    """Return it in plain floats, if there is any, and how far off that may be."""
    if k < rooms.about.size and rooms.seen[k] >= 0:
        return max(float(rooms.about[k]), HARDLY_ANY), float(rooms.doubt[k])
    room = rough_room(core, rooms, k)
    return max(room, HARDLY_ANY), room * ROUGH


@inner_kernel
def rough_room(core: Core, rooms: Rooms, k: int) -> float:
    """Return it in plain floats."""
    if rooms.seen[k] != rooms.changes[0]:
        _catch_up(core, rooms, k)
    return float(rooms.rough[k])


@inner_kernel
def close_room(core: Core, rooms: Rooms, k: int) -> float:
    """Return it by `CLOSE`."""
    room, doubt = about_room(core, rooms, k)
    return room if doubt <= CLOSE * room else max(rough_room(core, rooms, k), HARDLY_ANY)
