"""Proportional fairness, alpha-fairness and task efficiency, under RDM and TDM.

Kesidis et al., III, eq. 15 to 17, after Mo and Walrand 2000: ``max sum_n phi[n] g_a(x[n])`` with
g_1 = log and otherwise ``g_a(x) = x^(1-a) / (1-a)``; phi are weights, x tasks. a = 0 is task
efficiency, a = 1 proportional fairness; the larger a is, the more it favours users with few tasks.
Under TDM proportional fairness is PS-DSF.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.errors import InputError
from fairlead.mechanisms.utility import divide_by_utility
from fairlead.model.allocation import Allocation
from fairlead.model.arguments import number
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.solvers.utility_continuation import UtilityPath

DEFAULT_ALPHA = 2.0
# With a larger alpha, x^-alpha overflows for values of x that differ by 10^6.
LARGEST_ALPHA = 32.0
GENTLE_ALPHA = 2.0  # alpha at which the path to a steeper utility starts


@dataclass(frozen=True, eq=False)
class AlphaUtility:
    """The utilities ``phi[n] g_a(x[n])`` of eq. 15, by their derivatives ``phi / x^a``."""

    alpha: float
    weight: FloatArray  # (N,): phi

    def log_marginal(self, amount: FloatArray) -> FloatArray:
        """Return log(phi / x^a)."""
        logs = np.log(self.weight)
        return logs if self.alpha == 0 else logs - self.alpha * np.log(amount)

    def elasticity(self, amount: FloatArray) -> FloatArray:
        """Return alpha for all users."""
        return np.full(len(amount), self.alpha)


def solve_alpha_fair(problem: Problem, alpha: float = DEFAULT_ALPHA) -> Allocation:
    """Divide by (phi, alpha)-proportional fairness, servers divided by resource (RDM).

    Totals are unique for alpha > 0 (Kesidis et al., Proposition 2). For alpha = 0 the result is the
    centre of all optimal allocations, in which equal users have equal totals. Raises InputError
    for an alpha outside of 0 to 32.
    """
    return _solve(problem, "alpha-fair", alpha, time_shared=False)


def solve_alpha_fair_tdm(problem: Problem, alpha: float = DEFAULT_ALPHA) -> Allocation:
    """Divide by (phi, alpha)-proportional fairness, servers shared by time (TDM)."""
    return _solve(problem, "alpha-fair-tdm", alpha, time_shared=True)


def solve_proportional(problem: Problem) -> Allocation:
    """Divide by weighted proportional fairness, alpha = 1, servers divided by resource (RDM)."""
    return _solve(problem, "proportional", 1.0, time_shared=False)


def solve_proportional_tdm(problem: Problem) -> Allocation:
    """Divide by weighted proportional fairness, servers shared by time (TDM).

    Its totals are those of PS-DSF under TDM, whose conditions (Khamse-Ashari et al., Theorem 2) are
    the same.
    """
    return _solve(problem, "proportional-tdm", 1.0, time_shared=True)


def solve_max_tasks(problem: Problem) -> Allocation:
    """Divide so that ``sum_n phi[n] x[n]`` is largest: task efficiency, alpha = 0 (RDM)."""
    return _solve(problem, "max-tasks", 0.0, time_shared=False)


def solve_max_tasks_tdm(problem: Problem) -> Allocation:
    """Divide so that ``sum_n phi[n] x[n]`` is largest, servers shared by time (TDM)."""
    return _solve(problem, "max-tasks-tdm", 0.0, time_shared=True)


def check_alpha(alpha: float) -> float:
    """Return alpha as a number, or raise `InputError`."""
    given = number(alpha, "alpha")
    if not 0 <= given <= LARGEST_ALPHA:
        raise InputError(f"must be a number from 0 to {LARGEST_ALPHA:g}, not {given:g}", "alpha")
    return given


def _solve(problem: Problem, mechanism: str, alpha: float, *, time_shared: bool) -> Allocation:
    alpha = check_alpha(alpha)
    condition = (
        "no feasible allocation has a larger sum of phi x (eq. 18"
        if alpha == 0
        else f"no feasible allocation has sum phi (x - x*) / x*^{alpha:g} > 0 (eq. 17"
    )
    # Only ratios of weights matter. Scaled weights make the answer independent of their unit.
    weight = problem.weight / problem.weight.max()
    path = UtilityPath(lambda a: AlphaUtility(a, weight), GENTLE_ALPHA, alpha)
    return divide_by_utility(
        problem,
        mechanism,
        AlphaUtility(alpha, weight),
        time_shared=time_shared,
        path=path if alpha > 0 else None,
        what=condition,
    )
