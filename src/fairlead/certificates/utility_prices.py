"""The proof that a sum of concave utilities is largest, by prices, user by user (eq. 17).

An allocation x* has the largest sum if and only if resources have prices p >= 0 such that

- resources with a price are used up;
- every user n runs only on groups g where a unit of its score costs least. A task there costs
  c[n,g] and scores u[n,g], so that a unit costs q[n] = min_g c[n,g] / u[n,g];
- every user has the score Z[n] that it would buy at that price, where f_n'(Z[n]) = q[n]. It has
  less if its task limit is reached, and nothing if even the first unit is not worth its price.

For alpha-fair utilities that is eq. 17 of Kesidis et al.: no feasible x has
``sum phi (x - x*) / x*^a > 0``. That sum is a poor measure: with a = 8 a user counts 10^8 times
as much as a user with ten times as many tasks, so errors of the latter vanish in the sum. Therefore
each condition is measured separately, relative to its user or resource. An answer with violation e
is exact for a problem whose capacities and demands differ from the given ones by about e.

The prices need not be trusted. Negative prices, prices of resources that are not used up, and
prices that are negligible for every user count as zero.

If some users spend so little that it is a rounding error of what others spend, the proof is in
stages. A user that spends much, and may run on two servers at the same price, may take capacity
that another user needs, and no price shows it. So the users that spend most are judged first. Then
their totals (but not their servers) are fixed, and the others are judged at new prices, until every
user has been judged. The violations of a user count in proportion to its spending, and fully if it
spends at least the fraction `JUDGED_SPENDING` of the stage's largest spending.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.certificates.overuse import TOLERANCE, certify_with_feasibility
from fairlead.errors import NoConvergenceError
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.solvers.linear_programmes import measure_progress

# A utility of smaller elasticity counts as linear: then prices hardly determine the tasks, and zero
# tasks may be right.
SMALLEST_ELASTICITY = 1e-2
# A price is a rounding error if for every user it is below this fraction of a task's worth.
NEGLIGIBLE = 1e-9
# Costs with a smaller relative difference count as equal.
EQUAL_COST = 1e-14
# A user that spends less than this fraction of the largest spending is not judged in that stage.
JUDGED_SPENDING = 1e-3
ALPHA_FAIR = "no feasible allocation has sum phi (x - x*) / x*^a > 0 (eq. 17"


@dataclass(frozen=True, eq=False)
class Stage:
    """Prices at which the users that spend most, of those not yet settled, are judged."""

    prices: FloatArray  # (R, G): of each whole resource of each group, divided by exp(unit)
    unit: float  # logarithm of the unit of the prices


def certify_largest_utility(
    problem: Problem,
    tasks: FloatArray,
    log_marginal: FloatArray,
    elasticity: FloatArray,
    stages: Sequence[Stage],
    *,
    score: FloatArray | None = None,
    time_shared: bool = False,
    what: str = ALPHA_FAIR,
) -> Certificate:
    """Certify that an allocation has the largest sum of utilities.

    Parameters
    ----------
    problem : Problem
    tasks : (N, G) float
        x*, tasks of each user on each whole group.
    log_marginal : (N,) float
        log f_n'(Z*[n]), the marginal utility of each user's score at x*, from the definition.
    elasticity : (N,) float
        -Z* f_n''(Z*) / f_n'(Z*), the relative fall of f_n' with a rising score.
    stages : sequence of Stage
        Prices, in one stage or in several, largest spenders first. Any prices are valid; only
        optimal ones prove an optimum.
    score : (N, G) float, optional
        u, the score of one task of each user on each group; 1 when absent.
    time_shared : bool
        Whether servers are shared by time (TDM) instead of divided by resource (RDM).
    what : str
        The condition in words, without the closing bracket.

    Returns
    -------
    Certificate
        Its violation is the largest of: the three violations of `_measure_price_faults`, the
        overuse of a resource (or of time), and the fraction of misplaced tasks. It is infinite if a
        user is not judged in any of several stages.

    Notes
    -----
    Kesidis et al., eq. 17 and Proposition 2. Cost O(N G R) for each stage.
    """
    per_task = np.ones_like(tasks) if score is None else score
    use = use_per_task(problem, time_shared)
    if len(stages) == 1:
        how = "user by user"
        logs = log_marginal - stages[0].unit
        prices = stages[0].prices
        faults = _measure_price_faults(problem, use, tasks, per_task, logs, elasticity, prices)
    else:
        how = f"in {len(stages)} stages"
        settled = np.zeros(len(tasks), dtype=bool)
        faults = dict.fromkeys(("tasks", "dear", "idle"), 0.0)
        with np.errstate(all="ignore"):
            for stage in stages:
                logs = log_marginal - stage.unit
                found, judged = _measure_stage(
                    problem, use, tasks, per_task, logs, elasticity, stage.prices, settled
                )
                faults = {name: max(fault, found[name]) for name, fault in faults.items()}
                settled = settled | judged
        if not settled.all():
            faults["tasks"] = np.inf
    condition = f"{what}; proved by prices, {how})"
    return certify_with_feasibility(condition, faults, problem, tasks, time_shared=time_shared)


def _measure_price_faults(
    problem: Problem,
    use: FloatArray,
    tasks: FloatArray,
    per_task: FloatArray,
    log_marginal: FloatArray,
    elasticity: FloatArray,
    prices: FloatArray,
) -> dict[str, float]:
    """Return by how much tasks violate the module's three conditions at given prices.

    The violations:

    - ``tasks``: the largest relative difference between a user's tasks and those it would buy.
    - ``dear``: the largest fraction of a user's score, or of a group's resource, that is bought at
      a higher price than elsewhere. The relative price difference counts instead if it is smaller
      (for a resource, relative to the spending on this resource only).
    - ``idle``: the largest unused fraction of a resource with a price.
    """
    allowed = problem.gamma > 0
    left = 1.0 - np.stack([(taken * tasks).sum(axis=0) for taken in use])
    priced = np.where(np.isfinite(prices) & (prices > 0) & (left <= TOLERANCE), prices, 0.0)
    with np.errstate(over="ignore"):
        least = NEGLIGIBLE * np.exp(log_marginal)[:, None] * per_task
    matters = np.stack(
        [(taken * price > least).any(axis=0) for taken, price in zip(use, priced, strict=True)]
    )
    priced = np.where(matters, priced, 0.0)
    cost = sum(taken * price for taken, price in zip(use, priced, strict=True)) / per_task
    cost = np.where(allowed, cost, np.inf)
    cheapest = cost.min(axis=1)
    held = tasks * per_task
    total = held.sum(axis=1)
    is_curved = elasticity >= SMALLEST_ELASTICITY
    with np.errstate(divide="ignore", invalid="ignore"):
        dearness = np.where(held > 0, 1.0 - cheapest[:, None] / cost, 0.0)
        part = np.where(is_curved[:, None], held / total[:, None], 0.0)
        wanted, tasks_error = _wanted_change(problem, tasks, log_marginal, cheapest, elasticity)
    dearness = np.nan_to_num(dearness, nan=0.0)  # if all prices are 0
    largest_part = np.zeros(len(tasks))
    dear = too_much = 0.0
    unwanted = np.where(~is_curved & (wanted <= 0) & (tasks_error > TOLERANCE), tasks_error, 0.0)[
        :, None
    ]
    with np.errstate(invalid="ignore"):
        extra = np.maximum(cost * (1.0 - EQUAL_COST) - cheapest[:, None], 0.0) * per_task
        agree = allowed & (cost * (1.0 - EQUAL_COST) <= cheapest[:, None])
    # Rounding errors of the costs of a user that could run elsewhere at the same price. Such a user
    # may take capacity that others need.
    uncertain = np.where(
        agree & (agree.sum(axis=1) > 1)[:, None], EQUAL_COST * cost * per_task, 0.0
    )
    doubt = 0.0
    # A user that spends much may take capacity that others need, at a price negligible to it. So
    # each excess cost is also measured relative to the spending on each single resource.
    for taken, price in zip(use, priced, strict=True):
        taken_here = taken * tasks
        np.maximum(part, taken_here, out=part)
        np.maximum(largest_part, taken_here.max(axis=1), out=largest_part)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(taken_here * price > 0, extra / (taken * price), dearness)
            hidden = np.where(taken_here * price > 0, uncertain / (taken * price), 0.0)
        excess = np.where(relative > TOLERANCE, np.minimum(relative, taken_here), 0.0)
        dear = max(dear, float(excess.sum(axis=0).max()))
        doubt = max(doubt, float(np.minimum(hidden, taken_here).max()))
        too_much = max(too_much, float(np.minimum(unwanted, taken_here).sum(axis=0).max()))
    # Excess tasks of a nearly linear utility count by the resources that they take.
    tasks_error = np.where(
        is_curved | (wanted > 0), tasks_error, np.minimum(tasks_error, largest_part)
    )
    if doubt > TOLERANCE:
        dear = max(dear, _gain_in_doubt(problem, use, tasks, doubt))
    return {
        "tasks": max(too_much, _largest(tasks_error)),
        "dear": max(dear, _largest(np.minimum(dearness, part))),
        "idle": _largest(np.where(priced > 0, left, 0.0)),
    }


def _wanted_change(
    problem: Problem,
    tasks: FloatArray,
    log_marginal: FloatArray,
    cheapest: FloatArray,
    elasticity: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the change of its tasks that each user would buy, and the relative error, both (N,).

    The change is the logarithm of a factor. The error is the relative change up to the task limit.
    `cheapest` (N,) is the least cost of a unit of score.
    """
    wanted = (log_marginal - np.log(cheapest)) / np.maximum(elasticity, SMALLEST_ELASTICITY)
    room = np.log(problem.task_limit) - np.log(tasks.sum(axis=1))
    return wanted, 1.0 - np.exp(-np.abs(np.minimum(wanted, np.maximum(room, 0.0))))


