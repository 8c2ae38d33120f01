"""Cautious LP for agents that arrive one by one, for comparison with dynamic DRF.

Kash, Procaccia and Shah 2014 name a mechanism of this idea *cautious LP*. The linear programme here
is not theirs: it is derived from the idea as commonly stated, to give as much as possible while
envy-freeness stays within reach whatever later agents demand. Numbers may differ from theirs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog

from fairlead.errors import NoConvergenceError, RefusalError
from fairlead.model.cluster import FloatArray

_TIGHTEST = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# The second programme may give up so much of the least share for a smaller sum, relative.
SLACK = 1e-9


def cautious_shares(demand: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
    """Divide cautiously among agents that arrive in the order of the rows.

    Let x be the shares after step k of n. They are at least those before, and no agent envies
    another. For every resource r,

        sum over i of x[i] d[i,r]  +  (n - k) max over j of x[j] d[j,r]  <=  1.

    Of these, the shares with the largest least share are taken, and then those with the least sum.
    The part k / n of the agents present is no bound.

    Parameters
    ----------
    demand : (N, R) array
        Share of the pool that one task of each takes; positive.
    weights : (N,) array, optional
        Refused unless all are equal.

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
    of each resource no more than its largest holder has. There is always an answer. A newcomer with
    just enough to envy no agent holds no more of anything than some agent j. So an agent that does
    not envy j does not envy the newcomer, and the condition of the step before leaves room for it.
    Two programmes of k + R + 1 variables and k^2 rows a step.

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
    """Return (k,) the shares after a step."""
    k, n_resources = demand.shape
    # Variables: the least share, the k shares, and the most that any agent holds of each resource.
    width = 1 + k + n_resources
    least_first = np.zeros((k, width))
    least_first[:, 0] = 1.0
    least_first[:, 1 : k + 1] = -np.eye(k)
    room = np.zeros((n_resources, width))
    room[:, 1 : k + 1] = demand.T
    room[:, k + 1 :] = to_come * np.eye(n_resources)
    most = np.zeros((k * n_resources, width))
    agent, resource = np.divmod(np.arange(k * n_resources), n_resources)
    most[np.arange(k * n_resources), 1 + agent] = demand.ravel()
    most[np.arange(k * n_resources), 1 + k + resource] = -1.0
    limits = np.vstack([least_first, _no_envy(demand, width), most, room])
    right = np.zeros(len(limits))
    right[-n_resources:] = 1.0
    bounds = [(0.0, 1.0), *((share, 1.0) for share in held.tolist())]
    bounds += [(0.0, 1.0)] * n_resources
    first = _solved(-np.eye(width)[0], limits, right, bounds)
    bounds[0] = (float(first[0]) * (1.0 - SLACK), 1.0)
    smallest = np.zeros(width)
    smallest[1 : k + 1] = 1.0
    shares: FloatArray = _solved(smallest, limits, right, bounds)[1 : k + 1]
    return np.maximum(shares, held)


def _no_envy(demand: FloatArray, width: int) -> FloatArray:
    """Return (k (k - 1), width) rows: i runs no more tasks on the holding of j than on its own."""
    k = len(demand)
    worth = np.empty((k, k))
    for i in range(k):
        worth[i] = (demand / demand[i]).min(axis=1)
    envious, envied = np.nonzero(~np.eye(k, dtype=bool))
    rows = np.zeros((len(envious), width))
    rows[np.arange(len(envious)), 1 + envious] = -1.0
    rows[np.arange(len(envious)), 1 + envied] = worth[envious, envied]
    return rows


def _solved(
    cost: FloatArray,
    limits: FloatArray,
    right: FloatArray,
    bounds: list[tuple[float, float]],
) -> FloatArray:
    answer = linprog(
        cost, A_ub=limits, b_ub=right, bounds=bounds, method="highs", options=_TIGHTEST
    )
    if answer.status != 0:
        raise NoConvergenceError(f"cautious: the linear programme ended with: {answer.message}")
    x: FloatArray = answer.x
    return x
