"""Arrays nobody can write into, the cluster, and the users who share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.errors import ProblemError


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array as one that cannot be written into: itself if it is so, else a copy."""
    if array.flags.writeable or array.base is not None or type(array) is not np.ndarray:
        array = np.array(array)
        array.setflags(write=False)
    return array


def sealed(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that was just made and that nobody else has, without write access."""
    array.setflags(write=False)
    return array


class ReadOnlyArrays:
    """A frozen dataclass whose arrays are read-only, from construction and after a journey."""

    def __post_init__(self) -> None:
        """Replace each array by one that cannot be written into."""
        for name, value in vars(self).items():
            if np.ma.is_masked(value):
                raise ProblemError("has masked values, where there must be numbers", name)
            if isinstance(value, np.ndarray):
                vars(self)[name] = read_only(value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrays lose what says that they are read-only on their way to another process."""
        vars(self).update(state)
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)


FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class Cluster(ReadOnlyArrays):
    """Groups of identical servers; arrays are read-only copies.

    Attributes
    ----------
    groups : tuple of str, length G
    resources : tuple of str, length R
        The order of every column.
    capacity : (G, R) float
        Amount of each resource on *one* server of the group, in the resource's unit.
    count : (G,) int
        Servers in the group.
    units : tuple of str, length R
        Empty where none was declared.
    labels : tuple of mappings, length G
        Labels of each group's servers.
    """

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    capacity: FloatArray
    count: IntArray
    units: tuple[str, ...]
    labels: tuple[Mapping[str, str], ...]

    def __repr__(self) -> str:
        """Return a summary on one line; the arrays are in the fields."""
        servers = int(self.count.sum())
        return f"<Cluster: G={len(self.groups)} groups of {servers:,} servers>"

    @property
    def group_capacity(self) -> FloatArray:
        """(G, R) float: amount of each resource on all servers of the group together."""
        return self.capacity * self.count[:, None]

    @property
    def total_capacity(self) -> FloatArray:
        """(R,) float: amount of each resource in the whole cluster."""
        total: FloatArray = self.group_capacity.sum(axis=0)
        return total


@dataclass(frozen=True, eq=False, repr=False)
class Users(ReadOnlyArrays):
    """Users with one shape of task each; arrays are read-only copies.

    Attributes
    ----------
    names : tuple of str, length N
    demand : (N, R) float
        Amount of each resource that one task takes.
    weight : (N,) float
        Weight phi of each user.
    eligible : (N, G) bool
        Whether the user's placement constraint allows the group (delta). Whether a group has what
        the user needs is a matter of capacity, not of eligibility.
    task_limit : (N,) float
        Tasks the user has in all; infinite where it has as many as one will run.
    rates : (N, G) float or None
        Tasks a second, say, that the user completes when it has *one* server of the group to
        itself (gamma), given directly; NaN in the rows of users that give none, 0 where a user
        that does give them cannot run.
    resource_weight : (N, R) float or None
        Weight per resource, for the one-pool mechanisms that define it.
    """

    names: tuple[str, ...]
    demand: FloatArray
    weight: FloatArray
    eligible: BoolArray
    task_limit: FloatArray
    rates: FloatArray | None = None
    resource_weight: FloatArray | None = None

    def __repr__(self) -> str:
        """Return a summary on one line; the arrays are in the fields."""
        return f"<Users: N={len(self.names)}>"
