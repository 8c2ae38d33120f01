"""Whether a whole task fits on one server, which divisible tasks do not ask."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem

# A task that takes a whole server still fits after a conversion of units rounded up.
ROUNDING = 1e-12


def tasks_on_one_server(problem: Problem) -> FloatArray:
    """Return (N,) the most tasks of each user that fit on one server where it may run.

    At least 1 where a problem file could list the user; given rates fit wherever they are positive,
    and count as infinitely many. O(N G R).
    """
    runnable = problem.runnable
    on_each = problem.fitting / np.maximum(problem.count, 1)
    most: FloatArray = np.where(runnable, on_each, 0.0).max(axis=1)
    if problem.users.rates is not None:
        given = ~np.isnan(problem.users.rates[:, 0])
        most = np.where(given, np.where(runnable.any(axis=1), np.inf, 0.0), most)
    return most


def all_fit(problem: Problem) -> bool:
    """Return whether a whole task of every user fits on some server where it may run."""
    return bool((tasks_on_one_server(problem) >= 1 - ROUNDING).all())
