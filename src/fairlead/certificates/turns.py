"""Whether whole tasks were served by turns, from the final counts, in exact arithmetic.

A user's t-th task has its turn at the level of t - 1 tasks, whatever the others do. So the final
counts say what had been served when any turn came: of every user, those of its tasks whose turns
are earlier. Serving by turns gives these counts, and no others, if and only if

- they are possible: whole numbers within the limits that fit into the pool, and
- for each user with tasks left, the next task did not fit *when its turn came* (with everything
  served that has an earlier turn): the user was right to leave.

Proof, by induction over the turns in order: let the counts agree with serving by turns so far. If
the next turn belongs to a task within the counts, it fits, because all that is served earlier and
it itself are among what fits in the end; so serving by turns serves it. If it belongs to a task
beyond the counts, it does not fit by the second condition; so its user leaves, as the counts say.
Without leaving, where the first misfit ends it all (Algorithm 1), the condition is that the first
turn among all tasks beyond the counts does not fit and no task within them has a later turn.
"""

from __future__ import annotations

import numpy as np

from fairlead.certificates.debt import measure_debt
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.model.quanta import WholeArray, WholePool, to_whole_pool
from fairlead.solvers.whole_tasks import in_turns

SERVED_BY_TURNS = (
    "whole tasks that fit, and every user with tasks left stopped at one that did not fit when "
    "its turn came (DRF by turns; who does not fit leaves)"
)
STOPPED_AT_THE_FIRST_MISFIT = (
    "whole tasks that fit, all of them earlier in turn than the first one left, which does not "
    "fit (DRF, Algorithm 1)"
)


def certify_turns(problem: Problem, tasks: FloatArray, *, stops: bool) -> Certificate:
    """Certify that whole tasks were served by turns: always to the least dominant share.

    Parameters
    ----------
    problem : Problem
        Pooled already or not.
    tasks : (N, 1) float
        Tasks of each user in the pool.
    stops : bool
        Whether the first user that did not fit ended it all (DRF's Algorithm 1); otherwise it left
        and the others went on.

    Returns
    -------
    Certificate
        Its violation is 0 or the largest of: the part of a number of tasks that is not whole,
        negative or beyond a limit; the overuse of a resource; the part of its tasks that a user
        was denied though they fit, or was given out of turn.

    Notes
    -----
    O(N (log N + R)), and O(N R) more for each user that left at a moment of its own.
    """
    pool = to_whole_pool(problem)
    counts = tasks[:, 0]
    misplaced = measure_impossible_tasks(pool, tasks)
    overuse = 0.0
    debt = 0.0
    if misplaced == 0.0:
        whole = counts.astype(np.int64).astype(pool.demand.dtype)
        left, overuse = measure_room(pool, whole)
        if overuse == 0.0:
            users = in_turns(pool, np.arange(len(whole)), whole)
            debt = measure_debt(users, left.tolist(), pool.capacity.tolist(), stops)
    return Certificate(
        condition=STOPPED_AT_THE_FIRST_MISFIT if stops else SERVED_BY_TURNS,
        violation=max(misplaced, overuse, debt),
        tolerance=0.0,
        detail={"impossible": misplaced, "overuse": overuse, "debt": debt},
    )


def measure_impossible_tasks(pool: WholePool, tasks: FloatArray) -> float:
    """Return the largest part of a number of tasks that is not whole, negative or too much.

    Numbers far beyond what fits are infinitely wrong: exact arithmetic would not stand them.
    """
    counts = tasks[:, 0]
    if not np.isfinite(counts).all() or (counts @ pool.share > 1.0 + 1e-6).any():
        return np.inf
    wrong = np.abs(counts - np.rint(counts))
    wrong = np.maximum(wrong, np.maximum(counts - pool.limit, -counts))
    return max(0.0, float((wrong / np.maximum(np.abs(counts), 1.0)).max()))  # no -0.0


def measure_room(pool: WholePool, whole: WholeArray) -> tuple[WholeArray, float]:
    """Return what is left in quanta, and the largest relative overuse of a resource."""
    left = pool.capacity - whole @ pool.demand
    over = np.flatnonzero(left < 0)
    return left, max((float(-left[r] / pool.capacity[r]) for r in over), default=0.0)
