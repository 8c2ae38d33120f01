"""Divide so that a sum of users' concave utilities is largest.

Kesidis et al., eq. 5 and Corollary 1, for any increasing concave utility of a score that is linear
in the tasks.

Proportional fairness, alpha-fairness and task efficiency are ``max sum_n phi[n] g_a(x[n])`` with
g_1 = log and otherwise ``g_a(x) = x^(1-a) / (1-a)``; phi are weights, x tasks (eq. 15 to 17, after
Mo and Walrand 2000). a = 0 is task efficiency, a = 1 proportional fairness; the larger a is, the
more it favours users with few tasks. Under TDM proportional fairness is PS-DSF.

With steep utilities, some users spend 10^20 times as much as others. A single solution is then
exact for the users that spend most, and a rounding error for the others. If no other method
finds a proof, the programme is solved in stages. Each stage fixes the totals, but not the servers,
of the users that spend most; the next one solves the programme again for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from fairlead.certificates.overuse import TOLERANCE
from fairlead.certificates.utility_prices import JUDGED_SPENDING, Stage, certify_largest_utility
from fairlead.errors import CertificateError, InputError, NoConvergenceError, RefusalError
from fairlead.mechanisms.max_min import score_table
from fairlead.model.allocation import Allocation
from fairlead.model.arguments import number
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.model.reductions import active_part
from fairlead.solvers.concave_interior_point import maximize_concave
from fairlead.solvers.concave_programme import ConcaveProgramme, ConcaveSolution, System, Utility
from fairlead.solvers.linear_programmes import maximize_linear, raise_together
from fairlead.solvers.utility_continuation import UtilityPath, follow_path

# A holding below this fraction of a user's total is a rounding error if it costs too much: see
# `_without_rounding_errors`.
ROUNDING = 1e-9
# If an answer violates its condition by more, another method is tried.
SMALL_VIOLATION = 1e-9
STAGE_ACCEPTED = 1e-6  # the largest relative residual of a stage that still gives a proof
# The smallest total at a start, relative to the total that the user could have alone.
SMALLEST_TOTAL = 1e-12
# Marginal utility of users that reach their limit in any case, in a unit in which all resources
# together cost about 1.
SATED_MARGINAL = 1e3
DEFAULT_ALPHA = 2.0
# With a larger alpha, x^-alpha overflows for values of x that differ by 10^6.
LARGEST_ALPHA = 32.0
GENTLE_ALPHA = 2.0  # alpha at which the path to a steeper utility starts

Derivative = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class LevelUtility:
    """Utilities ``phi[n] g(Z[n] / phi[n])`` of scores Z, by the derivatives of g."""

    weight: FloatArray  # (N,)
    marginal: Derivative  # g', from (N,) levels to (N,) positive numbers
    curvature: Derivative  # g'', from (N,) levels to (N,) numbers <= 0

    def log_marginal(self, amount: FloatArray) -> FloatArray:
        """Return log g'(Z / phi)."""
        return np.log(self.marginal(amount / self.weight))

    def elasticity(self, amount: FloatArray) -> FloatArray:
        """Return -U g''(U) / g'(U) at U = Z / phi."""
        level = amount / self.weight
        return -level * self.curvature(level) / self.marginal(level)


@dataclass(frozen=True, eq=False)
class ScaledUtility:
    """A utility of scores relative to the score that each user could have alone."""

    raw: Utility  # of scores Z
    alone: FloatArray  # (N,): score that each user could have alone
    offset: float  # logarithm of the unit of utility
    sated: BoolArray  # (N,): users that reach their limit in any case; constant marginal utility

    def log_marginal(self, amount: FloatArray) -> FloatArray:
        """Return the logarithms of the marginal utilities of relative scores, (N,)."""
        logs = self.raw.log_marginal(amount * self.alone) + np.log(self.alone) - self.offset
        return np.where(self.sated, np.log(SATED_MARGINAL), logs)

    def elasticity(self, amount: FloatArray) -> FloatArray:
        """Return -U f''(U) / f'(U) at relative scores U, (N,); the unit cancels out."""
        return np.where(self.sated, 0.0, self.raw.elasticity(amount * self.alone))


