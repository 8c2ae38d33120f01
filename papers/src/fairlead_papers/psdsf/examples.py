"""The examples of Khamse-Ashari et al. 2017 as problems, tables and pictures, for several figures.

And what may differ between allocations of the same totals: who runs where.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from fairlead.errors import NoConvergenceError
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.report.numbers import number
from fairlead_papers.reproduction import TextTable

# What is printed as a short decimal fraction, and follows from whole numbers, is meant exactly.
EXACT = 1e-6
THIRD_DECIMAL = 0.001
RESOURCES = ("CPU", "memory", "bandwidth")
_SERVERS = [[9.0, 12.0, 100.0], [12.0, 12.0, 0.0]]
# How much more of a resource an allocation may seem to use for rounding.
ROUNDING = 1e-9


def example_of_figure_1() -> Problem:
    """Return Fig. 1: two servers, the second without bandwidth, and three users."""
    return Problem.from_arrays(
        _SERVERS,
        [[1, 2, 10], [1, 2, 1], [1, 2, 0]],
        weight=[1, 1, 2],
        resources=RESOURCES,
        groups=["server 1", "server 2"],
        users=["user 1", "user 2", "user 3"],
    )


def example_of_figure_2() -> Problem:
    """Return Fig. 2: the same servers, and four users of equal weight."""
    return Problem.from_arrays(
        _SERVERS,
        [[1.5, 1.0, 10.0], [1.0, 2.0, 10.0], [0.5, 1.0, 0.0], [1.0, 0.5, 0.0]],
        resources=RESOURCES,
        groups=["server 1", "server 2"],
        users=["user 1", "user 2", "user 3", "user 4"],
    )


def channels_of_figure_4() -> Problem:
    """Return three channels and two users with rates that give what the text says of Fig. 4.

    The rates stand in a picture; the text has only the results, so these are ours.
    """
    return Problem.from_arrays(
        [[1], [1], [1]],
        [[1], [1]],
        rates=[[1.0, 1.0, 0.5], [0.5, 2 / 3, 2 / 3]],
        resources=["airtime"],
        groups=["channel 1", "channel 2", "channel 3"],
        users=["user 1", "user 2"],
    )


def range_over_placements(problem: Problem, user_tasks: FloatArray, sums: FloatArray) -> FloatArray:
    """Return between what sums over an allocation can lie, everybody's total being given.

    Parameters
    ----------
    problem : Problem
    user_tasks : (N,) float
        Tasks of each user in all.
    sums : (K, N, G) float
        What each task on each group adds to each sum.

    Returns
    -------
    (K, 2) float
        The least and the most of each, by linear programmes under resource division.

    Raises
    ------
    NoConvergenceError
        When totals are not possible at all.
    """
    n_users, n_groups = problem.n_users, problem.n_groups
    limits = np.einsum("rng,hg->rhng", use_per_task(problem), np.eye(n_groups))
    of_group = limits.reshape(-1, n_users * n_groups)
    of_user = np.repeat(np.eye(n_users), n_groups, axis=1)
    bounds = [(0, None if runs else 0) for runs in problem.runnable.ravel()]
    room = np.full(len(of_group), 1 + ROUNDING)
    ends = np.empty((len(sums), 2))
    for k, weights in enumerate(sums.reshape(len(sums), -1)):
        for end, sign in enumerate((1.0, -1.0)):
            answer = linprog(sign * weights, of_group, room, of_user, user_tasks, bounds)
            if answer.status != 0:
                raise NoConvergenceError(f"the linear programme ended with: {answer.message}")
            ends[k, end] = sign * float(answer.fun)
    return ends


def possible_tasks(problem: Problem, user_tasks: FloatArray) -> FloatArray:
    """Return (N, G, 2) the least and most tasks by user and group that the (N,) totals allow.

    Raises NoConvergenceError when totals are not possible at all.
    """
    shape = (problem.n_users, problem.n_groups)
    one_each = np.eye(shape[0] * shape[1]).reshape(-1, *shape)
    return range_over_placements(problem, user_tasks, one_each).reshape(*shape, 2)


def table_of_tasks(allocation: Allocation, caption: str) -> TextTable:
    """Write the tasks of each user on each server, and in all."""
    groups = allocation.problem.cluster.groups
    rows = [
        [name, *(number(tasks) for tasks in mine.tolist()), number(float(mine.sum()))]
        for name, mine in zip(allocation.problem.users.names, allocation.tasks, strict=True)
    ]
    return TextTable(caption, ["tasks", *groups, "in all"], rows)
