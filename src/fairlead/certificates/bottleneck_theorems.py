"""Certify that every user has a bottleneck on every server it may use: Theorems 1 and 2 of PS-DSF.

A resource of a server is a user's bottleneck there if the user demands the resource, it is used up,
and no user that holds some of it there has a higher share. A share is the virtual dominant share on
that server. An allocation is PS-DSF if and only if every user below its task limit has a bottleneck
on every server that could run its tasks (Theorem 1); on a single pool that is DRF. If users share a
server's time, time is its only resource (Theorem 2).

Source: Khamse-Ashari et al. 2017, Definition 6, Theorems 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fairlead.certificates.overuse import certify_with_feasibility
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem

# A total this close (relative) to its task limit counts as at the limit.
REACHED = 1e-9


def certify_bottleneck(problem: Problem, tasks: FloatArray) -> Certificate:
    """Certify a PS-DSF allocation (N, G) under resource division (RDM), by Theorem 1."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = tasks.sum(axis=1, keepdims=True) / (problem.gamma * problem.weight[:, None])
    share = np.where(problem.runnable, share, 0.0)
    # Users at their task limit are exempt: see the module's docstring.
    condition = "every user has a bottleneck on every eligible server (Theorem 1)"
    return certify_shares(problem, tasks, share, condition)


def certify_time_sharing(problem: Problem, tasks: FloatArray) -> Certificate:
    """Certify a PS-DSF allocation (N, G) under time division (TDM), by Theorem 2."""
    (time,) = use_per_task(problem, time_shared=True)
    share = tasks.sum(axis=1, keepdims=True) * time / problem.weight[:, None]
    condition = (
        "on every server where a user below its task limit may run, time is used up, and no user "
        "that runs there has a higher share (Theorem 2)"
    )
    return certify_shares(problem, tasks, share, condition, time_shared=True)


def certify_shares(
    problem: Problem,
    tasks: FloatArray,
    share: FloatArray,
    condition: str,
    *,
    time_shared: bool = False,
) -> Certificate:
    """Certify that every user below its limit has a bottleneck where it may run.

    Parameters
    ----------
    problem : Problem
    tasks : (N, G) float
        Tasks of each user on each whole group.
    share : (N, G) float
        Share of each user on each server, divided by the user's weight.
    condition : str
        The condition in words.
    time_shared : bool
        Whether time is the only resource of a server.

    Returns
    -------
    Certificate
        Its violation is the largest of: a user's distance from a bottleneck, the overuse of a
        resource (or of time), and the fraction of misplaced tasks.

    Notes
    -----
    O(N G R).
    """
    below_limit = tasks.sum(axis=1) < problem.task_limit * (1 - REACHED)
    pairs = problem.runnable & below_limit[:, None]
    missing = _measure_missing_bottleneck(share, tasks, use_per_task(problem, time_shared), pairs)
    faults = {"missing_bottleneck": missing}
    return certify_with_feasibility(condition, faults, problem, tasks, time_shared=time_shared)


def _measure_missing_bottleneck(
    share: FloatArray, tasks: FloatArray, use: Iterable[FloatArray], pairs: BoolArray
) -> float:
    """Return the largest distance from a bottleneck over some pairs of a user and a server.

    The distance of a demanded resource from being a bottleneck is the larger of two numbers: its
    free fraction, and the relative excess of the highest share among its holders over the user's
    own. The distance of a pair is the smallest of its resources. `share`, `tasks`, the mask `pairs`
    and each resource's `use` by one task are (N, G).
    """
    served = tasks > 0
    missing = np.full(share.shape, np.inf)
    for taken in use:
        unused = 1.0 - (tasks * taken).sum(axis=0)
        asks = np.broadcast_to(taken > 0, share.shape)
        highest = np.where(served & asks, share, 0.0).max(axis=0, initial=0.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            excess = np.where(highest > share, highest / share - 1.0, 0.0)
        distance = np.maximum(np.maximum(unused, 0.0), excess)
        np.minimum(missing, np.where(asks, distance, np.inf), out=missing)
    return float(np.where(pairs, missing, 0.0).max(initial=0.0))
