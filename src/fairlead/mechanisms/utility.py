"""The general concave form: divide so that a sum of users' utilities is largest.

Kesidis et al., eq. 5 and Corollary 1, for any increasing concave utility of any linear score; the
alpha-fair mechanisms are this with the utilities of eq. 15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from fairlead.certificates.utility import TOLERANCE, certify_largest_utility
from fairlead.certificates.utility_stages import Stage, certify_in_stages
from fairlead.errors import InputError, NoConvergenceError, RefusalError
from fairlead.mechanisms.max_min_scores import score_per_group
from fairlead.mechanisms.utility_stages import OfParts, Scaled, maximize_in_stages
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.solvers.concave import maximize_concave, maximize_straight
from fairlead.solvers.concave_path import UtilityPath, follow_path
from fairlead.solvers.concave_system import ConcaveProgramme, ConcaveSolution, Utility

# A holding below this part of what a user has is left out if it is dearer by more than that.
DUST = 1e-9
# An answer that misses its condition by more may be found more exactly another way.
EXACT = 1e-9


class _Given(TypedDict):
    """What a certificate is told beside the answer."""

    score: FloatArray | None
    time_shared: bool
    what: str


Marginal = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class LevelUtility:
    """Utilities ``phi[n] g(Z[n] / phi[n])`` of scores Z, by the derivatives of g."""

    weight: FloatArray  # (N,)
    marginal: Marginal  # g', from (N,) levels to (N,) positive numbers
    curvature: Marginal  # g'', from (N,) levels to (N,) numbers <= 0

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
    marginal, curvature : callable
        g' and g'' of one increasing concave function g, from (N,) levels U > 0 to (N,) numbers;
        g' positive everywhere.
    score : float, (N,) or (N, G) array
        u, the score of one task of each user (on each group); positive where the user may run.
    time_shared : bool
        Whether servers are shared by time (TDM) instead of divided by resource (RDM).

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

    Utilities are of ``Z[n] = sum_g u[n,g] x[n,g]``; `score` is u, (N, G), 1 when absent. `path`,
    from a gentler utility, is taken where no answer is found directly; `what` is what is certified.
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
    scaled = Scaled.of(utility, alone, start, limit)
    programme = ConcaveProgramme(
        use=use_per_task(problem, time_shared) * (alone[:, None] / table),
        allowed=problem.runnable,
        limit=limit,
        start=start,
        utility=scaled,
    )

    def proved(solution: ConcaveSolution, *stages: Stage) -> Allocation:
        tasks = _without_dust(solution, programme) * (alone[:, None] / table)
        total = tasks.sum(axis=1)
        over = total > problem.task_limit
        tasks[over] *= (problem.task_limit[over] / total[over])[:, None]
        total = (tasks * table).sum(axis=1)
        with np.errstate(divide="ignore"):
            logs = utility.log_marginal(total)
        bend = utility.elasticity(total)
        given: _Given = {"score": score, "time_shared": time_shared, "what": what}
        if len(stages) == 1:
            unit, prices = stages[0].unit, stages[0].prices
            certificate = certify_largest_utility(
                problem, tasks, logs - unit, bend, prices, **given
            )
        else:
            certificate = certify_in_stages(problem, tasks, logs, bend, stages, **given)
        return Allocation(problem, mechanism, tasks, certificate)

    def directly() -> Allocation:
        solution = maximize_concave(programme)
        return proved(solution, Stage(solution.prices, scaled.offset))

    def of_straight_utility() -> Allocation:
        worth = np.exp(OfParts(utility, alone).log_marginal(np.ones(len(alone))) - scaled.offset)
        solution = maximize_straight(programme, worth)
        return proved(solution, Stage(solution.prices, scaled.offset))

    def along(path: UtilityPath, parts: UtilityPath) -> Allocation:
        first = Scaled.of(path.at(path.first), alone, start, limit)
        begin = maximize_concave(replace(programme, utility=first))
        solution, unit = follow_path(programme, begin, first.offset, parts)
        return proved(solution, Stage(solution.prices, unit))

    def in_stages(parts: UtilityPath) -> Allocation:
        solution, stages = maximize_in_stages(programme, parts)
        return proved(solution, *stages)

    ways = [Way(directly, EXACT)]
    if path is not None:
        parts = UtilityPath(lambda place: OfParts(path.at(place), alone), path.first, path.last)
        ways += [Way(partial(along, path, parts), EXACT), Way(partial(in_stages, parts), TOLERANCE)]
    elif not utility.elasticity(alone).any():
        ways.append(Way(of_straight_utility, TOLERANCE))
    return _first_good(ways)


@dataclass(frozen=True)
class Way:
    """A way to an answer, which later ones take longer for, and fail more rarely."""

    solve: Callable[[], Allocation]
    enough: float  # a violation of an earlier answer with which this way is not tried


def _first_good(ways: Iterable[Way]) -> Allocation:
    """Return the best answer of the ways that are tried in order, or raise the last failure."""
    best, failure = None, None
    for way in ways:
        if best is not None and best.certificate.violation <= way.enough:
            break
        try:
            answer = way.solve()
        except NoConvergenceError as caught:
            failure = caught
            continue
        if best is None or answer.certificate.violation < best.certificate.violation:
            best = answer
    if best is None:
        assert failure is not None
        raise failure
    return best


def _refuse_limits_of_unlike_scores(problem: Problem, mechanism: str, score: FloatArray) -> None:
    first = score[np.arange(len(score)), problem.runnable.argmax(axis=1)]
    unlike = (problem.runnable & (score != first[:, None])).any(axis=1)
    if (unlike & np.isfinite(problem.task_limit)).any():
        raise RefusalError(
            mechanism,
            "its definition does not admit finite tasks with scores that differ by server",
        )


def _without_dust(solution: ConcaveSolution, programme: ConcaveProgramme) -> FloatArray:
    """Leave out what an interior point holds only because it must hold something everywhere."""
    amount = solution.split.sum(axis=1)
    # Who may get nothing at all is measured by its slice of everything.
    linear = programme.utility.elasticity(np.maximum(amount, DUST)) == 0
    held = np.where(linear, np.maximum(amount, programme.start), amount)[:, None]
    share = solution.split / np.maximum(held, np.finfo(float).tiny)
    dear = solution.reduced_cost > share * solution.marginal[:, None]
    return np.where((share < DUST) & dear, 0.0, solution.split)
