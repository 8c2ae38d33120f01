"""What is audited: holdings, the whole tasks in them, and the rule that made them, if any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairlead.errors import InputError
from fairlead.mechanisms.catalogue import CATALOGUE, CONSTRAINTS, find_mechanism, solve
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.frames import read_numbers, read_table
from fairlead.model.holdings import Holdings
from fairlead.model.problem import Problem
from fairlead.model.reductions import active_part, restrict
from fairlead.properties.wording import counted

# What an audit takes beside the name of a mechanism: a rule of one's own may return any of these.
Answer = Allocation | Holdings | FloatArray
Rule = Callable[[Problem], Answer]
# Quotients of whole numbers are whole within this.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Subject:
    """What is audited."""

    name: str  # what to call it
    # Who holds what; its problem is one pool where the rule sees all servers as one.
    holdings: Holdings
    given: Problem  # the problem as it was given
    # How it would divide another problem, as holdings; None for an allocation, which does not say
    # what would have been.
    divide: Callable[[Problem], Holdings] | None = None
    # Whether servers are shared by time (TDM) instead of divided by resource (RDM).
    time_shared: bool = False
    knows_constraints: bool = True  # whether the rule admits placement constraints
    certified: bool = False  # whether every answer of the rule is proved before it is given
    # Whether users of weight 0 hold something, which counts as free.
    sets_aside: bool = False
    # What comes close to dividing a problem much like the given one, from the tasks held there;
    # None where nothing is faster than to divide it.
    divide_near: Callable[[Problem, FloatArray], Allocation] | None = None

    @property
    def problem(self) -> Problem:
        """The problem on which the holdings are judged."""
        return self.holdings.problem

    @property
    def tasks(self) -> FloatArray:
        """(N, G) float: tasks of each user on each whole group."""
        return self.holdings.tasks


def subject_of(problem: Problem, subject: str | Answer | Rule, **options: Any) -> Subject:
    """Take a mechanism, a rule or an allocation to be audited; a mechanism or rule is run once.

    Parameters
    ----------
    subject : str, callable, Allocation, Holdings, a filling or (N, G) array or frame
        A mechanism's name; a function from a problem to an answer; or an answer. Frames are laid
        out by their labels.
    **options
        Of the mechanism, such as ``alpha``.

    Raises
    ------
    InputError
        For an unknown mechanism or option, or an answer of the wrong shape or to another problem.
    RefusalError
        When the mechanism does not admit the problem.
    CertificateError
        When the mechanism finds no certified answer.
    """
    if isinstance(subject, str):
        row = find_mechanism(subject)

        def divide(other: Problem) -> Holdings:
            return _holdings(other, solve(other, subject, **options))

        return Subject(
            name=subject,
            holdings=divide(problem),
            given=problem,
            divide=divide,
            time_shared=row.time_shared or problem.users.rates is not None,
            knows_constraints=CONSTRAINTS in row.accepts,
            certified=True,
            divide_near=None if problem.has_limits else row.load_continuation(),
        )
    for option in options:
        raise InputError("only a mechanism's name takes options", option)
    if callable(subject):
        rule = subject
        name = getattr(rule, "__name__", "rule")

        def ask(other: Problem) -> Holdings:
            try:
                return _holdings(other, rule(other))
            except InputError as error:
                asked = f"{name}, asked to divide among {counted(other.n_users, 'user')}"
                raise InputError(f"{error.place} {error.fault}".lstrip(), asked) from None

        holdings = ask(problem)
        return Subject(
            name=name,
            holdings=holdings,
            given=problem,
            divide=ask,
            time_shared=_is_time_shared(holdings),
        )
    holdings = _holdings(problem, subject)
    return Subject(
        name=holdings.source or "allocation",
        holdings=holdings,
        given=problem,
        time_shared=_is_time_shared(holdings),
    )


def working_subject(subject: Subject) -> tuple[Subject, bool]:
    """Remove users that are due nothing and groups without a server from a subject.

    Also return whether users without tasks and groups without a server hold nothing, as they
    should. Raises ProblemError when all users are due nothing.
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
    sets_aside = bool(np.count_nonzero(holds[cells]) < np.count_nonzero(holds[possible]))
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
    return replace(subject, holdings=kept, given=part, sets_aside=sets_aside), is_all


