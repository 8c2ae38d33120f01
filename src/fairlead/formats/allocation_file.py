"""Read allocation files: the tasks that users hold on the servers of a problem.

The layout is that of ``allocate --json`` and ``fill --json``; these keys suffice::

    {"users": [{"name": "ana", "servers": {"big": 3, "old": 0.5}}]}

Unknown keys are ignored, because other programs also write these files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.errors import InputError, ProblemError
from fairlead.formats._problem_rows import check_version
from fairlead.formats.documents import read_document, source_name
from fairlead.formats.file_faults import (
    RowFaults,
    did_you_mean,
    keyed_by_text,
    short,
)
from fairlead.model.arguments import name_text, switch
from fairlead.model.holdings import Holdings
from fairlead.model.problem import Problem
from fairlead.model.quantity import LARGEST_AMOUNT, number_at, show
from fairlead.model.ties import first_smallest

# The name of the only group in answers of mechanisms that treat all servers as one pool.
POOL = "pool"

# Relative tolerances. Tasks in a file were rounded when they were written.
_ROUNDING = 1e-6
_SAME_WEIGHT = 1e-9

# Keys that only ``fill --json`` writes.
_FILLING_KEYS = frozenset(("trials", "criterion", "select"))


def read_allocation(
    path: str | Path,
    problem: Problem,
    *,
    lenient: bool = False,
) -> Holdings:
    """Read the tasks that users hold from an allocation file.

    Parameters
    ----------
    path : str or Path
        A JSON or YAML file, or ``-`` for standard input.
    problem : Problem
        Users that the file does not name hold nothing.
    lenient : bool
        Skip malformed rows of users and list them in `Holdings.skipped`, instead of refusing the
        file. Errors of the whole file are still raised.

    Returns
    -------
    Holdings
        ``tasks`` is (N, G), in the problem's order. The problem is ``problem.pooled()`` if the file
        names only the group ``pool`` and the problem has no such group. The file's key
        ``whole_tasks`` decides whether tasks are indivisible; without the key, they are if the
        file has another key that ``fill --json`` alone writes.

    Raises
    ------
    InputError
        With the file, the key path and the fault, for

        - a file that cannot be read, has another layout or belongs to another problem;
        - an unknown or repeated user, an unknown group, or a malformed number;
        - a total that differs from the sum over groups;
        - more tasks than the user has, or than the group can run.

    Notes
    -----
    Tasks on forbidden groups, and groups that users together overuse, are left to the audit.
    Numbers of tasks may differ by a relative 1e-6, weights by 1e-9. Cost O(rows + N G).
    """
    try:
        document = _check_layout(read_document(path))
        rows = document["users"]
        problem, groups = _problem_of_groups(rows, problem)
        reading = _Reading(problem, groups, RowFaults(lenient))
        for number, row in enumerate(rows):
            with reading.faults.collected():
                reading.add_row(row, f"users[{number}]")
        if reading.wrong_weight is not None:
            raise reading.wrong_weight
        reading.faults.refuse_if_none_left(len(reading.row_of))
        whole = bool(_FILLING_KEYS & document.keys())
        if "whole_tasks" in document:
            whole = switch(document["whole_tasks"], "whole_tasks")
    except InputError as error:
        raise error.within(source_name(path)) from None
    return Holdings(
        problem=problem,
        tasks=reading.tasks,
        source=document.get("mechanism", "the file"),
        whole_tasks=whole,
        skipped=tuple(reading.faults.skipped),
        incomplete="rows were skipped" if reading.faults.skipped else "",
    )


class _Reading:
    """Collects the holdings of users on groups, row by row."""

    def __init__(self, problem: Problem, groups: Mapping[str, int], faults: RowFaults) -> None:
        self.problem = problem
        self.users = {name: n for n, name in enumerate(problem.users.names)}
        self.groups = groups
        self.faults = faults
        self.tasks = np.zeros((problem.n_users, problem.n_groups))
        self.row_of: dict[int, str] = {}  # key path of the row of each user that was read
        # The error for the first weight that differs from the problem's. Even a lenient reading
        # raises it, as the file belongs to another problem.
        self.wrong_weight: InputError | None = None

    def add_row(self, row: object, place: str) -> None:
        """Check a user's row and store its holdings; raise InputError for a malformed row."""
        if not isinstance(row, dict):
            raise InputError(f"must be a mapping, not {show(row)}", place)
        n = self._find_user(row, place)
        if "weight" in row:
            self._check_weight(_read_non_negative(row["weight"], f"{place}.weight"), n, place)
        held = self._read_held_tasks(row, n, place)
        total = math.fsum(held.values())
        if "tasks" in row:
            stated = _read_non_negative(row["tasks"], f"{place}.tasks")
            if abs(stated - total) > _ROUNDING * max(stated, total):
                fault = f"is {stated:.12g}, and the sum over servers is {total:.12g}"
                raise InputError(fault, f"{place}.tasks")
        limit = self.problem.task_limit[n]
        if total > limit * (1 + _ROUNDING):
            raise ProblemError(
                f"hold {total:.12g} tasks, and user {show(row['name'])} has {limit:.12g} in all",
                f"{place}.servers",
            )
        self.tasks[n, list(held)] = list(held.values())
        self.row_of[n] = place

    def _check_weight(self, stated: float, n: int, place: str) -> None:
        """Raise InputError, and keep the first one, if the problem has another weight."""
        weight = self.problem.weight[n]
        if not math.isclose(stated, weight, rel_tol=_SAME_WEIGHT):
            name = show(self.problem.users.names[n])
            fault = f"user {name} has weight {stated:.12g} here and {weight:.12g} in the problem"
            error = InputError(f"belongs to another problem: {fault}", f"{place}.weight")
            self.wrong_weight = self.wrong_weight or error
            raise error

    def _find_user(self, row: Mapping[Any, Any], place: str) -> int:
        """Return the index of a row's user; raise InputError if it is unknown or has a row."""
        if "name" not in row:
            raise InputError("the key 'name' is missing", place)
        text = name_text(row["name"], f"{place}.name")
        if text not in self.users:
            raise InputError(
                f"no user is named {show(text)}{self._hint(text, self.users)}", f"{place}.name"
            )
        n = self.users[text]
        if n in self.row_of:
            raise InputError(
                f"user {show(text)} already has the row {self.row_of[n]}", f"{place}.name"
            )
        return n

    def _read_held_tasks(self, row: Mapping[Any, Any], n: int, place: str) -> dict[int, float]:
        """Return the tasks of a row by group."""
        if "servers" not in row:
            raise InputError("the key 'servers' is missing", place)
        by_group, place = row["servers"], f"{place}.servers"
        if not isinstance(by_group, dict):
            raise InputError(f"must be a mapping of groups to tasks, not {show(by_group)}", place)
        held: dict[int, float] = {}
        for name, value in keyed_by_text(by_group, place).items():
            here = f"{place}.{short(name)}"
            if name not in self.groups:
                fault = f"no group is named {show(name)}{self._hint(name, self.groups)}"
                raise InputError(fault, here)
            g, tasks = self.groups[name], _read_non_negative(value, here)
            if tasks > self.problem.unconstrained_gamma[n, g] * (1 + _ROUNDING):
                raise ProblemError(self._describe_excess(tasks, n, g), here)
            held[g] = tasks
        return held

    def _describe_excess(self, tasks: float, n: int, g: int) -> str:
        """Return the error for tasks that need more than the capacity of their group."""
        problem = self.problem
        if problem.users.rates is not None and not np.isnan(problem.users.rates[n, g]):
            allowed = problem.unconstrained_gamma[n, g]
            return f"{tasks:.12g} tasks, but the user's rate allows only {allowed:.12g}"
        needed, capacity = tasks * problem.demand[n], problem.group_capacity[g]
        ratio = np.divide(capacity, needed, out=np.full(len(needed), np.inf), where=needed > 0)
        r = first_smallest(ratio)
        unit = f" {problem.cluster.units[r]}" if problem.cluster.units[r] else ""
        return (
            f"{tasks:.12g} tasks need {needed[r]:.12g}{unit} of {problem.cluster.resources[r]}, "
            f"and the group has {capacity[r]:.12g}{unit}"
        )

    def _hint(self, name: str, known: Mapping[str, int]) -> str:
        # A lenient reading may meet 100,000 unknown names. A search for a similar one takes ms.
        return "" if self.faults.lenient else did_you_mean(name, known)


