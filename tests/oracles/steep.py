"""Steep utilities: exact answers on isolated pools, and the gain that each user could have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from fairlead.model.problem import Problem
from oracles.plain_lp import gamma_of

Array = NDArray[np.float64]

# A user may gain at the cost of users that spend less than this fraction of its spending.
POORER = 1e-4


def pool_totals(
    size: float, demand: Array, weight: Array, limit: Array, alpha: float
) -> tuple[Array, float]:
    """Return the totals of users that share one resource, and its price: x^alpha = phi / (p d).

    The logarithm of the price is found by bisection. If all reach their limits, the price is 0.
    """

    def bought(log_price: float) -> Array:
        return np.minimum(np.exp((np.log(weight / demand) - log_price) / alpha), limit)

    if (limit * demand).sum() <= size:
        return limit, 0.0
    low, high = -2000.0, 2000.0
    with np.errstate(over="ignore"):
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if bought(middle) @ demand > size else (low, middle)
    return bought(high), float(np.exp(high)) * size


def largest_gain(problem: Problem, tasks: Array, alpha: float, *, time_shared: bool) -> float:
    """Return the largest relative gain of a user at the cost of much poorer users only.

    In an alpha-fair answer, the gain of user n times its marginal utility is at most the sum of
    these products of the losers. Here the losers spend (marginal utility times tasks) less than a
    fraction e of the spending of n. So with N users the relative gain is at most N e. One linear
    programme for each user.
    """
    gamma = gamma_of(problem)
    total = tasks.sum(axis=1)
    log_spent = np.log(problem.weight) + (1.0 - alpha) * np.log(total)
    pairs = np.argwhere(gamma > 0)
    user, group = pairs.T
    rows, upper = [], []
    for g in range(problem.n_groups):
        for r in range(1 if time_shared else problem.n_resources):
            size = problem.cluster.group_capacity[g, r]
            if time_shared:
                use = total[user] / gamma[user, group]
            elif size > 0:
                use = problem.demand[user, r] * total[user] / size
            else:
                continue
            rows.append(np.where(group == g, use, 0.0))
            upper.append(1.0)
    largest = 0.0
    for n in range(problem.n_users):
        if total[n] >= problem.task_limit[n] * (1 - 1e-7):
            continue
        keep, bound = list(rows), list(upper)
        for k in range(problem.n_users):
            if k != n and log_spent[k] > log_spent[n] + np.log(POORER):
                keep.append(np.where(user == k, -1.0, 0.0))
                bound.append(-1.0 + 1e-9)
        if np.isfinite(problem.task_limit[n]):
            keep.append(np.where(user == n, 1.0, 0.0))
            bound.append(problem.task_limit[n] / total[n])
        found = linprog(
            np.where(user == n, -1.0, 0.0),
            A_ub=np.array(keep),
            b_ub=np.array(bound),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        assert found.status == 0, found.message
        largest = max(largest, -found.fun - 1.0)
    return largest
