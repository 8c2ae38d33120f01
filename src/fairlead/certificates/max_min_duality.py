"""The proof of a lexicographic max-min division, by linear programming duality.

Let z[n] = sum_g score[n,g] x[n,g] be the users' scores, U[n] = z[n] / phi[n] their levels, d the
demands and c the capacities. Prices p >= 0 of each resource of each group bound the possible gain
of a user n without a loss of any user m with U[m] <= U[n]. A unit of a user's score costs at least
q[n] = min_g d[n].p[g] / score[n,g] over the groups where it may run. So these users m spend at
least sum_m z[m] q[m] of the total sum_g,r c[g,r] p[g,r]. With the remainder, user n can gain at
most the fraction ``remainder / (z[n] q[n])`` of its score. The violation is the largest such
fraction over all users below their task limits, with the best of the given prices for each.
"""

from __future__ import annotations

import numpy as np

from fairlead.certificates.overuse import certify_with_feasibility
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem

# Levels and limits closer than this (relative) count as equal.
EQUAL = 1e-9
# A resource is used up where less than this fraction is left.
USED_UP = 1e-9
# The remainder counts as at least this fraction of the total: sums are not more exact, and prices
# that are rounding errors must not prove anything.
ROUNDING = 1e-15


def _gain_by_levels(
    problem: Problem, tasks: FloatArray, score: FloatArray, prices: FloatArray
) -> FloatArray:
    """Bound the fraction (N,) of its score that each user could gain at the cost of higher levels.

    Users at or below its level may not lose. The bound is 0 for users at their task limit, and
    infinite if no prices prove anything. `prices` (K, G, R) are K sets of prices.
    """
    per_task = score[:, None] if score.ndim == 1 else score
    held = (tasks * per_task).sum(axis=1)
    level = held / problem.weight
    order = np.argsort(level, kind="stable")
    last = np.searchsorted(level[order], level * (1 + EQUAL), side="right") - 1
    gain = np.full(problem.n_users, np.inf)
    for given in prices:
        spent, worth = _spending(problem, held, per_task, given)
        kept = np.cumsum(spent[order])[last]  # by the users at or below each user
        np.minimum(gain, _bound(spent, worth, kept), out=gain)
    gain[tasks.sum(axis=1) >= problem.task_limit * (1 - EQUAL)] = 0.0
    return gain


def possible_gain(problem: Problem, total: FloatArray, prices: FloatArray) -> FloatArray:
    """Bound the fraction (N,) that each user could gain without a loss of any user.

    `total` (N,) are the users' tasks, `prices` (G, R) the prices of all resources. O(N G R).
    """
    spent, worth = _spending(problem, total, np.ones((1, 1)), prices)
    return _bound(spent, worth, spent.sum())


def _spending(
    problem: Problem, held: FloatArray, per_task: FloatArray, prices: FloatArray
) -> tuple[FloatArray, float]:
    """Return the least spending of each user (N,), and the worth of all resources.

    `held` (N,) are scores, `per_task` the scores of a task on each group. A negative price proves
    nothing, and would reward use. The unit is the dearest resource's worth, so that no sum
    overflows.
    """
    valid = np.isfinite(prices) & (prices > 0) & (problem.group_capacity > 0)
    price = np.where(valid, prices, 0.0)
    if price.any():
        price = price / price.max()
        price = price / (price * problem.group_capacity).max()
    cost = np.where(problem.runnable, problem.demand @ price.T / per_task, np.inf).min(axis=1)
    return held * cost, float((problem.group_capacity * price).sum())


def _bound(spent: FloatArray, worth: float, kept: FloatArray | float) -> FloatArray:
    """Bound the relative gains (N,) of users by the worth that others do not keep."""
    left = np.maximum(worth - kept, ROUNDING * worth)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.where(spent > 0, left / spent, np.inf)
    return np.where(np.isnan(bound), np.inf, bound)


def certify_max_min(
    problem: Problem, tasks: FloatArray, score: FloatArray, prices: FloatArray
) -> Certificate:
    """Certify that an allocation is the lexicographic max-min of ``x score / phi``.

    Parameters
    ----------
    problem : Problem
    tasks : (N, G) float
        Tasks of each user on each whole group.
    score : (N,) or (N, G) float
        Score of one task of each user (on each group).
    prices : (K, G, R) float
        Prices of each resource of each group. Any prices are valid; optimal ones give a tight
        bound. Negative ones count as zero.

    Returns
    -------
    Certificate
        Its violation is the largest of: a user's possible gain, the overuse of a resource, and the
        fraction of misplaced tasks.

    Notes
    -----
    O(K N G R).
    """
    gain = float(_gain_by_levels(problem, tasks, score, prices).max(initial=0.0))
    condition = (
        "no user below its task limit can gain without a user at or below its level losing "
        "(lexicographic max-min; proved by prices, LP duality)"
    )
    return certify_with_feasibility(condition, {"possible_gain": gain}, problem, tasks)


def measure_unfair_neighbours(problem: Problem, tasks: FloatArray, score: FloatArray) -> float:
    """Measure by how much Definition 1 of U-max-min fairness is missed (Kesidis et al.).

    Let user l have a higher level than user m, and m hold tasks on a server with a used-up
    resource. Then l may hold nothing there: otherwise, tasks of l could be replaced by tasks of m.
    A server counts for l and m if m is below its task limit and l demands all used-up resources of
    the server that m demands. (In the paper every user demands every resource.)

    The result is the largest over such l, m and servers of the smaller of two numbers: the relative
    excess of l's level, and the part of its tasks that l holds there. O(G 2^R N), at most N^2 G.
    """
    per_task = score[:, None] if score.ndim == 1 else score
    level = (tasks * per_task).sum(axis=1) / problem.weight
    held = tasks / np.maximum(tasks.sum(axis=1, keepdims=True), 1e-300)
    below = tasks.sum(axis=1) < problem.task_limit * (1 - EQUAL)
    usage = tasks.T @ problem.demand
    used_up = (usage >= problem.group_capacity * (1 - USED_UP)) & (problem.group_capacity > 0)
    worst = 0.0
    for g in np.flatnonzero(used_up.any(axis=1)):
        asks = (problem.demand > 0) & used_up[g]
        sets, set_of = np.unique(asks, axis=0, return_inverse=True)  # of used-up resources
        for k, needs in enumerate(sets):
            poor = (set_of.ravel() == k) & (tasks[:, g] > 0) & below
            rich = asks[:, needs].all(axis=1) & (tasks[:, g] > 0)
            if needs.any() and poor.any() and rich.any():
                excess = level[rich] / level[poor].min() - 1.0
                worst = max(worst, float(np.minimum(excess, held[rich, g]).max()))
    return worst
