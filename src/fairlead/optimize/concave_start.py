"""Where to begin: everybody raised together as far as it goes, by a linear programme."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, vstack

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.optimize.concave_system import ConcaveProgramme, System

# The solver's tightest tolerances.
OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# By how much less settled users may have.
SLACK = 1e-9


def raise_together(
    programme: ConcaveProgramme, settled: BoolArray, amount: FloatArray
) -> FloatArray | None:
    """Return feasible totals of the largest least multiple of an amount, but for the settled.

    Parameters
    ----------
    programme : ConcaveProgramme
        Its start and utility are not looked at.
    settled : (N,) bool
        Users who have their limits, less 1e-9 of them.
    amount : (N,) float
        Of all users, positive.

    Returns
    -------
    (N,) float or None
        None where the programme is not solved.

    Notes
    -----
    One linear programme of at most N G + 1 unknowns and 2 N + G R rows, by HiGHS.
    """
    system = System(programme)
    user, group = np.nonzero(system.allowed)
    pairs = np.arange(len(user))
    shape = (system.allowed.shape[1], len(user))
    rows = [
        csr_array((use[user, group] * amount[user], (group, pairs)), shape) for use in system.use
    ]
    own = csr_array((np.ones(len(user)), (user, pairs)), (len(amount), len(user)))
    bounded = system.limited & ~settled
    least = np.where(settled, 0.0, 1.0)[:, None]
    none = csr_array((len(rows) * shape[0] + int(bounded.sum()), 1))
    matrix = vstack([hstack([vstack([*rows, own[bounded]]), none]), hstack([-own, least])])
    found = linprog(
        np.append(np.zeros(len(user)), -1.0),
        A_ub=matrix.tocsr(),
        b_ub=np.concatenate(
            [
                np.ones(len(rows) * shape[0]),
                (programme.limit / amount)[bounded],
                np.where(settled, SLACK - 1.0, 0.0),
            ]
        ),
        method="highs",
        options=OPTIONS,
    )
    if found.status != 0:
        return None
    total: FloatArray = amount * np.bincount(user, found.x[:-1], len(amount))
    return np.where(settled, programme.limit, total)
