"""The amounts that users hold of a cluster, by a mechanism or in a real system."""

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
    """A task that waits for a server."""

    name: str  # its name in the scheduler
    user: int  # an index into the problem's users
    request: FloatArray  # (R,): amount of each resource that it takes
    allowed: BoolArray  # (G,): whether it may run on a group
    # A constraint that is not modelled and may exclude a group of `allowed`; empty if none is.
    undecided: str = ""


@dataclass(frozen=True)
class UnrunnableTask:
    """A waiting task that fits no server, even an empty one; so nothing is due for it."""

    name: str  # its name in the scheduler
    user: str  # name of the user, which may be outside of the problem
    why: str  # the reason why it fits no server


@dataclass(frozen=True)
class IdleUser:
    """A user outside of the problem, as none of its tasks counts; it is due nothing."""

    name: str
    weight: float
    why: str  # the reason why no task counts
    holds: Mapping[str, float] = field(default_factory=dict)  # amount of each resource


@dataclass(frozen=True, eq=False, repr=False)
class Holdings(ReadOnlyArrays):
    """The tasks and amounts that each user holds on each group."""

    problem: Problem
    tasks: FloatArray  # (N, G): tasks of each user on all servers of each group
    source: str = ""  # the name of the mechanism, or the source in the file
    whole_tasks: bool = False  # whether tasks are indivisible
    # (N, G, R): amounts held, if users have tasks of several shapes; ``tasks`` then counts mean
    # tasks. None if the amounts are tasks times demand.
    amounts: FloatArray | None = None
    waiting: tuple[WaitingTask, ...] = ()
    # Entries of the source that could not be used, one line each, with their place.
    skipped: tuple[str, ...] = field(default=())
    unrunnable: tuple[UnrunnableTask, ...] = ()
    idle: tuple[IdleUser, ...] = ()
    # (G, R): amounts that users outside of the problem hold; None if they hold nothing.
    outside: FloatArray | None = None
    # Requests and constraints of tasks that are not modelled, one line each.
    not_modelled: tuple[str, ...] = ()
    # (N,): whether tasks of the user fit where its mean task does not. The number of tasks
    # that would fit on given amounts is then underestimated. None without such users.
    partial: BoolArray | None = None
    # Which parts of the source are missing, so that any verdict may be wrong; empty if none is.
    incomplete: str = ""
    # (G, R): whether tasks share devices, which may be fuller than counted. None if none do.
    shared: BoolArray | None = None
    # (R,): the unit in which the source counts each resource; None if amounts are continuous.
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
        """(G, R) float: amount of each resource in use on all servers of each group."""
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
            with np.errstate(invalid="ignore"):  # 0 times infinitely many tasks
                amounts: FloatArray = self.user_tasks[:, None] * self.problem.demand
        else:
            amounts = self.amounts.sum(axis=1)
        return sealed(amounts)

    @cached_property
    def waiting_per_user(self) -> IntArray:
        """(N,) int: waiting tasks of each user."""
        users = np.array([task.user for task in self.waiting], dtype=np.int64)
        return sealed(np.bincount(users, minlength=self.problem.n_users))

    @cached_property
    def certain_limit(self) -> FloatArray:
        """(N,) float: the task limit of each user, without waiting tasks that may fit nowhere.

        Tasks of several shapes are counted in mean tasks, by the user's dominant resource.
        """
        problem, limit = self.problem, self.problem.task_limit.copy()
        dominant = first_largest_of_rows(problem.task_shares)
        for task in self.waiting:
            if task.undecided:
                r = int(dominant[task.user])
                limit[task.user] -= task.request[r] / problem.demand[task.user, r]
        return sealed(np.maximum(limit, 0.0))

    @cached_property
    def dominant_share(self) -> FloatArray:
        """(N,) float: the largest, over resources, of each user's shares of the cluster's total."""
        total = self.problem.total_capacity
        held = self.user_amounts
        share: FloatArray = np.divide(
            held, total[None, :], out=np.zeros_like(held), where=total[None, :] > 0
        ).max(axis=1)
        return sealed(share)
