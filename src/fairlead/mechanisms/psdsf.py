"""Per-server dominant-share fairness, under resource division (RDM) and time division (TDM).

Khamse-Ashari et al. 2017. Soft levels (one unknown per server) come close at once, and sweeps over
the servers with the paper's own server procedure finish from there. Where users of one server
demand different resources it has a level for each, and the curve of soft levels leads there; small
problems are solved before that by sweeps from nothing.

Under RDM a problem may have several PS-DSF allocations. The one found is that which the soft levels
lead to. They are unique and do not depend on the order of users or groups, and they treat alike
what is alike; where the sweeps begin from nothing, the order of the groups decides. With finite
tasks there may be several under TDM too, for who has all its tasks may run them anywhere; there the
proportionally fair one is given, and under RDM too where one resource binds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from fairlead.certificates.bottleneck import certify_bottleneck, certify_time_sharing
from fairlead.errors import NoConvergenceError, RefusalError
from fairlead.mechanisms.sweeps import SWEEPS_BETWEEN_LOOKS, Certify, Sweeps
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.division import use_per_task
from fairlead.model.problem import Problem
from fairlead.optimize.level_path import LevelProblem, follow_level_path
from fairlead.optimize.soft_levels import SoftProblem, follow_soft_levels

# Temperatures of soft levels, and entries (a user on a server, once) to visit in sweeps from there:
# colder comes closer, until rounding errors of the splits take over.
VISITS_AFTER_SOFT = {1e-6: 1, 1e-7: 1_000_000, 1e-8: 5_000_000}
# Temperatures where the curve of several levels per server is left, the visits after it, and those
# of sweeps from nothing before it, this many per cube of levels at least.
PATH_LEFT_AT = (1e-5, 3e-6, 1e-6, 3e-7)
VISITS_AFTER_PATH = 5_000_000
VISITS_BEFORE_PATH = 100_000
VISITS_PER_CUBE = 0.1
VISITS_TO_CONTINUE = 400_000
FIRST_VISITS = 10_000_000
ALL_VISITS = 1_000_000_000
# Violations that are good enough after soft levels, and of a convex programme or the last resort.
GOOD_AFTER_SOFT = 1e-9
GOOD_AFTER_ALL = 1e-8
# What is close enough to see whether it is worth a closer look.
CLOSE = 1e-7


def solve_ps_dsf(problem: Problem) -> Allocation:
    """Divide by PS-DSF under resource division.

    Raises
    ------
    RefusalError
        When rates are given and there is more than one resource: the paper defines PS-DSF with
        given rates for one resource, or for time division.

    Notes
    -----
    Khamse-Ashari et al. 2017, Definition 5, Theorem 1 and III-C. Each sweep costs O(N G R), each
    step of the soft levels O(N G (G + R)).
    """
    return _solve(problem, "ps-dsf")


def solve_ps_dsf_tdm(problem: Problem) -> Allocation:
    """Divide by PS-DSF under time division, the weighted proportionally fair allocation.

    Khamse-Ashari et al. 2017, Theorem 2. Its conditions are those of the linear Fisher market,
    ``max sum_n phi[n] log x[n]`` subject to ``sum_n x[n,i] / gamma[n,i] <= 1``.
    """
    return _solve(problem, "ps-dsf-tdm")


def continue_ps_dsf_tdm(problem: Problem, start: FloatArray) -> Allocation:
    """Divide by PS-DSF under time division, from the answer `start` (N, G) to a like problem.

    The certificate need not hold: it is close. Without finite tasks totals are unique, whatever the
    start. A few milliseconds for 1,000 users on 10 groups.
    """
    use, certify = _division(problem, "ps-dsf-tdm")
    sweeps = Sweeps.over(problem, use, certify)
    sweeps.run(np.where(problem.runnable, start, 0.0), VISITS_TO_CONTINUE, CLOSE)
    return Allocation(problem, "ps-dsf-tdm", sweeps.best, sweeps.certificate)


def prepare_sweeps(problem: Problem, mechanism: str) -> Sweeps:
    """Return the paper's own way to either form of PS-DSF, not yet begun."""
    return Sweeps.over(problem, *_division(problem, mechanism))


def _division(problem: Problem, mechanism: str) -> tuple[FloatArray, Certify]:
    """Return what a task takes of each group, (R, N, G), and the theorem that certifies."""
    if mechanism == "ps-dsf" and problem.users.rates is None:
        return use_per_task(problem), certify_bottleneck
    if mechanism == "ps-dsf" and problem.n_resources > 1:
        raise RefusalError(
            mechanism, "with given rates it is defined for one resource only; use ps-dsf-tdm"
        )
    # With one resource and given rates, a server is divided as its time is.
    return use_per_task(problem, time_shared=True), certify_time_sharing


