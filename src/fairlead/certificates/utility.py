"""The proof that a sum of concave utilities is largest, by duality (eq. 17).

Let m[n] = f_n'(Z*[n]) be what one more unit of score is worth to user n at the allocation x*, where
Z[n] = sum_g u[n,g] x[n,g] (plain totals of tasks if u = 1). Because the utilities are concave, x*
is best exactly if no feasible x has

    Phi(x, x*) = sum_n m[n] (Z[n] - Z*[n]) > 0,

which for alpha-fair utilities is eq. 17 of Kesidis et al. The largest Phi over all feasible x is a
linear programme. Any prices p >= 0 bound it from above: if the resources that one task takes cost
q[n,g], then sum_n m[n] Z[n] is at most

    sum_r,g p[r,g] + sum_n most[n] max(0, max_g (m[n] u[n,g] - q[n,g])),

where most[n] is the most tasks that n can have at all, and each whole resource counts as 1. The
bound at the best multiple of the given prices, less what x* is worth, relative to it, is the
violation: no linear programme has to be solved, and the prices need not be trusted.
"""

from __future__ import annotations

import numpy as np

from fairlead.certificates.feasibility import (
    measure_misplacement,
    measure_resource_overuse,
    measure_time_overuse,
)
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray
from fairlead.model.division import use_per_task
from fairlead.model.problem import Problem

TOLERANCE = 1e-6
# Halvings of the interval in which the best multiple of the prices is looked for.
HALVINGS = 64
# Multiples of the prices from the one that pays for everything down by this factor.
WIDEST = 1e40


def measure_possible_improvement(
    problem: Problem,
    tasks: FloatArray,
    log_marginal: FloatArray,
    prices: FloatArray,
    *,
    score: FloatArray | None = None,
    time_shared: bool = False,
) -> float:
    """Bound max Phi(x, x*) over all feasible x, relative to sum_n m[n] Z*[n].

    Parameters
    ----------
    problem : Problem
    tasks : (N, G) float
        x*, tasks of each user on each whole group.
    log_marginal : (N,) float
        log m[n], the marginal utility of each user's score at x*, from the definition.
    prices : (R, G) float, >= 0
        Price of each whole resource of each group (R = 1, time, under TDM); any will do, good ones
        give a tight bound. Their scale does not matter.
    score : (N, G) float, optional
        u, the score of one task of each user on each group; 1 when absent.
    time_shared : bool
        Whether servers are shared by time (TDM) instead of divided by resource.

    Returns
    -------
    float
        Infinite where somebody's marginal utility is, or nothing is held.

    Notes
    -----
    Kesidis et al., eq. 17 and Proposition 2. Cost O(N G R + N G) per halving.
    """
    if not np.isfinite(log_marginal).all():
        return np.inf
    marginal = np.exp(log_marginal - log_marginal.max())[:, None]
    worth = np.broadcast_to(marginal, tasks.shape) if score is None else marginal * score
    total = float((worth * tasks).sum())
    gamma = problem.gamma
    most = np.minimum(problem.task_limit, gamma.sum(axis=1))
    cost = sum(
        use * price for use, price in zip(use_per_task(problem, time_shared), prices, strict=True)
    )
    allowed = gamma > 0
    worth = np.where(allowed, worth, -np.inf)
    cost = np.where(allowed, cost, np.inf)
    bound = _least_bound(worth, cost, most, float(prices.sum()))
    return (bound - total) / total if total > 0 else np.inf


def _least_bound(worth: FloatArray, cost: FloatArray, most: FloatArray, priced: float) -> float:
    """Return the least bound over multiples of the prices; it is convex in the multiple."""
    best = float(most @ worth.max(axis=1))  # the bound without prices
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = worth / cost
    high = float(ratio[np.isfinite(ratio)].max(initial=0.0))
    if not high > 0:
        return best
    own = np.arange(len(most))
    low = high / WIDEST
    for _ in range(HALVINGS):
        multiple = float(np.sqrt(low * high))
        excess = np.where(np.isfinite(cost), worth - multiple * cost, -np.inf)
        group = excess.argmax(axis=1)
        deficit = np.maximum(excess[own, group], 0.0)
        best = min(best, multiple * priced + float(most @ deficit))
        slope = priced - float((most * cost[own, group])[deficit > 0].sum())
        low, high = (low, multiple) if slope > 0 else (multiple, high)
    return best


def certify_largest_utility(
    problem: Problem,
    tasks: FloatArray,
    log_marginal: FloatArray,
    prices: FloatArray,
    *,
    score: FloatArray | None = None,
    time_shared: bool = False,
    what: str = "no feasible allocation has sum phi (x - x*) / x*^a > 0 (eq. 17",
) -> Certificate:
    """Certify that an allocation has the largest sum of utilities.

    Parameters
    ----------
    problem, tasks, log_marginal, prices, score, time_shared
        As for `measure_possible_improvement`.
    what : str
        The condition in words, without the closing bracket.

    Returns
    -------
    Certificate
        Its violation is the largest of the possible improvement, the overuse of a resource (of
        time), and the share of misplaced tasks.
    """
    improvement = measure_possible_improvement(
        problem, tasks, log_marginal, prices, score=score, time_shared=time_shared
    )
    overuse = (measure_time_overuse if time_shared else measure_resource_overuse)(problem, tasks)
    misplaced = measure_misplacement(problem, tasks)
    return Certificate(
        condition=f"{what}; proved by prices, LP duality)",
        violation=max(improvement, overuse, misplaced),
        tolerance=TOLERANCE,
        detail={"improvement": improvement, "overuse": overuse, "misplaced": misplaced},
    )
