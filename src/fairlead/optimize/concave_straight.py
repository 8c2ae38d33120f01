"""Straight utilities whose worth lies many orders of magnitude apart: a linear programme."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import FloatArray
from fairlead.optimize.concave_system import ConcaveProgramme, ConcaveSolution, System

# The solver's tightest tolerances.
OPTIONS = {
    "presolve": False,
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}


def maximize_straight(programme: ConcaveProgramme, worth: FloatArray) -> ConcaveSolution:
    """Find a split of the largest ``sum_n worth[n] X[n]``, and its prices.

    Parameters
    ----------
    programme : ConcaveProgramme
        Its start and utility are not looked at.
    worth : (N,) float
        What a unit is worth to each user.

    Raises
    ------
    NoConvergenceError
        When the programme cannot be solved.

    Notes
    -----
    One linear programme of at most N G unknowns and N + G R rows, by HiGHS's simplex method; the
    answer is a corner of all best ones. Unknowns are counted in worth, so that prices are equally
    exact for each user, be a unit worth 10^-12 of what it is to another.
    """
    system = System(programme)
    user, group = np.nonzero(system.allowed)
    pairs = np.arange(len(user))
    taken = system.use[:, user, group] / worth[user]
    shape = (system.allowed.shape[1], len(user))
    rows = [csr_array((row, (group, pairs)), shape) for row in taken]
    part = 1.0 / (worth * np.where(system.limited, programme.limit, 1.0))
    limits = csr_array((part[user], (user, pairs)), shape=(len(worth), len(user)))
    matrix = vstack([*rows, limits[system.limited]]).tocsr()
    found = linprog(
        -np.ones(len(user)),
        A_ub=matrix,
        b_ub=np.ones(matrix.shape[0]),
        method="highs-ds",
        options=OPTIONS,
    )
    if found.status != 0:
        raise NoConvergenceError(f"no linear programme of tasks: {found.message}")
    split = np.zeros(system.allowed.shape)
    split[user, group] = np.maximum(found.x, 0.0) / worth[user]
    prices = np.maximum(-found.ineqlin.marginals[: system.live.size], 0.0)
    prices = prices.reshape(system.live.shape)
    dearer = np.maximum(system.cost(prices) - worth[:, None], 0.0)
    reduced = np.where(system.allowed, dearer, np.inf)
    return ConcaveSolution(split, prices, reduced, worth, 0.0, int(found.nit))
