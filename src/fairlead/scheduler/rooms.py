"""How many tasks of a shape all free amounts would take, kept up from a log of changes.

A server takes min over r of F[r] / d[r]. Sums over servers are kept apart by the resource that is
least there, in whole quanta: nothing is rounded, however often amounts are taken and given back. A
shape catches up with the log when its sum is asked for, or is counted anew where that is less.
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
    rose : (1,) int
        How many changes there had been after the last one that gave something back.
    rough : (K,) float
        The sums in plain floats, as of what each shape has taken in.
    log : (2 L, R) int
        Free amounts before and after each change; the n-th is in rows 2 (n modulo L) and after it.
    """

    least: IntArray
    seen: IntArray
    changes: IntArray
    rises: IntArray
    rose: IntArray
    rough: FloatArray
    log: IntArray


def no_rooms(core: Core) -> Rooms:
    """Return that no shape is counted."""
    shapes, resources = core.demand.shape
    return Rooms(
        least=np.zeros((shapes, resources), dtype=np.int64),
        seen=np.full(shapes, -1),
        changes=np.zeros(1, dtype=np.int64),
        rises=np.ones(1, dtype=np.int64),
        rose=np.zeros(1, dtype=np.int64),
        rough=np.full(shapes, np.inf),
        log=np.zeros((2 * max(len(core.servers) // 2, 1), resources), dtype=np.int64),
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
        rooms.rises[0], rooms.rose[0] = 1, rooms.changes[0] + 1
    rooms.changes[0] += 1


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
def most_room(rooms: Rooms, k: int) -> float:
    """Bound it from above: what was counted last, unless something was given back since."""
    return rooms.rough[k] if rooms.seen[k] >= rooms.rose[0] else np.inf


@inner_kernel
def rough_room(core: Core, rooms: Rooms, k: int) -> float:
    """Return it in plain floats."""
    if rooms.seen[k] != rooms.changes[0]:
        _catch_up(core, rooms, k)
    return float(rooms.rough[k])
