"""Find the oracle, and the check of the definition, of a mechanism by its name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.mechanisms.catalogue import CATALOGUE
from fairlead.model.problem import Problem
from oracles import definitions, drf, leximax, sweeps, utility
from oracles.plain_lp import Shares, maximise

Array = NDArray[np.float64]

# PS-DSF by resource is left out: its totals need not be unique.
UNIQUE_TOTALS = ("drf", "drf-per-server", "drfh", "tsf", "cdrf", "ps-dsf-tdm", "max-min")

# The default alpha of the utilities of eq. 15; with 0 the totals are not unique.
ALPHA = {
    "proportional": 1.0,
    "proportional-tdm": 1.0,
    "alpha-fair": 2.0,
    "alpha-fair-tdm": 2.0,
    "max-tasks": 0.0,
    "max-tasks-tdm": 0.0,
}


def has_unique_totals(problem: Problem, mechanism: str) -> bool:
    """Return whether the mechanism's definition determines the total of each user.

    PS-DSF does not say on which servers a user runs all of its finite tasks, and the totals of
    other users depend on that.
    """
    if CATALOGUE[mechanism].whole_tasks:
        return True
    if ALPHA.get(mechanism, 0.0) > 0:
        return True
    return mechanism in UNIQUE_TOTALS and not (mechanism == "ps-dsf-tdm" and problem.has_limits)


def oracle_totals(problem: Problem, mechanism: str) -> Array:
    """Return (N,): the tasks of each user under a mechanism."""
    if mechanism == "drf":
        return drf.drf_totals(problem)
    if mechanism in leximax.SCORES:
        return leximax.leximax_totals(problem, leximax.SCORES[mechanism](problem))
    return oracle_tasks(problem, mechanism).sum(axis=1)


def oracle_tasks(problem: Problem, mechanism: str) -> Array:
    """Return (N, G): tasks under a mechanism; (N, 1) for `drf`, which sees one pool."""
    if mechanism == "drf":
        return drf.drf_totals(problem)[:, None]
    if mechanism == "drf-per-server":
        return drf.drf_per_server_tasks(problem)
    if mechanism in leximax.SCORES:
        return split_totals(problem, oracle_totals(problem, mechanism))
    return swept_tasks(problem, mechanism)


def swept_tasks(problem: Problem, mechanism: str) -> Array:
    """Return (N, G): tasks under PS-DSF, by sweeps."""
    return sweeps.ps_dsf_tasks(problem, time_shared=is_time_shared(problem, mechanism))


def is_time_shared(problem: Problem, mechanism: str) -> bool:
    """Return whether users share a server's time, as they also do with given rates."""
    return mechanism == "ps-dsf-tdm" or problem.users.rates is not None


def split_totals(problem: Problem, totals: Array) -> Array:
    """Return (N, G): the given totals, split over the groups so that they fit."""
    shares = Shares(problem)
    rows = [*shares.capacity_rows()]
    upper = np.ones(len(rows) + len(totals))
    lower = np.concatenate([np.full(len(rows), -np.inf), np.full(len(totals), 1 - 1e-9)])
    rows += [shares.total_row(n, totals[n]) for n in range(len(totals))]
    objective = np.sum(rows[-len(totals) :], axis=0)
    point = maximise(objective, np.array(rows), lower, upper).point
    tasks = np.zeros((problem.n_users, problem.n_groups))
    for k, (n, g) in enumerate(shares.pairs):
        tasks[n, g] = max(0.0, point[k] * shares.gamma[k])
    return tasks


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
