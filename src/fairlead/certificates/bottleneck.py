"""Does every user have a bottleneck on every server it may use? Theorems 1 and 2 of PS-DSF.

A resource of a server is a user's bottleneck there if the user demands it, it is used up, and
nobody who is served some of it there has a higher share than the user, shares being counted as the
server sees them. An allocation is PS-DSF exactly if every user below its task limit has a
bottleneck on every server that could run its tasks (Theorem 1); on a single pool that is DRF. Where
users share a server's time, time is its only resource (Theorem 2).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fairlead.certificates.feasibility import (
    measure_misplacement,
    measure_resource_overuse,
    measure_time_overuse,
)
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem

TOLERANCE = 1e-6
# Limits closer than this (relative) count as reached.
REACHED = 1e-9


def measure_missing_bottleneck(
    share: FloatArray, tasks: FloatArray, use: Iterable[FloatArray], counted: BoolArray
) -> float:
    """Measure by how much the worst-off counted pair of user and server misses a bottleneck.

    `share` (N, G) is as each server sees it, over weight; `use`, R times (N, G) or (N, 1), is
    relative to capacity, 0 where not demanded. The maximum over pairs of the minimum over demanded
    resources of the larger of two numbers: the fraction of the resource that is left, and the
    relative excess of the highest share that is served some of it over the user's own.
    Khamse-Ashari et al. 2017, Definition 6 and Theorem 1. O(N G R).
    """
    served = tasks > 0
    missing = np.full(share.shape, np.inf)
    for taken in use:
        unused = 1.0 - (tasks * taken).sum(axis=0)
        asks = np.broadcast_to(taken > 0, share.shape)
        highest = np.where(served & asks, share, 0.0).max(axis=0, initial=0.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            excess = np.where(highest > share, highest / share - 1.0, 0.0)
        here = np.maximum(np.maximum(unused, 0.0), excess)
        np.minimum(missing, np.where(asks, here, np.inf), out=missing)
    return float(np.where(counted, missing, 0.0).max(initial=0.0))


def below_limit(problem: Problem, tasks: FloatArray) -> BoolArray:
    """Return (N,) bool: which users have tasks left to run."""
    below: BoolArray = tasks.sum(axis=1) < problem.task_limit * (1 - REACHED)
    return below


def certify_bottleneck(problem: Problem, tasks: FloatArray) -> Certificate:
    """Certify a PS-DSF allocation under resource division (RDM).

    Parameters
    ----------
    tasks : (N, G) float
        Tasks of each user on each whole group.

    Returns
    -------
    Certificate
        Its violation is the largest of the missing bottleneck, the overuse of a resource and the
        share of misplaced tasks.
    """
    gamma = problem.gamma
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = tasks.sum(axis=1, keepdims=True) / (gamma * problem.weight[:, None])
    counted = problem.runnable & below_limit(problem, tasks)[:, None]
    share = np.where(problem.runnable, share, 0.0)
    missing = measure_missing_bottleneck(share, tasks, use_per_task(problem), counted)
    overuse = measure_resource_overuse(problem, tasks)
    return certificate_of_bottlenecks(
        "every user has a bottleneck on every eligible server (Theorem 1)",
        missing,
        overuse,
        measure_misplacement(problem, tasks),
    )


def certificate_of_bottlenecks(
    condition: str, missing: float, overuse: float, misplaced: float
) -> Certificate:
    """Put the parts of a bottleneck certificate together."""
    return Certificate(
        condition=condition,
        violation=max(misplaced, missing, overuse),
        tolerance=TOLERANCE,
        detail={"missing_bottleneck": missing, "overuse": overuse, "misplaced": misplaced},
    )


def certify_time_sharing(problem: Problem, tasks: FloatArray) -> Certificate:
    """Certify a PS-DSF allocation under time division (TDM).

    Time is a server's only resource, and a task of user n takes 1 / gamma[n,i] of it: on every
    server that could run a user below its task limit it must be used up, and nobody who is served
    there may have a higher share than such a user.

    Parameters
    ----------
    tasks : (N, G) float
        Tasks of each user on each whole group.

    Notes
    -----
    Khamse-Ashari et al. 2017, Theorem 2. Cost O(N G).
    """
    (time,) = use_per_task(problem, time_shared=True)
    share = tasks.sum(axis=1, keepdims=True) * time / problem.weight[:, None]
    counted = problem.runnable & below_limit(problem, tasks)[:, None]
    return certificate_of_bottlenecks(
        "every server's time is used up, by the users with the lowest shares there (Theorem 2)",
        measure_missing_bottleneck(share, tasks, [time], counted),
        measure_time_overuse(problem, tasks),
        measure_misplacement(problem, tasks),
    )
