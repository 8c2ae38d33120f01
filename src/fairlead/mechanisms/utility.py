"""The general concave form: divide so that a sum of users' utilities is largest.

Kesidis et al., eq. 5 and Corollary 1, for any increasing concave utility of any linear score; the
alpha-fair mechanisms are this with the utilities of eq. 15.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fairlead.certificates.utility import certify_largest_utility
from fairlead.errors import InputError, NoConvergenceError, RefusalError
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.division import use_per_task
from fairlead.model.labelled import read_numbers, read_table
from fairlead.model.problem import Problem
from fairlead.optimize.concave import maximize_concave
from fairlead.optimize.concave_path import UtilityPath, follow_path
from fairlead.optimize.concave_straight import maximize_straight
from fairlead.optimize.concave_system import ConcaveProgramme, ConcaveSolution, Utility

# A holding below this part of what a user has is left out if it is dearer by more than that.
DUST = 1e-9
# What a unit is worth to those who get it in any case; the price of everything together is 1.
AMPLE = 1e3
# An answer that misses its condition by more may be found more exactly another way.
EXACT = 1e-9

Marginal = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class LevelUtility:
    """Utilities ``phi[n] g(Z[n] / phi[n])`` of scores Z, by the derivatives of g.

    Attributes
    ----------
    weight : (N,) float
    marginal : callable
        g', from (N,) levels to (N,) positive numbers.
    curvature : callable
        g'', from (N,) levels to (N,) numbers <= 0.
    """

    weight: FloatArray
    marginal: Marginal
    curvature: Marginal

    def log_marginal(self, amount: FloatArray) -> FloatArray:
        """Return log g'(Z / phi)."""
        return np.log(self.marginal(amount / self.weight))

    def elasticity(self, amount: FloatArray) -> FloatArray:
        """Return -U g''(U) / g'(U) at U = Z / phi."""
        level = amount / self.weight
        return -level * self.curvature(level) / self.marginal(level)


def maximize_utility(
    problem: Problem,
    marginal: Marginal,
    curvature: Marginal,
    *,
    score: ArrayLike = 1.0,
    time_shared: bool = False,
) -> Allocation:
    """Divide so that ``sum_n phi[n] g(U[n])`` is largest, ``U[n] = sum_i u[n,i] x[n,i] / phi[n]``.

    Parameters
    ----------
    problem : Problem
    marginal, curvature : callable
        g' and g'' of one increasing concave function g, from (N,) levels U > 0 to (N,) numbers;
        g' positive everywhere.
    score : float, (N,) or (N, G) array
        u, the score of one task of each user (on each group); positive where the user may run.
    time_shared : bool
        Whether servers are shared by time (TDM) instead of divided by resource (RDM).

    Returns
    -------
    Allocation

    Raises
    ------
    InputError
        For a score of the wrong shape or not positive, and for derivatives of the wrong sign.
    RefusalError
        For given rates under RDM, and for finite tasks where scores differ from group to group.
    NoConvergenceError
        When no answer was found to prove.

    Notes
    -----
    Kesidis et al., eq. 5 and 6. Cost as `maximize_concave`. Totals are unique where g is strictly
    concave; splits over servers need not be, and the one given is the centre of all.
    """
    utility = LevelUtility(problem.weight, marginal, curvature)
    _check_derivatives(problem, utility)
    return divide_by_utility(
        problem,
        "max-utility",
        utility,
        score=score_per_group(problem, score),
        time_shared=time_shared,
        what="no feasible allocation has sum phi g'(U*) (U - U*) > 0 (Corollary 1",
    )


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


def _check_derivatives(problem: Problem, utility: LevelUtility) -> None:
    level = np.ones(problem.n_users)
    slope, bend = utility.marginal(level), utility.curvature(level)
    for name, values, right in (
        ("marginal", slope, np.all(np.asarray(slope) > 0)),
        ("curvature", bend, np.all(np.asarray(bend) <= 0)),
    ):
        if np.shape(values) != level.shape or not right:
            sign = "positive" if name == "marginal" else "zero or negative"
            raise InputError(f"must return {level.size} {sign} numbers", name)


