"""Continuation from gentle to steep utilities, by a primal-dual active-set method.

With steep utilities, some users spend 10^30 times as much as others. A method that closes one
common gap treats the others as rounding errors. But each condition of the optimum can be met
relative to its own user or resource. For a given active set (the entries with tasks, the used-up
resources, the reached limits) the conditions are equations. Newton's method solves them at all
scales, because the matrix of prices is balanced before it is factored. An entry that becomes
negative leaves the active set; an entry that would pay enters. From far away this would cycle; from
the answer for a slightly less steep utility it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.solvers.concave_programme import ConcaveProgramme, ConcaveSolution, System, Utility

# The place on a path is multiplied by this, or by less where that fails.
STRIDE = 1.5
LEAST_STRIDE = 1.02
STEPS = 30
# The relative tolerance of each condition.
SLIGHT = 1e-9
# For splits that are not unique: the restoring force on entries, relative to the worth of a unit,
# and their least mobility, relative to the user's total.
FORCE = 1e-4
LEAST_EASE = 1e-2
# The same for prices that are not unique.
STIFFNESS = 1e-6
LEAST_PRICE = 1e-2
RIDGE = 1e-13
# The most that totals and (logarithms of) prices may change in a step.
LARGEST_CHANGE = 0.5
LARGEST_FALL = 1.5
# Prices below this part of the worth of tasks may become zero in one step.
SMALL_PRICE = 1e-3
# An entry leaves only if its fault exceeds this multiple of the residual of the equations.
HYSTERESIS = 10.0
ENTRY = 1e-6
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class UtilityPath:
    """Utilities `at` each place from `first`, a gentle one, to `last`; both positive."""

    at: Callable[[float], Utility]
    first: float
    last: float


@dataclass(eq=False)
class _PathState:
    """A split, prices, and the logarithm of the prices' unit."""

    x: FloatArray
    p: FloatArray
    unit: float


@dataclass(frozen=True, eq=False)
class _Market:
    """Worth and cost of a state to the users, and their difference."""

    amount: FloatArray
    pays: FloatArray
    worth: FloatArray
    elasticity: FloatArray
    reached: BoolArray
    spare: FloatArray
    dearness: FloatArray
    left: FloatArray
    relevance: FloatArray
    most: FloatArray


def follow_path(
    programme: ConcaveProgramme, solution: ConcaveSolution, unit: float, path: UtilityPath
) -> tuple[ConcaveSolution, float]:
    """Follow a path of utilities, from one with an approximate answer to the last one.

    Parameters
    ----------
    programme : ConcaveProgramme
        Its start and utility are unused.
    solution : ConcaveSolution
        An approximate answer for the first utility.
    unit : float
        Logarithm of the unit of its prices.
    path : UtilityPath

    Returns
    -------
    ConcaveSolution
        For the last utility, each condition met to 1e-9 relative to its user or resource.
    float
        Logarithm of the unit of its prices.

    Raises
    ------
    NoConvergenceError
        When even the shortest stride fails.

    Notes
    -----
    A few to a few dozen Newton steps, as those of `maximize_concave`, for each stride.
    """
    system = System(programme)
    with np.errstate(all="ignore"):
        begin = _PathState(solution.split.copy(), solution.prices.copy(), unit)
        polished = _solve(system, begin, path.at(path.first))
        begin = begin if polished is None else polished
        for all_bid in (False, True):
            place, state = _follow(system, begin, path, all_bid)
            if place == path.last:
                return _solution(system, state, path.at(place)), state.unit
    raise NoConvergenceError(f"the path of utilities ended at {place:.3g}")


def _follow(
    system: System, state: _PathState, path: UtilityPath, all_bid: bool
) -> tuple[float, _PathState]:
    """Follow a path until even short strides fail; return the place reached, and its answer."""
    place, stride = path.first, STRIDE
    while place != path.last:
        rising = path.last > place
        ahead = min(place * stride, path.last) if rising else max(place / stride, path.last)
        begin = _reprice(system, state, path, place, ahead, all_bid)
        trial = _solve(system, begin, path.at(ahead))
        if trial is not None:
            state, place, stride = trial, ahead, min(STRIDE, stride**1.5)
        elif stride > LEAST_STRIDE:
            stride **= 0.5
        else:
            break
    return place, state