def maximize_utility(
    problem: Problem,
    marginal: Derivative,
    curvature: Derivative,
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
        For queues, for given rates under RDM, and for finite tasks where scores differ from group
        to group.
    NoConvergenceError, CertificateError
        When no answer could be found, or proved.

    Notes
    -----
    Users without tasks or of weight 0 get nothing, and do not count in N above.

    Kesidis et al., eq. 5 and 6. Cost as `maximize_concave`. Totals are unique where g is strictly
    concave; splits over servers need not be, and the result is the centre of all of them.

    Examples
    --------
    >>> problem = Problem.from_arrays([[12.0]], [[1.0], [2.0]])
    >>> answer = maximize_utility(problem, lambda u: 1 / u, lambda u: -1 / u**2)
    >>> answer.user_tasks.round(6).tolist()
    [6.0, 3.0]
    """
    if problem.users.queues is not None:
        raise RefusalError("max-utility", "its definition does not admit queues")
    table = score_table(problem, score)
    part, users, groups = active_part(problem)
    cells = np.ix_(users, groups)
    utility = LevelUtility(part.weight, marginal, curvature)
    level = np.ones(part.n_users)
    first, second = utility.marginal(level), utility.curvature(level)
    for name, values, has_sign, sign in (
        ("marginal", first, np.all(np.asarray(first) > 0), "positive"),
        ("curvature", second, np.all(np.asarray(second) <= 0), "zero or negative"),
    ):
        if np.shape(values) != level.shape or not has_sign:
            raise InputError(f"must return {level.size} {sign} numbers", name)
    answer = divide_by_utility(
        part,
        "max-utility",
        utility,
        score=table[cells],
        time_shared=time_shared,
        what="no feasible allocation has sum phi g'(U*) (U - U*) > 0 (Corollary 1",
    )
    if not answer.certificate.holds:
        missed = f"{answer.certificate.violation:.3g}"
        fault = f"max-utility: the answer misses its condition by {missed}"
        raise CertificateError(fault, answer, answer.certificate.violation)
    if part is problem:
        return answer
    tasks = np.zeros((problem.n_users, problem.n_groups))
    tasks[cells] = answer.tasks
    return replace(answer, problem=problem, tasks=tasks)


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
    """Divide so that the sum of utilities of scores is largest, and certify it.

    Utilities are functions of the scores ``Z[n] = sum_g u[n,g] x[n,g]``; `score` is u, (N, G), 1
    when absent. `path`, from a less steep utility, is followed if no answer is found directly.
    `what` is the condition in words. Raises RefusalError and NoConvergenceError as
    `maximize_utility`.
    """
    division = _Division(problem, mechanism, utility, score, time_shared, what)
    # Methods, each with the violation of an earlier answer up to which it is not tried.
    methods: list[tuple[Callable[[], Allocation], float]] = [
        (division.solve_directly, SMALL_VIOLATION)
    ]
    if path is not None:
        methods.append((partial(division.follow, path), SMALL_VIOLATION))
        methods.append((division.solve_in_stages, TOLERANCE))
    elif not utility.elasticity(division.alone).any():
        methods.append((division.solve_linear, TOLERANCE))
    best, failure = None, None
    for method, enough in methods:
        if best is not None and best.certificate.violation <= enough:
            break
        try:
            answer = method()
        except NoConvergenceError as caught:
            failure = caught
            continue
        if best is None or answer.certificate.violation < best.certificate.violation:
            best = answer
    if best is None:
        raise failure or NoConvergenceError("no method was tried")
    return best


class _Division:
    """A problem as a programme of relative scores, and the methods that solve it."""

    def __init__(
        self,
        problem: Problem,
        mechanism: str,
        utility: Utility,
        score: FloatArray | None,
        time_shared: bool,
        what: str,
    ) -> None:
        if problem.users.rates is not None and not time_shared:
            raise RefusalError(mechanism, "given rates divide the time of servers, not resources")
        table = np.ones((problem.n_users, problem.n_groups)) if score is None else score
        first = table[np.arange(problem.n_users), problem.runnable.argmax(axis=1)]
        differs = (problem.runnable & (table != first[:, None])).any(axis=1)
        if (differs & np.isfinite(problem.task_limit)).any():
            raise RefusalError(
                mechanism,
                "its definition does not admit finite tasks with scores that differ by server",
            )
        self.problem, self.mechanism, self.utility, self.score = problem, mechanism, utility, score
        self.time_shared, self.what, self.table = time_shared, what, table
        # (N,): the score that each user could have alone.
        self.alone: FloatArray = (table * problem.gamma).sum(axis=1)
        limit = problem.task_limit * first
        # A limit above the total that the user could have alone does not bind.
        limit = np.where(limit < self.alone, limit / self.alone, np.inf)
        start = problem.weight / problem.weight.sum()
        self.scaled = _scale(utility, self.alone, start, limit)
        self.programme = ConcaveProgramme(
            use=use_per_task(problem, time_shared) * (self.alone[:, None] / table),
            allowed=problem.runnable,
            limit=limit,
            start=start,
            utility=self.scaled,
        )

    def solve_directly(self) -> Allocation:
        """Solve once, for all users together."""
        solution = maximize_concave(self.programme)
        return self._certified(solution, Stage(solution.prices, self.scaled.offset))

    def solve_linear(self) -> Allocation:
        """Solve as a linear programme, for utilities without curvature."""
        relative = _relative_to_alone(self.utility, self.alone)
        worth = np.exp(relative.log_marginal(np.ones(len(self.alone))) - self.scaled.offset)
        solution = maximize_linear(self.programme, worth)
        return self._certified(solution, Stage(solution.prices, self.scaled.offset))

    def follow(self, path: UtilityPath) -> Allocation:
        """Solve for the path's first utility, and follow the path to its end."""
        programme = self.programme
        gentle = _scale(path.at(path.first), self.alone, programme.start, programme.limit)
        answer = maximize_concave(replace(programme, utility=gentle))
        relative = _relative_path(path, self.alone)
        solution, unit = follow_path(programme, answer, gentle.offset, relative)
        return self._certified(solution, Stage(solution.prices, unit))

    def solve_in_stages(self) -> Allocation:
        """Solve for the users of largest spending first, fix their totals, and repeat."""
        relative = _relative_to_alone(self.utility, self.alone)
        solution, stages = _maximize_in_stages(self.programme, relative)
        return self._certified(solution, *stages)

    def _certified(self, solution: ConcaveSolution, *stages: Stage) -> Allocation:
        """Return a solution as an allocation, with the certificate of its stages."""
        problem = self.problem
        relative = _without_rounding_errors(solution, self.programme)
        tasks = relative * (self.alone[:, None] / self.table)
        total = tasks.sum(axis=1)
        over = total > problem.task_limit
        tasks[over] *= (problem.task_limit[over] / total[over])[:, None]
        total = (tasks * self.table).sum(axis=1)
        with np.errstate(divide="ignore"):
            logs = self.utility.log_marginal(total)
        elasticity = self.utility.elasticity(total)
        certificate = certify_largest_utility(
            problem,
            tasks,
            logs,
            elasticity,
            stages,
            score=self.score,
            time_shared=self.time_shared,
            what=self.what,
        )
        return Allocation(problem, self.mechanism, tasks, certificate)


def _scale(
    raw: Utility,
    alone: FloatArray,
    start: FloatArray,
    limit: FloatArray,
    settled: BoolArray | None = None,
) -> ScaledUtility:
    """Return a utility of relative scores, in a unit in which all resources cost about 1.

    The unit is ``sum_n f_n'(start[n]) start[n]`` over users that are not settled. Settled users,
    and users whose marginal utility at their limit exceeds SATED_MARGINAL, get their limit in any
    case. Their marginal utility becomes that constant, because f'(limit) would dwarf all others.
    """
    logs = raw.log_marginal(alone * start) + np.log(alone * start)
    done = np.zeros(len(alone), dtype=bool) if settled is None else settled
    largest = float(logs[~done].max())
    offset = largest + float(np.log(np.exp(logs[~done] - largest).sum()))
    last = np.where(np.isfinite(limit), limit, 1.0)
    worth = raw.log_marginal(alone * last) + np.log(alone) - offset
    sated = done | (np.isfinite(limit) & (worth > np.log(SATED_MARGINAL)))
    return ScaledUtility(raw, alone, offset, sated)


def _relative_to_alone(raw: Utility, alone: FloatArray) -> ScaledUtility:
    """Return a utility of scores relative to the scores alone, in its own unit."""
    return ScaledUtility(raw, alone, 0.0, np.zeros(len(alone), dtype=bool))


def _relative_path(path: UtilityPath, alone: FloatArray) -> UtilityPath:
    return UtilityPath(
        lambda parameter: _relative_to_alone(path.at(parameter), alone), path.first, path.last
    )


def _without_rounding_errors(solution: ConcaveSolution, programme: ConcaveProgramme) -> FloatArray:
    """Return the split without entries that are positive only because the solver is interior.

    The relative excess cost of these entries is larger than their share of the user's total.
    """
    amount = solution.split.sum(axis=1)
    # A user of linear utility may get nothing, so its start counts as its total.
    linear = programme.utility.elasticity(np.maximum(amount, ROUNDING)) == 0
    held = np.where(linear, np.maximum(amount, programme.start), amount)[:, None]
    share = solution.split / np.maximum(held, np.finfo(float).tiny)
    dear = solution.reduced_cost > share * solution.marginal[:, None]
    return np.where((share < ROUNDING) & dear, 0.0, solution.split)


def _maximize_in_stages(
    programme: ConcaveProgramme, utility: Utility
) -> tuple[ConcaveSolution, list[Stage]]:
    """Return the last stage's solution and the prices of all stages.

    The programme's utility is unused. A stage settles the users that spend at least the fraction
    JUDGED_SPENDING of the largest spending of an unsettled user, so it settles at least one.
    """
    settled = np.zeros(len(programme.limit), dtype=bool)
    total, stages = programme.start, []
    while True:
        limit = np.where(settled, total, programme.limit)
        solution, unit = _solve_stage(replace(programme, limit=limit), settled, utility)
        stages.append(Stage(solution.prices, unit))
        total = np.where(settled, total, np.maximum(solution.split.sum(axis=1), SMALLEST_TOTAL))
        logs = utility.log_marginal(total) - unit
        cost = np.where(programme.allowed, System(programme).cost(solution.prices), np.inf)
        with np.errstate(divide="ignore"):
            pays = np.log(total) + np.minimum(logs, np.log(cost.min(axis=1)))
        spends_much = np.log(total) + logs >= np.log(JUDGED_SPENDING) + pays[~settled].max()
        settled = settled | spends_much
        if settled.all():
            return solution, stages


def _solve_stage(
    programme: ConcaveProgramme, settled: BoolArray, utility: Utility
) -> tuple[ConcaveSolution, float]:
    """Return a stage's solution and its unit; start from a common level of the unsettled users."""
    start = np.where(settled, programme.limit, np.minimum(programme.start, programme.limit))
    with suppress(NoConvergenceError):
        raised = raise_together(programme, settled, _equal_worth(start, settled, utility))
        start = np.maximum(raised, SMALLEST_TOTAL)
    scaled = _scale(utility, np.ones(len(start)), start, programme.limit, settled)
    solution = maximize_concave(replace(programme, start=start, utility=scaled))
    if solution.gap > STAGE_ACCEPTED:
        raise NoConvergenceError(
            f"marginal utilities lie too far apart: {settled.sum()} of {len(settled)} users settled"
        )
    return solution, scaled.offset


def _equal_worth(even: FloatArray, settled: BoolArray, utility: Utility) -> FloatArray:
    """Return totals (N,), at most `even`, where unsettled users have about equal f'."""
    logs = utility.log_marginal(even)
    elasticity = np.maximum(utility.elasticity(even), 1.0)
    equal: FloatArray = even * np.exp((logs - logs[~settled].max()) / elasticity)
    return np.where(settled, even, np.clip(equal, SMALLEST_TOTAL, even))


@dataclass(frozen=True, eq=False)
class AlphaUtility:
    """The utilities ``phi[n] g_a(x[n])`` of eq. 15, by their derivatives ``phi / x^a``."""

    alpha: float
    weight: FloatArray  # (N,): phi

    def log_marginal(self, amount: FloatArray) -> FloatArray:
        """Return log(phi / x^a)."""
        logs = np.log(self.weight)
        return logs if self.alpha == 0 else logs - self.alpha * np.log(amount)

    def elasticity(self, amount: FloatArray) -> FloatArray:
        """Return alpha for all users."""
        return np.full(len(amount), self.alpha)


def check_alpha(alpha: float) -> float:
    """Return alpha as a number, or raise `InputError`."""
    given = number(alpha, "alpha")
    if not 0 <= given <= LARGEST_ALPHA:
        raise InputError(f"must be a number from 0 to {LARGEST_ALPHA:g}, not {given:g}", "alpha")
    return given


def divide_alpha_fairly(
    problem: Problem, alpha: float = DEFAULT_ALPHA, *, mechanism: str, time_shared: bool = False
) -> Allocation:
    """Divide by (phi, alpha)-proportional fairness, servers divided by resource or shared by time.

    Totals are unique for alpha > 0 (Kesidis et al., Proposition 2). For alpha = 0 the result is the
    centre of all optimal allocations, in which equal users have equal totals. Raises InputError
    for an alpha outside of 0 to 32.
    """
    alpha = check_alpha(alpha)
    condition = (
        "no feasible allocation has a larger sum of phi x (eq. 18"
        if alpha == 0
        else f"no feasible allocation has sum phi (x - x*) / x*^{alpha:g} > 0 (eq. 17"
    )
    # Only ratios of weights matter. Scaled weights make the answer independent of their unit.
    weight = problem.weight / problem.weight.max()
    path = UtilityPath(lambda a: AlphaUtility(a, weight), GENTLE_ALPHA, alpha)
    return divide_by_utility(
        problem,
        mechanism,
        AlphaUtility(alpha, weight),
        time_shared=time_shared,
        path=path if alpha > 0 else None,
        what=condition,
    )


solve_alpha_fair = partial(divide_alpha_fairly, mechanism="alpha-fair")
solve_alpha_fair_tdm = partial(divide_alpha_fairly, mechanism="alpha-fair-tdm", time_shared=True)
# Task efficiency: the largest ``sum_n phi[n] x[n]``.
solve_max_tasks = partial(divide_alpha_fairly, alpha=0.0, mechanism="max-tasks")
solve_max_tasks_tdm = partial(
    divide_alpha_fairly, alpha=0.0, mechanism="max-tasks-tdm", time_shared=True
)
solve_proportional = partial(divide_alpha_fairly, alpha=1.0, mechanism="proportional")
# Its totals are those of PS-DSF under TDM, whose conditions are the same (Khamse-Ashari et al.,
# Theorem 2).
solve_proportional_tdm = partial(
    divide_alpha_fairly, alpha=1.0, mechanism="proportional-tdm", time_shared=True
)
