"""Allocations of tasks to users, and their certificates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fairlead.model.cluster import FloatArray, ReadOnlyArrays, sealed
from fairlead.model.notebooks import Plottable, labelled
from fairlead.model.problem import Problem
from fairlead.model.ties import first_largest_of_rows

FORMAT_VERSION = 1
# Conditions of certificates which prove that an answer is feasible, but not that it is optimal.
FEASIBLE = "no server is overused, and no task is misplaced or beyond its user's limit"
WHOLE = f"{FEASIBLE}; all tasks are whole"
ONLY_FEASIBLE = frozenset({FEASIBLE, WHOLE})


@dataclass(frozen=True)
class Certificate:
    """The condition that an allocation must meet, and the measured violation of it.

    Attributes
    ----------
    condition : str
        The condition in words, with its source.
    violation : float
        Largest relative violation, computed from the definition, without the solver.
    tolerance : float
        Largest violation that is accepted as rounding.
    detail : mapping
        Parts of the violation, or where it is largest.

    Examples
    --------
    >>> certificate = Certificate("no user can gain", violation=1e-12, tolerance=1e-9)
    >>> certificate.holds
    True
    """

    condition: str
    violation: float
    tolerance: float
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether the violation is at most the tolerance; False for NaN."""
        return bool(self.violation <= self.tolerance)

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain values, for JSON."""
        return {
            "condition": self.condition,
            "violation": float(self.violation),
            "tolerance": float(self.tolerance),
            "holds": self.holds,
            **({"detail": self.detail} if self.detail else {}),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Allocation(ReadOnlyArrays, Plottable):
    """Tasks of each user on each group, with a certificate.

    - `to_frame` has a row for each user.
    - ``to_frame("tasks")`` has a row for each user and a column for each group. `fairlead.audit`
      also takes this table.
    - `plot` draws the users' dominant shares.

    Attributes
    ----------
    problem : Problem
        The solved problem; for one-pool mechanisms the pooled problem, which has one group.
    mechanism : str
        Name of the mechanism.
    tasks : (N, G) float
        Tasks of each user on all servers of each group together.
    certificate : Certificate
        Proof that this is the mechanism's answer, or of its feasibility alone (`ONLY_FEASIBLE`).

    Examples
    --------
    >>> import fairlead
    >>> problem = fairlead.Problem.from_arrays([[9, 18]], [[1, 4], [3, 1]], users=["ana", "bo"])
    >>> allocation = fairlead.solve(problem, "drf")
    >>> allocation.tasks.round(6).tolist()
    [[3.0], [2.0]]
    >>> allocation.dominant_share.round(4).tolist(), allocation.dominant_resource
    ([0.6667, 0.6667], ('r2', 'r1'))
    >>> allocation.certificate.holds
    True
    """

    problem: Problem
    mechanism: str
    tasks: FloatArray
    certificate: Certificate
    frames = ("users", "tasks")

    def __repr__(self) -> str:
        """Return a summary on one line; the arrays are in the fields."""
        proved = "proved" if self.certificate.holds else "not proved"
        if self.certificate.holds and self.certificate.condition in ONLY_FEASIBLE:
            proved = "feasible"
        return (
            f"<Allocation by {self.mechanism}: {float(self.tasks.sum()):,.6g} tasks, "
            f"N={self.problem.n_users} users, G={self.problem.n_groups} groups, {proved}>"
        )

    @cached_property
    def user_tasks(self) -> FloatArray:
        """(N,) float: tasks of each user on all servers."""
        return sealed(self.tasks.sum(axis=1))

    @cached_property
    def usage(self) -> FloatArray:
        """(G, R) float: amount of each resource in use on all servers of each group."""
        return sealed(self.tasks.T @ self.problem.demand)

    @cached_property
    def utilization(self) -> dict[str, float]:
        """Used fraction of the cluster's total of each resource, by name."""
        total = self.problem.total_capacity
        used = self.usage.sum(axis=0)
        share = np.divide(used, total, out=np.zeros_like(total), where=total > 0)
        return dict(zip(self.problem.cluster.resources, share.tolist(), strict=True))

    @cached_property
    def dominant_resource(self) -> tuple[str, ...]:
        """(N,) the resource of which one task of the user takes the largest share of the total."""
        dominant = first_largest_of_rows(self.problem.task_shares)
        return tuple(self.problem.cluster.resources[r] for r in dominant)

    @cached_property
    def dominant_share(self) -> FloatArray:
        """(N,) float: each user's share of the cluster's total of its dominant resource."""
        return sealed(self.user_tasks * self.problem.task_shares.max(axis=1))

    @cached_property
    def queue_share(self) -> FloatArray:
        """(Q,) float: dominant share of each queue, from the summed amounts of its users."""
        queues = self.problem.users.queues
        if queues is None:
            return sealed(np.zeros(0))
        below = np.array([queues.users_below(q) for q in range(len(queues.names))])
        shares = (below * self.user_tasks) @ self.problem.task_shares
        return sealed(shares.max(axis=1, initial=0.0))

    def _columns(self, what: str) -> Mapping[str, Any]:
        users, groups = self.problem.users.names, self.problem.cluster.groups
        if what == "tasks":
            return labelled(users, groups, self.tasks)
        return {
            "user": list(users),
            "weight": self.problem.weight,
            "tasks": self.user_tasks,
            "dominant_resource": list(self.dominant_resource),
            "dominant_share": self.dominant_share,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the allocation as plain values, in the documented JSON layout."""
        problem = self.problem
        groups = problem.cluster.groups
        users = []
        for n, name in enumerate(problem.users.names):
            held = {groups[g]: float(self.tasks[n, g]) for g in np.flatnonzero(self.tasks[n] > 0)}
            users.append(
                {
                    "name": name,
                    "weight": float(problem.weight[n]),
                    "tasks": float(self.user_tasks[n]),
                    "servers": held,
                    "dominant_resource": self.dominant_resource[n],
                    "dominant_share": float(self.dominant_share[n]),
                }
            )
        values: dict[str, Any] = {"fairlead": FORMAT_VERSION, "mechanism": self.mechanism}
        queues = problem.users.queues
        if queues is not None:
            parts, _ = queues.parts(problem.weight, ~problem.due_nothing)
            values["queues"] = [
                {
                    "name": name,
                    "parent": queues.name_of(queues.parent[q]),
                    "weight": float(queues.weight[q]),
                    "part": float(parts[q]),
                    "dominant_share": float(self.queue_share[q]),
                }
                for q, name in enumerate(queues.names)
            ]
            for n, row in enumerate(users):
                row["queue"] = queues.name_of(queues.of_user[n])
        return values | {
            "users": users,
            "utilization": self.utilization,
            "certificate": self.certificate.to_dict(),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return the allocation as a JSON text in the documented layout."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)
