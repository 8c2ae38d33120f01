"""What a cluster has at each time, as servers join and leave it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.workload import DRAIN, JOIN, LEAVE, Workload


class Capacity(NamedTuple):
    """A step function of time; S steps, G groups, R resources.

    A server is there from when it joins until it leaves. One that drains is there: what runs on it
    still holds it.

    Attributes
    ----------
    time : (S,) float
        From when on, seconds, ascending; the first is 0.
    servers : (S, G) int
        Servers of each group that are there, until the next step.
    amount : (S, R) float
        What they have of each resource.
    """

    time: FloatArray
    servers: IntArray
    amount: FloatArray

    def at(self, times: FloatArray) -> IntArray:
        """Return the step in force at each time, of any shape; one that begins then is."""
        return np.searchsorted(self.time, times, side="right") - 1


def capacity_over_time(workload: Workload) -> Capacity:
    """Return what is there from when on, one step for each time at which servers come or go.

    Notes
    -----
    Cost O(X G + X R G) in the number X of times at which servers come or go.
    """
    group_of = np.repeat(np.arange(len(workload.cluster.groups)), workload.cluster.count)
    there = np.bincount(
        group_of[workload.there_at_start], minlength=len(workload.cluster.groups)
    ).astype(np.int64)
    change = _changes(workload)
    counted = change != 0
    times, step = np.unique(
        np.concatenate([[0.0], workload.server_time[counted]]), return_inverse=True
    )
    count = np.zeros((len(times), len(there)), dtype=np.int64)
    count[0] = there
    np.add.at(count, (step[1:], group_of[workload.server[counted]]), change[counted])
    np.cumsum(count, axis=0, out=count)
    return Capacity(times, count, count @ workload.cluster.capacity)


def _changes(workload: Workload) -> IntArray:
    """Return (X,) by how many more servers are there after each event.

    One that drains stays; so it was there when it joins again without having left.
    """
    order = np.argsort(workload.server, kind="stable")
    server, event = workload.server[order], workload.server_event[order]
    drained = np.zeros(len(order), dtype=bool)
    drained[1:] = (server[1:] == server[:-1]) & (event[:-1] == DRAIN)
    change = np.zeros(len(order), dtype=np.int64)
    change[order] = np.where(
        event == JOIN, np.where(drained, 0, 1), np.where(event == LEAVE, -1, 0)
    )
    return change
