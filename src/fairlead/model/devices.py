"""Resources that come in devices, such as GPUs: their names, and the valid amounts.

One unit is one device. A server has whole devices; a task takes a part of one device, or several
whole devices. `fairlead.fill`, replays and the scheduler place tasks on devices. Mechanisms divide
amounts and ignore devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairlead.errors import ProblemError
from fairlead.model.cluster import BoolArray, Cluster, FloatArray, IntArray
from fairlead.model.quantity import MOST_DEVICES, show

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
        How errors name a row of the cluster and of `demand`, with ``{}`` for its index, such as
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
    """Return a cluster with these resources in devices; with none if some amount is invalid."""
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
