"""Read-only arrays, the cluster's servers and their devices, and the users who share them.

Some resources, such as GPUs, come in devices; one unit is one device. A server has whole devices; a
task takes a part of one device, or several whole devices. `fairlead.fill`, replays and the
scheduler place tasks on devices. Mechanisms divide amounts and ignore devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairlead.errors import ProblemError
from fairlead.model.quantity import MOST_DEVICES, show

if TYPE_CHECKING:
    from fairlead.model.queues import Parents, Queues

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# Relative tolerance: a task as large as a server still fits if converting units rounded it up.
ROUNDING = 1e-12


def sealed(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only, in place, and return it."""
    array.setflags(write=False)
    return array


class ReadOnlyArrays:
    """Base of frozen dataclasses whose arrays are read-only, also after pickling.

    Arrays are copied, except those that own their memory and are read-only already. So the caller's
    array stays writable, and an audited function cannot change its problem.
    """

    def __post_init__(self) -> None:
        """Replace each array by a read-only one."""
        for name, value in vars(self).items():
            if np.ma.is_masked(value):
                raise ProblemError("has masked values, where there must be numbers", name)
            if isinstance(value, np.ndarray):
                owned = value.base is None and type(value) is np.ndarray
                if value.flags.writeable or not owned:
                    vars(self)[name] = sealed(np.array(value))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the read-only flags, which pickling drops."""
        vars(self).update(state)
        for value in state.values():
            if isinstance(value, np.ndarray):
                sealed(value)


@dataclass(frozen=True, eq=False, repr=False)
class Cluster(ReadOnlyArrays):
    """Groups of identical servers."""

    groups: tuple[str, ...]  # length G
    resources: tuple[str, ...]  # length R; the order of every column
    capacity: FloatArray  # (G, R): amount of each resource on *one* server, in its unit
    count: IntArray  # (G,): servers in the group
    units: tuple[str, ...]  # length R; empty text for a resource without a unit
    labels: tuple[Mapping[str, str], ...]  # length G: the labels of the group's servers
    devices: tuple[str, ...] = ()  # resources that come in devices, one unit each

    def __repr__(self) -> str:
        """Return a summary on one line; the arrays are in the fields."""
        servers = int(self.count.sum())
        return f"<Cluster: G={len(self.groups)} groups of {servers:,} servers>"

    @property
    def group_capacity(self) -> FloatArray:
        """(G, R): amount of each resource on all servers of the group together."""
        return self.capacity * self.count[:, None]

    @property
    def total_capacity(self) -> FloatArray:
        """(R,): amount of each resource in the whole cluster."""
        total: FloatArray = self.group_capacity.sum(axis=0)
        return total

    def select(self, groups: IntArray, count: IntArray) -> Cluster:
        """Return a cluster of some groups, by index, with `count` servers in each of them."""
        return replace(
            self,
            groups=tuple(self.groups[g] for g in groups),
            capacity=self.capacity[groups],
            count=count,
            labels=tuple(self.labels[g] for g in groups),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Users(ReadOnlyArrays):
    """Users with tasks of one shape each."""

    names: tuple[str, ...]  # length N
    demand: FloatArray  # (N, R): amount of each resource that one task takes
    weight: FloatArray  # (N,): weight phi
    # (N, G): whether the placement constraint allows the group (delta), even if no task fits there.
    eligible: BoolArray
    task_limit: FloatArray  # (N,): total tasks of each user; infinite if unlimited
    # (N, G): given rates: tasks per unit of time that the user completes with *one* server of the
    # group to itself; 0 where it cannot run. NaN rows for users without given rates.
    rates: FloatArray | None = None
    # (N, R): weight per resource, for one-pool mechanisms that define such weights.
    resource_weight: FloatArray | None = None
    queues: Queues | None = None  # the tree to which the users belong, if any

    def __repr__(self) -> str:
        """Return a summary on one line; the arrays are in the fields."""
        return f"<Users: N={len(self.names)}>"

    def parents(self) -> Parents:
        """Return the parents of queues and users, by name; no entries without a tree."""
        return {} if self.queues is None else self.queues.parents(self.names)

    def on_groups(self, groups: IntArray) -> Users:
        """Return the users with columns for some groups, by index."""
        rates = None if self.rates is None else self.rates[:, groups]
        return replace(self, eligible=self.eligible[:, groups], rates=rates)


def name_of_group(servers: Sequence[str]) -> str:
    """Name a group of equal servers: ``n1``, or ``n1..n4`` by the first and last of several."""
    return servers[0] if len(servers) == 1 else f"{servers[0]}..{servers[-1]}"


def common_labels(labels: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the labels that all servers of a group have, in the order of the first."""
    return {
        key: value
        for key, value in labels[0].items()
        if all(key in row and row[key] == value for row in labels)
    }


CAPACITY = f"must be a whole number of devices, at most {MOST_DEVICES}, not"
DEMAND = "must be a part of one device, or a whole number of devices, not"


def device_names(names: Sequence[str], resources: Sequence[str]) -> tuple[str, ...]:
    """Return the names of resources in devices; ProblemError for an unknown or repeated name."""
    for k, name in enumerate(names):
        if name not in resources or name in names[:k]:
            known = ", ".join(resources)
            fault = f"must be names of resources, each once, not {name!r:.60}; known: {known}"
            raise ProblemError(fault, "devices")
    return tuple(names)


def device_columns(cluster: Cluster) -> list[int]:
    """Return the indices of the resources that come in devices."""
    return [cluster.resources.index(name) for name in cluster.devices]


