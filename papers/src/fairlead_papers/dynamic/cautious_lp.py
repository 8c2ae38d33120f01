"""Divide by a cautious LP among agents that arrive one by one, to compare with dynamic DRF.

Kash, Procaccia and Shah 2014 name a mechanism *cautious LP*. Its idea is to give as much as
possible while envy-freeness stays possible whatever later agents demand. The linear programme here
is derived from this idea, and is not theirs; numbers may differ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog

from fairlead.errors import NoConvergenceError, RefusalError
from fairlead.model.cluster import FloatArray

_TIGHTEST = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# Relative loss of the least share that the second programme may accept for a smaller sum.
SLACK = 1e-9


def cautious_shares(demand: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
    """Divide cautiously among agents that arrive in the order of the rows.

    The shares x after step k of n are at least those before, no agent envies another, and for every
    resource r

        sum over i of x[i] d[i,r]  +  (n - k) max over j of x[j] d[j,r]  <=  1.

    Of such shares, those with the largest least share are taken, and of these those with the least
    sum. Unlike in dynamic DRF, agents may use more than k / n of a resource.

    Parameters
    ----------
    demand : (N, R) array
        Shares of the pool that one task of each agent takes; positive.
    weights : (N,) array, optional
        Must all be equal.

    Returns
    -------
    (N, N) float
        Dominant shares; row k - 1 holds those after step k, 0 for agents that have not arrived.

    Raises
    ------
    RefusalError
        For a demand that is not a positive number, and for unequal weights.
    NoConvergenceError
        When a linear programme has no optimum.

    Notes
    -----
    The second summand is the most that n - k later agents need: to envy no agent, a newcomer needs
    no more of a resource than its largest holder has. There is always an answer: a newcomer with
    just enough to envy no agent holds no more of any resource than some agent j. So an agent that
    does not envy j does not envy the newcomer, and by the condition of the step before its share
    fits. Each step solves two programmes of k + R + 1 variables and about k^2 rows.

    Examples
    --------
    >>> cautious_shares([[1, 0.5], [0.5, 1]]).round(3).tolist()
    [[0.5, 0.0], [0.667, 0.667]]
    """
    rows: FloatArray = np.array(demand, dtype=np.float64, ndmin=2)
    if weights is not None and np.ptp(np.asarray(weights, dtype=np.float64)) > 0:
        raise RefusalError("cautious", "is defined for equal weights only")
    if not ((rows > 0) & (rows < np.inf)).all():
        raise RefusalError("cautious", "is defined for positive demands only")
    rows = rows / rows.max(axis=1, keepdims=True)
    n_agents = len(rows)
    shares = np.zeros((n_agents, n_agents))
    held = np.zeros(0)
    for k in range(1, n_agents + 1):
        held = _step(rows[:k], np.append(held, 0.0), n_agents - k)
        shares[k - 1, :k] = held
    return shares


def _step(demand: FloatArray, held: FloatArray, to_come: int) -> FloatArray:
    """Return the shares of k agents after a step, (k,).

    `held` (k,) are the shares before, `to_come` is the number of later agents.
    """
    k, n_resources = demand.shape
    # Variables: the least share, the k shares, and the largest holding of each resource.
    width = 1 + k + n_resources
    least_share = np.zeros((k, width))
    least_share[:, 0] = 1.0
    least_share[:, 1 : k + 1] = -np.eye(k)
    capacity = np.zeros((n_resources, width))
    capacity[:, 1 : k + 1] = demand.T
    capacity[:, k + 1 :] = to_come * np.eye(n_resources)
    largest = np.zeros((k * n_resources, width))
    agent, resource = np.divmod(np.arange(k * n_resources), n_resources)
    largest[np.arange(k * n_resources), 1 + agent] = demand.ravel()
    largest[np.arange(k * n_resources), 1 + k + resource] = -1.0
    limits = np.vstack([least_share, _envy_rows(demand, width), largest, capacity])
    right = np.zeros(len(limits))
    right[-n_resources:] = 1.0
    bounds = [(0.0, 1.0), *((share, 1.0) for share in held.tolist())]
    bounds += [(0.0, 1.0)] * n_resources
    first = _minimise(-np.eye(width)[0], limits, right, bounds)
    bounds[0] = (float(first[0]) * (1.0 - SLACK), 1.0)
    smallest = np.zeros(width)
    smallest[1 : k + 1] = 1.0
    shares: FloatArray = _minimise(smallest, limits, right, bounds)[1 : k + 1]
    return np.maximum(shares, held)


def _envy_rows(demand: FloatArray, width: int) -> FloatArray:
    """Return the constraints that no agent runs more tasks on the bundle of another.

    One row for each pair of agents: (k (k - 1), width).
    """
    k = len(demand)
    worth = np.empty((k, k))
    for i in range(k):
        worth[i] = (demand / demand[i]).min(axis=1)
    envious, envied = np.nonzero(~np.eye(k, dtype=bool))
    rows = np.zeros((len(envious), width))
    rows[np.arange(len(envious)), 1 + envious] = -1.0
    rows[np.arange(len(envious)), 1 + envied] = worth[envious, envied]
    return rows


def _minimise(
    cost: FloatArray,
    limits: FloatArray,
    right: FloatArray,
    bounds: list[tuple[float, float]],
) -> FloatArray:
    """Solve a linear programme; raise NoConvergenceError without an optimum."""
    answer = linprog(
        cost, A_ub=limits, b_ub=right, bounds=bounds, method="highs", options=_TIGHTEST
    )
    if answer.status != 0:
        raise NoConvergenceError(f"cautious: the linear programme ended with: {answer.message}")
    x: FloatArray = answer.x
    return x
