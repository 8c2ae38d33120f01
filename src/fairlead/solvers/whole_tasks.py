"""Serve whole tasks by turns from one pool, without a loop over them.

All tasks below a feasible level are taken in one jump (`find_level`); the few about the first one
that does not fit are taken turn by turn, from a heap that compares levels exactly. Why the result
is that of turns from the beginning: docs/design/whole-tasks-on-one-pool.md.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.quanta import WholeArray, WholePool
from fairlead.solvers.level_search import ROUNDING, find_level
from fairlead.solvers.turns import UserInTurn, take_one_each, take_turns


def serve_by_turns(pool: WholePool, *, stops: bool) -> WholeArray:
    """Give the next task always to the user with the least weighted dominant share.

    Parameters
    ----------
    pool : WholePool
        Nobody in it can run more than 2**53 tasks.
    stops : bool
        Whether the first user that does not fit ends it all. Otherwise it leaves, and the others
        go on.

    Returns
    -------
    (N,) int64 or object
        Tasks of each user.

    Notes
    -----
    O(N R) for each time that floats probe a level, as a rule fewer than ten times, and O(N log N)
    for the turns; that as often as users leave at levels far apart, N times at worst. The number
    of tasks does not matter.
    """
    room, taken = pool.capacity.copy(), np.zeros(len(pool.step), dtype=pool.demand.dtype)
    rate, whole = 1.0 / pool.step, np.where(pool.capacity > 0, pool.capacity, 1)
    users = np.flatnonzero(pool.limit >= 1)
    while users.size:
        if not stops:
            # Room only shrinks: who does not fit now would leave when its turn comes.
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
    """Take all tasks of these users that are surely below a level."""
    reached = np.floor(level * (1.0 - ROUNDING) * rate[users]) + 1.0
    count = np.minimum(reached, pool.limit[users]).astype(np.int64).astype(taken.dtype)
    more = np.maximum(count - taken[users], 0)
    taken[users] += more
    room -= more @ pool.demand[users]


def top_up(pool: WholePool, taken: WholeArray) -> WholeArray:
    """Return tasks with one more for each user that it fits, from the least served upward.

    `taken` is (N,) int64 or object, and fits. Metin, Section 5. O(N (log N + R)).
    """
    users = np.flatnonzero(taken < pool.limit)
    in_turn = in_turns(pool, users, taken)
    take_one_each(in_turn, (pool.capacity - taken @ pool.demand).tolist())
    more = taken.copy()
    more[users] = [user.taken for user in in_turn]
    return more
