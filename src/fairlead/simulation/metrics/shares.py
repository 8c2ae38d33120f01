"""Who holds which part of the cluster over time, and how evenly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.distribution import jain_index
from fairlead.simulation.metrics.share_integrals import (
    NEW_BIN,
    NEW_CAPACITY,
    NO_SHAPE,
    ShareIntegrals,
)
from fairlead.simulation.metrics.task_outcomes import TaskOutcomes
from fairlead.simulation.metrics.utilization import Capacity, capacity_over_time

PORTION = 2**16  # events that are handed over at once; lists of more take memory


@dataclass(frozen=True, eq=False)
class Shares:
    """Dominant shares of N users, averaged over each of B bins.

    A user's dominant share is the largest part, over the resources, that its running tasks take of
    what the servers that are there have: ``max_r held[n,r](t) / C[r](t)``; weighted, over the
    user's weight. It is active while one of its tasks waits or runs (not those that never can).
    """

    edges: FloatArray  # (B + 1,): of the bins, seconds
    weight: FloatArray  # (N,)
    dominant: FloatArray  # (B, N): dominant share, averaged over the whole bin
    active: FloatArray  # (B, N): part of the bin during which the user is active
    # (B,): least weighted dominant share of the users that are active, without those of weight 0,
    # averaged over the part of the bin in which there are any; not a number where there never are.
    least: FloatArray
    anybody: FloatArray  # (B,): that part

    @property
    def weighted(self) -> FloatArray:
        """(B, N) float: dominant share over weight; not a number for users of weight 0."""
        return self.dominant / self._positive_weight

    @property
    def _positive_weight(self) -> FloatArray:
        weight: FloatArray = np.where(self.weight > 0, self.weight, np.nan)
        return weight

    @property
    def mean_while_active(self) -> FloatArray:
        """(N,) float: dominant share averaged over the time that the user is active.

        Not a number for users that never are.
        """
        width = np.diff(self.edges)
        mean: FloatArray = _over(width @ self.dominant, width @ self.active)
        return mean

    @property
    def mean_least(self) -> float:
        """Least weighted dominant share of active users, averaged while anybody is active.

        Not a number where nobody ever is.
        """
        time = np.diff(self.edges) * self.anybody
        some = time > 0
        return float(_over(np.sum(self.least[some] * time[some]), np.sum(time)))

    @property
    def jain(self) -> float:
        """Jain's index of fairness of the weighted dominant shares.

        Over the users that are active at any time in the grid; x is a user's weighted dominant
        share averaged over the time that it is active. Users that ask for little hold little, so it
        is less than 1 under the fairest of policies too. Users of weight 0 do not count. Not a
        number where nobody holds anything.
        """
        x = self.mean_while_active / self._positive_weight
        return jain_index(x[~np.isnan(x)])


def measure_shares(
    workload: Workload,
    log: RunLog,
    course: TaskOutcomes,
    edges: FloatArray,
    capacity: Capacity | None = None,
) -> Shares:
    """Measure dominant shares over time, exactly: integrals over each bin by its length.

    Parameters
    ----------
    workload : Workload
    log : RunLog
    course : TaskOutcomes
        As `fairlead.simulation.metrics.task_outcomes.follow_tasks` returned it.
    edges : (B + 1,) float
        Of the bins, ascending from 0, seconds.
    capacity : Capacity, optional
        As `capacity_over_time` returned it.

    Notes
    -----
    Cost O((P + K) (R + log P) + (B + X) N).
    """
    capacity = capacity_over_time(workload) if capacity is None else capacity
    n_bins, n_users = len(edges) - 1, workload.n_users
    integrals = ShareIntegrals(
        workload.shapes.tolist(), capacity.amount.tolist(), workload.weight.tolist(), n_bins
    )
    for portion in _in_order(_events(workload, log, course, edges, capacity)):
        integrals.add(*portion)
    dominant, active = (
        np.array(memoryview(integral)).reshape(n_bins, n_users)
        for integral in (integrals.share, integrals.active_time)
    )
    least, anybody = (
        np.array(memoryview(integral)) for integral in (integrals.least, integrals.any_time)
    )
    width = np.diff(edges)
    return Shares(
        edges=edges,
        weight=workload.weight,
        dominant=dominant / width[:, None],
        active=active / width[:, None],
        least=_over(least, anybody),
        anybody=anybody / width,
    )


def _events(
    workload: Workload, log: RunLog, course: TaskOutcomes, edges: FloatArray, capacity: Capacity
) -> list[Any]:
    user, shape = course.user[log.task], workload.set_shape[course.set[log.task]]
    came = np.bincount(course.set[~course.never_active], minlength=workload.n_sets)
    wanting = np.flatnonzero(came)
    user_of_set = workload.job_user[workload.set_job]
    withdrawn = np.flatnonzero(course.withdrawn)
    parts = (
        (capacity.time, NEW_CAPACITY, 0, 0, 0),
        (edges, NEW_BIN, 0, 0, 0),
        (
            workload.job_submit[workload.set_job[wanting]],
            NO_SHAPE,
            user_of_set[wanting],
            0,
            came[wanting],
        ),
        (log.start, shape, user, 1, 0),
        # Who ends well is not active any more; who is lost may wait again.
        (log.end, shape, user, -1, np.where(log.lost, 0, -1)),
        (course.over[withdrawn], NO_SHAPE, course.user[withdrawn], 0, -1),
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


def _over(amount: Any, of: Any) -> Any:
    amount, of = np.asarray(amount, dtype=np.float64), np.asarray(of, dtype=np.float64)
    return np.divide(amount, of, out=np.full_like(amount, np.nan), where=of > 0)
