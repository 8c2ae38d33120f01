"""Eq. 17 as printed: the largest improvement of any feasible allocation on a given one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem
from oracles.definitions import feasibility_violation
from oracles.plain_lp import Shares, maximise

Array = NDArray[np.float64]


def most_worth(problem: Problem, worth: Array, *, time_shared: bool) -> tuple[float, Array]:
    """Return the largest ``sum_n,g worth[n,g] x[n,g]`` over feasible x, by one linear programme.

    Also return (R, G), the prices of resources of groups that prove it; (1, G) for TDM.
    """
    shares = Shares(problem, time_shared=time_shared)
    rows = [row[:-1] for row in shares.capacity_rows()]
    upper = [1.0] * len(rows)
    for n, limit in enumerate(problem.users.task_limit):
        if limit < shares.alone(n):
            rows.append(shares.total_row(n, limit)[:-1])
            upper.append(1.0)
    objective = np.array([worth[pair] for pair in shares.pairs]) * shares.gamma
    scale = objective.max()
    lower = np.full(len(rows), -np.inf)
    optimum = maximise(objective / scale, np.array(rows), lower, np.array(upper))
    if time_shared:
        return scale * optimum.value, scale * optimum.row_price[None, : problem.n_groups]
    has = shares.capacity > 0
    prices = np.zeros(has.shape)
    prices[has] = scale * optimum.row_price[: int(has.sum())]
    return scale * optimum.value, prices.T


def improvement(
    problem: Problem,
    tasks: Array,
    marginal: Array,
    *,
    time_shared: bool,
    score: Array | None = None,
) -> float:
    """Return max Phi(x, x*) over ``sum_n marginal[n] Z*[n]``, or the violation of feasibility."""
    worth = np.ones(tasks.shape) * marginal[:, None]
    if score is not None:
        worth = worth * score
    now = float((worth * tasks).sum())
    better = most_worth(problem, worth, time_shared=time_shared)[0] / now - 1
    return max(better, feasibility_violation(problem, tasks, time_shared=time_shared))


def alpha_fair_violation(
    problem: Problem, tasks: Array, alpha: float, *, time_shared: bool
) -> float:
    """Return by how much tasks miss (phi, alpha)-proportional fairness."""
    logs = np.log(problem.weight)
    if alpha > 0:
        logs = logs - alpha * np.log(tasks.sum(axis=1))
    return improvement(problem, tasks, np.exp(logs - logs.max()), time_shared=time_shared)
