"""Serve whole tasks by turns from one pool: bisection for a level, then a heap of turns.

User n takes its (t+1)-th task at the level t step[n], where step[n] is the dominant share of one
task over the user's weight. So at level L it has taken ``floor(L / step[n]) + 1`` tasks, and use is
a staircase that rises with L. All tasks below a feasible level are taken at once; the few tasks
near the first one that does not fit are taken turn by turn, from a heap that compares levels
exactly. docs/design/whole-tasks-on-one-pool.md proves that turns from level 0 have the same result.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.quanta import WholeArray, WholePool
from fairlead.solvers.turn_heap import UserInTurn, take_one_each, take_turns

ROUNDING = 4e-15  # an upper bound of the relative error of level / step in floats
MAX_PROBES = 400  # of a level; about ten are usual


def serve_by_turns(pool: WholePool, *, stops: bool) -> WholeArray:
    """Serve each task to the user with the lowest dominant share over weight.

    Parameters
    ----------
    pool : WholePool
        No user in it can run more than 2**53 tasks.
    stops : bool
        Whether to stop at the first task that does not fit; if not, only the user of that task
        leaves.

    Returns
    -------
    (N,) int64 or object
        Tasks of each user.

    Notes
    -----
    O(N R) for each probe of a level, usually fewer than ten, and O(N log N) for the turns. Probes
    and turns are repeated, at most N times, if users leave at levels far apart. The cost does not
    depend on the number of tasks.
    """
    room, taken = pool.capacity.copy(), np.zeros(len(pool.step), dtype=pool.demand.dtype)
    rate = 1.0 / pool.step  # tasks per unit of level
    whole = np.where(pool.capacity > 0, pool.capacity, 1)
    users = np.flatnonzero(pool.limit >= 1)
    while users.size:
        if not stops:
            # Free amounts never grow, so a user whose task does not fit now will leave anyway.
            users = users[(pool.demand[users] <= room).all(axis=1)]
            if not users.size:
                break
        level = find_level(
            taken[users].astype(np.float64),
            pool.limit[users],
            rate[users],
            pool.share[users],
            (room / whole).astype(np.float64),
        )
        if level >= 0.0:
            _take_below(level, pool, rate, users, room, taken)
            users = users[taken[users] < pool.limit[users]]
        in_turn, left = users_in_turn(pool, users, taken), room.tolist()
        remaining = take_turns(in_turn, left, stops)
        taken[users], room[:] = [user.taken for user in in_turn], left
        users = np.array(sorted(user.number for user in remaining), dtype=np.int64)
    return taken


def users_in_turn(pool: WholePool, users: IntArray, taken: WholeArray) -> list[UserInTurn]:
    """Return some users of a pool as `UserInTurn`; `taken` (N,) are the tasks of all users."""
    columns = (
        users,
        taken[users],
        pool.limit[users],
        pool.demand[users],
        pool.numerator[users],
        pool.denominator[users],
        pool.step[users],
    )
    return [UserInTurn(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]


def _take_below(
    level: float,
    pool: WholePool,
    rate: FloatArray,
    users: IntArray,
    room: WholeArray,
    taken: WholeArray,
) -> None:
    """Take all tasks of these users that are certainly below a level; update `room` and `taken`."""
    reached = np.floor(level * (1.0 - ROUNDING) * rate[users]) + 1.0
    count = np.minimum(reached, pool.limit[users]).astype(np.int64).astype(taken.dtype)
    more = np.maximum(count - taken[users], 0)
    taken[users] += more
    room -= more @ pool.demand[users]


def top_up(pool: WholePool, taken: WholeArray) -> WholeArray:
    """Add one task for each user if it fits, lowest level first; return all tasks (N,).

    The tasks `taken` (N,), int64 or object, fit into the pool. Metin, Section 5. O(N (log N + R)).
    """
    users = np.flatnonzero(taken < pool.limit)
    in_turn = users_in_turn(pool, users, taken)
    take_one_each(in_turn, (pool.capacity - taken @ pool.demand).tolist())
    topped_up = taken.copy()
    topped_up[users] = [user.taken for user in in_turn]
    return topped_up


@np.errstate(divide="ignore", over="ignore", invalid="ignore")
def find_level(
    taken: FloatArray,
    limit: FloatArray,
    rate: FloatArray,
    share: FloatArray,
    room: FloatArray,
) -> float:
    """Return a level up to which all tasks certainly fit, close to the highest such level.

    Minus infinity if no level is known to be feasible. The arguments:

    - `taken` (N,): tasks that users have taken already,
    - `limit` (N,): all tasks of each user,
    - `rate` (N,): tasks per unit of level,
    - `share` (N, R): use by one task, as a fraction of the pool,
    - `room` (R,): free fraction of the pool.

    Counts are rounded up and room is rounded down, so floats suffice here; tasks above the level
    are served in exact arithmetic. Newton's method between brackets; O(N R) a probe. It ends when
    serving the undecided tasks is cheaper than a probe, or when floats cannot divide the interval.
    """
    n_users = len(taken)
    alone = np.where(share > 0.0, room / share, np.inf).min(axis=1)
    high = float((np.minimum(limit, taken + alone + 2.0) / rate).max(initial=0.0))
    # The first guess ignores limits.
    use, slope = (taken - 0.5) @ share, rate @ share
    growing = slope > 0.0
    guess = np.maximum(0.0, (room + use)[growing] / slope[growing])
    level = float(guess.min(initial=high))
    safe = 1.0 - (n_users + 16) * 2.0**-51
    in_doubt = 16.0 + 0.125 * n_users
    spread = in_doubt / (8.0 * float(rate.sum()))
    tasks_low, tasks_high, low = 0.0, np.inf, -np.inf
    for _ in range(MAX_PROBES):
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