def _is_time_shared(holdings: Holdings) -> bool:
    known = CATALOGUE.get(holdings.source)
    return (known is not None and known.time_shared) or holdings.problem.users.rates is not None


def _holdings(problem: Problem, answer: Any) -> Holdings:
    """Return an answer as holdings of the problem that was asked, or of its pool.

    A rule may have changed the problem before, as one that overlooks weights does: what is held is
    judged by the problem as it was.
    """
    if isinstance(answer, Holdings):
        row = CATALOGUE.get(answer.source)
        whole = answer.whole_tasks or (row is not None and row.whole_tasks)
        holdings = replace(answer, whole_tasks=whole)
    elif isinstance(answer, Allocation):
        row = CATALOGUE.get(answer.mechanism)
        whole = row is not None and row.whole_tasks
        holdings = Holdings(answer.problem, answer.tasks, answer.mechanism, whole)
    elif hasattr(answer, "order") and hasattr(answer, "policy"):  # a filling
        holdings = Holdings(answer.problem, answer.tasks, "fill", whole_tasks=True)
    else:
        holdings = Holdings(problem, _table(answer, problem))
    asked = _asked(problem, holdings.problem)
    holdings = replace(holdings, problem=asked, tasks=_table(holdings.tasks, asked))
    users, groups = asked.n_users, asked.n_groups
    if holdings.tasks.shape != (users, groups):
        raise InputError(
            f"has tasks of shape {holdings.tasks.shape}, where the problem asks for "
            f"{(users, groups)}, users by groups",
            "allocation",
        )
    return holdings


def _table(tasks: Any, asked: Problem) -> FloatArray:
    """Return tasks as users by groups; a frame's labels say which are which."""
    table = read_table(tasks, "allocation")
    return read_numbers(table.laid_out(asked.users.names, asked.cluster.groups), "allocation")


def _asked(problem: Problem, answered: Problem) -> Problem:
    """Return the problem as it was asked, pooled where all servers were seen as one pool."""
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


def why_open(subject: Subject, n: int) -> str:
    """Return the reason why a verdict on a user is open."""
    holdings = subject.holdings
    for task in holdings.waiting:
        if task.user == n and task.undecided:
            return f"{task.name} waits under {task.undecided}, which is not modelled"
    if holdings.partial is not None and holdings.partial[n] and holdings.waiting_per_user[n]:
        return "its tasks are of several shapes that no server runs together"
    return "it is not certain what it holds" if holdings.doubts is None else holdings.doubts.why


def round_down(tasks: FloatArray) -> FloatArray:
    """Return the whole tasks in fractions of tasks, a rounding error below a whole one being it."""
    whole: FloatArray = np.floor(tasks * (1 + ROUNDING))
    return whole


def at_least_whole(tasks: FloatArray, pieces: FloatArray | None, count: IntArray) -> FloatArray:
    """Return (..., G) how many whole tasks surely fit into what is spread over identical servers.

    `tasks` would fit if each group were one server; they are held in equal `pieces`, each on one
    server (None: not equal). Every server that holds a piece loses less than one task to rounding,
    and a piece holds whole tasks of its own.
    """
    whole = round_down(tasks)
    if pieces is None:
        return np.maximum(whole - count + 1.0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(pieces > 0, pieces * round_down(tasks / pieces), 0.0)
    used = np.minimum(np.maximum(np.ceil(pieces), 1.0), count)
    return np.where(count > 1, np.maximum(each, whole - used + 1.0), whole)
