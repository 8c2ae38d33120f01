"""The proof of eq. 17 in stages, where what some users spend is a rounding error to others.

Prices of what only poor users need are lost beside what the rich pay: a rich user that could run on
either of two servers at the same price takes what the poor need, and no number shows it. So those
who spend most are judged first, at prices that show what they pay. Then their totals are taken as
given, where they run is not, and others are judged at prices of their own; and so on, until
everybody was in sight. What is wrong with somebody who spends less than that counts in proportion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.certificates.feasibility import (
    measure_misplacement,
    measure_resource_overuse,
    measure_time_overuse,
)
from fairlead.certificates.utility import AGREED, NEGLIGIBLE, STRAIGHT, TOLERANCE
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem

# Who spends less than this part of what another spends is out of sight.
SIGHT = 1e-3


@dataclass(frozen=True, eq=False)
class Stage:
    """Prices at which those who spend most, of users not yet settled, are judged."""

    prices: FloatArray  # (R, G): of each whole resource of each group
    unit: float  # logarithm of their unit, in that of the marginal utilities


def certify_in_stages(
    problem: Problem,
    tasks: FloatArray,
    log_marginal: FloatArray,
    elasticity: FloatArray,
    stages: Sequence[Stage],
    *,
    score: FloatArray | None = None,
    time_shared: bool = False,
    what: str = "no feasible allocation has sum phi (x - x*) / x*^a > 0 (eq. 17",
) -> Certificate:
    """Certify that an allocation has the largest sum of utilities, richest users first.

    Parameters
    ----------
    problem, tasks, log_marginal, elasticity, score, time_shared, what
        As for `fairlead.certificates.utility.certify_largest_utility`.
    stages : sequence of Stage
        Any will do; only those of the optimum show that it is one.

    Returns
    -------
    Certificate
        Its violation is the largest fault of any stage, the overuse of a resource (of time), and
        the share of misplaced tasks; infinite where somebody is out of sight in all stages.

    Notes
    -----
    A fault of e in one stage is one of e times 1/1000 of what its richest user spends at most to
    all that spend less. Cost O(N G R) for each stage.
    """
    per_task = np.ones_like(tasks) if score is None else score
    use = use_per_task(problem, time_shared)
    settled = np.zeros(len(tasks), dtype=bool)
    faults = dict.fromkeys(("tasks", "dear", "idle"), 0.0)
    with np.errstate(all="ignore"):
        for stage in stages:
            found, seen = _measure_stage(
                problem,
                use,
                tasks,
                per_task,
                log_marginal - stage.unit,
                elasticity,
                stage.prices,
                settled,
            )
            faults = {name: max(fault, found[name]) for name, fault in faults.items()}
            settled = settled | seen
    unseen = 0.0 if settled.all() else np.inf
    overuse = (measure_time_overuse if time_shared else measure_resource_overuse)(problem, tasks)
    misplaced = measure_misplacement(problem, tasks)
    return Certificate(
        condition=f"{what}; proved by prices, in {len(stages)} stages)",
        violation=max(*faults.values(), overuse, misplaced, unseen),
        tolerance=TOLERANCE,
        detail={**faults, "overuse": overuse, "misplaced": misplaced},
    )


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
    """Measure faults as `measure_price_faults` does, each by what it costs; and who is in sight."""
    allowed = problem.gamma > 0
    taken = use * tasks
    held = tasks * per_task
    total = held.sum(axis=1)
    left = 1.0 - taken.sum(axis=1)
    priced = np.where(np.isfinite(prices) & (prices > 0) & (left <= TOLERANCE), prices, 0.0)
    marginal = np.where(settled, np.inf, np.exp(log_marginal))
    own = _cost(use, priced, per_task, allowed).min(axis=1)
    sight = SIGHT * float((total * np.minimum(marginal, own))[~settled].max(initial=0.0))
    least = NEGLIGIBLE * np.maximum(np.minimum(marginal, own), sight / total)[:, None] * per_task
    priced = np.where((use * priced[:, None] > least).any(axis=1), priced, 0.0)
    cost = _cost(use, priced, per_task, allowed)
    cheapest = cost.min(axis=1)

    def counts(money: FloatArray) -> FloatArray:
        return np.minimum(money / sight, 1.0) if sight > 0 else np.ones_like(money)

    wanted = (log_marginal - np.log(cheapest)) / np.maximum(elasticity, STRAIGHT)
    room = np.log(problem.task_limit) - np.log(tasks.sum(axis=1))
    worst_off = 1.0 - np.exp(-np.abs(np.minimum(wanted, np.maximum(room, 0.0))))
    worst_off = worst_off * counts(total * np.maximum(marginal, cheapest))
    dearness = np.where((held > 0) & (cost > 0), 1.0 - cheapest[:, None] / cost, 0.0)
    part = np.maximum(held / total[:, None], taken.max(axis=0))
    dear = np.minimum(dearness, part) * counts(cost * held)
    extra = np.maximum(cost * (1.0 - AGREED) - cheapest[:, None], 0.0)
    dearer = np.where(taken * priced[:, None] > 0, extra * per_task / (use * priced[:, None]), 0.0)
    dust = np.where(dearer > TOLERANCE, np.minimum(dearer, taken), 0.0).sum(axis=1)
    faults = {
        "tasks": _largest(np.where(settled, 0.0, worst_off)),
        "dear": max(_largest(dear[held > 0]), _largest(dust * counts(priced))),
        "idle": _largest(left * counts(priced) * (priced > 0)),
    }
    return faults, total * marginal >= sight


def _cost(
    use: FloatArray, prices: FloatArray, per_task: FloatArray, allowed: BoolArray
) -> FloatArray:
    return np.where(allowed, (use * prices[:, None]).sum(axis=0) / per_task, np.inf)


def _largest(faults: FloatArray) -> float:
    """Return the largest, infinite where one is not a number."""
    return np.inf if np.isnan(faults).any() else float(faults.max(initial=0.0))
