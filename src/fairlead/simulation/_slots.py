"""Slots: bundles of fixed amounts of all resources, the unit of the first cluster schedulers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.errors import RefusalError
from fairlead.model.cluster import ROUNDING, Cluster, FloatArray, IntArray
from fairlead.model.fitting import tasks_on_one_server
from fairlead.model.problem import Problem
from fairlead.model.quanta import to_quanta
from fairlead.model.quantity import exact

SLOT = "slot"
LEAST_FILLED = 0.1  # a caution is given if tasks fill a smaller fraction of their slots


def in_slots(kinds: Problem, slots: int) -> Problem:
    """Return the problem in which tasks take whole slots.

    `kinds` has a user for each kind of tasks. A slot is one of `slots` equal parts of an imagined
    server that has, of each resource, the largest capacity of any server. A server has
    the whole slots that fit in it; a task takes the slots that its demand needs. The first resource
    of the result is the slots. The others are the resources that some servers lack, which are not
    cut into slots.

    Raises RefusalError when no resource is on every server. O((N + G) R). Source: Wang, Liang and
    Li 2014, Section VI and Table II.
    """
    cluster, quanta = kinds.cluster, to_quanta(kinds)
    shared = list(_slot(cluster, slots))
    rest = [r for r in range(kinds.n_resources) if r not in shared]
    # Objects are Python's integers, because products may not fit int64.
    capacity, demand = (each[:, shared].astype(object) for each in (quanta.capacity, quanta.demand))
    largest = capacity.max(axis=0)
    of_server = (capacity * slots // largest).min(axis=1)
    of_task = (-(-demand * slots // largest)).max(axis=1)

    def with_rest(in_slots: NDArray[Any], amounts: FloatArray) -> FloatArray:
        return np.column_stack([in_slots.astype(np.float64), amounts[:, rest]])

    return Problem(
        replace(
            cluster,
            resources=(SLOT, *(cluster.resources[r] for r in rest)),
            units=("", *(cluster.units[r] for r in rest)),
            devices=(),
            capacity=with_rest(of_server, cluster.capacity),
        ),
        replace(kinds.users, demand=with_rest(of_task, kinds.demand)),
    )


def slots_caution(kinds: Problem, tasks: IntArray, slots: int) -> str:
    """Describe how slots distort the amounts of tasks; "" if they do not.

    `tasks` (N,) is the number of tasks of each kind. The text gives the amounts of a slot, and:

    - the number of tasks that fit on a server, but not into the slots of any server;
    - if tasks fill less than `LEAST_FILLED` of their slots, how many tasks can run at once;
    - the resources that are not cut into slots, as the order of users ignores them.

    Raises RefusalError when no resource is on every server.
    """
    sliced = in_slots(kinds, slots)
    slot = _slot(kinds.cluster, slots)
    fits, fitting = (tasks_on_one_server(p) >= 1 - ROUNDING for p in (kinds, sliced))
    lost = int(tasks[fits & ~fitting].sum())
    parts = kinds.demand[:, list(slot)] / np.array([float(part) for part in slot.values()])
    placeable = tasks * fitting
    filled, taken = placeable @ parts.max(axis=1), placeable @ sliced.demand[:, 0]
    faults = []
    if lost:
        faults.append(
            f"{lost:,} of {int(tasks.sum()):,} tasks fit on a server, but take more slots than any "
            "server has on which they may run"
        )
    if filled < LEAST_FILLED * taken:
        n_slots = int(sliced.cluster.capacity[:, 0] @ kinds.cluster.count)
        faults.append(
            f"tasks fill {filled / taken:.1%} of the slots they take, "
            f"and at most {n_slots:,} run at once"
        )
    names, units = kinds.cluster.resources, kinds.cluster.units
    uncut = [names[r] for r in np.flatnonzero(tasks @ kinds.demand) if r not in slot]
    if uncut:
        faults.append(
            f"users are ordered only by slots, however much {' and '.join(uncut)} they hold"
        )
    if not faults:
        return ""
    amounts = ", ".join(
        f"{float(part):.3g} {f'{units[r]} of ' if units[r] else ''}{names[r]}"
        for r, part in slot.items()
    )
    return f"slots:{slots}: a slot is {amounts}; {'; '.join(faults)}"


def _slot(cluster: Cluster, slots: int) -> dict[int, Fraction]:
    """Return the amount in a slot of each resource that is on every server."""
    shared = np.flatnonzero((cluster.capacity > 0).all(axis=0)).tolist()
    if not shared:
        fault = "no resource is on every server, so there is nothing to cut into slots"
        raise RefusalError(f"slots:{slots}", fault)
    return {r: exact(float(cluster.capacity[:, r].max())) / slots for r in shared}
