"""Max-min fairness of a score of one's choice, and the mechanisms that are of this kind.

Kesidis et al., II: the levels are ``U[n] = sum_i u[n,i] x[n,i] / phi[n]``. Named scores are those
of DRF (eq. 9), TSF and PS-DSF, the last summed over the servers that a user may run on (eq. 12).

TSF and CDRF count each user's tasks as a part of gamma[n], the tasks that it could run alone on all
servers if there were no placement constraints: Khamse-Ashari et al. 2017, II-B, after Friedman,
Ghodsi and Psomas 2014 (CDRF) and Wang et al. 2016 (TSF).

DRFH counts global dominant shares: Wang, Liang and Li 2015, IV and V-A. With placement constraints
the same definition, whose dominant resource ignores them, is C-DRFH (Khamse-Ashari et al. 2017,
II-B).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from fairlead.certificates.maxmin import certify_maxmin, measure_unfair_neighbours
from fairlead.errors import InputError, RefusalError
from fairlead.mechanisms.maxmin import LARGEST_PROGRAMME, solve_max_min
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.frames import read_numbers, read_table
from fairlead.model.problem import Problem


def solve_max_min_by_score(problem: Problem, score: str | ArrayLike = "drf") -> Allocation:
    """Divide so that the sorted levels are lexicographically largest.

    Parameters
    ----------
    score : str, (N,) or (N, G) array
        ``"drf"`` (the answer is then that of DRFH), ``"tsf"``, ``"ps-dsf"``, or u itself, positive
        where a user may run.

    Returns
    -------
    Allocation
        Its certificate also says by how much Definition 1 is missed.

    Raises
    ------
    InputError
        For a score that is not one of these.
    RefusalError
        For scores that differ from server to server in a problem with finite tasks, or with more
        than 50,000 pairs of a user and a group.
    NoConvergenceError
        When the numbers are too far apart for floating-point arithmetic.

    Notes
    -----
    A score per user costs what `solve_max_min` does; scores per server one linear programme of N G
    unknowns for each level.
    """
    table = _named(problem, score) if isinstance(score, str) else score_per_group(problem, score)
    per_user = _per_user(problem, table)
    if per_user is not None:
        allocation = solve_max_min(problem, "max-min", per_user)
    else:
        allocation = _solve_per_server(problem, table)
    return _with_definition_1(allocation, table if per_user is None else per_user)


def _named(problem: Problem, name: str) -> FloatArray:
    scores = {"drf": score_drf, "tsf": score_tsf, "ps-dsf": score_ps_dsf}
    if name not in scores:
        raise InputError(f"no score is named {name!r}; known: {', '.join(scores)}", "score")
    return score_per_group(problem, scores[name](problem))


def score_ps_dsf(problem: Problem) -> FloatArray:
    """Return (N,) the sum over its servers of a task's virtual dominant share (eq. 12).

    A group of `count` servers that could run gamma tasks in all counts `count` times
    ``1 / (gamma / count)``.
    """
    gamma = problem.gamma
    share = np.divide(problem.count**2.0, gamma, out=np.zeros_like(gamma), where=gamma > 0)
    total: FloatArray = share.sum(axis=1)
    return total


def _per_user(problem: Problem, table: FloatArray) -> FloatArray | None:
    """Return (N,) scores if no user's differ from group to group."""
    runs = problem.runnable
    first: FloatArray = table[np.arange(problem.n_users), runs.argmax(axis=1)]
    return None if (runs & (table != first[:, None])).any() else first


