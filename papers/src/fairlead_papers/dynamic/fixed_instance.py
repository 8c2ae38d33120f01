"""The best that a dynamic Pareto optimal mechanism can do on a sequence that is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from fairlead.errors import NoConvergenceError
from fairlead.mechanisms.competitive_ratio import full_knowledge_levels
from fairlead.model.cluster import FloatArray, IntArray


def best_course(demand: FloatArray, used_up: Sequence[int]) -> tuple[float, FloatArray]:
    """Return the largest ratio to DRF at all steps, and shares that have it.

    Parameters
    ----------
    demand : (N, R) float
        Of the agents in order of arrival, the largest of each row being 1.
    used_up : sequence of N int
        The resource whose whole budget is to be used after each step, which makes the course
        dynamic Pareto optimal.

    Returns
    -------
    float
        The least ratio of anybody's share to what DRF with full knowledge gives, over all steps.
    (N, N) float
        Shares; row k - 1 holds those after step k, 0 for those who have not come. They never
        shrink, are 1 / N at least from arrival on, and stay within the budget k / N.

    Raises
    ------
    NoConvergenceError
        When there is no such course.

    Notes
    -----
    One linear programme of N (N + 1) / 2 + 1 unknowns, the last being the ratio. A mechanism may
    follow these shares as long as agents come as foreseen, and go on as dynamic DRF does once they
    do not: from any feasible shares it can.
    """
    n, n_resources = demand.shape
    # One unknown for each agent after each step.
    steps: IntArray
    agents: IntArray
    steps, agents = (index.astype(np.int64) for index in np.tril_indices(n))
    index = np.zeros((n, n), dtype=np.int64)
    index[steps, agents] = np.arange(len(steps))
    level = full_knowledge_levels(demand, np.ones(n), float(n))
    unknowns = len(steps) + 1
    old = np.flatnonzero(agents < steps)
    # Each at least the ratio times DRF's; none less than before; nothing beyond the budget.
    rises = _rows(
        [np.arange(len(steps)), np.arange(len(steps))],
        [np.full(len(steps), unknowns - 1), np.arange(len(steps))],
        [level[steps], np.full(len(steps), -1.0)],
        (len(steps), unknowns),
    )
    before = index[steps[old] - 1, agents[old]]
    count = np.arange(len(old))
    keeps = _rows(
        [count, count],
        [before, old],
        [np.ones(len(old)), np.full(len(old), -1.0)],
        (len(old), unknowns),
    )
    use = [
        _rows([steps], [np.arange(len(steps))], [demand[agents, r]], (n, unknowns))
        for r in range(n_resources)
    ]
    budget = np.arange(1, n + 1) / n
    limits = np.vstack([rises, keeps, *use])
    room = np.concatenate([np.zeros(len(rises) + len(keeps)), np.tile(budget, n_resources)])
    full = np.stack([use[r][k] for k, r in enumerate(used_up)])
    objective = np.zeros(unknowns)
    objective[-1] = -1.0
    bounds = [(1.0 / n, 1.0)] * len(steps) + [(0.0, 1.0)]
    answer = linprog(objective, limits, room, full, budget, bounds)
    if answer.status != 0:
        raise NoConvergenceError(f"the linear programme ended with: {answer.message}")
    shares = np.zeros((n, n))
    shares[steps, agents] = answer.x[:-1]
    return float(answer.x[-1]), shares


def _rows(
    row: list[IntArray], column: list[IntArray], value: list[FloatArray], shape: tuple[int, int]
) -> FloatArray:
    """Return a matrix from its entries."""
    entries = (np.concatenate(value), (np.concatenate(row), np.concatenate(column)))
    filled: FloatArray = coo_array(entries, shape=shape).toarray()
    return filled
