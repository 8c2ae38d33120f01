"""What users hold of a cluster, by whoever's decision: the subject of an audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray, ReadOnlyArrays, sealed
from fairlead.model.problem import Problem
from fairlead.model.ties import first_largest_of_rows


@dataclass(frozen=True, eq=False)
class WaitingTask(ReadOnlyArrays):
    """A task that wants to run and does not."""

    name: str  # what its scheduler calls it
    user: int  # an index into the problem's users
    request: FloatArray  # (R,): amount of each resource that it takes
    allowed: BoolArray  # (G,): the groups on which it may run
    # The constraint on where it may run that is not modelled; empty where all are. It may be kept
    # from a group that `allowed` names.
    undecided: str = ""


@dataclass(frozen=True)
class UnrunnableTask:
    """A task that waits and could run on no server, even an empty one: nothing is due for it."""

    name: str  # what its scheduler calls it
    user: str  # the user's name; it need not be one of the problem's
    why: str  # what keeps it from every server


@dataclass(frozen=True)
class IdleUser:
    """A user outside of the problem: no server could run a task of it, so nothing is due to it."""

    name: str
    weight: float
    why: str
    holds: Mapping[str, float] = field(default_factory=dict)  # amount of each resource


@dataclass(frozen=True, eq=False)
class Doubts(ReadOnlyArrays):
    """What holdings are known to leave out, because their source could not be read in full."""

    why: str  # in a few words
    used: BoolArray  # (G, R): where more may be used than is counted
    holds: BoolArray  # (N,): users that may hold more than is counted
    wants: BoolArray  # (N,): users that may want more than is counted, or on other servers
    waits: bool  # whether further tasks may wait
    repels: bool  # whether missing tasks may keep waiting ones from servers with room for them
    servers: bool  # whether servers are left out
    users: bool  # whether users are left out


@dataclass(frozen=True, eq=False, repr=False)
class Holdings(ReadOnlyArrays):
    """Who holds what, where."""

    problem: Problem  # who shares what
    tasks: FloatArray  # (N, G): tasks of each user on each whole group
    source: str = ""  # who decided it, in a word or two: a mechanism's name, or what the file says
    whole_tasks: bool = False  # whether tasks run as a whole or not at all
    # (N, G, R): what each user holds of each resource of each group, where its tasks are of several
    # shapes; otherwise its tasks times its demand. ``tasks`` then counts average tasks.
    amounts: FloatArray | None = None
    waiting: tuple[WaitingTask, ...] = ()  # tasks that are known to wait
    # What of the source could not be used, one line each, with its place.
    skipped: tuple[str, ...] = field(default=())
    unrunnable: tuple[UnrunnableTask, ...] = ()  # waiting tasks for which nothing is due
    idle: tuple[IdleUser, ...] = ()  # users that are none of the problem's
    # (G, R): what users outside of the problem hold of each group; None where they hold nothing.
    outside: FloatArray | None = None
    # What tasks take or ask for that is not modelled, one line each.
    not_modelled: tuple[str, ...] = ()
    # (N,): users with tasks that could run on a server where the average one could not. Their
    # slices and bundles are then counted too small. None where there are no such users.
    partial: BoolArray | None = None
    doubts: Doubts | None = None  # None where nothing is left out
    # (R,): the unit in which the source counts each resource in whole numbers; None where amounts
    # may be any numbers.
    grain: FloatArray | None = None

    def __repr__(self) -> str:
        """Return a summary on one line; the arrays are in the fields."""
        return (
            f"<Holdings: {float(np.sum(self.tasks)):,.6g} tasks, "
            f"N={self.problem.n_users} users, G={self.problem.n_groups} groups>"
        )

    @property
    def of_one_shape(self) -> bool:
        """Whether all tasks of a user take the same amounts."""
        return self.amounts is None

    @cached_property
    def held(self) -> FloatArray:
        """(N, G, R) float: amount of each resource of each group that each user holds."""
        if self.amounts is not None:
            return self.amounts
        return sealed(self.tasks[:, :, None] * self.problem.demand[:, None, :])

    @cached_property
    def usage(self) -> FloatArray:
        """(G, R) float: amount of each resource that is used on each whole group."""
        if self.amounts is None:
            usage: FloatArray = self.tasks.T @ self.problem.demand
        else:
            usage = self.amounts.sum(axis=0)
        return sealed(usage if self.outside is None else usage + self.outside)

    @cached_property
    def user_tasks(self) -> FloatArray:
        """(N,) float: tasks of each user on all servers."""
        return sealed(self.tasks.sum(axis=1))

    @cached_property
    def user_amounts(self) -> FloatArray:
        """(N, R) float: amount of each resource that each user holds in all."""
        if self.amounts is None:
            with np.errstate(invalid="ignore"):  # infinitely many tasks of what takes nothing
                amounts: FloatArray = self.user_tasks[:, None] * self.problem.demand
        else:
            amounts = self.amounts.sum(axis=1)
        return sealed(amounts)

    @cached_property
    def waiting_per_user(self) -> IntArray:
        """(N,) int: how many tasks of each user are known to wait."""
        users = np.array([task.user for task in self.waiting], dtype=np.int64)
        return sealed(np.bincount(users, minlength=self.problem.n_users))

    @cached_property
    def certain_limit(self) -> FloatArray:
        """(N,) float: tasks of each user in all, without waiting ones that may fit nowhere.

        Tasks of several shapes count by the resource that dominates the user's average task.
        """
        problem, limit = self.problem, self.problem.task_limit.copy()
        share = np.zeros_like(problem.demand)
        total = problem.total_capacity[None, :]
        np.divide(problem.demand, total, out=share, where=total > 0)
        dominant = first_largest_of_rows(share)
        for task in self.waiting:
            if task.undecided:
                r = int(dominant[task.user])
                limit[task.user] -= task.request[r] / problem.demand[task.user, r]
        return sealed(np.maximum(limit, 0.0))

    @cached_property
    def dominant_share(self) -> FloatArray:
        """(N,) float: the largest share of the cluster's total of a resource that each holds."""
        total = self.problem.total_capacity
        held = self.user_amounts
        share: FloatArray = np.divide(
            held, total[None, :], out=np.zeros_like(held), where=total[None, :] > 0
        ).max(axis=1)
        return sealed(share)