def _solve_per_server(problem: Problem, score: FloatArray) -> Allocation:
    from fairlead.solvers.leximax_by_lp import (  # noqa: PLC0415 (slow to import, rarely used)
        lexicographic_max_min_by_lp,
    )

    if problem.has_limits:
        raise RefusalError(
            "max-min",
            "its definition does not admit finite tasks with scores that differ by server",
        )
    if problem.n_users * problem.n_groups > LARGEST_PROGRAMME:
        raise RefusalError(
            "max-min",
            f"scores that differ by server take a linear programme for each level: at most "
            f"{LARGEST_PROGRAMME} pairs of a user and a group, not "
            f"{problem.n_users * problem.n_groups}",
        )
    total = problem.total_capacity
    scale = np.where(total > 0, total, 1.0)
    share = problem.demand / scale
    per_task = share.max(axis=1)
    alone = (score * problem.gamma).sum(axis=1)
    relative = score / (alone * per_task)[:, None]
    division = lexicographic_max_min_by_lp(
        demand=share / per_task[:, None],
        allowed=problem.runnable,
        need=problem.weight / alone,
        limit=problem.task_limit,
        capacity=problem.group_capacity / scale,
        score=relative,
    )
    tasks = division.split / per_task[:, None]
    certificate = certify_maxmin(problem, tasks, score, division.prices / scale)
    return Allocation(problem, "max-min", tasks, certificate)


def _with_definition_1(allocation: Allocation, score: FloatArray) -> Allocation:
    """Add to the certificate how far Definition 1 is missed."""
    unfair = measure_unfair_neighbours(allocation.problem, allocation.tasks, score)
    plain = allocation.certificate
    certificate = replace(
        plain,
        condition=f"{plain.condition}; nobody has more beside one with less (Definition 1)",
        violation=max(plain.violation, unfair),
        detail=plain.detail | {"definition_1": unfair},
    )
    return replace(allocation, certificate=certificate)


def solve_tsf(problem: Problem) -> Allocation:
    """Divide by TSF: lexicographic max-min of ``x[n] / (phi[n] gamma[n])``.

    Raises NoConvergenceError when the numbers are too far apart for floating-point arithmetic.
    """
    return solve_max_min(problem, "tsf", score_tsf(problem))


def solve_cdrf(problem: Problem) -> Allocation:
    """Divide by CDRF: as TSF, defined for problems without placement constraints only."""
    return solve_max_min(problem, "cdrf", score_tsf(problem))


def score_tsf(problem: Problem) -> FloatArray:
    """Return (N,) one over the tasks each user could run alone were there no constraints."""
    score: FloatArray = 1.0 / problem.unconstrained_gamma.sum(axis=1)
    return score


def solve_drfh(problem: Problem) -> Allocation:
    """Divide by DRFH: lexicographic max-min of ``x[n] max_r D[n,r] / phi[n]``.

    D[n,r] is the share of the whole cluster's resource r that one task of user n takes.

    Raises
    ------
    NoConvergenceError
        When the numbers are too far apart for floating-point arithmetic.

    Notes
    -----
    Wang, Liang and Li 2015, eq. 4-7 and V-A.
    """
    return solve_max_min(problem, "drfh", score_drf(problem))


def score_drf(problem: Problem) -> FloatArray:
    """Return (N,) the share of the cluster's dominant resource that one task of each takes."""
    total = problem.total_capacity
    share: FloatArray = (problem.demand / np.where(total > 0, total, 1.0)).max(axis=1)
    return share


def score_per_group(problem: Problem, score: ArrayLike) -> FloatArray:
    """Return scores as (N, G), from one number, (N,) or (N, G), checked; frames by their labels."""
    table = read_table(score, "score", vector=True)
    given = read_numbers(table.laid_out(problem.users.names, problem.cluster.groups), "score")
    if given.ndim == 1:
        given = given[:, None]
    try:
        scores = np.broadcast_to(given, (problem.n_users, problem.n_groups))
    except ValueError:
        raise InputError(
            f"must be a number, ({problem.n_users},) or ({problem.n_users}, {problem.n_groups}), "
            f"not of shape {np.shape(given)}",
            "score",
        ) from None
    wrong = problem.runnable & ~((scores > 0) & np.isfinite(scores))
    for n, g in np.argwhere(wrong):
        raise InputError(f"must be a positive number, not {scores[n, g]:g}", f"score[{n}][{g}]")
    return np.where(problem.runnable, scores, 1.0)
