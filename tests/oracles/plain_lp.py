"""Linear programmes over the tasks of users on groups, in their plainest form."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem

Array = NDArray[np.float64]


@lru_cache(maxsize=8)  # called once for each user and server
def gamma_of(problem: Problem) -> Array:
    """Return (N, G): tasks each user could run alone on each group; 0 where it may not run."""
    gamma = np.zeros((problem.n_users, problem.n_groups))
    rates = problem.users.rates
    for n in range(problem.n_users):
        for g in range(problem.n_groups):
            if not problem.users.eligible[n, g]:
                continue
            if rates is not None and not np.isnan(rates[n, g]):
                gamma[n, g] = rates[n, g] * problem.cluster.count[g]
            else:
                server = problem.cluster.capacity[g] * problem.cluster.count[g]
                asks = np.flatnonzero(problem.users.demand[n] > 0)
                gamma[n, g] = min(server[r] / problem.users.demand[n, r] for r in asks)
    gamma.setflags(write=False)
    return gamma


class NoOptimumError(AssertionError):
    """The solver stopped without an optimum."""


class Optimum(NamedTuple):
    """The largest value, a point that reaches it, and the price of each row."""

    value: float
    point: Array
    row_price: Array


def maximise(objective: Array, rows: Array, lower: Array, upper: Array) -> Optimum:
    """Maximise ``objective . v`` subject to ``lower <= rows @ v <= upper`` and ``v >= 0``.

    Raises `NoOptimumError` when there is none.
    """
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = rows.shape
    model.sense_ = highspy.ObjSense.kMaximize
    model.col_cost_ = objective
    model.col_lower_ = np.zeros(rows.shape[1])
    model.col_upper_ = np.full(rows.shape[1], np.inf)
    model.row_lower_, model.row_upper_ = lower, upper
    row, column = np.nonzero(rows)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.searchsorted(row, np.arange(rows.shape[0] + 1))
    model.a_matrix_.index_ = column
    model.a_matrix_.value_ = rows[row, column]
    # With coefficients of wide scales, presolve and the tightest tolerance sometimes fail.
    solver.setOptionValue("presolve", "off")
    solver.setOptionValue("small_matrix_value", 1e-12)
    for tolerance, simplex in ((1e-10, 1), (1e-10, 4), (1e-9, 1), (1e-9, 4)):  # dual, primal
        solver.clearModel()
        solver.setOptionValue("primal_feasibility_tolerance", tolerance)
        solver.setOptionValue("dual_feasibility_tolerance", tolerance)
        solver.setOptionValue("simplex_strategy", simplex)
        solver.passModel(model)
        solver.run()
        if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            break
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise NoOptimumError(solver.modelStatusToString(solver.getModelStatus()))
    solution = solver.getSolution()
    return Optimum(
        solver.getInfo().objective_function_value,
        np.array(solution.col_value),
        np.abs(np.array(solution.row_dual)),
    )


class Shares:
    """The feasible allocations of a problem, as rows of a linear programme.

    The unknown of a user on a group is a share from 0 to 1 of the tasks that it could run there, so
    that coefficients stay near 1 for all demands. The last unknown is free for a common level.

    Attributes
    ----------
    pairs : list of (user, group)
        The unknowns: groups where each user may run, and that have its resources.
    gamma : (pairs,) float
        Tasks for a share of 1.
    """

    def __init__(self, problem: Problem, *, time_shared: bool = False) -> None:
        self.problem = problem
        self.time_shared = time_shared  # whether groups are shared by time, else by resource
        gamma = gamma_of(problem)
        self.pairs = [(int(n), int(g)) for n, g in np.argwhere(gamma > 0)]
        self.gamma = np.array([gamma[pair] for pair in self.pairs])
        self.capacity = problem.cluster.capacity * problem.cluster.count[:, None]

    def alone(self, n: int) -> float:
        """Return the tasks that user `n` could run alone on all servers, without its limit."""
        return float(sum(self.gamma[k] for k, (user, _) in enumerate(self.pairs) if user == n))

    def capacity_rows(self) -> Array:
        """Return the rows that must not exceed 1: the use of each resource, or time, of a group."""
        rows = []
        for g in range(self.problem.n_groups):
            there = np.array([group == g for _, group in self.pairs])
            if self.time_shared:
                rows.append(np.append(there, 0.0))
                continue
            for r in np.flatnonzero(self.capacity[g] > 0):
                row = np.zeros(len(self.pairs) + 1)
                for k in np.flatnonzero(there):
                    row[k] = self.gamma[k] * self.problem.users.demand[self.pairs[k][0], r]
                    row[k] /= self.capacity[g, r]
                rows.append(row)
        return np.array(rows)

    def total_row(self, n: int, unit: float) -> Array:
        """Return the row of user `n`'s total, in units of tasks."""
        row = np.zeros(len(self.pairs) + 1)
        for k, (user, _) in enumerate(self.pairs):
            if user == n:
                row[k] = self.gamma[k] / unit
        return row


def most_tasks(
    shares: Shares, n: int, floor: dict[int, float], available: Array | None = None
) -> float:
    """Return the largest number of tasks of `n`, without its limit, while others keep their floor.

    `available` has the usable share of each resource of each group, in the order of the capacity
    rows; all of it by default.
    """
    optimum, unit = _raise_alone(shares, n, floor, available)
    return optimum.value * unit


def prices_against(shares: Shares, n: int, floor: dict[int, float]) -> Array:
    """Return (G, R): prices that prove how little user `n` can rise while others keep theirs."""
    optimum, _ = _raise_alone(shares, n, floor, None)
    prices = np.zeros_like(shares.capacity)
    has = shares.capacity > 0
    prices[has] = optimum.row_price[: int(has.sum())] / shares.capacity[has]
    return prices


def _raise_alone(
    shares: Shares, n: int, floor: dict[int, float], available: Array | None
) -> tuple[Optimum, float]:
    kept = [(m, tasks) for m, tasks in floor.items() if m != n and tasks > 0]
    rows = [*shares.capacity_rows(), *(shares.total_row(m, tasks) for m, tasks in kept)]
    full = len(rows) - len(kept)
    lower = np.concatenate([np.full(full, -np.inf), np.ones(len(kept))])
    upper = np.full(len(rows), np.inf)
    upper[:full] = 1.0 if available is None else available
    unit = floor[n] if floor.get(n, 0.0) > 0 else shares.alone(n)
    return maximise(shares.total_row(n, unit), np.array(rows), lower, upper), unit
