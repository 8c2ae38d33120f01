"""PS-DSF by its definition alone: whether anybody can rise at the expense of higher shares."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem

# Shares this close, relative, are equal but for rounding, and then neither is the higher one.
TIED = 1e-6


def virtual_shares(problem: Problem, tasks: FloatArray) -> FloatArray:
    """Return (N, G) the virtual dominant shares by weight; infinite where a user may not run.

    Source: Khamse-Ashari et al. 2017, Definition 2.
    """
    held = (tasks.sum(axis=1) / problem.weight)[:, None]
    shares: FloatArray = np.full(problem.gamma.shape, np.inf)
    np.divide(held, problem.gamma, out=shares, where=problem.runnable)
    return shares


def largest_gain(problem: Problem, tasks: FloatArray) -> float:
    """Measure by how much Definition 5 is missed under resource division.

    Parameters
    ----------
    problem : Problem
    tasks : (N, G) float
        Tasks of each user on each whole group.

    Returns
    -------
    float
        The most by which somebody's tasks could be raised without anybody else losing tasks on a
        server that sees it at no higher a share; relative to what the user could run alone.

    Raises
    ------
    NoConvergenceError
        When a linear programme has no optimum.

    Notes
    -----
    Khamse-Ashari et al. 2017, Definition 5. A linear programme of N G unknowns for each user. The
    tasks that the user has itself may move as they like, which is more than the definition allows.
    """
    shares = virtual_shares(problem, tasks)
    gains = [_gain(problem, tasks, shares, n) for n in range(problem.n_users)]
    return max(0.0, *gains)


def _gain(problem: Problem, tasks: FloatArray, shares: FloatArray, n: int) -> float:
    """Return what one user could gain, relative to what it could run alone."""
    n_users, n_groups = tasks.shape
    use = use_per_task(problem)
    limits = np.einsum("rng,hg->rhng", use, np.eye(n_groups)).reshape(-1, n_users * n_groups)
    # What is overused by rounding must not make the programme impossible.
    used = limits @ tasks.ravel()
    held: BoolArray = shares <= shares[n] * (1 + TIED)
    held[n] = False
    least = np.where(held & problem.runnable, tasks, 0.0)
    most = np.where(problem.runnable, np.inf, 0.0)
    bounds = np.stack([least.ravel(), np.maximum(most, least).ravel()], axis=1)
    objective = np.zeros((n_users, n_groups))
    objective[n] = -1.0
    answer = linprog(objective.ravel(), limits, np.maximum(1.0, used), bounds=bounds)
    if answer.status != 0:
        raise NoConvergenceError(f"the linear programme ended with: {answer.message}")
    alone = float(problem.gamma[n].sum())
    return (-float(answer.fun) - float(tasks[n].sum())) / alone
