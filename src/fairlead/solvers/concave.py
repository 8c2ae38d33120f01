"""Divide so that a sum of concave utilities is largest: a primal-dual interior-point method.

`fairlead.solvers.concave_system` has the programme and its equations.

It begins where everybody is raised together as far as it goes; that, and straight utilities whose
worth lies many orders of magnitude apart, are linear programmes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, vstack

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.solvers.concave_finish import finish
from fairlead.solvers.concave_system import (
    ConcaveProgramme,
    ConcaveSolution,
    Point,
    Residuals,
    System,
)

MAXIMUM_ITERATIONS = 200
GAP_TARGET = 1e-12
GAP_ACCEPTED = 1e-4
# Below this, steps that gain nothing end the search.
GAP_SMALL = 1e-8
PATIENCE = 4
# Steps anywhere that bring nothing closer than before.
PATIENCE_FAR = 25
# The solver's tightest tolerances.
TIGHTEST = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# By how much less settled users may have.
SLACK = 1e-9


@dataclass(frozen=True)
class _Manner:
    """How boldly to go."""

    least_centring: float  # the least target of the next mean product, relative to the present one
    second_order: bool  # whether the step corrects for what a first, straight one would miss
    to_boundary: float  # how far of the way to where something is zero
    # Whether products of complementary unknowns go to zero relative to what each user spends.
    each_its_own: bool = False


BOLD = _Manner(least_centring=1e-4, second_order=True, to_boundary=0.995)
# Steep utilities sometimes upset the second-order correction.
CAREFUL = _Manner(least_centring=0.1, second_order=False, to_boundary=0.9)
# Where some users spend many orders of magnitude less than others.
DISCERNING = _Manner(least_centring=0.1, second_order=False, to_boundary=0.9, each_its_own=True)


def maximize_concave(programme: ConcaveProgramme) -> ConcaveSolution:
    """Find a split of the largest sum of utilities, and its prices.

    Raises
    ------
    NoConvergenceError
        When the optimality conditions are still missed by more than 1e-4 at the end.

    Notes
    -----
    Mehrotra's predictor-corrector method, with one step for primal and dual unknowns because the
    curved utilities tie the two; about 15 to 60 iterations of
    O(N G R^2 + N (G R)^2 / 2 + (G R)^3), the middle term as one matrix product. Where that does not
    come close, plain steps towards the central path, shorter and more of them. The last digits
    come from `finish`.
    """
    system = System(programme)
    solution = _follow(system, BOLD)
    for manner in (CAREFUL, DISCERNING):
        if solution.gap <= GAP_SMALL:
            break
        other = _follow(system, manner)
        solution = other if other.gap < solution.gap else solution
    if not solution.gap <= GAP_ACCEPTED:
        raise NoConvergenceError(
            f"the sum of utilities stopped at a residual of {solution.gap:.2g}"
        )
    return solution


def _follow(system: System, manner: _Manner) -> ConcaveSolution:
    """Step until the optimality conditions are met, or nothing is gained any more."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        point = system.start()
        best, best_residuals = point, system.residuals(point)
        residuals = best_residuals
        stale = iteration = closest = 0
        while (
            iteration < MAXIMUM_ITERATIONS
            and stale < PATIENCE
            and iteration - closest < PATIENCE_FAR
        ):
            if residuals.largest <= GAP_TARGET:
                break
            iteration += 1
            try:
                point = _iterate(system, point, residuals, manner)
            except np.linalg.LinAlgError:
                break
            residuals = system.residuals(point)
            if not np.isfinite(residuals.largest):
                break
            if residuals.largest < best_residuals.largest:
                stale = stale if residuals.largest > 0.5 * best_residuals.largest else 0
                best, best_residuals, closest = point, residuals, iteration
            stale += best_residuals.largest < GAP_SMALL
    return finish(system, best, best_residuals.largest, iteration)


def _iterate(system: System, point: Point, residuals: Residuals, manner: _Manner) -> Point:
    """Take one predictor-corrector step."""
    money = system.money(point, manner.each_its_own)
    mu = system.mu(point, money)
    solve = system.newton(point, residuals)
    products, slack, spare = point.x * point.z, point.s * point.p, point.t * point.w
    predictor = solve(-products, -slack, -spare, residuals.log_marginal)
    reach = system.longest_step(point, predictor)
    ahead = point.stepped(predictor, manner.to_boundary * reach)
    target = mu * min(1.0, max((system.mu(ahead, money) / mu) ** 3, manner.least_centring))
    bent = residuals.log_marginal
    if manner.second_order:
        products = products + predictor.x * predictor.z
        slack = slack + predictor.s * predictor.p
        spare = spare + predictor.t * predictor.w
        missed = system.residuals(ahead).log_marginal - (1.0 - reach) * bent
        bent = bent + reach * missed
    corrector = solve(
        target * money.spent[:, None] - products,
        target * money.worth - slack,
        np.where(system.limited, target * money.spent - spare, 0.0),
        bent,
    )
    reach = system.longest_step(point, corrector)
    return point.stepped(corrector, min(1.0, manner.to_boundary * reach))


