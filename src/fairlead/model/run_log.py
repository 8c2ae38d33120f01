"""The log of a workload under a policy: when and where each task ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.notebooks import Plottable
from fairlead.model.workload import IndexArray, Workload

# The policy name of the log of the trace itself, without a replay.
RECORDED = "recorded"


@dataclass(frozen=True, eq=False, repr=False)
class RunLog(Plottable):
    """Every start of a task, in the order of the decisions.

    Letters: P starts, T tasks, K sets. A task whose run was lost starts again. Tasks that never ran
    have no start. `to_frame` has a row for each start.
    """

    frames = ("starts",)

    policy: str  # such as ``drf/best-fit``, or ``recorded``
    task: IndexArray  # (P,): the task that started, numbered as in the workload
    server: IndexArray  # (P,): its server; -1 if a recorded log lacks it
    start: FloatArray  # (P,): seconds
    end: FloatArray  # (P,): when the run ended or was lost, seconds
    # (P,): whether the run was lost: its server left, its gang lost a task, or it was stopped.
    lost: BoolArray
    # (K,): whether the set could not run even on the empty cluster with all its servers.
    set_unplaceable: BoolArray

    def __repr__(self) -> str:
        """Return a summary on one line; the arrays are in the fields."""
        return f"<RunLog of {self.policy}: {len(self.task):,} starts, until {self.makespan:,.0f} s>"

    def _columns(self, what: str) -> Mapping[str, Any]:  # noqa: ARG002 (there is one table)
        names = ("task", "server", "start", "end", "lost")
        return {name: getattr(self, name) for name in names}

    @property
    def is_recorded(self) -> bool:
        """Whether this is the recorded log, not a replay."""
        return self.policy == RECORDED

    def task_times(self, workload: Workload) -> tuple[FloatArray, FloatArray]:
        """Return (T,) start and (T,) end of each task's completed run; NaN if it has none."""
        start, end = np.full((2, workload.n_tasks), np.nan)
        done = ~self.lost
        start[self.task[done]] = self.start[done]
        end[self.task[done]] = self.end[done]
        return start, end

    @cached_property
    def makespan(self) -> float:
        """Seconds from the start of the workload to the end of the last task; 0 without starts."""
        return float(self.end.max(initial=0.0))
