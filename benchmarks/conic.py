"""Solve proportional fairness by a general conic solver, as a reference for benchmarks."""

from __future__ import annotations

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, vstack

from fairlead.model.problem import Problem


def solve_by_cones(problem: Problem) -> NDArray[np.float64]:
    """Return (N, G) tasks under TDM: max sum phi t, with (t, 1, x / alone) in the exponential cone.

    x are users' total tasks, `alone` those that each could run alone on all groups.
    """
    gamma = problem.gamma
    user, group = np.nonzero(gamma > 0)
    pairs, n_users = len(user), problem.n_users
    alone = gamma.sum(axis=1)
    size = pairs + n_users
    time = alone[user] / gamma[user, group]
    capacity = csc_array((time, (group, np.arange(pairs))), shape=(gamma.shape[1], size))
    positive = csc_array((-np.ones(pairs), (np.arange(pairs), np.arange(pairs))), (pairs, size))
    # Per user: s = (t, 1, X).
    cone_rows = np.concatenate([3 * np.arange(n_users), 3 * user + 2])
    cone_columns = np.concatenate([pairs + np.arange(n_users), np.arange(pairs)])
    cones = csc_array((-np.ones(len(cone_rows)), (cone_rows, cone_columns)), (3 * n_users, size))
    ones = np.zeros(3 * n_users)
    ones[1::3] = 1.0
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    weight = problem.weight / problem.weight.sum()
    solver = clarabel.DefaultSolver(
        csc_array((size, size)),
        np.concatenate([np.zeros(pairs), -weight]),
        csc_array(vstack([capacity, positive, cones])),
        np.concatenate([np.ones(capacity.shape[0]), np.zeros(pairs), ones]),
        [
            clarabel.NonnegativeConeT(capacity.shape[0] + pairs),
            *[clarabel.ExponentialConeT() for _ in range(n_users)],
        ],
        settings,
    )
    answer = solver.solve()
    tasks = np.zeros_like(gamma)
    tasks[user, group] = np.maximum(np.array(answer.x)[:pairs], 0.0) * alone[user]
    return tasks
