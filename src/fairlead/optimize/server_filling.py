"""Fill one server by level, and sweep over many until nothing moves.

On one server the level rises from below; each user takes tasks in proportion to its rate from the
level at which it starts (what it holds elsewhere counts) until a resource that it demands is used
up or it has all the tasks it wants. This is the server procedure of Khamse-Ashari et al. 2017,
III-C, run to its end; with all starts at zero it is DRF by progressive filling, for divisible
tasks.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.optimize.compiling import compiled

# Of two levels this close (relative) neither is higher.
SAME_LEVEL = 1e-15
SMALLEST_TOTAL = 1e-300


@compiled
def _find_level(
    start: FloatArray,
    rate: FloatArray,
    width: FloatArray,
    use: FloatArray,
    active: BoolArray,
    room: float,
    guess: float,
    ceiling: float,
) -> float:
    """Return the level at which active users take `room` of a resource, or infinity.

    Use is piecewise linear in it: Newton's method between brackets ends exactly. Infinity, at once,
    also for a level that is not below the ceiling.
    """
    low, high = -np.inf, np.inf
    level = min(guess, ceiling)
    for _ in range(400):
        taken = slope_up = slope_down = 0.0
        above, below = np.inf, -np.inf
        for k in range(start.size):
            if not active[k] or use[k] == 0.0:
                continue
            first, last = start[k], start[k] + width[k]
            slope = use[k] * rate[k]
            if level > first:
                taken += slope * (min(level, last) - first)
            if first <= level < last:
                slope_up += slope
            if first < level <= last:
                slope_down += slope
            if first > level:
                above = min(above, first)
            elif first < level:
                below = max(below, first)
            if last > level:
                above = min(above, last)
            elif last < level:
                below = max(below, last)
        if taken <= room and level >= ceiling:
            return np.inf
        if taken < room:
            low = level
            if slope_up > 0.0:
                target = level + (room - taken) / slope_up
                if target <= above:
                    return target
                level = target
            else:
                level = above
            if level >= high:
                level = max(0.5 * (low + high), min(above, high))
            if level == np.inf:
                return level
            level = min(level, ceiling)
        elif taken > room:
            high = level
            if slope_down > 0.0:
                target = level - (taken - room) / slope_down
                if target >= below:
                    return target
                level = target
            else:
                level = below
            if level <= low:
                level = min(0.5 * (low + high), max(below, low))
        else:
            return level
        if high < np.inf and high - low <= SAME_LEVEL * abs(high):
            return high
    return level


@compiled
def fill_server(
    start: FloatArray,
    rate: FloatArray,
    width: FloatArray,
    use: FloatArray,
    capacity: FloatArray,
    guess: FloatArray,
    tasks: FloatArray,
) -> None:
    """Fill one server of K users, in O(K R^2) times the few pieces that the search visits.

    `start`, `rate` (tasks per unit of level) and `width` (levels to the last task, or infinite) are
    (K,), `use` is (K, R) per task; sets `tasks` (K,) and `guess` (R,), levels where all is used up.
    """
    n_users, n_resources = use.shape
    active = np.ones(n_users, dtype=np.bool_)
    left = capacity.copy()
    open_ = np.ones(n_resources, dtype=np.bool_)
    level = np.full(n_resources, np.inf)
    for _ in range(n_resources):
        first, lowest = -1, np.inf
        # First what was used up before: mostly no other resource is used up below its level.
        for known in (True, False):
            for r in range(n_resources):
                if not open_[r] or np.isfinite(guess[r]) != known:
                    continue
                begin = guess[r] if known else 0.0 if lowest == np.inf else lowest
                found = _find_level(start, rate, width, use[:, r], active, left[r], begin, lowest)
                if found < lowest:
                    first, lowest = r, found
        if first < 0:
            break
        open_[first] = False
        level[first] = lowest
        for k in range(n_users):
            if active[k] and use[k, first] > 0.0:
                active[k] = False
                tasks[k] = rate[k] * min(max(lowest - start[k], 0.0), width[k])
                for r in range(n_resources):
                    left[r] -= tasks[k] * use[k, r]
        for r in range(n_resources):
            left[r] = max(left[r], 0.0)
    for k in range(n_users):
        if active[k]:
            tasks[k] = rate[k] * width[k]
    for r in range(n_resources):  # a slice would compile for a second longer
        guess[r] = level[r]


@compiled
def sweep_servers(
    first_entry: IntArray,
    user: IntArray,
    rate: FloatArray,
    use: FloatArray,
    limit: FloatArray,
    level: FloatArray,
    tasks: FloatArray,
    sweeps: int,
) -> float:
    """Run the server procedure over all servers in turn, several times; compiled.

    Parameters
    ----------
    first_entry : (G + 1,) int
        Where each server's entries begin in the arrays of length E.
    user : (E,) int
        User of each entry.
    rate : (E,) float
        phi gamma, tasks per unit of level.
    use : (E, R) float
        What one task takes of each resource, relative to the server's capacity.
    limit : (N,) float
        Tasks each user has in all.
    level : (G, R) float
        Levels from before; updated.
    tasks : (E,) float
        Tasks of each entry; updated.
    sweeps : int
        How many times to go round.

    Returns
    -------
    float
        The largest change of an entry in the last sweep, relative to its user's total. (Totals
        may stand still long before the splits over the servers do.)
    """
    n_groups = first_entry.size - 1
    total = np.zeros(limit.size)
    for e in range(user.size):
        total[user[e]] += tasks[e]
    capacity = np.ones(use.shape[1])
    change = np.inf
    for _ in range(sweeps):
        change = 0.0
        for g in range(n_groups):
            begin, end = first_entry[g], first_entry[g + 1]
            start = np.empty(end - begin)
            width = np.empty(end - begin)
            for e in range(begin, end):
                elsewhere = max(total[user[e]] - tasks[e], 0.0)
                start[e - begin] = elsewhere / rate[e]
                width[e - begin] = max(limit[user[e]] - elsewhere, 0.0) / rate[e]
                total[user[e]] = elsewhere
            here = tasks[begin:end]
            before = here.copy()
            fill_server(start, rate[begin:end], width, use[begin:end], capacity, level[g], here)
            for e in range(begin, end):
                total[user[e]] += tasks[e]
                moved = abs(tasks[e] - before[e - begin])
                change = max(change, moved / max(total[user[e]], SMALLEST_TOTAL))
        # Sums that were updated often have lost digits.
        total[:] = 0.0
        for e in range(user.size):
            total[user[e]] += tasks[e]
    return change
