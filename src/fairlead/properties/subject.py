"""The subject of an audit: holdings, and the mechanism or function that made them, if any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairlead.errors import CertificateError, FairleadError, InputError, fault_of
from fairlead.mechanisms.catalogue import (
    CATALOGUE,
    CONSTRAINTS,
    find_mechanism,
    known_mechanism,
    solve,
)
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.frames import read_numbers, read_table
from fairlead.model.holdings import Holdings
from fairlead.model.problem import Problem
from fairlead.model.queues import Limits
from fairlead.model.quotas import Quotas
from fairlead.model.reductions import active_part, restrict
from fairlead.properties.verdict_text import counted

# Types that an audited function may return.
Answer = Allocation | Holdings | FloatArray
Rule = Callable[[Problem], Answer]
ROUNDING = 1e-9  # relative error of a quotient that counts as a whole number


@dataclass(frozen=True, eq=False)
class Subject:
    """An audited allocation, mechanism or function."""

    name: str
    holdings: Holdings  # of the pooled problem, if the rule sees all servers as one pool
    given: Problem  # the problem before pooling
    # Divides another problem; None for an allocation.
    divide: Callable[[Problem], Holdings] | None = None
    time_shared: bool = False  # servers shared by time (TDM), not divided by resource (RDM)
    knows_constraints: bool = True  # whether the rule admits placement constraints
    certified: bool = False  # whether every answer of the rule has a certificate
    zero_weights_hold: bool = False  # whether users of weight 0 hold something, counted as free
    quotas: Quotas = field(default_factory=dict)  # amounts that queues are guaranteed
    limits: Limits = field(default_factory=dict)  # largest amounts that queues may hold

    @property
    def problem(self) -> Problem:
        """The problem on which the holdings are judged."""
        return self.holdings.problem

    @property
    def tasks(self) -> FloatArray:
        """(N, G) float: tasks of each user on each whole group."""
        return self.holdings.tasks


def subject_of(problem: Problem, subject: str | Answer | Rule, **options: Any) -> Subject:
    """Prepare a mechanism (by name, with options), a function or an answer for an audit.

    A mechanism or function is run once; the answer of a user-defined one need not be feasible.

    Raises InputError for an unknown mechanism or option, or for an answer of the wrong shape or to
    another problem. Raises RefusalError or CertificateError if the mechanism has no answer, and
    FairleadError if it fails.
    """
    if isinstance(subject, str):
        row = find_mechanism(subject)
        is_ours = row.name in CATALOGUE

        def divide(other: Problem) -> Holdings:
            try:
                found = solve(other, subject, **options)
            except CertificateError as error:
                answer = error.answer
                if is_ours or not isinstance(answer, Allocation):
                    raise
                if answer.problem.users.names != other.users.names:  # not all are due something
                    raise
                found = answer
            return _read_holdings(other, found)

        return Subject(
            name=subject,
            holdings=divide(problem),
            given=problem,
            divide=divide,
            time_shared=row.time_shared or _is_divided_by_time(problem),
            knows_constraints=CONSTRAINTS in row.accepts,
            certified=is_ours,
        )
    for option in options:
        raise InputError("only a mechanism's name takes options", option)
    if callable(subject):
        rule = subject
        name = getattr(rule, "__name__", "rule")

        def ask(other: Problem) -> Holdings:
            try:
                return _read_holdings(other, rule(other))
            except InputError as error:
                asked = f"{name}, called for {counted(other.n_users, 'user')}"
                raise InputError(f"{error.place} {error.fault}".lstrip(), asked) from None
            except FairleadError:
                raise
            except (Exception, SystemExit) as fault:
                raise fault_of(rule, name, fault) from fault

        holdings = ask(problem)
        return Subject(
            name=name,
            holdings=holdings,
            given=problem,
            divide=ask,
            time_shared=_is_time_shared(holdings),
        )
    holdings = _read_holdings(problem, subject)
    return Subject(
        name=holdings.source or "allocation",
        holdings=holdings,
        given=problem,
        time_shared=_is_time_shared(holdings),
    )


def active_subject(subject: Subject) -> tuple[Subject, bool]:
    """Remove users that are due nothing and groups without a server from a subject.

    Also return whether users without tasks, and groups without a server, hold nothing. Raises
    ProblemError when all users are due nothing.
    """
    part, users, groups = active_part(subject.given)
    if part is subject.given:
        return subject, True
    holdings = subject.holdings
    if holdings.problem is not subject.given:  # one pool
        groups = np.arange(holdings.problem.n_groups)
        part_held = restrict(holdings.problem, users=users.tolist())
    else:
        part_held = part
    cells = np.ix_(users, groups)
    tasks, amounts = holdings.tasks, holdings.amounts
    holds = (tasks != 0) if amounts is None else (tasks != 0) | (amounts != 0).any(axis=2)
    possible = np.ix_(np.flatnonzero(subject.given.task_limit), groups)
    is_all = np.count_nonzero(holds[possible]) == np.count_nonzero(holds)
    zero_weights_hold = bool(np.count_nonzero(holds[cells]) < np.count_nonzero(holds[possible]))
    position = {int(n): k for k, n in enumerate(users)}
    waiting = tuple(
        replace(task, user=position[task.user], allowed=task.allowed[groups])
        for task in holdings.waiting
        if task.user in position
    )
    kept = replace(
        holdings,
        problem=part_held,
        tasks=tasks[cells],
        amounts=None if amounts is None else amounts[cells],
        waiting=waiting,
    )
    part_of = replace(subject, holdings=kept, given=part, zero_weights_hold=zero_weights_hold)
    return part_of, is_all


def _is_time_shared(holdings: Holdings) -> bool:
    known = known_mechanism(holdings.source)
    return (known is not None and known.time_shared) or _is_divided_by_time(holdings.problem)


def _is_divided_by_time(problem: Problem) -> bool:
    """Return whether rates are given for a user that is due something."""
    rates = problem.users.rates
    return rates is not None and not bool(np.isnan(rates[~problem.due_nothing, 0]).all())


def _read_holdings(problem: Problem, answer: Any) -> Holdings:
    """Return an answer as holdings of the given problem, or of its pool.

    A function may have answered a changed problem, such as one without weights; the holdings are
    judged by the original. Raises InputError for other users, groups or shapes.
    """
    if isinstance(answer, Holdings):
        row = known_mechanism(answer.source)
        whole = answer.whole_tasks or (row is not None and row.whole_tasks)
        holdings = replace(answer, whole_tasks=whole)
    elif isinstance(answer, Allocation):
        row = known_mechanism(answer.mechanism)
        whole = row is not None and row.whole_tasks
        holdings = Holdings(answer.problem, answer.tasks, answer.mechanism, whole)
    elif hasattr(answer, "order") and hasattr(answer, "policy"):  # a filling
        holdings = Holdings(answer.problem, answer.tasks, "fill", whole_tasks=True)
    else:
        holdings = _read_table_of_tasks(problem, answer)
    asked = _choose_problem(problem, holdings.problem)
    holdings = replace(holdings, problem=asked, tasks=_read_tasks(holdings.tasks, asked))
    users, groups = asked.n_users, asked.n_groups
    if holdings.tasks.shape != (users, groups):
        raise InputError(
            f"has tasks of shape {holdings.tasks.shape}, where the problem asks for "
            f"{(users, groups)}, users by groups",
            "allocation",
        )
    return holdings


def _read_table_of_tasks(problem: Problem, answer: Any) -> Holdings:
    """Return an array or a frame as holdings; a frame of the pool's group belongs to the pool."""
    labels = read_table(answer, "allocation").axes[1]
    if labels is not None and labels.names != problem.cluster.groups:
        pool = problem.pooled()
        if labels.names == pool.cluster.groups:
            problem = pool
    return Holdings(problem, _read_tasks(answer, problem))


