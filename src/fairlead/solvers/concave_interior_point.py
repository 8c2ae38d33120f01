"""Mehrotra's primal-dual interior-point method for a sum of concave utilities.

`fairlead.solvers.concave_programme` states the programme and its equations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.errors import NoConvergenceError
from fairlead.solvers.concave_programme import (
    ConcaveProgramme,
    ConcaveSolution,
    Point,
    Residuals,
    System,
)
from fairlead.solvers.utility_continuation import polish

MAXIMUM_ITERATIONS = 200
GAP_TARGET = 1e-12  # residual at which the search ends
GAP_ACCEPTED = 1e-4  # largest residual of an answer
# If the residual is below GAP_SMALL, `PATIENCE` steps that do not halve it end the search.
GAP_SMALL = 1e-8
PATIENCE = 4
PATIENCE_FAR = 25  # steps without a new smallest residual, after which the search ends


@dataclass(frozen=True)
class _Stepping:
    """Parameters of a step."""

    # Smallest target of the mean product of complementary unknowns, relative to the present mean.
    least_centring: float
    second_order: bool  # whether the step corrects for the curvature along the predictor
    to_boundary: float  # longest step, as a fraction of the distance to the boundary
    relative: bool = False  # whether complementary products are relative to each user's spending


BOLD = _Stepping(least_centring=1e-4, second_order=True, to_boundary=0.995)
# With steep utilities the second-order correction may diverge.
CAREFUL = _Stepping(least_centring=0.1, second_order=False, to_boundary=0.9)
# For users whose spending differs by many orders of magnitude.
RELATIVE = _Stepping(least_centring=0.1, second_order=False, to_boundary=0.9, relative=True)


def maximize_concave(programme: ConcaveProgramme) -> ConcaveSolution:
    """Find a split of the largest sum of utilities, and its prices.

    Raises
    ------
    NoConvergenceError
        When the final residual of the optimality conditions is above 1e-4.

    Notes
    -----
    Mehrotra's predictor-corrector method, with one step length for primal and dual unknowns because
    the curved utilities tie the two. About 15 to 60 iterations of
    O(N G R^2 + N (G R)^2 / 2 + (G R)^3), the middle term as one matrix product. If these do not
    converge, the search is repeated with shorter steps, without second-order correction. `polish`
    finds the last digits.
    """
    system = System(programme)
    solution = _follow(system, BOLD)
    for stepping in (CAREFUL, RELATIVE):
        if solution.gap <= GAP_SMALL:
            break
        other = _follow(system, stepping)
        solution = other if other.gap < solution.gap else solution
    if not solution.gap <= GAP_ACCEPTED:
        raise NoConvergenceError(
            f"the largest sum of utilities was not found: residual {solution.gap:.2g}, "
            f"more than {GAP_ACCEPTED:g}"
        )
    return solution


def _follow(system: System, stepping: _Stepping) -> ConcaveSolution:
    """Step until the residual is small or stops falling; return the best point, polished."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        point = system.start()
        best, best_residuals = point, system.residuals(point)
        residuals = best_residuals
        stale = iteration = best_iteration = 0
        while (
            iteration < MAXIMUM_ITERATIONS
            and stale < PATIENCE
            and iteration - best_iteration < PATIENCE_FAR
        ):
            if residuals.largest <= GAP_TARGET:
                break
            iteration += 1
            try:
                point = _iterate(system, point, residuals, stepping)
            except np.linalg.LinAlgError:
                break
            residuals = system.residuals(point)
            if not np.isfinite(residuals.largest):
                break
            if residuals.largest < best_residuals.largest:
                stale = stale if residuals.largest > 0.5 * best_residuals.largest else 0
                best, best_residuals, best_iteration = point, residuals, iteration
            stale += best_residuals.largest < GAP_SMALL
    return polish(system, best, best_residuals.largest)


def _iterate(system: System, point: Point, residuals: Residuals, stepping: _Stepping) -> Point:
    """Return the point after one predictor-corrector step."""
    scales = system.scales(point, stepping.relative)
    mu = system.mu(point, scales)
    solve = system.newton(point, residuals)
    products, slack, spare = point.x * point.z, point.s * point.p, point.t * point.w
    predictor = solve(-products, -slack, -spare, residuals.log_marginal)
    reach = system.longest_step(point, predictor)
    ahead = point.stepped(predictor, stepping.to_boundary * reach)
    target = mu * min(1.0, max((system.mu(ahead, scales) / mu) ** 3, stepping.least_centring))
    log_marginal = residuals.log_marginal
    if stepping.second_order:
        products = products + predictor.x * predictor.z
        slack = slack + predictor.s * predictor.p
        spare = spare + predictor.t * predictor.w
        # The part of the residual ahead that the linear equation did not predict.
        nonlinear = system.residuals(ahead).log_marginal - (1.0 - reach) * log_marginal
        log_marginal = log_marginal + reach * nonlinear
    corrector = solve(
        target * scales.spending[:, None] - products,
        target * scales.group_price - slack,
        np.where(system.limited, target * scales.spending - spare, 0.0),
        log_marginal,
    )
    reach = system.longest_step(point, corrector)
    return point.stepped(corrector, min(1.0, stepping.to_boundary * reach))
