"""Find a level up to which all whole tasks surely fit a pool, and next to nothing above it does.

User n takes its (t+1)-th task at the level t step[n], so at level L it has taken
``floor(L / step[n]) + 1`` tasks and use is a staircase that rises with L. Floats suffice here:
counts are rounded up and room is rounded down, so a level that passes is feasible in truth; what
is between it and the last feasible level is left to exact arithmetic.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray

# Relative error of level / step in floats, with some to spare.
ROUNDING = 4e-15
MOST_PROBES = 400


@np.errstate(divide="ignore", over="ignore", invalid="ignore")
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
    n_users = len(taken)
    alone = np.where(share > 0.0, room / share, np.inf).min(axis=1)
    high = float((np.minimum(limit, taken + alone + 2.0) / rate).max(initial=0.0))
    # The first guess: as if nobody had a limit.
    use, slope = (taken - 0.5) @ share, rate @ share
    growing = slope > 0.0
    guess = np.maximum(0.0, (room + use)[growing] / slope[growing])
    level = float(guess.min(initial=high))
    safe = 1.0 - (n_users + 16) * 2.0**-51
    in_doubt = 16.0 + 0.125 * n_users
    spread = in_doubt / (8.0 * float(rate.sum()))
    tasks_low, tasks_high, low = 0.0, np.inf, -np.inf
    for _ in range(MOST_PROBES):
        count = np.floor(level * (1.0 + ROUNDING) * rate) + 1.0
        growing = count < limit
        count = np.maximum(np.minimum(count, limit) - taken, 0.0)
        tasks, use = float(count.sum()), count @ share
        slope = np.where(growing & (count > 0.0), rate, 0.0) @ share
        feasible = bool((use <= safe * room).all())
        rises = slope > 0.0
        rise = float(((room - use)[rises] / slope[rises]).min(initial=np.inf))
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
