"""DRFH: max-min fairness of global dominant shares over heterogeneous servers.

Wang, Liang and Li 2015, IV and V-A. With placement constraints the same definition, its dominant
resource ignoring them, is C-DRFH (Khamse-Ashari et al. 2017, II-B).
"""

from __future__ import annotations

import numpy as np

from fairlead.mechanisms.maxmin import solve_max_min
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem


def solve_drfh(problem: Problem) -> Allocation:
    """Divide by DRFH: lexicographic max-min of ``x[n] max_r D[n,r] / phi[n]``.

    D[n,r] is the share of the whole cluster's resource r that one task of user n takes.

    Raises
    ------
    NoConvergenceError
        When the numbers are too far apart for floating-point arithmetic.

    Notes
    -----
    Wang, Liang and Li 2015, eq. 4-7 and V-A.
    """
    return solve_max_min(problem, "drfh", score_drf(problem))


def score_drf(problem: Problem) -> FloatArray:
    """Return (N,) the share of the cluster's dominant resource that one task of each takes."""
    total = problem.total_capacity
    share: FloatArray = (problem.demand / np.where(total > 0, total, 1.0)).max(axis=1)
    return share
