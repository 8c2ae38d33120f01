"""Slots: bundles of fixed amounts of every resource, what the first cluster schedulers shared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

import numpy as np

from fairlead.errors import RefusalError
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.model.quanta import exact
from fairlead.model.users import Users

SLOT = "slot"


def in_slots(kinds: Problem, slots: int) -> Problem:
    """Return the problem in which tasks take whole slots.

    A slot is one of `slots` equal parts of the largest server, which has the most of each resource
    that any server has. A server has as many whole slots as fit in it, a task takes as many as hold
    it. Resources that some servers lack are no part of slots: tasks take them in amounts beside.

    Parameters
    ----------
    kinds : Problem
        Servers and tasks.
    slots : int
        Slots of the largest server.

    Raises
    ------
    RefusalError
        When no resource is on every server.

    Returns
    -------
    Problem
        Its first resource is the slots, the others are those that some servers lack. Decided in
        exact arithmetic.

    Notes
    -----
    O((N + G) R). Source: Wang, Liang and Li 2014, Section VI and Table II.
    """
    capacity, demand = kinds.cluster.capacity, kinds.demand
    shared = np.flatnonzero((capacity > 0).all(axis=0))
    rest = np.flatnonzero(~(capacity > 0).all(axis=0))
    if not len(shared):
        fault = "no resource is on every server, so there is nothing to cut into slots"
        raise RefusalError(f"slots:{slots}", fault)
    slot = [exact(float(capacity[:, r].max())) / slots for r in shared]

    def counted(
        amounts: FloatArray, rounded: Callable[[Fraction], int], most: Callable[[list[int]], int]
    ) -> FloatArray:
        rows, which = np.unique(amounts[:, shared], axis=0, return_inverse=True)
        whole = [
            most([rounded(exact(a) / part) for a, part in zip(row, slot, strict=True)])
            for row in rows.tolist()
        ]
        taken = np.array(whole, dtype=np.float64)[which.reshape(-1)]
        return np.column_stack([taken, amounts[:, rest]])

    cluster = kinds.cluster
    names = (SLOT, *(cluster.resources[r] for r in rest))
    units = ("", *(cluster.units[r] for r in rest))
    users: Users = replace(kinds.users, demand=counted(demand, ceil, max))
    return Problem(
        replace(cluster, resources=names, units=units, capacity=counted(capacity, floor, min)),
        users,
    )
