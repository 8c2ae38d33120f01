"""Trees of queues, to which users belong; and limits of queues and users.

A limit bounds the amounts that the running tasks of a queue or user hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairlead.errors import ProblemError
from fairlead.model.arguments import name_text
from fairlead.model.cluster import BoolArray, FloatArray, IntArray, ReadOnlyArrays
from fairlead.model.quantity import number_at, read_number, show

TOP = -1  # instead of a queue's index: the root
DEEPEST = 100  # the largest number of levels of queues
MOST_TASKS = 2**61  # larger limits of tasks are lowered to this one, which is never reached
# Keys of limits that are not resources: the largest number of running tasks; and of waiting and
# running jobs, beyond which a service accepts no more.
TASKS = "tasks"
JOBS = "jobs"

# Limits by the name of a queue or user: the largest amount of each resource that its running tasks
# may hold, and the largest numbers by `TASKS` and `JOBS`.
Limits = dict[str, dict[str, float]]
# The queue above each queue or user, by name; None, or no entry, for children of the root.
Parents = Mapping[str, str | None]

ROW_KEYS = ("name", "weight", "parent")


def parents_of(rows: Sequence[Mapping[str, Any]], queue_of: Mapping[str, str]) -> Parents:
    """Return the parents of queues, given as checked rows, and of users, by the queue of each."""
    return {**queue_of, **{row["name"]: row.get("parent") for row in rows}}


@dataclass(frozen=True, eq=False, repr=False)
class Queues(ReadOnlyArrays):
    """A tree of Q queues, whose leaves are N users; weights are relative to those of siblings."""

    names: tuple[str, ...]  # length Q
    weight: FloatArray  # (Q,) positive
    parent: IntArray  # (Q,) the index of an earlier queue, or `TOP`
    of_user: IntArray  # (N,) the index of each user's queue, or `TOP`

    def __repr__(self) -> str:
        """Return a summary on one line; the arrays are in the fields."""
        return f"<Queues: Q={len(self.names)}>"

    def name_of(self, queue: int) -> str | None:
        """Return the name of a queue by its index; None for `TOP`."""
        return None if queue == TOP else self.names[queue]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows that `read_queues` reads: plain values, without defaults."""
        rows: list[dict[str, Any]] = []
        for name, weight, parent in zip(self.names, self.weight, self.parent, strict=True):
            row: dict[str, Any] = {"name": name}
            if weight != 1:
                row["weight"] = int(weight) if weight.is_integer() else float(weight)
            if parent != TOP:
                row["parent"] = self.names[parent]
            rows.append(row)
        return rows

    def parents(self, users: Sequence[str]) -> Parents:
        """Return the parents of all queues, and of the N users with these names."""
        found = dict(zip(users, self.user_queue(), strict=True))
        return found | {n: self.name_of(q) for n, q in zip(self.names, self.parent, strict=True)}

    def user_queue(self) -> list[str | None]:
        """Return (N,) the name of each user's queue."""
        return [self.name_of(queue) for queue in self.of_user]

    def with_weight(self, name: str, weight: float) -> Queues:
        """Return the tree with another weight of a queue; ProblemError unless it is positive."""
        weights = self.weight.copy()
        weights[self.names.index(name)] = _read_weight(weight, f"weight of {name}")
        return replace(self, weight=weights)

    def select_users(self, users: IntArray) -> Queues:
        """Return the tree with all queues and only some users, by index."""
        return replace(self, of_user=self.of_user[users])

    def queues_above(self, flags: BoolArray) -> BoolArray:
        """Return (Q,) bool: whether a user with a flag (N,) is below the queue."""
        found = np.zeros(len(self.names), dtype=bool)
        found[self.of_user[flags & (self.of_user != TOP)]] = True
        for q in range(len(self.names) - 1, -1, -1):
            if found[q] and self.parent[q] != TOP:
                found[self.parent[q]] = True
        return found

    def users_below(self, queue: int) -> BoolArray:
        """Return (N,) bool: whether the user is below a queue, `TOP` included."""
        below = np.zeros(len(self.names) + 1, dtype=bool)  # the last entry, `TOP`, is the root
        below[queue] = True
        for q in range(queue + 1, len(self.names)):
            below[q] = below[self.parent[q]]
        found: BoolArray = below[self.of_user]
        return found

    def parts(self, weight: FloatArray, due: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the parts of the cluster of queues, (Q,), and of users, (N,).

        The part of a queue or user is its parent's part, times its weight, divided by the sum of
        its own and its siblings' weights. `weight` (N,) is that of users. Users that are not `due`
        anything (N,), and queues with only such users, have part 0 and do not count as siblings.
        """
        queue_weight = np.where(self.queues_above(due), self.weight, 0.0)
        user_weight = np.where(due, weight, 0.0)
        # Sums of children's weights, and parts. The last entry, index `TOP`, is the root.
        total = np.zeros(len(self.names) + 1)
        np.add.at(total, self.parent, queue_weight)
        np.add.at(total, self.of_user, user_weight)
        part = np.ones(len(self.names) + 1)
        for q in range(len(self.names)):
            above = self.parent[q]
            part[q] = part[above] * queue_weight[q] / total[above] if queue_weight[q] else 0.0
        fraction = np.divide(
            user_weight, total[self.of_user], np.zeros(len(user_weight)), where=user_weight > 0
        )
        return part[:TOP], part[self.of_user] * fraction


def read_queues(
    rows: Sequence[Mapping[str, Any]], user_queue: Sequence[str | int | None], users: Sequence[str]
) -> Queues:
    """Build a tree from rows of queues and the queue of each user; ProblemError if invalid."""
    if len(user_queue) != len(users):
        raise ProblemError(f"{len(user_queue)} queues of users for {len(users)} users", "queue")
    index: dict[str, int] = {}
    weights: list[float] = []
    parents: list[int] = []
    depths: list[int] = []
    taken = set(users)
    for q, row in enumerate(rows):
        place = f"queues[{q}]"
        if not isinstance(row, Mapping):
            raise ProblemError(f"must be a mapping, not {show(row)}", place)
        for key in row:
            if key not in ROW_KEYS:
                raise ProblemError(f"unknown key; known: {', '.join(ROW_KEYS)}", f"{place}.{key}")
        name = name_text(row.get("name"), f"{place}.name")
        if name in index or name in taken:
            what = "queue" if name in index else "user"
            raise ProblemError(f"there is already a {what} named {name!r}", f"{place}.name")
        above = row.get("parent")
        parents.append(
            TOP if above is None else _index_of(above, index, f"{place}.parent", "above it")
        )
        depths.append(1 if above is None else depths[parents[-1]] + 1)
        if depths[-1] > DEEPEST:
            raise ProblemError(f"is more than {DEEPEST} levels deep", f"{place}.parent")
        weights.append(_read_weight(row.get("weight", 1), f"{place}.weight"))
        index[name] = q
    of_user = [
        TOP if name is None else _index_of(name, index, f"users[{n}].queue ({users[n]})")
        for n, name in enumerate(user_queue)
    ]
    return Queues(
        tuple(index),
        np.array(weights, dtype=float),
        np.array(parents, dtype=np.int64),
        np.array(of_user, dtype=np.int64),
    )


def read_limits(given: object) -> Limits:
    """Check and return limits by name of a queue or user; ProblemError for invalid ones."""
    if not isinstance(given, Mapping):
        raise ProblemError(f"must be a mapping of queues and users, not {show(given)}", "limits")
    found: Limits = {}
    for key, row in given.items():
        name = name_text(key, "limits")
        if name in found:
            raise ProblemError(f"the key {name!r} appears twice in one mapping", "limits")
        if not isinstance(row, Mapping):
            raise ProblemError(f"must be a mapping of resources, not {show(row)}", f"limits.{name}")
        limit: dict[str, float] = {}
        for resource, value in row.items():
            place = f"limits.{name}.{name_text(resource, f'limits.{name}')}"
            if str(resource) in limit:
                raise ProblemError("appears twice in one mapping", place)
            limit[str(resource)] = number_at(value, place)
            if resource in (TASKS, JOBS) and value % 1:
                raise ProblemError(f"must be a whole number from 0, not {show(value)}", place)
        found[name] = limit
    return found


def amounts_and_tasks(
    limit: Mapping[str, float], resources: Sequence[str]
) -> tuple[dict[str, float], int | None]:
    """Split a limit into amounts of these resources, and running tasks (None if unlimited)."""
    counts = (TASKS, JOBS)
    amounts = {name: limit[name] for name in resources if name in limit and name not in counts}
    return amounts, int(min(limit[TASKS], MOST_TASKS)) if TASKS in limit else None


def _index_of(name: Any, index: Mapping[str, int], place: str, where: str = "") -> int:
    """Return the index of a queue; ProblemError if `index` does not have the name."""
    named = name_text(name, place)
    if named not in index:
        raise ProblemError(f"no queue {where} is named {named!r}".replace("  ", " "), place)
    return index[named]


def _read_weight(value: Any, place: str) -> float:
    weight = read_number(value, "a positive number", place)
    if weight <= 0:
        raise ProblemError(f"must be a positive number, not {show(value)}", place)
    return weight
