"""Who holds what of each resource on each group: the numbers behind the pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.allocation import Allocation
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.ties import largest_first
from fairlead.report.numbers import number

LARGEST_HOLDERS = 12

# What a solver leaves on a group beyond its accuracy is no holding, and what rounding leaves of a
# resource that is used up is not free.
DUST = 1e-9


@dataclass(frozen=True)
class Holding:
    """What one user, or several small ones together, holds of a group.

    Attributes
    ----------
    users : tuple of int
        Who holds it, as positions in the problem; several where small holders are taken together.
    amounts : tuple of float, length R
        Amount held of each resource.
    shares : tuple of float, length R
        The same as a share of what the group has of it; 0 where it has none.
    time : float
        Share of the group's time, when servers are shared by time: tasks over the tasks that the
        user could run there alone.
    """

    users: tuple[int, ...]
    tasks: float
    amounts: tuple[float, ...]
    shares: tuple[float, ...]
    time: float


@dataclass(frozen=True)
class GroupHoldings:
    """A group of identical servers and who holds it.

    Attributes
    ----------
    group : int
        The group's position in the problem.
    holdings : tuple of Holding
        The largest holders, largest first; the last one stands for all the others together where
        there are more than the number asked for.
    free : tuple of float, length R
        Amount of each resource that nobody holds.
    """

    group: int
    holdings: tuple[Holding, ...]
    free: tuple[float, ...]


def holds(allocation: Allocation) -> BoolArray:
    """Return who runs where, (N, G): more than a billionth of the user's tasks are on the group."""
    return _matters(allocation.tasks, allocation.user_tasks[:, None])


def where_text(allocation: Allocation, n: int, where: BoolArray, most: int | None) -> str:
    """List the groups where user n runs, with its tasks there, in the problem's order.

    `where` (G,) is the user's row of `holds`; of many groups the `most` largest holdings are
    listed.
    """
    tasks = allocation.tasks[n]
    held = np.flatnonzero(where)
    left = 0
    if most is not None and len(held) > most:
        left = len(held) - most
        held = np.sort(held[largest_first(tasks[held])[:most]])
    names = allocation.problem.cluster.groups
    listed = ", ".join(f"{names[g]} {number(float(tasks[g]))}" for g in held)
    return f"{listed}, and {left} more" if left else listed


def _matters(tasks: FloatArray, user_tasks: FloatArray) -> BoolArray:
    matters: BoolArray = (tasks > 0) & (tasks > DUST * user_tasks)
    return matters


def group_holdings(allocation: Allocation, g: int, largest: int = LARGEST_HOLDERS) -> GroupHoldings:
    """Collect who holds what of one group; the `largest` holders are kept apart, the rest together.

    A holder's size is the largest of its shares of the group's resources. Cost O(N R).
    """
    problem = allocation.problem
    capacity = problem.group_capacity[g]
    tasks = allocation.tasks[:, g]
    held = np.flatnonzero(_matters(tasks, allocation.user_tasks))
    amounts = tasks[held, None] * problem.demand[held]
    shares = np.divide(amounts, capacity, out=np.zeros_like(amounts), where=capacity > 0)
    gamma = problem.gamma[held, g]
    time = np.divide(tasks[held], gamma, out=np.zeros(len(held)), where=gamma > 0)
    size = np.maximum(shares.max(axis=1, initial=0.0), time)
    order = largest_first(size)
    keep = len(order) if len(order) <= largest + 1 else largest

    def together(rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Holding:
        return Holding(
            users=tuple(int(held[k]) for k in rows),
            tasks=float(tasks[held[rows]].sum()),
            amounts=tuple(amounts[rows].sum(axis=0).tolist()),
            shares=tuple(shares[rows].sum(axis=0).tolist()),
            time=float(time[rows].sum()),
        )

    holdings = [together(order[k : k + 1]) for k in range(keep)]
    if keep < len(order):
        holdings.append(together(order[keep:]))
    free = capacity - amounts.sum(axis=0)
    free[free <= DUST * capacity] = 0.0
    return GroupHoldings(g, tuple(holdings), tuple(free.tolist()))
