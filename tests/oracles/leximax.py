"""Lexicographic max-min of linear scores by a plain sequence of linear programmes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem
from oracles.plain_lp import Shares, maximise, most_tasks

Array = NDArray[np.float64]


def drfh_score(problem: Problem) -> Array:
    """Return (N,): the dominant share of the cluster of one task (Wang et al., IV)."""
    total = (problem.cluster.capacity * problem.cluster.count[:, None]).sum(axis=0)
    return np.array(
        [max(d / c for d, c in zip(task, total, strict=True) if d > 0) for task in problem.demand]
    )


def tsf_score(problem: Problem) -> Array:
    """Return (N,): 1 / (tasks that a user could run alone without placement constraints)."""
    score = []
    for task in problem.users.demand:
        alone = 0.0
        for g in range(problem.n_groups):
            server = problem.cluster.capacity[g]
            fit = min(c / d for c, d in zip(server, task, strict=True) if d > 0)
            alone += problem.cluster.count[g] * fit
        score.append(1 / alone)
    return np.array(score)


cdrf_score = tsf_score  # the same score; CDRF is defined where there are no constraints

SCORES = {"drfh": drfh_score, "cdrf": cdrf_score, "tsf": tsf_score, "max-min": drfh_score}


def leximax_totals(problem: Problem, score: Array, rise: float = 1e-7) -> Array:
    """Return (N,): the tasks of each user at the lexicographic max-min of its weighted scores.

    All active users are raised together as far as possible. Users that cannot rise further, or
    have all their tasks, keep their tasks and leave; and so on until none is active (Wang et al.
    2015, V-A).

    Parameters
    ----------
    problem : Problem
    score : (N,) float
        Score of one task; levels are tasks * score / weight.
    rise : float
        A user can rise if its level can grow by more than this fraction.
    """
    shares = Shares(problem)
    tasks_per_level = problem.users.weight / score
    held: dict[int, float] = {}  # tasks of users that have left
    level = 0.0
    while len(held) < problem.n_users:
        active = [n for n in range(problem.n_users) if n not in held]
        ceiling = min(problem.users.task_limit[n] / tasks_per_level[n] for n in active)
        level = _common_level(shares, tasks_per_level, held, active, ceiling)
        now = held | {n: level * tasks_per_level[n] for n in active}
        leaving = [
            n
            for n in active
            if now[n] >= problem.users.task_limit[n] * (1 - rise)
            or most_tasks(shares, n, now) <= now[n] * (1 + rise)
        ]
        if not leaving:
            raise AssertionError("at the largest common level, some user cannot rise")
        held.update({n: now[n] for n in leaving})
    return np.array([held[n] for n in range(problem.n_users)])


def _common_level(
    shares: Shares,
    tasks_per_level: Array,
    held: dict[int, float],
    active: list[int],
    ceiling: float,
) -> float:
    """Return the highest level, up to a ceiling, that all active users can have at once."""
    # In units of the least level of a user alone, the solver's absolute tolerances are relative.
    unit = min(ceiling, *(shares.alone(n) / tasks_per_level[n] for n in active))
    rows = list(shares.capacity_rows())
    upper = [1.0] * len(rows)
    lower = [-np.inf] * len(rows)
    for n, tasks in held.items():
        rows.append(shares.total_row(n, tasks))
        lower.append(1.0)
        upper.append(np.inf)
    for n in active:
        rows.append(shares.total_row(n, unit * tasks_per_level[n]))
        rows[-1][-1] = -1.0
        lower.append(0.0)
        upper.append(np.inf)
    common = np.zeros(len(shares.pairs) + 1)
    common[-1] = 1.0
    rows.append(common)
    lower.append(0.0)
    upper.append(ceiling / unit)
    highest = maximise(common, np.array(rows), np.array(lower), np.array(upper))
    return highest.value * unit
