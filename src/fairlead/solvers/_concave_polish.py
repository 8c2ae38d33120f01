"""Newton's method on the support of an interior point: the last digits of a sum of utilities.

An interior point approaches the optimum from inside: neither of two complementary numbers is zero,
and if both should be, they are as large as the square root of the remaining gap. Near the optimum
it is clear where users hold tasks, which resources are used up, and which limits are reached. As
equations, these give quadratic convergence. Splits that the equations leave open stay near the
iterate: entries move in proportion to their size, against a small restoring force.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.solvers.concave_programme import ConcaveSolution, Point, System

STEPS = 8
# The restoring force on entries, relative to the marginal utility.
FORCE = 1e-4
# Entries move at least as easily as one of this part of the user's total.
LEAST_EASE = 1e-2
RIDGE = 1e-13
# The largest residual that counts as rounding.
SLIGHT = 1e-9


@dataclass(frozen=True, eq=False)
class _Support:
    """The entries held, the resources used up and the limits reached at the optimum."""

    held: BoolArray
    scarce: BoolArray
    reached: BoolArray


def polish(system: System, point: Point, gap: float) -> ConcaveSolution:
    """Return the solution near an iterate close to the optimum, to all digits.

    `gap` is the largest residual of the iterate, kept if the equations give no better point.
    """
    rough = ConcaveSolution(
        point.x, point.p, np.where(system.allowed, point.z, np.inf), point.v, gap
    )
    support = _find_support(system, point)
    x = np.where(support.held, point.x, 0.0)
    p = np.where(support.scarce, point.p, 0.0)
    w = np.where(support.reached, point.w, 0.0)
    best, best_missed = rough, np.inf
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            try:
                x, p, w = _step(system, support, x, p, w)
            except np.linalg.LinAlgError:
                break
            solution, missed = _judge(system, support, x, p, w)
            if missed < best_missed:
                best, best_missed = solution, missed
    return best if best_missed <= SLIGHT else rough


def _find_support(system: System, point: Point) -> _Support:
    """Take the larger of two complementary numbers as positive."""
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
    worth_more = np.where(support.held, (marginal - w)[:, None] - system.cost(p), 0.0)
    over = np.where(support.scarce, system.used(x) - 1.0, 0.0)
    beyond = np.where(support.reached, amount - limit, 0.0)
    ease = np.where(x > 0, np.maximum(x, LEAST_EASE * amount[:, None]), 0.0)
    theta = np.where(support.held, ease / (FORCE * marginal)[:, None], 0.0)
    hold = np.where(support.reached, marginal / (FORCE * amount), 0.0)
    stiffness = marginal * utility.elasticity(amount) / amount + hold
    solve = system.eliminate_users(theta, stiffness, np.zeros_like(p), support.scarce, RIDGE)
    moved, push = theta * worth_more, hold * beyond
    dp, dearer, change = solve(moved, push, over)
    dx = moved - theta * (dearer + (push + stiffness * change)[:, None])
    dw = hold * (change + beyond)
    # An entry that would become negative leaves the support.
    return np.maximum(x + dx, 0.0), p + dp, w + dw


def _judge(
    system: System,
    support: _Support,
    x: FloatArray,
    p: FloatArray,
    w: FloatArray,
) -> tuple[ConcaveSolution, float]:
    """Return a solution and its largest residual; infinite if it is not a number."""
    amount = x.sum(axis=1)
    marginal = np.exp(system.programme.utility.log_marginal(amount))
    reduced = (system.cost(p) + (w - marginal)[:, None]) / marginal[:, None]
    left = 1.0 - system.used(x)
    limit = system.programme.limit
    spare = np.where(system.limited, (limit - amount) / limit, np.inf)
    negative = [
        float(np.where(system.allowed, reduced, 0.0).min()),
        float(np.where(system.live, left, 0.0).min()),
        float(p.min()) / max(float(p.max()), np.finfo(float).tiny),
        float((w / marginal).min()),
        float(spare.min()),
    ]
    unequal = [
        float(np.abs(np.where(support.held & (x > 0), reduced, 0.0)).max()),
        float(np.abs(np.where(support.scarce, left, 0.0)).max()),
        float(np.abs(np.where(support.reached, spare, 0.0)).max()),
    ]
    misses = np.array([*unequal, *(-value for value in negative)])
    # `max` may ignore a NaN.
    missed = float(misses.max()) if not np.isnan(misses).any() else np.inf
    solution = ConcaveSolution(
        np.maximum(x, 0.0),
        np.maximum(p, 0.0),
        np.where(system.allowed, np.maximum(reduced * marginal[:, None], 0.0), np.inf),
        marginal,
        missed,
    )
    return solution, missed