def _read_tasks(tasks: Any, asked: Problem) -> FloatArray:
    """Return tasks as users by groups; frames are arranged by their labels."""
    table = read_table(tasks, "allocation")
    return read_numbers(table.laid_out(asked.users.names, asked.cluster.groups), "allocation")


def _choose_problem(problem: Problem, answered: Problem) -> Problem:
    """Return the original problem, pooled if the answer is to its pool; else raise InputError."""
    if answered is problem:
        return problem
    if answered.users.names != problem.users.names:
        raise InputError("is of other users than the problem", "allocation")
    pool = problem.pooled()
    is_pool = problem.n_groups > 1 or answered.count.sum() == 1 < problem.count.sum()
    if is_pool and answered.cluster.groups == pool.cluster.groups:
        return pool
    if answered.cluster.groups != problem.cluster.groups:
        raise InputError("is of other groups of servers than the problem", "allocation")
    return problem


def why_undecided(subject: Subject, n: int) -> str:
    """Return the reason why the verdict on a user is undecided."""
    holdings = subject.holdings
    for task in holdings.waiting:
        if task.user == n and task.undecided:
            return f"{task.name} waits under {task.undecided}, which is not modelled"
    return "its tasks are of several shapes that no server runs together"


def round_down(tasks: FloatArray) -> FloatArray:
    """Round down to whole tasks, up to a rounding error."""
    whole: FloatArray = np.floor(tasks * (1 + ROUNDING))
    return whole


def certain_whole_tasks(
    tasks: FloatArray, pieces: FloatArray | None, count: IntArray
) -> FloatArray:
    """Return (..., G) the whole tasks that fit, however a bundle is spread over identical servers.

    `tasks` (..., G) would fit if each group were one server. The bundle consists of `pieces`
    (..., G) equal pieces, each on one server; None if they are unequal. Two lower bounds are
    computed: each piece is rounded down by itself; or each server that holds a piece loses less
    than one task to rounding. The larger one is returned.
    """
    whole = round_down(tasks)
    if pieces is None:
        return np.maximum(whole - count + 1.0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(pieces > 0, pieces * round_down(tasks / pieces), 0.0)
    used = np.minimum(np.maximum(np.ceil(pieces), 1.0), count)
    return np.where(count > 1, np.maximum(each, whole - used + 1.0), whole)
