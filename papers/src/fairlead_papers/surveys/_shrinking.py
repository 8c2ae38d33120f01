"""Shrink a witness: make a problem smaller and simpler while the property still fails on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from fairlead.errors import ProblemError
from fairlead.model.fitting import all_fit
from fairlead.model.problem import Problem
from fairlead.model.reductions import restrict

# Significant digits to which amounts are rounded, fewest first.
DIGITS = (1, 2)


def shrink(problem: Problem, still_fails: Callable[[Problem], bool], attempts: int) -> Problem:
    """Return a smaller or simpler problem for which `still_fails` is true, as for the given one.

    Steps remove a user, group or resource, a constraint, limit or weight, or round amounts. Greedy:
    take the first step after which `still_fails` is true, until there is none, or it was called
    `attempts` times.
    """
    left = attempts
    # Problem files list no user without a task that fits: smaller problems must not add one.
    whole = all_fit(problem)
    smaller = True
    while smaller and left > 0:
        smaller = False
        for candidate in _simpler_problems(problem):
            if left <= 0:
                break
            if whole and not all_fit(candidate):
                continue
            left -= 1
            if still_fails(candidate):
                problem, smaller = candidate, True
                break
    return problem


def size_key(problem: Problem) -> tuple[int, int]:
    """Return a sort key of witnesses: the number of amounts, then of digits and conditions."""
    amounts = np.concatenate([problem.cluster.capacity.ravel(), problem.demand.ravel()])
    digits = sum(len(f"{amount:.15g}") for amount in amounts)
    conditions = int((~problem.users.eligible).sum() + np.isfinite(problem.task_limit).sum())
    conditions += int((problem.weight != 1).sum())
    return (
        problem.n_resources * (problem.n_users + problem.n_groups),
        digits + conditions,
    )


def _simpler_problems(problem: Problem) -> Iterator[Problem]:
    """Yield problems that are one step simpler, the largest steps first."""
    for axis, length in (
        ("users", problem.n_users),
        ("groups", problem.n_groups),
        ("resources", problem.n_resources),
    ):
        for k in range(length if length > 1 else 0):
            try:
                yield restrict(problem, **{axis: [i for i in range(length) if i != k]})
            except ProblemError:
                continue
    yield from _simpler_users(problem)
    yield from _rounder_problems(problem)


def _simpler_users(problem: Problem) -> Iterator[Problem]:
    """Yield problems without a weight, a placement constraint, or a limit of tasks."""
    users = problem.users
    if (users.weight != 1).any():
        yield Problem(problem.cluster, replace(users, weight=np.ones(problem.n_users)))
    for n in range(problem.n_users):
        if not users.eligible[n].all():
            eligible = users.eligible.copy()
            eligible[n] = True
            yield Problem(problem.cluster, replace(users, eligible=eligible))
        if np.isfinite(users.task_limit[n]):
            limit = users.task_limit.copy()
            limit[n] = np.inf
            yield Problem(problem.cluster, replace(users, task_limit=limit))
        if users.weight[n] != 1:
            weight = users.weight.copy()
            weight[n] = 1.0
            yield Problem(problem.cluster, replace(users, weight=weight))


def _rounder_problems(problem: Problem) -> Iterator[Problem]:
    """Yield problems with rounder amounts: all of them, then one by one."""
    cluster, users = problem.cluster, problem.users
    for digits in DIGITS:
        capacity, demand = _round(cluster.capacity, digits), _round(users.demand, digits)
        limit = _round(users.task_limit, digits)
        changed = (capacity != cluster.capacity).any() or (demand != users.demand).any()
        if changed or (limit != users.task_limit).any():
            yield Problem(
                replace(cluster, capacity=capacity),
                replace(users, demand=demand, task_limit=limit),
            )
    for table in ("capacity", "demand"):
        amounts = cluster.capacity if table == "capacity" else users.demand
        for row, column in np.argwhere(amounts > 0):
            old = amounts[row, column]
            for new in dict.fromkeys((1.0, *(float(_round(old, d)) for d in DIGITS))):
                # Never longer numbers, so that shrinking ends.
                if new == old or len(f"{new:.15g}") > len(f"{old:.15g}") or abs(old) == 1.0:
                    continue
                changed_to = amounts.copy()
                changed_to[row, column] = new
                if table == "capacity":
                    yield Problem(replace(cluster, capacity=changed_to), users)
                else:
                    yield Problem(cluster, replace(users, demand=changed_to))


def _round(amounts: np.ndarray | float, digits: int) -> np.ndarray:
    rounded = np.vectorize(lambda a: float(f"{a:.{digits}g}"))(np.asarray(amounts))
    return np.asarray(rounded, dtype=np.float64)