def _reprice(
    system: System, state: _PathState, path: UtilityPath, place: float, ahead: float, all_bid: bool
) -> _PathState:
    """Change prices as the worth of units changes to the users that bid for them.

    A user with all its tasks pays the price set by others, and bids only with `all_bid`.
    """
    amount, limit = state.x.sum(axis=1), system.programme.limit
    bids = all_bid | ~(system.limited & (amount >= (1.0 - ENTRY) * limit))
    if not bids.any():
        return state
    risen = path.at(ahead).log_marginal(amount) - path.at(place).log_marginal(amount)
    most = float(risen[bids].max())
    split = np.where(bids[:, None], state.x, 0.0)
    before = system.used(split)
    after = system.used(split * np.exp(np.minimum(risen - most, 0.0))[:, None])
    by_others = after.sum() / before.sum()
    factor = np.where(before > 0, after / np.where(before > 0, before, 1.0), by_others)
    return _PathState(state.x.copy(), state.p * factor, state.unit + most)


def _solve(system: System, state: _PathState, utility: Utility) -> _PathState | None:
    """Return the optimum by Newton's method on the active set; None if it does not converge."""
    x, p, unit = state.x, state.p, state.unit
    held = system.allowed & (x > 0)
    scarce = system.live & (p > 0)
    for step in range(STEPS):
        market = _market(system, x, p, unit, utility)
        more = x / market.amount[:, None] - market.dearness
        excess = market.relevance - market.left
        doubt, entry = 0.0, 0.0
        if step:
            missed = np.where(held & (x != 0), np.abs(market.dearness), 0.0).max()
            unused = np.where(scarce & (p != 0), np.abs(market.left), 0.0).max()
            doubt = HYSTERESIS * min(1.0, float(max(missed, unused)))
            entry = min(doubt, ENTRY)
        held = system.allowed & (more > np.where(held, -doubt, entry))
        scarce = system.live & (excess > np.where(scarce, -doubt, entry))
        fault = _largest_fault(market, x, held, scarce)
        if not np.isfinite(fault):
            return None
        if fault <= SLIGHT:
            return _PathState(x, p, unit)
        try:
            x, p = _step(system, market, x, p, held, scarce)
        except np.linalg.LinAlgError:
            return None
    return None


def _market(system: System, x: FloatArray, p: FloatArray, unit: float, utility: Utility) -> _Market:
    """Return worth and cost of a state; to users at their limit a unit is worth its cost."""
    limit = system.programme.limit
    amount = x.sum(axis=1)
    cost = system.cost(p)
    own = np.where(system.allowed, cost, np.inf).min(axis=1)
    last = np.exp(utility.log_marginal(np.where(system.limited, limit, 1.0)) - unit)
    spare = np.where(system.limited, (limit - amount) / limit, np.inf)
    reached = system.limited & (last > own) & (spare < LARGEST_CHANGE)
    least = ENTRY * np.where(own > 0, own, np.inf).min()
    marginal = np.exp(utility.log_marginal(amount) - unit)
    pays = np.where(reached, own, marginal)
    worth = np.where(reached, np.maximum(own, least), marginal)  # to divide by
    most = np.stack([(use / worth[:, None]).max(axis=0) for use in system.use])
    return _Market(
        amount=amount,
        pays=pays,
        worth=worth,
        elasticity=np.where(reached, 0.0, utility.elasticity(amount)),
        reached=reached,
        spare=spare,
        dearness=np.where(system.allowed, (cost - pays[:, None]) / worth[:, None], np.inf),
        left=np.where(system.live, 1.0 - system.used(x), 1.0),
        relevance=p * most,
        most=most,
    )


