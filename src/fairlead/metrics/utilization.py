"""How much of what is there running tasks take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.metrics.capacity import Capacity, capacity_over_time
from fairlead.metrics.time_average import time_averages
from fairlead.model.cluster import FloatArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload


@dataclass(frozen=True, eq=False)
class Utilization:
    """What tasks take and what there is, averaged over each of B bins.

    Attributes
    ----------
    edges : (B + 1,) float
        Of the bins, seconds.
    used : (B, R) float
        What running tasks take of each resource.
    there : (B, R) float
        What the servers that are there have of it.
    """

    resources: tuple[str, ...]
    edges: FloatArray
    used: FloatArray
    there: FloatArray

    @property
    def share(self) -> FloatArray:
        """(B, R) float: used over there in each bin; not a number where nothing is there."""
        return _ratio(self.used, self.there)

    @property
    def mean(self) -> FloatArray:
        """(R,) float: used over there in all bins together, so that time counts when more is there.

        Not a number where nothing is ever there.
        """
        width = np.diff(self.edges)
        return _ratio(width @ self.used, width @ self.there)


def measure_utilization(
    workload: Workload, log: RunLog, edges: FloatArray, capacity: Capacity | None = None
) -> Utilization:
    """Measure what tasks take of each resource over time, exactly: integrals over bins by length.

    A task takes its demand of the server where it runs from its start until its end or loss, also
    under slots, where it occupies more than it takes. Servers count while they are there, those
    that drain too.

    Parameters
    ----------
    workload : Workload
    log : RunLog
    edges : (B + 1,) float
        Of the bins, ascending, seconds.
    capacity : Capacity, optional
        As `capacity_over_time` returned it.

    Notes
    -----
    Cost O(P (R + log B) + X G). Wang, Liang and Li 2015, Fig. 5.
    """
    capacity = capacity_over_time(workload) if capacity is None else capacity
    shape = np.repeat(workload.set_shape, workload.set_tasks)[log.task]
    until = np.append(capacity.time[1:], np.inf)
    return Utilization(
        resources=workload.cluster.resources,
        edges=edges,
        used=time_averages(log.start, log.end, workload.shapes[shape], edges),
        there=time_averages(capacity.time, until, capacity.amount, edges),
    )


def _ratio(used: FloatArray, there: FloatArray) -> FloatArray:
    ratio: FloatArray = np.divide(used, there, out=np.full_like(used, np.nan), where=there > 0)
    return ratio