def _gain_in_doubt(problem: Problem, use: FloatArray, tasks: FloatArray, doubt: float) -> float:
    """Return the possible gain of a user without cost, at most `doubt`, by a linear programme."""
    total = tasks.sum(axis=1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        part, most = tasks / total, np.maximum(problem.task_limit / total[:, 0], 1.0)
    if not np.isfinite(part).all():
        return doubt
    taken = use * total
    capacity = np.maximum(1.0, (taken * part).sum(axis=1))
    try:
        progress = measure_progress(taken, problem.gamma > 0, part, most, capacity)
    except NoConvergenceError:
        return doubt
    return min(doubt, 2.0 * TOLERANCE * progress)


def _largest(faults: FloatArray) -> float:
    """Return the largest violation; infinite if one is NaN."""
    return np.inf if np.isnan(faults).any() else float(faults.max(initial=0.0))


def _measure_stage(
    problem: Problem,
    use: FloatArray,
    tasks: FloatArray,
    per_task: FloatArray,
    log_marginal: FloatArray,
    elasticity: FloatArray,
    prices: FloatArray,
    settled: BoolArray,
) -> tuple[dict[str, float], BoolArray]:
    """Return the violations of `_measure_price_faults` in one stage, and (N,) the judged users.

    Users judged in earlier stages are `settled`. The other users count in proportion to their
    spending, and fully from `JUDGED_SPENDING` times the largest spending of an unsettled user on.
    """
    allowed = problem.gamma > 0
    taken = use * tasks
    held = tasks * per_task
    total = held.sum(axis=1)
    left = 1.0 - taken.sum(axis=1)
    priced = np.where(np.isfinite(prices) & (prices > 0) & (left <= TOLERANCE), prices, 0.0)
    marginal = np.where(settled, np.inf, np.exp(log_marginal))
    own = _cost(use, priced, per_task, allowed).min(axis=1)
    judged_from = JUDGED_SPENDING * float(
        (total * np.minimum(marginal, own))[~settled].max(initial=0.0)
    )
    least = (
        NEGLIGIBLE * np.maximum(np.minimum(marginal, own), judged_from / total)[:, None] * per_task
    )
    priced = np.where((use * priced[:, None] > least).any(axis=1), priced, 0.0)
    cost = _cost(use, priced, per_task, allowed)
    cheapest = cost.min(axis=1)

    def weight_of(spending: FloatArray) -> FloatArray:
        if judged_from > 0:
            return np.minimum(spending / judged_from, 1.0)
        return np.ones_like(spending)

    _, tasks_error = _wanted_change(problem, tasks, log_marginal, cheapest, elasticity)
    tasks_error = tasks_error * weight_of(total * np.maximum(marginal, cheapest))
    dearness = np.where((held > 0) & (cost > 0), 1.0 - cheapest[:, None] / cost, 0.0)
    part = np.maximum(held / total[:, None], taken.max(axis=0))
    dear = np.minimum(dearness, part) * weight_of(cost * held)
    extra = np.maximum(cost * (1.0 - EQUAL_COST) - cheapest[:, None], 0.0)
    relative = np.where(
        taken * priced[:, None] > 0, extra * per_task / (use * priced[:, None]), 0.0
    )
    excess = np.where(relative > TOLERANCE, np.minimum(relative, taken), 0.0).sum(axis=1)
    faults = {
        "tasks": _largest(np.where(settled, 0.0, tasks_error)),
        "dear": max(_largest(dear[held > 0]), _largest(excess * weight_of(priced))),
        "idle": _largest(left * weight_of(priced) * (priced > 0)),
    }
    return faults, total * marginal >= judged_from


def _cost(
    use: FloatArray, prices: FloatArray, per_task: FloatArray, allowed: BoolArray
) -> FloatArray:
    """Return the cost (N, G) of a unit of score; infinite where a user may not run."""
    return np.where(allowed, (use * prices[:, None]).sum(axis=0) / per_task, np.inf)