def _largest_fault(market: _Market, x: FloatArray, held: BoolArray, scarce: BoolArray) -> float:
    """Return the largest residual of a condition; NaN if there is none."""
    part = np.abs(x) / market.amount[:, None]
    faults = [
        np.where(held, np.abs(market.dearness), np.maximum(part, -market.dearness)),
        np.where(scarce, np.abs(market.left), np.maximum(np.abs(market.relevance), -market.left)),
        np.where(market.reached, np.abs(market.spare), np.maximum(-market.spare, 0.0)),
    ]
    return float(np.max([fault.max() for fault in faults]))


def _step(
    system: System,
    market: _Market,
    x: FloatArray,
    p: FloatArray,
    held: BoolArray,
    scarce: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """Take one step of Newton's method on the equations of the active set."""
    amount, worth = market.amount, market.worth
    held = held.copy()
    nowhere = ~held.any(axis=1)
    held[nowhere, market.dearness[nowhere].argmin(axis=1)] = True
    x, p = np.where(held, x, 0.0), np.where(scarce, p, 0.0)
    ease = np.maximum(np.abs(x), LEAST_EASE * amount[:, None])
    theta = np.where(held, ease / (FORCE * worth)[:, None], 0.0)
    hold = np.where(market.reached, worth / (FORCE * amount), 0.0)
    bend = worth * market.elasticity / amount
    stiffness = bend + hold
    diagonal = STIFFNESS / np.maximum(p, LEAST_PRICE / np.maximum(market.most, TINY))
    solve = system.eliminate_users(theta, stiffness, diagonal, scarce, RIDGE)
    # A dropped entry changes the total, and with it the worth of a unit.
    worth_now = market.pays + bend * (amount - x.sum(axis=1))
    moved = theta * np.where(held, worth_now[:, None] - system.cost(p), 0.0)
    push = np.where(market.reached, hold * (x.sum(axis=1) - system.programme.limit), 0.0)
    over = np.where(scarce, system.used(x) - 1.0, 0.0)
    dp, dearer, change = solve(moved, push, over)
    dx = np.where(held, moved - theta * (dearer + (push + stiffness * change)[:, None]), 0.0)
    counts = (p > 0) & (market.relevance > SMALL_PRICE)
    falls = np.where(counts, np.abs(dp) / np.where(p > 0, p, 1.0), 0.0)
    length = min(
        1.0,
        LARGEST_CHANGE / max(float((np.abs(dx.sum(axis=1)) / amount).max()), TINY),
        LARGEST_FALL / max(float(falls.max()), TINY),
    )
    return _change_split(x, amount, length * dx), _change_prices(p, length * dp)


def _change_split(x: FloatArray, amount: FloatArray, dx: FloatArray) -> FloatArray:
    """Change a split, and keep totals from vanishing."""
    moved = x + dx
    low = moved.sum(axis=1) <= 0.1 * amount
    moved[low] = np.maximum(moved[low], 0.0)
    total = np.maximum(moved[low].sum(axis=1), TINY)
    moved[low] *= (LARGEST_CHANGE * amount[low] / total)[:, None]
    return moved


def _change_prices(p: FloatArray, dp: FloatArray) -> FloatArray:
    """Change prices by factors, as marginal utilities change; the least ones by sums."""
    ratio = np.where(p > 0, dp / np.where(p > 0, p, 1.0), 0.0)
    by_factor = (p > 0) & (ratio > -2.0 * LARGEST_FALL)
    return np.where(by_factor, p * np.exp(np.clip(ratio, None, 20.0)), p + dp)


def _solution(system: System, state: _PathState, utility: Utility) -> ConcaveSolution:
    """Return the solution, without entries that are rounding errors."""
    x = np.where(system.allowed, np.maximum(state.x, 0.0), 0.0)
    x[x < RIDGE * x.sum(axis=1, keepdims=True)] = 0.0
    prices = np.maximum(state.p, 0.0)
    marginal = np.exp(utility.log_marginal(x.sum(axis=1)) - state.unit)
    dearer = np.maximum(system.cost(prices) - marginal[:, None], 0.0)
    return ConcaveSolution(x, prices, np.where(system.allowed, dearer, np.inf), marginal, SLIGHT)
