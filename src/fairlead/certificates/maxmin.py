"""The proof of a (lexicographic) max-min division, by duality.

Let U[n] = x[n] score[n] / phi[n] be the users' levels. Prices p >= 0 of each resource of each
group prove a level L: a user's task costs at least q[n] = min_g d[n].p[g] over the groups where it
runs, so whoever gives all users m with U[m] <= L at least what they have spends at least
sum_m x[m] q[m] of the sum_g,r c[g,r] p[g,r] that there is. If nothing is left over, no user of
that level with q[n] > 0 can be raised; if a little is, the user can be raised by at most the
fraction ``left over / (x[n] q[n])`` of what it has. The largest such fraction, over all users
below their task limits and with the best of the given prices for each, is the violation: by how
much somebody could gain without anyone at or below its level losing.
"""

from __future__ import annotations

import numpy as np

from fairlead.certificates.feasibility import measure_misplacement, measure_resource_overuse
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem

TOLERANCE = 1e-7
# Levels and limits closer than this (relative) count as equal.
EQUAL = 1e-9
# At least this fraction of what there is counts as left over: sums have no more digits, and prices
# that are rounding errors must not prove anything.
ROUNDING = 1e-15


def measure_possible_gain(
    problem: Problem, tasks: FloatArray, score: FloatArray, prices: FloatArray
) -> FloatArray:
    """Bound by what fraction each user could gain without a user at or below its level losing.

    Parameters
    ----------
    problem : Problem
    tasks : (N, G) float
        Tasks of each user on each whole group.
    score : (N,) float
        Score of one task of each user, so that levels are ``x score / phi``.
    prices : (K, G, R) float, >= 0
        Prices of each resource of each group; any will do, good ones give a tight bound.

    Returns
    -------
    (N,) float
        The bound of each user; 0 for users at their task limit, infinite where no prices say
        anything.

    Notes
    -----
    Cost O(K N G R).
    """
    total = tasks.sum(axis=1)
    level = total * score / problem.weight
    order = np.argsort(level, kind="stable")
    last = np.searchsorted(level[order], level * (1 + EQUAL), side="right") - 1
    gain = np.full(problem.n_users, np.inf)
    allowed = problem.runnable
    for price in prices:
        cost = np.where(allowed, problem.demand @ price.T, np.inf).min(axis=1)
        spent = total * cost
        worth = float((problem.group_capacity * price).sum())
        left = np.maximum(worth - np.cumsum(spent[order])[last], ROUNDING * worth)
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = np.where(spent > 0, left / spent, np.inf)
        np.minimum(gain, bound, out=gain)
    gain[total >= problem.task_limit * (1 - EQUAL)] = 0.0
    return gain


def certify_maxmin(
    problem: Problem, tasks: FloatArray, score: FloatArray, prices: FloatArray
) -> Certificate:
    """Certify that an allocation is the lexicographic max-min of ``x score / phi``.

    Parameters
    ----------
    problem, tasks, score, prices
        As for `measure_possible_gain`.

    Returns
    -------
    Certificate
        Its violation is the largest of the possible gains, the overuse of a resource, and the
        share of misplaced tasks.
    """
    gain = float(measure_possible_gain(problem, tasks, score, prices).max(initial=0.0))
    overuse = measure_resource_overuse(problem, tasks)
    misplaced = measure_misplacement(problem, tasks)
    return Certificate(
        condition=(
            "no user below its task limit can gain without a user at or below its level losing "
            "(lexicographic max-min; proved by prices, LP duality)"
        ),
        violation=max(misplaced, gain, overuse),
        tolerance=TOLERANCE,
        detail={"possible_gain": gain, "overuse": overuse, "misplaced": misplaced},
    )
