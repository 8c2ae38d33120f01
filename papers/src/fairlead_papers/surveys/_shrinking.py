"""Make a problem as small and plain as possible while it still shows the same thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from fairlead.errors import ProblemError
from fairlead.model.fitting import all_fit
from fairlead.model.problem import Problem
from fairlead.model.reductions import restrict

# Amounts are tried with so few digits, plainest first.
DIGITS = (1, 2)


def shrink(problem: Problem, shows: Callable[[Problem], bool], attempts: int) -> Problem:
    """Return a smaller or plainer problem that still `shows` the same.

    It has fewer users, groups or resources, only constraints, limits and weights that matter, and
    rounder amounts, as far as single steps lead. Greedy: the first step that still shows it is
    taken, until none does or `attempts` run out.
    """
    left = attempts
    whole = all_fit(problem)  # problem files list no user without a task that fits
    smaller = True
    while smaller and left > 0:
        smaller = False
        for candidate in _simpler(problem):
            if left <= 0:
                break
            if whole and not all_fit(candidate):
                continue
            left -= 1
            if shows(candidate):
                problem, smaller = candidate, True
                break
    return problem


def size_of(problem: Problem) -> tuple[int, int]:
    """Return by what witnesses compare: their amounts, then their digits and conditions."""
    amounts = np.concatenate([problem.cluster.capacity.ravel(), problem.demand.ravel()])
    digits = sum(len(f"{amount:.15g}") for amount in amounts)
    conditions = int((~problem.users.eligible).sum() + np.isfinite(problem.task_limit).sum())
    conditions += int((problem.weight != 1).sum())
    return (
        problem.n_resources * (problem.n_users + problem.n_groups),
        digits + conditions,
    )


def _simpler(problem: Problem) -> Iterator[Problem]:
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
    yield from _plainer_users(problem)
    yield from _rounder(problem)


def _plainer_users(problem: Problem) -> Iterator[Problem]:
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


def _rounder(problem: Problem) -> Iterator[Problem]:
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
                # Never to longer numbers: steps must end.
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
