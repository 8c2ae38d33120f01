"""Random allocations, and spoiled answers of mechanisms, for audits."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fairlead import solve
from fairlead.errors import CertificateError
from fairlead.model.problem import Problem
from oracles.plain_lp import gamma_of
from spoilers import SPOIL

Array = NDArray[np.float64]


@st.composite
def feasible_tasks(draw: st.DrawFn, problem: Problem, time_shared: bool = False) -> Array:
    """Draw tasks that fit: some users may have nothing, some servers stand idle or are full."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    gamma = gamma_of(problem)
    tasks = gamma * rng.random(gamma.shape) * (rng.random(gamma.shape) < draw(_PARTS))
    tasks[rng.random(problem.n_users) < 0.2] = 0.0
    part = draw(_PARTS)
    for g in range(problem.n_groups):
        most = most_used(problem, tasks, g, time_shared)
        if most > 0:
            tasks[:, g] *= part / most
    total = tasks.sum(axis=1)
    for n in range(problem.n_users):
        if total[n] > problem.users.task_limit[n]:
            tasks[n] *= problem.users.task_limit[n] / total[n]
    return tasks


_PARTS = st.sampled_from([1.0, 1.0, 0.9, 0.3])


def most_used(problem: Problem, tasks: Array, g: int, time_shared: bool = False) -> float:
    """Return the largest part of any resource of a group, or of its time, that is given away."""
    gamma = gamma_of(problem)[:, g]
    if time_shared:
        there = gamma > 0
        return float((tasks[there, g] / gamma[there]).sum())
    capacity = problem.cluster.capacity[g] * problem.cluster.count[g]
    has = capacity > 0
    return float(((tasks[:, g] @ problem.users.demand)[has] / capacity[has]).max(initial=0.0))


@st.composite
def any_tasks(draw: st.DrawFn, problem: Problem, mechanism: str) -> Array:
    """Draw tasks of any kind: of the mechanism, the same spoiled, or anybody's that fit."""
    time_shared = mechanism.endswith("-tdm")
    kind = draw(st.sampled_from(["right", "spoiled", "feasible"]))
    if kind == "feasible":
        return draw(feasible_tasks(problem, time_shared))
    try:
        tasks = solve(problem, mechanism).tasks.copy()
    except CertificateError:
        return draw(feasible_tasks(problem, time_shared))
    if kind == "spoiled":
        draw(st.sampled_from(SPOIL))(draw, problem, tasks)
    return tasks