def _solve(problem: Problem, mechanism: str) -> Allocation:
    use, certify = _division(problem, mechanism)
    sweeps = Sweeps.over(problem, use, certify)
    for tasks, visits, enough in _starts(problem, use, by_time=certify is certify_time_sharing):
        if sweeps.run(tasks, visits, enough=enough):
            break
    if sweeps.certificate.violation > GOOD_AFTER_ALL:
        sweeps.run(np.zeros((problem.n_users, problem.n_groups)), FIRST_VISITS, GOOD_AFTER_SOFT)
    if not sweeps.certificate.holds:
        sweeps.run(sweeps.best, ALL_VISITS, enough=GOOD_AFTER_ALL)
    return Allocation(problem, mechanism, sweeps.best, sweeps.certificate)


def _starts(
    problem: Problem, use: FloatArray, *, by_time: bool
) -> Iterator[tuple[FloatArray, int, float]]:
    """Yield allocations to sweep on from, how many visits each is worth, and what is good enough.

    The proportionally fair allocation under TDM is PS-DSF there, and under RDM where one resource
    binds. With finite tasks Theorems 1 and 2 leave several allocations, for who has all its tasks
    may run them anywhere; soft levels lead to this one where it is PS-DSF, so that it comes first
    only under TDM, where it is quickest, and where soft levels cannot be had.
    """
    soft = _one_level_per_server(problem, use)
    if by_time or (problem.has_limits and not soft):
        yield from _proportional_tasks(problem)
    if soft:
        for tasks, visits in zip(
            _soft_tasks(problem, use), VISITS_AFTER_SOFT.values(), strict=True
        ):
            yield tasks, visits, GOOD_AFTER_SOFT
    else:
        yield np.zeros(problem.runnable.shape), _visits_before_path(problem), GOOD_AFTER_SOFT
        tasks = None
        for tasks in _path_tasks(problem, use):
            yield tasks, 0, GOOD_AFTER_SOFT
        if tasks is not None:
            yield tasks, VISITS_AFTER_PATH, GOOD_AFTER_SOFT


def _visits_before_path(problem: Problem) -> int:
    """Return how many visits are tried first: none where they would not go round often."""
    visits = max(
        VISITS_BEFORE_PATH, int(VISITS_PER_CUBE * (problem.n_groups * problem.n_resources) ** 3)
    )
    often = SWEEPS_BETWEEN_LOOKS * int(problem.runnable.sum()) <= visits
    return min(visits, FIRST_VISITS) if often else 0


def _path_tasks(problem: Problem, use: FloatArray) -> Iterator[FloatArray]:
    """Yield tasks by the curve of soft levels, one for each resource of a server."""
    with np.errstate(divide="ignore"):
        levels = LevelProblem(
            log_rate=np.log(problem.gamma),
            log_weight=np.log(problem.weight),
            log_limit=np.log(problem.task_limit),
            use=np.ascontiguousarray(np.moveaxis(use, 0, 2)),
        )
    yield from follow_level_path(levels, PATH_LEFT_AT)


def _proportional_tasks(problem: Problem) -> Iterator[tuple[FloatArray, int, float]]:
    """Yield the proportionally fair allocation under TDM, if it is found."""
    from fairlead.mechanisms.proportional import (  # noqa: PLC0415 (scipy is slow to load)
        solve_proportional_tdm,
    )

    with suppress(NoConvergenceError):
        yield solve_proportional_tdm(problem).tasks, 0, GOOD_AFTER_ALL


def _one_level_per_server(problem: Problem, use: FloatArray) -> bool:
    """Whether on each server all users that can run there take of the same resources."""
    asks: BoolArray = use > 0
    some = np.any(asks, axis=1, keepdims=True)
    return bool(np.array_equal(asks, some & problem.runnable))


def _soft_tasks(problem: Problem, use: FloatArray) -> Iterator[FloatArray]:
    """Yield tasks by soft levels, ever closer, servers that no user can run on left out."""
    open_groups = problem.runnable.any(axis=0)
    with np.errstate(divide="ignore"):
        log_rate = np.log(problem.gamma[:, open_groups])
    soft = SoftProblem(
        log_rate=log_rate,
        log_weight=np.log(problem.weight),
        log_limit=np.log(problem.task_limit),
        use=np.ascontiguousarray(use[:, :, open_groups]),
    )
    for close in follow_soft_levels(soft, tuple(VISITS_AFTER_SOFT)):
        tasks = np.zeros((problem.n_users, problem.n_groups))
        tasks[:, open_groups] = close
        yield tasks
