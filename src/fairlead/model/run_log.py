"""What a policy did with a workload: when and where each task ran."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.workload import IndexArray, Workload

# The policy that replays nothing: what the log of the trace says happened.
RECORDED = "recorded"


@dataclass(frozen=True, eq=False)
class RunLog:
    """Every start of a task, in the order of the decisions; P starts, T tasks, K sets.

    A task starts once, or again after the server on which it ran had left. What waits at the end
    has no start.

    Attributes
    ----------
    policy : str
        What decided, such as ``drf/best-fit``, or ``recorded``.
    task : (P,) int32
        Which task started, numbered as in the workload.
    server : (P,) int32
        Where; -1 in a log that is recorded, where the trace does not say.
    start, end : (P,) float
        When it started, and when it ended or was lost; seconds.
    lost : (P,) bool
        Whether it was lost with its server before it was done.
    set_unplaceable : (K,) bool
        Sets that could not run on the empty cluster, with all the servers it ever has: a task
        fits nowhere that it may run, or a gang needs more at once than there is.
    """

    policy: str
    task: IndexArray
    server: IndexArray
    start: FloatArray
    end: FloatArray
    lost: NDArray[np.bool_]
    set_unplaceable: BoolArray

    @property
    def is_recorded(self) -> bool:
        """Whether this is what happened, and no replay."""
        return self.policy == RECORDED

    def task_times(self, workload: Workload) -> tuple[FloatArray, FloatArray]:
        """Return when each task began the run that ended well, and when that ended.

        Both are (T,), in seconds; not a number for tasks that never ended well.
        """
        start, end = np.full((2, workload.n_tasks), np.nan)
        done = ~self.lost
        start[self.task[done]] = self.start[done]
        end[self.task[done]] = self.end[done]
        return start, end

    @cached_property
    def makespan(self) -> float:
        """Seconds from the start of the workload to the end of the last task; 0 without tasks."""
        return float(self.end.max(initial=0.0))
