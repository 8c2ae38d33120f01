"""TSF and CDRF: max-min of each user's tasks over the tasks it could run alone.

Khamse-Ashari et al. 2017, II-B, after Friedman, Ghodsi and Psomas 2014 (CDRF) and Wang et al. 2016
(TSF): gamma[n] counts the tasks that user n could run on all servers as if there were no placement
constraints.
"""

from __future__ import annotations

from fairlead.mechanisms.maxmin import solve_max_min
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem


def solve_tsf(problem: Problem) -> Allocation:
    """Divide by TSF: lexicographic max-min of ``x[n] / (phi[n] gamma[n])``.

    Raises
    ------
    NoConvergenceError
        When the numbers are too far apart for floating-point arithmetic.
    """
    return solve_max_min(problem, "tsf", score_tsf(problem))


def solve_cdrf(problem: Problem) -> Allocation:
    """Divide by CDRF: as TSF, defined for problems without placement constraints only."""
    return solve_max_min(problem, "cdrf", score_tsf(problem))


def score_tsf(problem: Problem) -> FloatArray:
    """Return (N,) one over the tasks each user could run alone were there no constraints."""
    score: FloatArray = 1.0 / problem.unconstrained_gamma.sum(axis=1)
    return score
