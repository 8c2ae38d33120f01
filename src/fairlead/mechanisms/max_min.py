"""Max-min fairness of a linear score: DRFH, C-DRFH, TSF, CDRF, and any given score.

Kesidis et al., II: the levels are ``U[n] = sum_i u[n,i] x[n,i] / phi[n]``, where u is the score of
one task, x are the tasks on each server and phi the weights. Named scores are those of DRF (eq. 9),
TSF and PS-DSF; that of PS-DSF is summed over the servers where a user may run (eq. 12).

DRFH counts global dominant shares: Wang, Liang and Li 2015, eq. 4-7 and V-A. With placement
constraints it is called C-DRFH: the definition is the same, and a user's dominant resource does not
depend on constraints.

TSF and CDRF count a user's tasks as a fraction of gamma[n], the tasks that it could run alone on
all servers without placement constraints: Khamse-Ashari et al. 2017, II-B, after Friedman, Ghodsi
and Psomas 2014 (CDRF) and Wang et al. 2016 (TSF).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from fairlead.certificates.max_min_duality import certify_max_min, measure_unfair_neighbours
from fairlead.errors import InputError, NoConvergenceError, RefusalError
from fairlead.mechanisms.queue_trees import LARGEST_PROGRAMME, divide_cluster_among_queues
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.frames import read_numbers, read_table
from fairlead.model.problem import Problem
from fairlead.solvers.leximax import Leximax, lexicographic_max_min


def solve_drfh(problem: Problem) -> Allocation:
    """Divide by DRFH: lexicographic max-min of the global dominant shares divided by weight.

    For users in a tree of queues see `fairlead.mechanisms.queue_trees`.
    """
    if problem.users.queues is not None:
        return divide_cluster_among_queues(problem)
    return solve_max_min(problem, "drfh", score_drf(problem))


def solve_tsf(problem: Problem) -> Allocation:
    """Divide by TSF: lexicographic max-min of ``x[n] / (phi[n] gamma[n])``."""
    return solve_max_min(problem, "tsf", score_tsf(problem))


def solve_cdrf(problem: Problem) -> Allocation:
    """Divide by CDRF: like TSF, but defined only for problems without placement constraints."""
    return solve_max_min(problem, "cdrf", score_tsf(problem))


def solve_max_min_by_score(problem: Problem, score: str | ArrayLike = "drf") -> Allocation:
    """Divide so that the sorted levels of a given score are lexicographically largest.

    `score` is ``"drf"``, ``"tsf"``, ``"ps-dsf"``, or u itself, (N,) or (N, G), positive where a
    user may run. The certificate also measures the violation of Definition 1 of Kesidis et al.

    Raises InputError for an unusable score. If the scores of a user differ by server, raises
    RefusalError for finite tasks, or too large a problem.
    """
    table = _named_score(problem, score) if isinstance(score, str) else score_table(problem, score)
    # The score of each user on the first group where it may run.
    one_score: FloatArray = table[np.arange(problem.n_users), problem.runnable.argmax(axis=1)]
    differs = bool((problem.runnable & (table != one_score[:, None])).any())
    if differs:
        _refuse_scores_by_server(problem)
    allocation = solve_max_min(problem, "max-min", table if differs else one_score)
    violation = measure_unfair_neighbours(problem, allocation.tasks, table)
    certificate = allocation.certificate
    certificate = replace(
        certificate,
        condition=(
            f"{certificate.condition}; no user could lose tasks on a full server to a user there "
            "with a lower level (Definition 1)"
        ),
        violation=max(certificate.violation, violation),
        detail=certificate.detail | {"definition_1": violation},
    )
    return replace(allocation, certificate=certificate)


def solve_max_min(problem: Problem, mechanism: str, score: FloatArray) -> Allocation:
    """Divide so that the sorted levels ``x score / phi`` are lexicographically largest.

    Parameters
    ----------
    problem : Problem
    mechanism : str
        The name in the allocation.
    score : (N,) or (N, G) float
        Score of one task of each user, positive; or on each group, for problems without finite
        tasks.

    Raises
    ------
    NoConvergenceError
        When the numbers are too far apart for floating-point arithmetic.

    Notes
    -----
    The solver gets numbers of moderate size: capacities as shares of the cluster, and tasks in
    units. A unit of a user is the number of tasks that would take all of the cluster's amount of
    the user's dominant resource.
    """
    total = problem.total_capacity
    scale = np.where(total > 0, total, 1.0)
    per_task = score_drf(problem)  # units of one task
    best: Allocation | None = None
    failure: NoConvergenceError | None = None
    for solver in _solvers(problem, score, per_task):
        try:
            division = solver(
                demand=problem.task_shares / per_task[:, None],
                allowed=problem.runnable,
                limit=problem.task_limit * per_task,
                capacity=problem.group_capacity / scale,
            )
        except NoConvergenceError as error:
            failure = error
            continue
        tasks = division.split / per_task[:, None]
        certificate = certify_max_min(problem, tasks, score, division.prices / scale)
        if best is None or certificate.violation < best.certificate.violation:
            best = Allocation(problem, mechanism, tasks, certificate)
        if certificate.holds:
            break
    if best is None:
        raise failure or NoConvergenceError("no level was tried")
    return best


def _solvers(
    problem: Problem, score: FloatArray, per_task: FloatArray
) -> Iterator[Callable[..., Leximax]]:
    """Yield solvers, the fastest first; `per_task` (N,) is the units of one task of each user.

    The last solver is a sequence of linear programmes. It is the only one for scores by server, and
    is left out for problems that are too large for it.
    """
    by_server = score.ndim == 2
    # `need` (N,): the units that a user gets for each unit of level.
    if not by_server:
        need = problem.weight / score * per_task
        need /= need.sum()
        yield partial(lexicographic_max_min, need=need)
        if problem.n_users * problem.n_groups > LARGEST_PROGRAMME:
            return
    from fairlead.solvers.linear_programmes import (  # noqa: PLC0415 (slow to import, rarely used)
        lexicographic_max_min_by_lp,
    )

    if by_server:
        # Scores and levels are divided by the level that each user would reach alone at weight 1.
        alone = (score * problem.gamma).sum(axis=1)
        need, score = problem.weight / alone, score / (alone * per_task)[:, None]
        yield partial(lexicographic_max_min_by_lp, need=need, score=score)
    else:
        yield partial(lexicographic_max_min_by_lp, need=need)


def _refuse_scores_by_server(problem: Problem) -> None:
    """Refuse finite tasks, and too large a problem, if scores differ by server."""
    if problem.has_limits:
        raise RefusalError(
            "max-min",
            "its definition does not admit finite tasks with scores that differ by server",
        )
    pairs = problem.n_users * problem.n_groups
    if pairs > LARGEST_PROGRAMME:
        raise RefusalError(
            "max-min",
            f"scores that differ by server take a linear programme for each level: at most "
            f"{LARGEST_PROGRAMME} pairs of a user and a group, not {pairs}",
        )


def _named_score(problem: Problem, name: str) -> FloatArray:
    scores = {"drf": score_drf, "tsf": score_tsf, "ps-dsf": score_ps_dsf}
    if name not in scores:
        raise InputError(f"no score is named {name!r}; known: {', '.join(scores)}", "score")
    return score_table(problem, scores[name](problem))


def score_drf(problem: Problem) -> FloatArray:
    """Return (N,) the dominant share of one task of each user."""
    share: FloatArray = problem.task_shares.max(axis=1)
    return share


def score_tsf(problem: Problem) -> FloatArray:
    """Return (N,) one over the tasks that each user could run alone without constraints."""
    score: FloatArray = 1.0 / problem.unconstrained_gamma.sum(axis=1)
    return score


def score_ps_dsf(problem: Problem) -> FloatArray:
    """Return (N,) a task's virtual dominant share, summed over its user's servers (eq. 12)."""
    gamma = problem.gamma
    # Each of a group's `count` servers could run gamma / count tasks.
    share = np.divide(problem.count**2.0, gamma, out=np.zeros_like(gamma), where=gamma > 0)
    total: FloatArray = share.sum(axis=1)
    return total


def score_table(problem: Problem, score: ArrayLike) -> FloatArray:
    """Check scores, given as one number, (N,) or (N, G), or as a labelled frame; return (N, G).

    Raises InputError for another shape, or where a score is not positive though the user may run.
    """
    table = read_table(score, "score", vector=True)
    given = read_numbers(table.laid_out(problem.users.names, problem.cluster.groups), "score")
    shape = problem.n_users, problem.n_groups
    if given.shape not in ((), shape[:1], shape):
        fault = f"must be a number, or of shape ({shape[0]},) or {shape}, not {given.shape}"
        raise InputError(fault, "score")
    scores = np.broadcast_to(given[:, None] if given.ndim == 1 else given, shape)
    wrong = problem.runnable & ~((scores > 0) & np.isfinite(scores))
    for n, g in np.argwhere(wrong):
        raise InputError(f"must be a positive number, not {scores[n, g]:g}", f"score[{n}][{g}]")
    return np.where(problem.runnable, scores, 1.0)
