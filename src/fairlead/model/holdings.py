"""What users hold of a cluster, by whoever's decision: the subject of an audit."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.problem import Problem
from fairlead.model.read_only import ReadOnlyArrays, sealed


@dataclass(frozen=True, eq=False)
class WaitingTask(ReadOnlyArrays):
    """A task that wants to run and does not."""

    name: str  # what its scheduler calls it
    user: int  # an index into the problem's users
    request: FloatArray  # (R,): amount of each resource that it takes
    allowed: BoolArray  # (G,): the groups on which it may run


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
        return sealed(usage)

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
    def dominant_share(self) -> FloatArray:
        """(N,) float: the largest share of the cluster's total of a resource that each holds."""
        total = self.problem.total_capacity
        held = self.user_amounts
        share: FloatArray = np.divide(
            held, total[None, :], out=np.zeros_like(held), where=total[None, :] > 0
        ).max(axis=1)
        return sealed(share)
