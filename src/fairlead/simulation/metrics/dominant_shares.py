"""Dominant shares of users over time, and how even they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.simulation.metrics._share_integrals import (
    NEW_BIN,
    NEW_CAPACITY,
    NO_SHAPE,
    ShareIntegrals,
)
from fairlead.simulation.metrics.distribution import jain_index, ratio
from fairlead.simulation.metrics.task_outcomes import TaskOutcomes
from fairlead.simulation.metrics.utilization import Capacity

PORTION = 2**16  # events added at once; longer lists take more memory


@dataclass(frozen=True, eq=False)
class Shares:
    """Dominant shares of N users, averaged over each of B bins.

    A user's dominant share is the largest, over resources, of the fractions of all servers'
    capacity that its running tasks take: ``max_r held[n,r](t) / C[r](t)``. The *weighted* dominant
    share is that divided by the user's weight. A user is active while one of its tasks waits or
    runs (tasks that can never run do not count).
    """

    edges: FloatArray  # (B + 1,): of the bins, seconds
    weight: FloatArray  # (N,)
    dominant: FloatArray  # (B, N): dominant share, averaged over the whole bin
    active: FloatArray  # (B, N): fraction of the bin during which the user is active
    # (B,): smallest weighted dominant share of the active users of positive weight, averaged over
    # the part of the bin in which such users are active; NaN if they never are.
    least: FloatArray
    part_active: FloatArray  # (B,): fraction of the bin with an active user of positive weight

    @property
    def weighted(self) -> FloatArray:
        """(B, N) float: dominant share over weight; NaN for users of weight 0."""
        return self.dominant / self._positive_weight

    @property
    def _positive_weight(self) -> FloatArray:
        weight: FloatArray = np.where(self.weight > 0, self.weight, np.nan)
        return weight

    @property
    def mean_while_active(self) -> FloatArray:
        """(N,) float: dominant share averaged over the user's active time; NaN if never active."""
        width = np.diff(self.edges)
        return ratio(width @ self.dominant, width @ self.active)

    @property
    def mean_least(self) -> float:
        """`least`, averaged over the time with an active user of positive weight; NaN if none."""
        time = np.diff(self.edges) * self.part_active
        some = time > 0
        return float(ratio(np.sum(self.least[some] * time[some]), np.sum(time)))

    @property
    def jain(self) -> float:
        """Jain's index of the users' weighted dominant shares, averaged while they are active.

        Users with small demands hold little, so the index is below 1 even under the fairest policy.
        Users of weight 0 do not count. NaN if no user holds anything.
        """
        x = self.mean_while_active / self._positive_weight
        return jain_index(x[~np.isnan(x)])


def measure_shares(
    workload: Workload, log: RunLog, outcomes: TaskOutcomes, edges: FloatArray, capacity: Capacity
) -> Shares:
    """Measure dominant shares between (B + 1,) edges, ascending, in seconds.

    Each mean is the exact integral over the bin, divided by the bin's length. With E starts, ends,
    submissions and withdrawals, and X steps of capacity: O(E (R + log E) + (B + X) N R).
    """
    n_bins, n_users = len(edges) - 1, workload.n_users
    integrals = ShareIntegrals(
        workload.shapes.tolist(), capacity.amount.tolist(), workload.weight.tolist(), n_bins
    )
    for portion in _in_order(_events(workload, log, outcomes, edges, capacity)):
        integrals.add(*portion)
    dominant, active = (
        np.array(memoryview(integral)).reshape(n_bins, n_users)
        for integral in (integrals.share, integrals.active_time)
    )
    least, part_active = (
        np.array(memoryview(integral)) for integral in (integrals.least, integrals.any_active_time)
    )
    width = np.diff(edges)
    return Shares(
        edges=edges,
        weight=workload.weight,
        dominant=dominant / width[:, None],
        active=active / width[:, None],
        least=ratio(least, part_active),
        part_active=part_active / width,
    )


def _events(
    workload: Workload, log: RunLog, outcomes: TaskOutcomes, edges: FloatArray, capacity: Capacity
) -> list[Any]:
    """Return the columns of `ShareIntegrals.add` for each kind of event."""
    user, shape = outcomes.user[log.task], workload.set_shape[outcomes.set[log.task]]
    n_active = np.bincount(outcomes.set[~outcomes.never_active], minlength=workload.n_sets)
    sets = np.flatnonzero(n_active)
    job = workload.set_job[sets]
    withdrawn = np.flatnonzero(outcomes.withdrawn)
    parts = (  # each: times, shapes, users, changes of running tasks, changes of active tasks
        (capacity.time, NEW_CAPACITY, 0, 0, 0),
        (edges, NEW_BIN, 0, 0, 0),
        (workload.job_submit[job], NO_SHAPE, workload.job_user[job], 0, n_active[sets]),
        (log.start, shape, user, 1, 0),
        # A task that ends well is not active any more; a lost one may wait again.
        (log.end, shape, user, -1, np.where(log.lost, 0, -1)),
        (outcomes.over[withdrawn], NO_SHAPE, outcomes.user[withdrawn], 0, -1),
    )
    kinds = (np.float64, np.int32, np.int32, np.int8, np.int32)
    return [
        tuple(
            np.broadcast_to(np.asarray(column, dtype=kind), len(part[0]))
            for column, kind in zip(part, kinds, strict=True)
        )
        for part in parts
    ]


def _in_order(parts: list[Any]) -> Iterator[tuple[list[Any], ...]]:
    """Yield columns of events in the order of time, earlier parts first where times are equal."""
    columns = [np.concatenate([part[k] for part in parts]) for k in range(5)]
    order = np.argsort(columns[0], kind="stable")
    for begin in range(0, len(order), PORTION):
        some = order[begin : begin + PORTION]
        yield tuple(column[some].tolist() for column in columns)
