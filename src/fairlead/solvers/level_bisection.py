"""Serve whole tasks by turns from one pool: bisection for a level, then a heap of turns.

User n takes its (t+1)-th task at the level t step[n]. So at level L it has taken ``floor(L /
step[n]) + 1`` tasks, and use is a staircase that rises with L. All tasks below a feasible level are
taken at once, and the few near the first task that does not fit turn by turn, from a heap that
compares levels exactly. docs/design/whole-tasks-on-one-pool.md proves that the result is that of
turns from the beginning.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.quanta import WholeArray, WholePool
from fairlead.solvers.turn_heap import UserInTurn, take_one_each, take_turns

# A generous bound of the relative error of level / step in floats.
ROUNDING = 4e-15
MOST_PROBES = 400


def serve_by_turns(pool: WholePool, *, stops: bool) -> WholeArray:
    """Serve each task to the user with the least weighted dominant share.

    Parameters
    ----------
    pool : WholePool
        No user in it can run more than 2**53 tasks.
    stops : bool
        Whether to stop at the first task that does not fit; otherwise only its user leaves.

    Returns
    -------
    (N,) int64 or object
        Tasks of each user.

    Notes
    -----
    O(N R) for each probe of a level, as a rule fewer than ten, and O(N log N) for the turns; as
    often as users leave at levels far apart, at most N times. The number of tasks does not matter.
    """
    room, taken = pool.capacity.copy(), np.zeros(len(pool.step), dtype=pool.demand.dtype)
    rate, whole = 1.0 / pool.step, np.where(pool.capacity > 0, pool.capacity, 1)
    users = np.flatnonzero(pool.limit >= 1)
    while users.size:
        if not stops:
            # Room never grows, so a user whose task does not fit now would leave at its turn.
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
            _jump(level, pool, rate, users, room, taken)
            users = users[taken[users] < pool.limit[users]]
        in_turn, left = in_turns(pool, users, taken), room.tolist()
        go_on = take_turns(in_turn, left, stops)
        taken[users], room[:] = [user.taken for user in in_turn], left
        users = np.array(sorted(user.number for user in go_on), dtype=np.int64)
    return taken


def in_turns(pool: WholePool, users: IntArray, taken: WholeArray) -> list[UserInTurn]:
    """Return some users of a pool as they take turns; `taken` is (N,)."""
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


def _jump(
    level: float,
    pool: WholePool,
    rate: FloatArray,
    users: IntArray,
    room: WholeArray,
    taken: WholeArray,
) -> None:
    """Take all tasks of these users that are certainly below a level."""
    reached = np.floor(level * (1.0 - ROUNDING) * rate[users]) + 1.0
    count = np.minimum(reached, pool.limit[users]).astype(np.int64).astype(taken.dtype)
    more = np.maximum(count - taken[users], 0)
    taken[users] += more
    room -= more @ pool.demand[users]


def top_up(pool: WholePool, taken: WholeArray) -> WholeArray:
    """Return tasks with one more for each user if it fits, from the least served upward.

    `taken` is (N,) int64 or object, and fits. Metin, Section 5. O(N (log N + R)).
    """
    users = np.flatnonzero(taken < pool.limit)
    in_turn = in_turns(pool, users, taken)
    take_one_each(in_turn, (pool.capacity - taken @ pool.demand).tolist())
    more = taken.copy()
    more[users] = [user.taken for user in in_turn]
    return more


@np.errstate(divide="ignore", over="ignore", invalid="ignore")
def find_level(
    taken: FloatArray,
    limit: FloatArray,
    rate: FloatArray,
    share: FloatArray,
    room: FloatArray,
) -> float:
    """Return a level up to which all tasks certainly fit, few tasks below the last such level.

    `taken` and `limit` (N,) are whole tasks taken already, and at most; `rate` (N,) is tasks per
    unit of level; `share` (N, R) is use by one task and `room` (R,) the free amount, as parts of
    the pool. Minus infinity where no level is known to be feasible.

    Counts are rounded up and room is rounded down, so floats suffice. Exact
    arithmetic does the rest. Newton's method between brackets; O(N R) a probe. Ends when serving
    the undecided tasks is cheaper than a probe, or when floats cannot divide the interval.
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