def raise_together(
    programme: ConcaveProgramme, settled: BoolArray, amount: FloatArray
) -> FloatArray | None:
    """Return feasible totals of the largest least multiple of an amount, but for the settled.

    Parameters
    ----------
    programme : ConcaveProgramme
        Its start and utility are not looked at.
    settled : (N,) bool
        Users who have their limits, less 1e-9 of them.
    amount : (N,) float
        Of all users, positive.

    Returns
    -------
    (N,) float or None
        None where the programme is not solved.

    Notes
    -----
    One linear programme of at most N G + 1 unknowns and 2 N + G R rows, by HiGHS.
    """
    system = System(programme)
    user, group = np.nonzero(system.allowed)
    pairs = np.arange(len(user))
    shape = (system.allowed.shape[1], len(user))
    rows = [
        csr_array((use[user, group] * amount[user], (group, pairs)), shape) for use in system.use
    ]
    own = csr_array((np.ones(len(user)), (user, pairs)), (len(amount), len(user)))
    bounded = system.limited & ~settled
    least = np.where(settled, 0.0, 1.0)[:, None]
    none = csr_array((len(rows) * shape[0] + int(bounded.sum()), 1))
    matrix = vstack([hstack([vstack([*rows, own[bounded]]), none]), hstack([-own, least])])
    found = linprog(
        np.append(np.zeros(len(user)), -1.0),
        A_ub=matrix.tocsr(),
        b_ub=np.concatenate(
            [
                np.ones(len(rows) * shape[0]),
                (programme.limit / amount)[bounded],
                np.where(settled, SLACK - 1.0, 0.0),
            ]
        ),
        method="highs",
        options=TIGHTEST,
    )
    if found.status != 0:
        return None
    total: FloatArray = amount * np.bincount(user, found.x[:-1], len(amount))
    return np.where(settled, programme.limit, total)


def maximize_straight(programme: ConcaveProgramme, worth: FloatArray) -> ConcaveSolution:
    """Find a split of the largest ``sum_n worth[n] X[n]``, and its prices.

    Parameters
    ----------
    programme : ConcaveProgramme
        Its start and utility are not looked at.
    worth : (N,) float
        What a unit is worth to each user.

    Raises
    ------
    NoConvergenceError
        When the programme cannot be solved.

    Notes
    -----
    One linear programme of at most N G unknowns and N + G R rows, by HiGHS's simplex method; the
    answer is a corner of all best ones. Unknowns are counted in worth, so that prices are equally
    exact for each user, be a unit worth 10^-12 of what it is to another.
    """
    system = System(programme)
    user, group = np.nonzero(system.allowed)
    pairs = np.arange(len(user))
    taken = system.use[:, user, group] / worth[user]
    shape = (system.allowed.shape[1], len(user))
    rows = [csr_array((row, (group, pairs)), shape) for row in taken]
    part = 1.0 / (worth * np.where(system.limited, programme.limit, 1.0))
    limits = csr_array((part[user], (user, pairs)), shape=(len(worth), len(user)))
    matrix = vstack([*rows, limits[system.limited]]).tocsr()
    found = linprog(
        -np.ones(len(user)),
        A_ub=matrix,
        b_ub=np.ones(matrix.shape[0]),
        method="highs-ds",
        options=TIGHTEST | {"presolve": False},
    )
    if found.status != 0:
        raise NoConvergenceError(f"no linear programme of tasks: {found.message}")
    split = np.zeros(system.allowed.shape)
    split[user, group] = np.maximum(found.x, 0.0) / worth[user]
    prices = np.maximum(-found.ineqlin.marginals[: system.live.size], 0.0)
    prices = prices.reshape(system.live.shape)
    dearer = np.maximum(system.cost(prices) - worth[:, None], 0.0)
    reduced = np.where(system.allowed, dearer, np.inf)
    return ConcaveSolution(split, prices, reduced, worth, 0.0, int(found.nit))
