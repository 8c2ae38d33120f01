"""Find a level up to which all whole tasks surely fit a pool, and next to nothing above it does.

User n takes its (t+1)-th task at the level t step[n], so at level L it has taken
``floor(L / step[n]) + 1`` tasks and use is a staircase that rises with L. Floats suffice here:
counts are rounded up and room is rounded down, so a level that passes is feasible in truth; what
is between it and the last feasible level is left to exact arithmetic.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.optimize.compiling import compiled

# Relative error of level / step in floats, with some to spare.
ROUNDING = 4e-15
MOST_PROBES = 400


@compiled
def _measure_use(
    level: float,
    taken: FloatArray,
    limit: FloatArray,
    rate: FloatArray,
    share: FloatArray,
    use: FloatArray,
    slope: FloatArray,
) -> float:
    """Write what users take on the way to a level, and how fast; return their tasks."""
    for r in range(use.size):
        use[r] = slope[r] = 0.0
    tasks = 0.0
    reach = level * (1.0 + ROUNDING)
    for n in range(taken.size):
        count = np.floor(reach * rate[n]) + 1.0
        growing = count < limit[n]
        if not growing:
            count = limit[n]
        count -= taken[n]
        if count <= 0.0:
            continue
        tasks += count
        for r in range(use.size):
            amount = count * share[n, r]
            use[r] += amount
            if growing:
                slope[r] += rate[n] * share[n, r]
    return tasks


@compiled
def find_level(
    taken: FloatArray,
    limit: FloatArray,
    rate: FloatArray,
    share: FloatArray,
    room: FloatArray,
) -> float:
    """Return a level up to which all users' tasks fit, few short of the last one.

    Parameters
    ----------
    taken, limit : (N,) float, N >= 1
        Whole tasks taken already, and at most.
    rate : (N,) float
        Tasks per unit of level.
    share : (N, R) float
        What one task takes of each resource, as a part of the pool.
    room : (R,) float
        What is left, as parts of the pool.

    Returns
    -------
    float
        Minus infinity where no level is known to be feasible.

    Notes
    -----
    Newton's method between brackets; O(N R) a probe, and as a rule fewer than ten of them. Ends
    when fewer tasks are in doubt than a probe costs, or at a step that floats cannot divide.
    """
    n_users, n_resources = share.shape
    use, slope = np.zeros(n_resources), np.zeros(n_resources)
    low, high, pace = -np.inf, 0.0, 0.0
    for n in range(n_users):
        alone = np.inf
        for r in range(n_resources):
            if share[n, r] > 0.0:
                alone = min(alone, room[r] / share[n, r])
                use[r] += share[n, r] * (taken[n] - 0.5)
                slope[r] += share[n, r] * rate[n]
        high = max(high, min(limit[n], taken[n] + alone + 2.0) / rate[n])
        pace += rate[n]
    # The first guess: as if nobody had a limit.
    level = high
    for r in range(n_resources):
        if slope[r] > 0.0:
            level = min(level, max(0.0, (room[r] + use[r]) / slope[r]))
    safe = 1.0 - (n_users + 16) * 2.0**-51
    in_doubt = 16.0 + 0.125 * n_users
    spread = in_doubt / (8.0 * pace)
    tasks_low, tasks_high = 0.0, np.inf
    for _ in range(MOST_PROBES):
        tasks = _measure_use(level, taken, limit, rate, share, use, slope)
        feasible = True
        rise = np.inf
        for r in range(n_resources):
            feasible = feasible and use[r] <= safe * room[r]
            if slope[r] > 0.0:
                rise = min(rise, (room[r] - use[r]) / slope[r])
        if feasible:
            low, tasks_low = level, tasks
            if level >= high:
                return low
            level += rise + spread
        else:
            high, tasks_high = level, tasks
            level += min(rise, 0.0) - spread
        spread *= 2.0
        if tasks_high - tasks_low <= in_doubt or high - low <= ROUNDING * high:
            break
        if low == -np.inf:
            if high == 0.0:
                break
            if not 0.0 < level < high:
                level = 0.5 * high if high > 1e-280 else 0.0
        elif not low < level < high:
            level = 0.5 * (low + high)
    return low
