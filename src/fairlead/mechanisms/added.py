"""User-defined mechanisms: add functions from a problem to tasks to the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from inspect import getdoc, signature
from typing import Any, TypeVar

import numpy as np

from fairlead.certificates.overuse import (
    TOLERANCE,
    certify_with_feasibility,
    measure_time_overuse,
)
from fairlead.errors import CertificateError, FairleadError, InputError, fault_of
from fairlead.executors.executor import Processes
from fairlead.formats.problem_file import document_of
from fairlead.mechanisms.catalogue import (
    ADDED,
    CATALOGUE,
    OPTIONAL,
    Claim,
    Mechanism,
)
from fairlead.model.allocation import FEASIBLE, WHOLE, Allocation
from fairlead.model.arguments import texts
from fairlead.model.cluster import FloatArray
from fairlead.model.frames import read_numbers, read_table
from fairlead.model.names import check_name
from fairlead.model.problem import Problem

Divide = Callable[..., Any]
Function = TypeVar("Function", bound=Divide)


def mechanism(
    name: str,
    *,
    summary: str = "",
    paper: str = "",
    proved: Sequence[str] = (),
    accepts: Sequence[str] = OPTIONAL,
    whole_tasks: bool = False,
    time_shared: bool = False,
) -> Callable[[Function], Function]:
    """Return a decorator that adds a function to the mechanisms of this process.

    `solve`, `compare`, `audit` and `simulate(fair=...)` then accept the mechanism's name. Commands
    accept ``-m FILE.py:NAME``; or only the name, if an entry point of the group
    ``fairlead.mechanisms`` has it.

    The function takes a `Problem`, and options as keywords. It returns the tasks of each user on
    each group of servers, an (N, G) array or a labelled frame; or an `Allocation` with its own
    certificate. An array is certified only as feasible.

    Parameters
    ----------
    name : str
        Name of the mechanism; an earlier user-defined mechanism of that name is replaced.
    summary : str
        A summary in one line; the first line of the function's docstring when absent.
    paper : str
        The paper that defines the mechanism.
    proved : sequence of str
        Properties that are proved for the mechanism, as an audit names them.
    accepts : sequence of str
        Optional features of problems that the mechanism admits, of ``placement constraints``,
        ``finite tasks``, ``given rates``, ``weights per resource`` and ``queues``; all when absent.
        `solve` refuses problems with other features.
    whole_tasks : bool
        Whether the mechanism gives only whole tasks.
    time_shared : bool
        Whether servers are shared by time (TDM), instead of divided by resource (RDM).

    Raises
    ------
    InputError
        For a name that this package uses, or an unknown property or feature.

    Notes
    -----
    The function gets only users with tasks and positive weight, and groups with servers; equal
    users and equal groups are not merged. `solve` raises `CertificateError` for an answer that
    exceeds a capacity or a user's tasks by more than the fraction 1e-6.

    Examples
    --------
    >>> import fairlead
    >>> @fairlead.mechanism("even")
    ... def even(problem):
    ...     "Each user gets an equal part of every server."
    ...     return problem.gamma / problem.n_users
    >>> problem = fairlead.Problem.from_arrays([[9, 18]], [[1, 4], [3, 1]])
    >>> fairlead.solve(problem, "even").user_tasks.tolist()
    [2.25, 1.5]
    """
    if callable(name):
        example = f'@fairlead.mechanism("{getattr(name, "__name__", "name")}")'
        raise InputError(f"needs a name: write {example}", "mechanism")
    if not isinstance(name, str) or not name or name != name.strip():
        raise InputError(f"must be a name, not {name!r:.60}", "mechanism")
    check_name(name, "mechanism")
    if name in CATALOGUE:
        raise InputError(f"fairlead has a mechanism named {name!r}; choose another name", "name")
    features = texts(accepts, "accepts")
    for feature in features:
        if feature not in OPTIONAL:
            known = f"no feature is named {feature!r:.60}; known: {', '.join(OPTIONAL)}"
            raise InputError(known, "accepts")
    claims = tuple(map(Claim, texts(proved, "proved")))
    if claims:
        _check_properties(claims)

    def add(function: Function) -> Function:
        if not callable(function):
            raise InputError(f"must be a function, not {function!r:.60}", f"mechanism {name}")
        Processes.needs_fork = True  # spawned processes would lack this mechanism
        ADDED[name] = Mechanism(
            name,
            summary or (getdoc(function) or name).splitlines()[0],
            paper=paper,
            proved=claims,
            accepts=features,
            implementation=partial(_divide, function, name, time_shared, whole_tasks),
            whole_tasks=whole_tasks,
            options=tuple(signature(function).parameters)[1:],
            merges_users=False,
            merges_groups=False,
            time_shared=time_shared,
        )
        return function

    return add


def _check_properties(claims: Sequence[Claim]) -> None:
    """Raise InputError for a property that audits do not check."""
    audit = import_module("fairlead.properties.audit")  # which imports this package
    for claim in claims:
        if claim.property not in audit.PROPERTIES:
            known = (
                f"no property is named {claim.property!r:.60}; known: {', '.join(audit.PROPERTIES)}"
            )
            raise InputError(known, "proved")


def _divide(
    function: Divide,
    name: str,
    time_shared: bool,
    whole_tasks: bool,
    problem: Problem,
    **options: Any,
) -> Allocation:
    """Call a function; return its answer as an allocation.

    Raises InputError for an answer of a wrong shape, CertificateError for an infeasible one, and
    FairleadError for an exception of the function.
    """
    place = f"the answer of {name}"
    try:
        answer = function(problem, **options)
    except FairleadError:
        raise
    except (Exception, SystemExit) as fault:
        raise fault_of(function, name, fault) from fault
    if isinstance(answer, Allocation):
        return _check_allocation(replace(answer, mechanism=name), problem, time_shared)
    table = read_table(answer, place).laid_out(problem.users.names, problem.cluster.groups)
    tasks = read_numbers(table, place)
    shape = problem.n_users, problem.n_groups
    if tasks.shape != shape:
        raise InputError(f"has shape {tasks.shape}, not {shape}, users by groups", place)
    faults = {}
    if whole_tasks and np.isfinite(tasks).all():
        faults["fractions"] = float(np.abs(tasks - np.rint(tasks)).max(initial=0.0))
    condition = WHOLE if whole_tasks else FEASIBLE
    proof = certify_with_feasibility(condition, faults, problem, tasks, time_shared=time_shared)
    allocation = Allocation(problem, name, tasks, proof)
    if not proof.holds:
        why = f"{name}: {_describe_fault(problem, tasks, time_shared)}"
        raise CertificateError(why, allocation, proof.violation)
    return allocation


def _describe_fault(problem: Problem, tasks: FloatArray, time_shared: bool) -> str:
    """Describe the first fault of an infeasible answer, or of one with fractions of tasks."""
    users, groups = problem.users.names, problem.cluster.groups
    for wrong, what in (
        (~np.isfinite(tasks), "a number of tasks on {} that is not finite"),
        (tasks < 0, "a negative number of tasks on {}"),
        (~problem.runnable & (tasks > 0), "tasks on {}, where it may not or cannot run"),
    ):
        if wrong.any():
            n, g = np.argwhere(wrong)[0]
            return f"gives {users[n]} {what.format(groups[g])}: {tasks[n, g]:g}"
    held = tasks.sum(axis=1)
    beyond = np.flatnonzero(held > problem.task_limit * (1 + TOLERANCE))
    if len(beyond):
        n = beyond[0]
        return f"gives {users[n]} {held[n]:g} tasks; it has only {problem.task_limit[n]:g}"
    if time_shared and measure_time_overuse(problem, tasks) > TOLERANCE:
        return "gives more time of a group of servers than there is"
    usage, capacity = tasks.T @ problem.demand, problem.group_capacity
    over = np.argwhere(usage > capacity * (1 + TOLERANCE))
    if len(over) and not time_shared:
        g, r = over[0]
        resource = problem.cluster.resources[r]
        return f"gives {usage[g, r]:g} {resource} of {groups[g]}, which has {capacity[g, r]:g}"
    return "gives fractions of tasks, but is declared with whole_tasks=True"


def _check_allocation(answer: Allocation, problem: Problem, time_shared: bool) -> Allocation:
    """Return an allocation if it is a feasible one of the problem or of its pool.

    Raises InputError for another problem, and CertificateError for an infeasible allocation.
    """
    if answer.problem is not problem:
        solved = document_of(answer.problem)
        same = (asked for asked in (problem, problem.pooled()) if document_of(asked) == solved)
        asked = next(same, None)
        if asked is None:
            raise InputError(
                "is an allocation of another problem", f"the answer of {answer.mechanism}"
            )
        answer = replace(answer, problem=asked)
    proof = certify_with_feasibility(
        FEASIBLE, {}, answer.problem, answer.tasks, time_shared=time_shared
    )
    if not proof.holds:
        missed = f"{proof.violation:.3g} ({FEASIBLE})"
        fault = f"{answer.mechanism}: the answer violates feasibility by {missed}"
        raise CertificateError(fault, answer, proof.violation)
    return answer
