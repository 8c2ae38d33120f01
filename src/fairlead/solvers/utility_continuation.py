"""Continuation from gentle to steep utilities, by a primal-dual active-set method.

With steep utilities, some users spend 10^30 times as much as others. A method that closes one
common gap treats the users that spend little as rounding errors. But each condition of the optimum
can be met relative to its own user or resource. For a given active set (the entries with tasks, the
used-up resources, the reached limits) the conditions are equations. Newton's method solves them at
all scales, because the matrix of prices is balanced before it is factored. An entry that becomes
negative leaves the active set; an entry that costs less than the user's marginal utility enters.
From a distant start the active set would cycle. It does not from the answer for a slightly less
steep utility, nor from an interior point near the optimum, of which `polish` finds the last digits.

The letters are those of `fairlead.solvers.concave_programme`: x (N, G) is the split, X (N,) the
totals, p (R, G) the prices, f' (N,) the marginal utilities. p and f' are divided by exp(unit),
because steep utilities overflow floats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.solvers.concave_programme import (
    ConcaveProgramme,
    ConcaveSolution,
    Point,
    System,
    Utility,
)

# The parameter of a path is multiplied by the stride; a stride that fails is shortened.
LARGEST_STRIDE = 1.5
SMALLEST_STRIDE = 1.02
MAX_NEWTON_STEPS = 30
# The largest residual of an answer; each condition is relative to its user or resource.
TOLERANCE = 1e-9
# Splits and prices that are not unique are regularised: see `_step`. Entries count as at least
# SMALLEST_ENTRY of the user's total there, prices as at least SMALLEST_PRICE of a unit's worth.
ENTRY_REGULARISATION = 1e-4
SMALLEST_ENTRY = 1e-2
PRICE_REGULARISATION = 1e-6
SMALLEST_PRICE = 1e-2
# Added to the balanced diagonal of the matrix of prices.
RIDGE = 1e-13
ROUNDING = 1e-13  # entries below this fraction of the user's total are rounding errors
# The largest relative change of a total, and change of the logarithm of a price, in a step.
LARGEST_TOTAL_CHANGE = 0.5
LARGEST_PRICE_CHANGE = 1.5
# Prices below this fraction of a unit's worth do not shorten a step: they may become zero.
SMALL_PRICE = 1e-3
# A member leaves the active set if its residual exceeds the residual of the equations by this
# factor. A new member enters at the same threshold, or ENTRY_THRESHOLD if that is smaller.
HYSTERESIS = 10.0
ENTRY_THRESHOLD = 1e-6
# Totals this close (relative) to the limit count as at the limit.
AT_LIMIT = 1e-6
# The smallest worth of a unit to divide by, relative to the smallest positive cost of a unit.
SMALLEST_WORTH = 1e-6
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class UtilityPath:
    """Utilities of a positive parameter that makes them steeper or gentler."""

    at: Callable[[float], Utility]  # the utility of a parameter
    first: float  # parameter of a gentle utility, from which the path starts
    last: float  # parameter of the utility to be maximised


@dataclass(eq=False)
class _PathState:
    """An answer for one parameter."""

    x: FloatArray  # (N, G)
    p: FloatArray  # (R, G): divided by exp(unit)
    unit: float


@dataclass(frozen=True, eq=False)
class _Market:
    """Costs, marginal utilities and residuals at a state."""

    amount: FloatArray  # (N,): X
    reached: BoolArray  # (N,): users held at their limit
    headroom: FloatArray  # (N,): (limit - X) / limit; infinite without a limit
    pays: FloatArray  # (N,): f'(X); the cost on the cheapest group for reached users
    worth: FloatArray  # (N,): `pays`, bounded away from zero, to divide by
    elasticity: FloatArray  # (N,): -X f''(X) / f'(X); 0 for reached users
    excess_cost: FloatArray  # (N, G): (cost of a unit - pays) / worth; infinite if not allowed
    free: FloatArray  # (R, G): the unused part of each resource
    use_per_worth: FloatArray  # (R, G): largest use[r, n, g] / worth[n] of a user
    cost_share: FloatArray  # (R, G): p use_per_worth, the largest part of a unit's worth it costs


def follow_path(
    programme: ConcaveProgramme, solution: ConcaveSolution, unit: float, path: UtilityPath
) -> tuple[ConcaveSolution, float]:
    """Follow a path of utilities from an approximate answer for the first utility to the last.

    Parameters
    ----------
    programme : ConcaveProgramme
        Its start and utility are unused.
    solution : ConcaveSolution
        An approximate answer for the first utility.
    unit : float
        Logarithm of the unit of the solution's prices.
    path : UtilityPath

    Returns
    -------
    ConcaveSolution
        For the last utility, each condition met to 1e-9 relative to its user or resource.
    float
        Logarithm of the unit of the returned solution's prices.

    Raises
    ------
    NoConvergenceError
        When even the shortest stride fails.

    Notes
    -----
    A few to a few dozen Newton steps for each stride; each costs as one of `maximize_concave`.
    """
    system = System(programme)
    with np.errstate(all="ignore"):
        start = _PathState(solution.split.copy(), solution.prices.copy(), unit)
        polished = _solve(system, start, path.at(path.first))
        start = start if polished is None else polished
        parameter, state = _follow(system, start, path)
        if parameter == path.last:
            return _solution(system, state, path.at(parameter)), state.unit
    raise NoConvergenceError(
        f"no answer beyond the utility of parameter {parameter:.3g}; {path.last:.3g} was wanted"
    )


def polish(system: System, point: Point, gap: float) -> ConcaveSolution:
    """Return the exact solution near an interior point, or the point itself if that is not found.

    An interior point approaches the optimum from inside: neither of two complementary numbers is
    zero, and if both should be, they are as large as the square root of the remaining `gap`. So
    the smaller one, relative to the user's total or spending, becomes zero.
    """
    spent = float(point.v @ point.x.sum(axis=1)) / point.p.shape[1]
    with np.errstate(all="ignore"):
        amount = _amounts(system, point.x, system.programme.utility)[:, None]
        x = np.where(point.x * point.v[:, None] > point.z * amount, point.x, 0.0)
        start = _PathState(x, np.where(point.p > point.s * spent, point.p, 0.0), 0.0)
        exact = _solve(system, start, system.programme.utility)
    if exact is None:
        reduced = np.where(system.allowed, point.z, np.inf)
        return ConcaveSolution(point.x, point.p, reduced, point.v, gap)
    return _solution(system, exact, system.programme.utility)


def _follow(system: System, state: _PathState, path: UtilityPath) -> tuple[float, _PathState]:
    """Follow a path until even short strides fail; return the parameter reached and its answer."""
    parameter, stride = path.first, LARGEST_STRIDE
    while parameter != path.last:
        rising = path.last > parameter
        ahead = min(parameter * stride, path.last) if rising else max(parameter / stride, path.last)
        predicted = _predict_prices(system, state, path, parameter, ahead)
        trial = _solve(system, predicted, path.at(ahead))
        if trial is not None:
            state, parameter, stride = trial, ahead, min(LARGEST_STRIDE, stride**1.5)
        elif stride > SMALLEST_STRIDE:
            stride **= 0.5
        else:
            break
    return parameter, state


def _predict_prices(
    system: System,
    state: _PathState,
    path: UtilityPath,
    parameter: float,
    ahead: float,
) -> _PathState:
    """Predict the prices at the parameter `ahead` from the change of marginal utilities.

    A resource's price changes by the mean factor of the users that hold it, weighted by use.
    Users at their limit pay prices that other users set, so they do not count as bidders.
    """
    amount, limit = state.x.sum(axis=1), system.programme.limit
    bids = ~(system.limited & (amount >= (1.0 - AT_LIMIT) * limit))
    if not bids.any():
        return state
    log_factor = path.at(ahead).log_marginal(amount) - path.at(parameter).log_marginal(amount)
    largest = float(log_factor[bids].max())
    split = np.where(bids[:, None], state.x, 0.0)
    before = system.used(split)
    after = system.used(split * np.exp(np.minimum(log_factor - largest, 0.0))[:, None])
    mean_factor = after.sum() / before.sum()  # for resources that no bidder holds
    factor = np.where(before > 0, after / np.where(before > 0, before, 1.0), mean_factor)
    return _PathState(state.x.copy(), state.p * factor, state.unit + largest)


def _solve(system: System, state: _PathState, utility: Utility) -> _PathState | None:
    """Return the optimum by Newton's method on the active set; None if it does not converge.

    The active set has the entries that hold tasks, `held` (N, G), and the used-up resources,
    `scarce` (R, G). Of the two complementary numbers of an entry or resource, the larger one
    decides whether it belongs. Below `TOLERANCE`, steps go on while each one divides the residual
    by 10.
    """
    x, p, unit = state.x, state.p, state.unit
    found, smallest = None, 10.0 * TOLERANCE
    held = system.allowed & (x > 0)
    scarce = system.live & (p > 0)
    for step in range(MAX_NEWTON_STEPS):
        market = _market(system, x, p, unit, utility)
        entry_excess = x / market.amount[:, None] - market.excess_cost
        resource_excess = market.cost_share - market.free
        leaves, enters = 0.0, 0.0  # thresholds
        if step:
            missed = np.where(held & (x != 0), np.abs(market.excess_cost), 0.0).max()
            unused = np.where(scarce & (p != 0), np.abs(market.free), 0.0).max()
            leaves = HYSTERESIS * min(1.0, float(max(missed, unused)))
            enters = min(leaves, ENTRY_THRESHOLD)
        held = system.allowed & (entry_excess > np.where(held, -leaves, enters))
        scarce = system.live & (resource_excess > np.where(scarce, -leaves, enters))
        residual = _largest_residual(market, x, held, scarce)
        if residual <= 0.1 * smallest:
            found, smallest = _PathState(x, p, unit), residual
        elif found is not None or not np.isfinite(residual):
            break
        try:
            x, p = _step(system, market, x, p, held, scarce)
        except np.linalg.LinAlgError:
            break
    return found


def _market(system: System, x: FloatArray, p: FloatArray, unit: float, utility: Utility) -> _Market:
    """Evaluate costs and marginal utilities; for users at their limit a unit is worth its cost."""
    limit = system.programme.limit
    amount = _amounts(system, x, utility)
    cost = system.cost(p)
    cheapest = np.where(system.allowed, cost, np.inf).min(axis=1)
    at_limit = np.exp(utility.log_marginal(np.where(system.limited, limit, 1.0)) - unit)
    headroom = np.where(system.limited, (limit - amount) / limit, np.inf)
    reached = system.limited & (at_limit > cheapest) & (headroom < LARGEST_TOTAL_CHANGE)
    priced = cheapest[cheapest > 0]
    smallest = SMALLEST_WORTH * float(priced.min()) if priced.size else 1.0
    marginal = np.exp(utility.log_marginal(amount) - unit)
    pays = np.where(reached, cheapest, marginal)
    worth = np.where(reached, np.maximum(cheapest, smallest), marginal)
    use_per_worth = np.stack([(use / worth[:, None]).max(axis=0) for use in system.use])
    return _Market(
        amount=amount,
        reached=reached,
        headroom=headroom,
        pays=pays,
        worth=worth,
        elasticity=np.where(reached, 0.0, utility.elasticity(amount)),
        excess_cost=np.where(system.allowed, (cost - pays[:, None]) / worth[:, None], np.inf),
        free=np.where(system.live, 1.0 - system.used(x), 1.0),
        use_per_worth=use_per_worth,
        cost_share=p * use_per_worth,
    )


def _amounts(system: System, x: FloatArray, utility: Utility) -> FloatArray:
    """Return the totals (N,), at least the start for linear utilities, which may get nothing."""
    total = x.sum(axis=1)
    is_linear = ~system.limited & (utility.elasticity(total) == 0.0)
    amounts: FloatArray = np.where(is_linear, np.maximum(total, system.programme.start), total)
    return amounts


def _largest_residual(market: _Market, x: FloatArray, held: BoolArray, scarce: BoolArray) -> float:
    """Return the largest residual of a condition; NaN if one is NaN.

    Members of the active set meet equations. Other entries are zero and cost enough; the price of
    other resources is zero, and their use fits; other totals are within their limits.
    """
    part = np.abs(x) / market.amount[:, None]
    cost, free, headroom = market.excess_cost, market.free, market.headroom
    residuals = [
        np.where(held, np.abs(cost), np.maximum(part, -cost)),
        np.where(scarce, np.abs(free), np.maximum(np.abs(market.cost_share), -free)),
        np.where(market.reached, np.abs(headroom), np.maximum(-headroom, 0.0)),
    ]
    return float(np.max([residual.max() for residual in residuals]))


def _step(
    system: System,
    market: _Market,
    x: FloatArray,
    p: FloatArray,
    held: BoolArray,
    scarce: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """Take one step of Newton's method on the equations of the active set.

    The unknowns are dx (N, G) on held entries, dp (R, G) of scarce resources, and dX = sum_g dx:

        dx[n,g] / theta[n,g] = f'(X[n]) - cost(p + dp)[n,g] - curvature[n] dX[n]
                               - limit_slope[n] (X[n] + dX[n] - limit[n])
        used(x + dx)[r,g]    = 1 + diagonal[r,g] dp[r,g]

    with curvature = -f''(X). Users at their limit have `pays` for f', no curvature, and a steep
    `limit_slope` (0 for the others), so that their totals return to the limit. The left side of
    the first equation and `diagonal` are regularisation: of the solutions of a singular system
    they choose one near (x, p). At convergence dx = dp = 0, so they do not change the answer.
    """
    amount, worth = market.amount, market.worth
    held = held.copy()
    # A user without a held entry gets its cheapest one; a linear utility may hold nothing.
    nowhere = ~held.any(axis=1) & ((market.elasticity > 0) | system.limited)
    held[nowhere, market.excess_cost[nowhere].argmin(axis=1)] = True
    x, p = np.where(held, x, 0.0), np.where(scarce, p, 0.0)
    size = np.maximum(np.abs(x), SMALLEST_ENTRY * amount[:, None])
    theta = np.where(held, size / (ENTRY_REGULARISATION * worth)[:, None], 0.0)
    limit_slope = np.where(market.reached, worth / (ENTRY_REGULARISATION * amount), 0.0)
    curvature = worth * market.elasticity / amount
    stiffness = curvature + limit_slope
    whole_cost = 1.0 / np.maximum(market.use_per_worth, TINY)
    diagonal = PRICE_REGULARISATION / np.maximum(p, SMALLEST_PRICE * whole_cost)
    solve = system.eliminate_users(theta, stiffness, diagonal, scarce, RIDGE)
    # A dropped entry changes the total, and with it the marginal utility.
    pays = market.pays + curvature * (amount - x.sum(axis=1))
    base = theta * np.where(held, pays[:, None] - system.cost(p), 0.0)
    beyond = np.where(market.reached, x.sum(axis=1) - system.programme.limit, 0.0)
    push = limit_slope * beyond
    overuse = np.where(scarce, system.used(x) - 1.0, 0.0)
    dp, dcost, dtotal = solve(base, push, overuse)
    dx = np.where(held, base - theta * (dcost + (push + stiffness * dtotal)[:, None]), 0.0)
    counts = (p > 0) & (market.cost_share > SMALL_PRICE)
    price_change = np.where(counts, np.abs(dp) / np.where(p > 0, p, 1.0), 0.0)
    length = min(
        1.0,
        LARGEST_TOTAL_CHANGE / max(float((np.abs(dx.sum(axis=1)) / amount).max()), TINY),
        LARGEST_PRICE_CHANGE / max(float(price_change.max()), TINY),
    )
    return _change_split(x, x.sum(axis=1), length * dx), _change_prices(p, length * dp)


def _change_split(x: FloatArray, amount: FloatArray, dx: FloatArray) -> FloatArray:
    """Add a change to a split; a total that falls below a tenth is halved instead."""
    moved = x + dx
    low = moved.sum(axis=1) <= 0.1 * amount
    moved[low] = np.maximum(moved[low], 0.0)
    total = np.maximum(moved[low].sum(axis=1), TINY)
    moved[low] *= (LARGEST_TOTAL_CHANGE * amount[low] / total)[:, None]
    return moved


def _change_prices(p: FloatArray, dp: FloatArray) -> FloatArray:
    """Multiply prices by exp(dp / p); add dp to zero prices, and to prices that fall steeply."""
    ratio = np.where(p > 0, dp / np.where(p > 0, p, 1.0), 0.0)
    by_factor = (p > 0) & (ratio > -2.0 * LARGEST_PRICE_CHANGE)
    return np.where(by_factor, p * np.exp(np.clip(ratio, None, 20.0)), p + dp)


def _solution(system: System, state: _PathState, utility: Utility) -> ConcaveSolution:
    """Return the solution without entries that are rounding errors."""
    x = np.where(system.allowed, np.maximum(state.x, 0.0), 0.0)
    x[x < ROUNDING * x.sum(axis=1, keepdims=True)] = 0.0
    prices = np.maximum(state.p, 0.0)
    marginal = np.exp(utility.log_marginal(x.sum(axis=1)) - state.unit)
    excess = np.maximum(system.cost(prices) - marginal[:, None], 0.0)
    reduced = np.where(system.allowed, excess, np.inf)
    return ConcaveSolution(x, prices, reduced, marginal, TOLERANCE)