def divide_by_utility(
    problem: Problem,
    mechanism: str,
    utility: Utility,
    *,
    score: FloatArray | None = None,
    time_shared: bool = False,
    path: UtilityPath | None = None,
    what: str,
) -> Allocation:
    """Divide so that the sum of utilities of scores is largest, and prove it.

    Parameters
    ----------
    problem : Problem
    mechanism : str
        The name to put on the allocation.
    utility : Utility
        Of each user's score, ``Z[n] = sum_g u[n,g] x[n,g]``.
    score : (N, G) float, optional
        u; 1 when absent.
    time_shared : bool
        TDM instead of RDM.
    path : UtilityPath, optional
        A way to this utility from a gentler one, to be taken where it is not found directly.
    what : str
        The certificate's condition.
    """
    if problem.users.rates is not None and not time_shared:
        raise RefusalError(mechanism, "given rates say how a server's time is divided, not how")
    table = np.ones((problem.n_users, problem.n_groups)) if score is None else score
    _refuse_limits_of_unlike_scores(problem, mechanism, table)
    alone = (table * problem.gamma).sum(axis=1)
    limit = problem.task_limit * table[np.arange(problem.n_users), problem.runnable.argmax(axis=1)]
    # Nobody can have more than everything.
    limit = np.where(limit < alone, limit / alone, np.inf)
    start = problem.weight / problem.weight.sum()
    scaled = _Scaled.of(utility, alone, start, limit)
    programme = ConcaveProgramme(
        use=use_per_task(problem, time_shared) * (alone[:, None] / table),
        allowed=problem.runnable,
        limit=limit,
        start=start,
        utility=scaled,
    )

    def proved(solution: ConcaveSolution, unit: float) -> Allocation:
        tasks = _without_dust(solution, programme) * (alone[:, None] / table)
        total = tasks.sum(axis=1)
        over = total > problem.task_limit
        tasks[over] *= (problem.task_limit[over] / total[over])[:, None]
        total = (tasks * table).sum(axis=1)
        with np.errstate(divide="ignore"):
            log_marginal = utility.log_marginal(total) - unit
        certificate = certify_largest_utility(
            problem,
            tasks,
            log_marginal,
            utility.elasticity(total),
            solution.prices,
            score=score,
            time_shared=time_shared,
            what=what,
        )
        return Allocation(problem, mechanism, tasks, certificate)

    direct = None
    try:
        direct = proved(maximize_concave(programme), scaled.offset)
    except NoConvergenceError:
        if path is None:
            raise
    if direct is not None and direct.certificate.violation <= EXACT:
        return direct
    if path is None:
        assert direct is not None  # for want of a path its failure was raised
        if utility.elasticity(alone).any() or direct.certificate.holds:
            return direct
        worth = np.exp(_OfParts(utility, alone).log_marginal(np.ones(len(alone))) - scaled.offset)
        return proved(maximize_straight(programme, worth), scaled.offset)
    first = _Scaled.of(path.at(path.first), alone, start, limit)
    parts = UtilityPath(lambda place: _OfParts(path.at(place), alone), path.first, path.last)
    try:
        begin = maximize_concave(replace(programme, utility=first))
        followed = proved(*follow_path(programme, begin, first.offset, parts))
    except NoConvergenceError:
        if direct is None:
            raise
        return direct
    if direct is not None and direct.certificate.violation <= followed.certificate.violation:
        return direct
    return followed


def _refuse_limits_of_unlike_scores(problem: Problem, mechanism: str, score: FloatArray) -> None:
    first = score[np.arange(len(score)), problem.runnable.argmax(axis=1)]
    unlike = (problem.runnable & (score != first[:, None])).any(axis=1)
    if (unlike & np.isfinite(problem.task_limit)).any():
        raise RefusalError(
            mechanism,
            "its definition does not admit finite tasks with scores that differ by server",
        )


@dataclass(frozen=True, eq=False)
class _OfParts:
    """A utility of what a user has as a part of what it could have alone, (N,)."""

    raw: Utility
    alone: FloatArray

    def log_marginal(self, amount: FloatArray) -> FloatArray:
        return self.raw.log_marginal(amount * self.alone) + np.log(self.alone)

    def elasticity(self, amount: FloatArray) -> FloatArray:
        return self.raw.elasticity(amount * self.alone)


@dataclass(frozen=True, eq=False)
class _Scaled:
    """A utility of what a user has as a part of what it could have alone.

    Its unit is such that the uniform slices of all users together are worth about 1. All resources
    together then cost about 1, and one unit no more: a user to whom the last task of its limit is
    worth far more than that gets it in any case, and how much more does not matter. To such users
    every task is worth the same, lest a number like f'(limit) drown all others.

    Attributes
    ----------
    raw : Utility
    alone : (N,) float
        What each user could have alone.
    start : (N,) float
        Its uniform slice, as a part of that.
    offset : float
        Logarithm of the unit.
    sated : (N,) bool
        Users that get all up to their limit in any case.
    """

    raw: Utility
    alone: FloatArray
    start: FloatArray
    offset: float
    sated: BoolArray

    @classmethod
    def of(cls, raw: Utility, alone: FloatArray, start: FloatArray, limit: FloatArray) -> _Scaled:
        logs = raw.log_marginal(alone * start) + np.log(alone * start)
        largest = float(logs.max())
        offset = largest + float(np.log(np.exp(logs - largest).sum()))
        last = np.where(np.isfinite(limit), limit, 1.0)
        worth = raw.log_marginal(alone * last) + np.log(alone) - offset
        return cls(raw, alone, start, offset, np.isfinite(limit) & (worth > np.log(AMPLE)))

    def log_marginal(self, amount: FloatArray) -> FloatArray:
        logs = self.raw.log_marginal(amount * self.alone) + np.log(self.alone) - self.offset
        return np.where(self.sated, np.log(AMPLE), logs)

    def elasticity(self, amount: FloatArray) -> FloatArray:
        return np.where(self.sated, 0.0, self.raw.elasticity(amount * self.alone))


def _without_dust(solution: ConcaveSolution, programme: ConcaveProgramme) -> FloatArray:
    """Leave out what an interior point holds only because it must hold something everywhere."""
    amount = solution.split.sum(axis=1)
    # Who may get nothing at all is measured by its slice of everything.
    linear = programme.utility.elasticity(np.maximum(amount, DUST)) == 0
    held = np.where(linear, np.maximum(amount, programme.start), amount)[:, None]
    share = solution.split / np.maximum(held, np.finfo(float).tiny)
    dear = solution.reduced_cost > share * solution.marginal[:, None]
    return np.where((share < DUST) & dear, 0.0, solution.split)
