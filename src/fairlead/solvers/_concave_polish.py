"""Newton's method on the support of an interior point: the last digits of a sum of utilities.

An interior point approaches the optimum from inside: neither of two complementary numbers is zero,
and if both should be, they are as large as the square root of the remaining gap. Near the optimum
it is clear where users hold tasks, which resources are used up, and which limits are reached.
Newton's method on these conditions, as equations, converges quadratically. If the equations do not
determine the split, a regularisation keeps it near the iterate. The letters are those of
`concave_programme`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.solvers.concave_programme import ConcaveSolution, Point, System

NEWTON_STEPS = 8
# Regularisation of a split that is not unique, as in `utility_continuation`. Positive entries count
# as at least SMALLEST_ENTRY of the user's total.
ENTRY_REGULARISATION = 1e-4
SMALLEST_ENTRY = 1e-2
RIDGE = 1e-13  # added to the balanced diagonal of the Newton system
TOLERANCE = 1e-9  # the largest residual of an accepted answer


@dataclass(frozen=True, eq=False)
class _Support:
    """The entries held, the resources used up and the limits reached at the optimum."""

    held: BoolArray  # (N, G)
    scarce: BoolArray  # (R, G)
    reached: BoolArray  # (N,)


def polish(system: System, point: Point, gap: float) -> ConcaveSolution:
    """Return the exact solution near an iterate, or the iterate if that is not found.

    `gap` is the largest residual of the iterate.
    """
    rough = ConcaveSolution(
        point.x, point.p, np.where(system.allowed, point.z, np.inf), point.v, gap
    )
    support = _find_support(system, point)
    x = np.where(support.held, point.x, 0.0)
    p = np.where(support.scarce, point.p, 0.0)
    w = np.where(support.reached, point.w, 0.0)
    best, smallest = rough, np.inf
    with np.errstate(all="ignore"):
        for _ in range(NEWTON_STEPS):
            try:
                x, p, w = _step(system, support, x, p, w)
            except np.linalg.LinAlgError:
                break
            solution = _solution(system, support, x, p, w)
            if solution.gap < smallest:
                best, smallest = solution, solution.gap
    return best if smallest <= TOLERANCE else rough


def _find_support(system: System, point: Point) -> _Support:
    """Find the active set: of two complementary numbers, the relatively larger one is positive."""
    amount = point.x.sum(axis=1, keepdims=True)
    money = float(point.v @ amount[:, 0]) / point.p.shape[1]
    return _Support(
        held=system.allowed & (point.x * point.v[:, None] > point.z * amount),
        scarce=system.live & (point.p > point.s * money),
        reached=system.limited & (point.w * amount[:, 0] > point.t * point.v),
    )


def _step(
    system: System, support: _Support, x: FloatArray, p: FloatArray, w: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Take one step of Newton's method on the equations of the support."""
    utility, limit = system.programme.utility, system.programme.limit
    amount = np.maximum(x.sum(axis=1), np.finfo(float).tiny)
    marginal = np.exp(utility.log_marginal(amount))
    surplus = np.where(support.held, (marginal - w)[:, None] - system.cost(p), 0.0)
    excess = np.where(support.scarce, system.used(x) - 1.0, 0.0)
    beyond = np.where(support.reached, amount - limit, 0.0)
    size = np.where(x > 0, np.maximum(x, SMALLEST_ENTRY * amount[:, None]), 0.0)
    theta = np.where(support.held, size / (ENTRY_REGULARISATION * marginal)[:, None], 0.0)
    limit_slope = np.where(support.reached, marginal / (ENTRY_REGULARISATION * amount), 0.0)
    stiffness = marginal * utility.elasticity(amount) / amount + limit_slope
    solve = system.eliminate_users(theta, stiffness, np.zeros_like(p), support.scarce, RIDGE)
    base, push = theta * surplus, limit_slope * beyond
    dp, dcost, dtotal = solve(base, push, excess)
    dx = base - theta * (dcost + (push + stiffness * dtotal)[:, None])
    dw = limit_slope * (dtotal + beyond)
    # An entry that would become negative leaves the support.
    return np.maximum(x + dx, 0.0), p + dp, w + dw


def _solution(
    system: System,
    support: _Support,
    x: FloatArray,
    p: FloatArray,
    w: FloatArray,
) -> ConcaveSolution:
    """Return the solution of (x, p, w) with its largest residual as gap: infinite for a NaN."""
    amount = x.sum(axis=1)
    marginal = np.exp(system.programme.utility.log_marginal(amount))
    reduced = (system.cost(p) + (w - marginal)[:, None]) / marginal[:, None]
    free = 1.0 - system.used(x)
    limit = system.programme.limit
    headroom = np.where(system.limited, (limit - amount) / limit, np.inf)
    # These may not be negative.
    negative = [
        float(np.where(system.allowed, reduced, 0.0).min()),
        float(np.where(system.live, free, 0.0).min()),
        float(p.min()) / max(float(p.max()), np.finfo(float).tiny),
        float((w / marginal).min()),
        float(headroom.min()),
    ]
    # Members of the active set meet equations.
    unequal = [
        float(np.abs(np.where(support.held & (x > 0), reduced, 0.0)).max()),
        float(np.abs(np.where(support.scarce, free, 0.0)).max()),
        float(np.abs(np.where(support.reached, headroom, 0.0)).max()),
    ]
    residuals = np.array([*unequal, *(-value for value in negative)])
    # `max` may ignore a NaN.
    largest = float(residuals.max()) if not np.isnan(residuals).any() else np.inf
    return ConcaveSolution(
        np.maximum(x, 0.0),
        np.maximum(p, 0.0),
        np.where(system.allowed, np.maximum(reduced * marginal[:, None], 0.0), np.inf),
        marginal,
        largest,
    )
