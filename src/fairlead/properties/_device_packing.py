"""Pack whole tasks on devices such as GPUs, where some tasks take parts of a device."""

from __future__ import annotations

from enum import Enum, auto

import numpy as np

from fairlead.model.cluster import BoolArray
from fairlead.model.devices import choose_devices, device_columns
from fairlead.model.holdings import Holdings

MAX_TASKS = 10_000  # on a group, for packing
UNIT = 2**40  # integer amount of one device


class Packing(Enum):
    """Whether tasks fit on devices."""

    FITS = auto()
    UNKNOWN = auto()
    IMPOSSIBLE = auto()


def holds_parts(holdings: Holdings) -> BoolArray:
    """Return (G,) bool: groups on which whole tasks hold parts of devices."""
    problem = holdings.problem
    found: BoolArray = np.zeros(problem.n_groups, dtype=bool)
    if holdings.whole_tasks and holdings.of_one_shape:
        for r in device_columns(problem.cluster):
            part = (problem.demand[:, r] > 0) & (problem.demand[:, r] < 1)
            found |= (holdings.tasks[part] > 0).any(axis=0)
    return found


def pack(holdings: Holdings, group: int) -> Packing:
    """Return whether the tasks on a group fit on its devices, by first fit, largest tasks first.

    The result is `IMPOSSIBLE` if the tasks of more than half a device need more devices than there
    are. It is `UNKNOWN` on several servers, as other resources may be used up on the servers that
    have free devices; for more than `MAX_TASKS` tasks; and if first fit fails.
    """
    problem, known = holdings.problem, Packing.FITS
    tasks = np.rint(holdings.tasks[:, group]).astype(np.int64)
    for r in device_columns(problem.cluster):
        demand = problem.demand[:, r]
        devices = int(problem.cluster.capacity[group, r]) * int(problem.count[group])
        needed = np.where(demand > 0.5, np.ceil(demand), 0.0)
        if needed @ tasks > devices:
            return Packing.IMPOSSIBLE
        rows = [(demand[n], int(tasks[n])) for n in np.flatnonzero((demand > 0) & (tasks > 0))]
        if sum(count for _, count in rows) > MAX_TASKS or problem.count[group] > 1:
            known = Packing.UNKNOWN
            continue
        free = [UNIT] * devices
        for amount, count in sorted(rows, reverse=True):
            asked = int(amount * UNIT)
            for _ in range(count):
                taken = choose_devices(free, asked, UNIT)
                if len(taken) < np.ceil(amount):
                    known = Packing.UNKNOWN
                for number in taken:
                    free[number] -= min(asked, UNIT)
    return known
