"""Find the oracle, and the check of the definition, of a mechanism by its name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem
from oracles import definitions, drf, leximax, utility

Array = NDArray[np.float64]

# The default alpha of the utilities of eq. 15.
ALPHA = {
    "proportional": 1.0,
    "proportional-tdm": 1.0,
    "alpha-fair": 2.0,
    "alpha-fair-tdm": 2.0,
    "max-tasks": 0.0,
    "max-tasks-tdm": 0.0,
}


def oracle_totals(problem: Problem, mechanism: str) -> Array | None:
    """Return (N,): the tasks of each user under a mechanism; None without an oracle of totals."""
    if mechanism == "drf":
        return drf.drf_totals(problem)
    if mechanism in leximax.SCORES:
        return leximax.leximax_totals(problem, leximax.SCORES[mechanism](problem))
    return None


def is_time_shared(problem: Problem, mechanism: str) -> bool:
    """Return whether users share a server's time, as they also do with given rates."""
    return mechanism == "ps-dsf-tdm" or problem.users.rates is not None


def violation(problem: Problem, mechanism: str, tasks: Array) -> float:
    """Return by how much tasks miss the mechanism's definition, as a relative amount."""
    if mechanism in ALPHA:
        time_shared = mechanism.endswith("-tdm")
        return utility.alpha_fair_violation(
            problem, tasks, ALPHA[mechanism], time_shared=time_shared
        )
    if mechanism in ("ps-dsf", "ps-dsf-tdm"):
        if is_time_shared(problem, mechanism):
            return definitions.theorem_2_violation(problem, tasks)
        return definitions.theorem_1_violation(problem, tasks)
    if mechanism in leximax.SCORES:
        score = leximax.SCORES[mechanism](problem)
        return definitions.max_min_violation(problem, tasks, score)
    return definitions.drf_violation(problem, tasks)