def check_devices(cluster: Cluster, demand: FloatArray, groups: str, rows: str) -> None:
    """Raise ProblemError for a server or a task with an invalid number of devices.

    Parameters
    ----------
    cluster : Cluster
    demand : (N, R) array
        Amounts of one task of each row.
    groups, rows : str
        Names of a row of the cluster and of `demand` in errors, with ``{}`` for its index, such as
        ``servers[{}].capacity``.
    """
    for r in device_columns(cluster):
        capacity, asked = cluster.capacity[:, r], demand[:, r]
        is_whole = (capacity == np.floor(capacity)) & (capacity <= MOST_DEVICES)
        wrong: BoolArray = (asked > 1) & (asked != np.floor(asked))
        for name, values, bad, fault in (
            (groups, capacity, ~is_whole, CAPACITY),
            (rows, asked, wrong, DEMAND),
        ):
            for row in np.flatnonzero(bad)[:1]:
                place = f"{name.format(row)}.{cluster.resources[r]}"
                raise ProblemError(f"{fault} {show(float(values[row]))}", place)


def with_devices(cluster: Cluster, demand: FloatArray, names: Sequence[str]) -> Cluster:
    """Return a cluster whose given resources come in devices; none if an amount is invalid."""
    found = replace(cluster, devices=device_names(names, cluster.resources))
    try:
        check_devices(found, demand, "groups[{}]", "tasks[{}]")
    except ProblemError:
        return replace(cluster, devices=())
    return found


def choose_devices(free: Sequence[int], asked: int, unit: int) -> list[int]:
    """Return the numbers of the devices that a task takes; too few if it does not fit.

    A part of a device is taken from the fullest device that has enough left; whole devices are
    taken in order. `free`, `asked` and `unit`, the size of a device, are in quanta.
    """
    if asked >= unit:
        return [k for k, amount in enumerate(free) if amount >= unit][: asked // unit]
    fitting = [k for k, amount in enumerate(free) if amount >= asked]
    return sorted(fitting, key=free.__getitem__)[:1]


def fitting_by_device(capacity: int, demand: IntArray, unit: int) -> IntArray:
    """Return (N,) how many tasks of each demand (N,) fit on the devices of an empty server.

    Amounts are in quanta; `unit` is the size of a device.
    """
    divisor = np.maximum(demand, 1)  # the number for a demand of 0 is meaningless
    on_one_device = unit // divisor
    tasks: IntArray = np.where(demand < unit, capacity // unit * on_one_device, capacity // divisor)
    return tasks


def find_unplaceable(
    cluster: Cluster, demand: FloatArray, eligible: BoolArray, rates: FloatArray | None
) -> dict[int, str]:
    """Return, for each user whose task fits no server, the reason.

    `demand` (N, R) is that of one task; `eligible` (N, G); `rates` (N, G) has NaN rows for users
    without rates. A user with rates fits if a rate is positive on an eligible group with servers,
    whatever its demand. O(N (G + K R)) for K distinct capacities.
    """
    open_to = eligible & (cluster.count > 0)
    capacity, kind = np.unique(cluster.capacity, axis=0, return_inverse=True)
    kind = kind.reshape(-1)  # a column in NumPy 2.0.0
    reasons = {}
    for n in range(len(demand)):
        if rates is not None and not np.isnan(rates[n, 0]):
            if not (open_to[n] & (rates[n] > 0)).any():
                reasons[n] = _no_rate(eligible[n])
            continue
        open_capacity = capacity  # distinct capacities of the groups open to the user
        if not open_to[n].all():
            open_capacity = capacity[np.bincount(kind[open_to[n]], minlength=len(capacity)) > 0]
        fits = (demand[n] <= open_capacity * (1 + ROUNDING)).all(axis=1)
        if not fits.any():
            allowed = "" if len(open_capacity) == len(capacity) else " that its placement allows"
            if eligible[n].any() and not len(open_capacity):
                reasons[n] = "the groups that its placement allows have no server"
            else:
                reasons[n] = _no_room(cluster, demand[n], open_capacity, allowed)
    return reasons


def _no_rate(eligible: BoolArray) -> str:
    if not eligible.any():
        return "its placement constraint allows no group"
    allowed = "" if eligible.all() else " that its placement allows"
    return f"its rate is 0 on every group{allowed}"


def _no_room(cluster: Cluster, demand: FloatArray, open_capacity: FloatArray, allowed: str) -> str:
    """Return why a demand (R,) exceeds each open capacity; `allowed` follows the word *server*."""
    if not len(open_capacity):
        return "its placement constraint allows no group"
    largest = open_capacity.max(axis=0)
    reasons = []
    for r in np.flatnonzero(demand > largest * (1 + ROUNDING)):
        name, unit = cluster.resources[r], cluster.units[r]
        if largest[r] == 0:
            reasons.append(f"no server{allowed} has {name}")
        else:
            reasons.append(
                f"one task needs {_amount(demand[r], unit)} of {name}, "
                f"and the largest server{allowed} has {_amount(largest[r], unit)}"
            )
    if reasons:
        return "; ".join(reasons)
    needs = [
        f"{_amount(demand[r], cluster.units[r])} of {cluster.resources[r]}"
        for r in np.flatnonzero(demand > 0)
    ]
    return f"no server{allowed} has {' and '.join(needs)} together"


def _amount(amount: float, unit: str) -> str:
    return f"{amount:.12g} {unit}".rstrip()
