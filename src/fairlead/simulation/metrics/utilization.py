"""Use of a cluster with changing servers, averaged exactly over bins of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import DRAIN, JOIN, LEAVE, Workload
from fairlead.simulation.metrics.distribution import ratio


class Capacity(NamedTuple):
    """The present servers as a step function of time; S steps, G groups, R resources.

    A server counts from when it joins until it leaves, also while it drains: tasks still hold it.
    """

    time: FloatArray  # (S,): start of each step, seconds, ascending; the first is 0
    servers: IntArray  # (S, G): servers of each group during the step
    amount: FloatArray  # (S, R): amount of each resource on all these servers

    def at(self, times: FloatArray) -> IntArray:
        """Return the number of the step at each time, of any shape; a step includes its start."""
        return np.searchsorted(self.time, times, side="right") - 1


def capacity_over_time(workload: Workload) -> Capacity:
    """Return the capacity, with a step at each of X times at which its servers change; O(X R G)."""
    groups = len(workload.cluster.groups)
    group_of = np.repeat(np.arange(groups), workload.cluster.count)
    change = _changes(workload)
    is_change = change != 0
    times, step = np.unique(
        np.concatenate([[0.0], workload.server_time[is_change]]), return_inverse=True
    )
    count = np.zeros((len(times), groups), dtype=np.int64)
    count[0] = np.bincount(group_of[workload.there_at_start], minlength=groups)
    np.add.at(count, (step[1:], group_of[workload.server[is_change]]), change[is_change])
    np.cumsum(count, axis=0, out=count)
    return Capacity(times, count, count @ workload.cluster.capacity)


def _changes(workload: Workload) -> IntArray:
    """Return the change in the number of servers at each event of a server.

    A draining server counts, so it adds nothing when it joins again without having left.
    """
    order = np.argsort(workload.server, kind="stable")
    server, event = workload.server[order], workload.server_event[order]
    drained = np.zeros(len(order), dtype=bool)
    drained[1:] = (server[1:] == server[:-1]) & (event[:-1] == DRAIN)
    change = np.zeros(len(order), dtype=np.int64)
    change[order] = np.where(event == JOIN, ~drained, -1 * (event == LEAVE))
    return change


@dataclass(frozen=True, eq=False)
class Utilization:
    """Amounts in use and amounts of the servers, averaged over each of B bins."""

    resources: tuple[str, ...]
    edges: FloatArray  # (B + 1,): ends of the bins, seconds
    used: FloatArray  # (B, R): amounts that running tasks take
    available: FloatArray  # (B, R): amounts of the servers

    @property
    def share(self) -> FloatArray:
        """(B, R) float: used over available amounts by bin; NaN without servers."""
        return ratio(self.used, self.available)

    @property
    def mean(self) -> FloatArray:
        """(R,) float: used over available amounts, so time with more servers counts more.

        NaN if no server ever has the resource.
        """
        width = np.diff(self.edges)
        return ratio(width @ self.used, width @ self.available)


def measure_utilization(
    workload: Workload, log: RunLog, edges: FloatArray, capacity: Capacity
) -> Utilization:
    """Measure the use of each resource between (B + 1,) edges in seconds, ascending.

    A task takes its demand from its start until its end or loss, also under slots, where it
    occupies more than it takes. Wang, Liang and Li 2015, Fig. 5. O((P + X) (R + log B)) for P
    starts of tasks and X steps of capacity.
    """
    shape = np.repeat(workload.set_shape, workload.set_tasks)[log.task]
    until = np.append(capacity.time[1:], np.inf)
    return Utilization(
        resources=workload.cluster.resources,
        edges=edges,
        used=time_averages(log.start, log.end, workload.shapes[shape], edges),
        available=time_averages(capacity.time, until, capacity.amount, edges),
    )


def time_grid(until: float, bins: int, since: float = 0.0) -> FloatArray:
    """Return (bins + 1,) edges of equal bins; raise InputError for an invalid end or no bins."""
    check_time(until, "until")
    if bins < 1:
        raise InputError(f"must be a positive number, not {bins}", "bins")
    return np.linspace(since, until, bins + 1)


def check_time(time: float, name: str) -> None:
    """Raise `InputError` for a time that is not positive and finite."""
    if not 0 < time < np.inf:
        raise InputError(f"must be a positive number of seconds, not {time}", name)


def time_averages(
    begin: FloatArray, end: FloatArray, amount: FloatArray, edges: FloatArray
) -> FloatArray:
    """Return (B, R): the sum of E amounts, averaged over the time of each bin.

    Amounts (E, R) are not negative; each is present from `begin` to `end`, and counts between the
    first and the last of the (B + 1,) edges. It adds a part to its first and its last bin, and its
    full value, by a running sum, to each bin between them. O(E (R + log B)).
    """
    n_bins, width = len(edges) - 1, np.diff(edges)
    begin, end = (np.clip(times, edges[0], edges[-1]) for times in (begin, end))
    first, last = (
        np.minimum(np.searchsorted(edges, times, side="right") - 1, n_bins - 1)
        for times in (begin, end)
    )
    one_bin = first == last
    in_first = np.where(one_bin, end, edges[first + 1]) - begin
    in_last = np.where(one_bin, 0.0, end - edges[last])
    averages = np.zeros((n_bins, amount.shape[1]))
    for r, values in enumerate(amount.T):
        spanning = np.where(one_bin, 0.0, values)
        steps = np.bincount(first + 1, spanning, minlength=n_bins + 1)
        steps -= np.bincount(last, spanning, minlength=n_bins + 1)
        # Values below 0 are rounding errors.
        level = np.maximum(np.cumsum(steps[:n_bins]), 0.0)
        partial = np.bincount(first, values * in_first, minlength=n_bins)
        partial += np.bincount(last, values * in_last, minlength=n_bins)
        averages[:, r] = level + partial / width
    return averages
