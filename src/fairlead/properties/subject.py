"""What is audited: holdings, and the rule that made them if there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairlead.errors import InputError
from fairlead.mechanisms.catalogue import CATALOGUE, find_mechanism, solve
from fairlead.mechanisms.mechanism import CONSTRAINTS
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.holdings import Holdings
from fairlead.model.problem import Problem

# What an audit takes beside the name of a mechanism: a rule of one's own may return any of these.
Answer = Allocation | Holdings | FloatArray
Rule = Callable[[Problem], Answer]


@dataclass(frozen=True, eq=False)
class Subject:
    """What is audited.

    Attributes
    ----------
    name : str
        What to call it.
    holdings : Holdings
        Who holds what; its problem is one pool where the rule sees all servers as one.
    given : Problem
        The problem as it was given.
    divide : callable or None
        How it would divide another problem, as holdings; None for an allocation, which does not
        say what would have been.
    time_shared : bool
        Whether servers are shared by time (TDM) instead of divided by resource (RDM).
    knows_constraints : bool
        Whether the rule admits placement constraints.
    divide_near : callable or None
        What comes close to dividing a problem much like the given one, from the tasks held there;
        None where nothing is faster than to divide it.
    """

    name: str
    holdings: Holdings
    given: Problem
    divide: Callable[[Problem], Holdings] | None = None
    time_shared: bool = False
    knows_constraints: bool = True
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
    """Take a mechanism, a rule or an allocation to be audited.

    Parameters
    ----------
    problem : Problem
    subject : str, callable, Allocation, Holdings, a filling or (N, G) array
        A mechanism's name; a function from a problem to an answer; or an answer.
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

    Notes
    -----
    A mechanism or rule is run once.
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
            divide_near=None if problem.has_limits else row.load_continuation(),
        )
    for option in options:
        raise InputError("only a mechanism's name takes options", option)
    if callable(subject):
        rule = subject
        return Subject(
            name=getattr(rule, "__name__", "rule"),
            holdings=_holdings(problem, rule(problem)),
            given=problem,
            divide=lambda other: _holdings(other, rule(other)),
            time_shared=problem.users.rates is not None,
        )
    holdings = _holdings(problem, subject)
    known = CATALOGUE.get(holdings.source)
    return Subject(
        name=holdings.source or "allocation",
        holdings=holdings,
        given=problem,
        time_shared=(known is not None and known.time_shared) or problem.users.rates is not None,
    )


def _holdings(problem: Problem, answer: Any) -> Holdings:
    """Return an answer as holdings, its users those of the problem."""
    if isinstance(answer, Holdings):
        row = CATALOGUE.get(answer.source)
        whole = answer.whole_tasks or (row is not None and row.whole_tasks)
        holdings = replace(answer, whole_tasks=whole)
    elif isinstance(answer, Allocation):
        row = CATALOGUE.get(answer.mechanism)
        whole = row is not None and row.whole_tasks
        holdings = Holdings(answer.problem, answer.tasks, answer.mechanism, whole)
    elif hasattr(answer, "order") and hasattr(answer, "policy"):  # a filling
        tasks = np.asarray(answer.tasks, dtype=np.float64)
        holdings = Holdings(answer.problem, tasks, "fill", whole_tasks=True)
    else:
        holdings = Holdings(problem, np.array(answer, dtype=np.float64))
    users, groups = holdings.problem.n_users, holdings.problem.n_groups
    if holdings.problem.users.names != problem.users.names:
        raise InputError("is of other users than the problem", "allocation")
    if holdings.tasks.shape != (users, groups) or groups not in (1, problem.n_groups):
        raise InputError(
            f"has tasks of shape {holdings.tasks.shape}, where the problem has {users} users and "
            f"{problem.n_groups} groups",
            "allocation",
        )
    return holdings