def _check_layout(document: object) -> dict[str, Any]:
    """Return a document that lists users; raise InputError for any other layout."""
    if not isinstance(document, dict):
        raise InputError(f"must be one mapping with users, not {show(document)}")
    if "fairlead" in document:
        check_version(document["fairlead"])
    if "users" not in document:
        if isinstance(document.get("mechanisms"), dict):
            raise InputError(
                "holds the answers of several mechanisms; pick one, as in "
                "fairlead allocate FILE -m MECHANISM --json",
                "mechanisms",
            )
        raise InputError("the key 'users' is missing")
    if not isinstance(document["users"], list):
        raise InputError(f"must be a list, not {show(document['users'])}", "users")
    if not document["users"]:
        raise InputError("must list at least one", "users")
    if "mechanism" in document:
        document["mechanism"] = name_text(document["mechanism"], "mechanism")
    return document


def _problem_of_groups(
    rows: Sequence[object], problem: Problem
) -> tuple[Problem, Mapping[str, int]]:
    """Return the problem, pooled if the file names only `POOL`, and the index of each group."""
    groups = {name: g for g, name in enumerate(problem.cluster.groups)}
    named = set[object]()
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("servers"), dict):
            named.update(row["servers"])
    if named == {POOL} and POOL not in groups:
        return problem.pooled(), {POOL: 0}
    return problem, groups


def _read_non_negative(value: object, place: str) -> float:
    """Read a number of at least 0: tasks or a weight."""
    if isinstance(value, float) and abs(value) <= 1 / LARGEST_AMOUNT:
        return 0.0  # a rounding error of the program that wrote it, perhaps negative
    return number_at(value, place)
