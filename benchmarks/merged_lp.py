"""Find the max-min level by one linear programme, as a reference for benchmarks."""

from __future__ import annotations

import highspy
import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem


def solve_merged_lp(problem: Problem, score: NDArray[np.float64]) -> float:
    """Return the largest level that all users can reach together, by one programme in HiGHS.

    `score` (N,) is the score of one task of each user, such as its global dominant share.

    Columns are x[n,g], then the level; rows are one equality per user and one bound per group and
    resource. Users that cannot run on a group have no column for it.
    """
    user, group = np.nonzero(problem.runnable)
    n_users, n_resources = problem.demand.shape
    capacity_row = n_users + group[:, None] * n_resources + np.arange(n_resources)
    total = problem.total_capacity
    size = score / problem.weight
    share = problem.demand / total / size[:, None]  # columns count levels, not tasks
    rows = np.concatenate([user[:, None], capacity_row], axis=1)
    values = np.concatenate([np.ones((len(user), 1)), share[user]], axis=1)
    keep = values != 0
    starts = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
    model = highspy.HighsLp()
    model.num_col_ = len(user) + 1
    model.num_row_ = n_users + problem.n_groups * n_resources
    model.sense_ = highspy.ObjSense.kMaximize
    model.col_cost_ = np.append(np.zeros(len(user)), 1.0)
    model.col_lower_ = np.zeros(len(user) + 1)
    model.col_upper_ = np.full(len(user) + 1, np.inf)
    bounds = (problem.group_capacity / total).ravel()
    model.row_lower_ = np.concatenate([np.zeros(n_users), np.full(bounds.size, -np.inf)])
    model.row_upper_ = np.concatenate([np.zeros(n_users), bounds])
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.append(starts, starts[-1] + n_users).astype(np.int32)
    model.a_matrix_.index_ = np.append(rows[keep], np.arange(n_users)).astype(np.int32)
    model.a_matrix_.value_ = np.append(values[keep], -np.ones(n_users))
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.passModel(model)
    solver.run()
    return float(solver.getInfo().objective_function_value)
