"""The most that all can gain together while nobody loses: a linear programme."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import BoolArray, FloatArray, IntArray

# The solver's tightest tolerances.
TIGHT = 1e-10
OPTIONS = {"primal_feasibility_tolerance": TIGHT, "dual_feasibility_tolerance": TIGHT}
# Needs that are smaller are counted as this, where it matters that they are not nothing.
SMALLEST_SEEN = 1e-8
# So little gained in all is looked at closely.
LITTLE = 1e-6


@dataclass(frozen=True, eq=False)
class Improvement:
    """A division that is no worse for anybody."""

    split: FloatArray  # (N, G): what each user has of each group
    gain: float  # sum of what all gain
    bound: float  # what no division could exceed, by duality


def improve(
    use: FloatArray, allowed: BoolArray, have: FloatArray, most: FloatArray, capacity: FloatArray
) -> Improvement:
    """Divide so that the sum of gains is largest and nobody has less than before.

    Parameters
    ----------
    use : (R, N, G) float, >= 0
        What one unit of a user on a group takes of each resource of the group.
    allowed : (N, G) bool
        Where each user may have anything.
    have, most : (N,) float
        What each user has in all, and the most it may have; infinite where unbounded.
    capacity : (R, G) float

    Raises
    ------
    NoConvergenceError
        When the programme cannot be solved, as when what everybody has is not feasible.

    Notes
    -----
    One linear programme of at most N G unknowns and N + G R rows, by HiGHS. The bound is the sum of
    the duals it returns, made feasible here, so that it need not be trusted.
    """
    n_resources, n_users, n_groups = use.shape
    user, group = np.nonzero(allowed)
    rows, total = _rows(use, user, group)
    bounded = np.isfinite(most)
    result = linprog(
        -np.ones(len(user)),
        A_ub=vstack([rows, -total, total[bounded]]).tocsr(),
        b_ub=np.concatenate([capacity.ravel(), -have, most[bounded]]),
        bounds=(0, None),
        method="highs",
        options=OPTIONS,
    )
    if result.status != 0:
        raise NoConvergenceError(f"no linear programme of improvements: {result.message}")
    split = np.zeros((n_users, n_groups))
    split[user, group] = np.maximum(result.x, 0.0)
    dual = np.maximum(-result.ineqlin.marginals, 0.0)
    prices = dual[: n_resources * n_groups].reshape(n_resources, n_groups)
    bound = _bound(use, allowed, have, most, capacity, prices)
    return Improvement(split, float(split.sum() - have.sum()), bound)


def measure_progress(
    use: FloatArray, allowed: BoolArray, split: FloatArray, most: FloatArray, capacity: FloatArray
) -> float:
    """Measure how much of a tiny gain there is: about 1 if all can gain without losses, else 0.

    `split` is (N, G); all else, errors and cost too, as for `improve`. Where needs are orders of
    magnitude apart, losses that the solver overlooks there may be large gains to others.
    """
    user, group = np.nonzero(allowed)
    # The solver takes the tiniest needs for none.
    seen = np.where(use > 0, np.maximum(use, SMALLEST_SEEN), 0.0)
    rows, total = _rows(seen, user, group)
    here = np.where(allowed, split, 0.0)
    free = np.maximum(capacity - np.einsum("rng,ng->rg", use, here), 0.0)
    left = np.maximum(most - here.sum(axis=1), 0.0)
    bounded = np.isfinite(left)
    everybody = csr_array(np.ones((1, len(user))))
    result = linprog(
        -np.ones(len(user)),
        A_ub=vstack([rows, -total, total[bounded], everybody]).tocsr(),
        b_ub=np.concatenate(
            [free.ravel() / LITTLE, np.zeros(len(left)), left[bounded] / LITTLE, [1.0]]
        ),
        bounds=np.column_stack([-here[user, group] / LITTLE, np.full(len(user), np.inf)]),
        method="highs",
        options=OPTIONS,
    )
    if result.status != 0:
        raise NoConvergenceError(f"no linear programme of small changes: {result.message}")
    return float(-result.fun)


def _rows(use: FloatArray, user: IntArray, group: IntArray) -> tuple[csr_array, csr_array]:
    """Return what each pair of user and group takes of each resource, and who it belongs to."""
    n_resources, n_users, n_groups = use.shape
    pairs = np.arange(len(user))
    shape = (n_groups, len(user))
    taken = [csr_array((use[r, user, group], (group, pairs)), shape) for r in range(n_resources)]
    total = csr_array((np.ones(len(user)), (user, pairs)), (n_users, len(user)))
    return vstack(taken), total


def _bound(
    use: FloatArray,
    allowed: BoolArray,
    have: FloatArray,
    most: FloatArray,
    capacity: FloatArray,
    prices: FloatArray,
) -> float:
    """Bound the sum of gains by prices of resources, whatever they are.

    A unit of user n costs at least q[n]. Who gains y[n] >= 0 on top of have[n] pays for
    ``(have[n] + y[n]) q[n]`` of the ``sum c p`` that there is; so
    ``sum y <= sum c p - sum have q + sum_n (1 - q[n])+ y[n]``, where the last y[n] is at most what
    n may have on top, or could have had it everything.
    """
    cost = np.where(allowed, np.einsum("rg,rng->ng", prices, use), np.inf).min(axis=1)
    cost = np.where(allowed.any(axis=1), cost, 1.0)  # who may have nothing neither pays nor gains
    with np.errstate(divide="ignore"):
        alone = np.where(use > 0, capacity[:, None, :] / np.where(use > 0, use, 1.0), np.inf)
    alone = np.where(allowed, alone.min(axis=0), 0.0).sum(axis=1)
    room = np.maximum(np.minimum(most, alone) - have, 0.0)
    left = float((capacity * prices).sum() - (have * cost).sum())
    return left + float((np.maximum(1.0 - cost, 0.0) * room).sum())
