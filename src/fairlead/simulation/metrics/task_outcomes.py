"""What became of every task: when it came, first ran, ended, and stopped wanting to run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import IndexArray, Workload


@dataclass(frozen=True, eq=False)
class TaskOutcomes:
    """Every task from its submission to its end; T tasks.

    A task is *active* from `submit` until `over`, without the latter: all that time it waits or
    runs. A task is never active if it can never run, or if nobody knows when it ran.
    """

    # (T,): whose it is.
    set: IndexArray
    user: IndexArray
    submit: FloatArray  # (T,): when its job was submitted, seconds
    # (T,): when it started for the first time; not a number if it never did.
    first_start: FloatArray
    end: FloatArray  # (T,): when the run that ended well did so; not a number if none did
    # (T,): when it last stopped to wait or run: its end, or else its withdrawal, or else the loss
    # of its server after the withdrawal; infinite if it waits when all is over. Its submission, if
    # it is never active.
    over: FloatArray
    unplaceable: BoolArray  # (T,): whether it can never run
    # (T,): whether the log does not say when it ran, where the run is what the log says.
    unrecorded: BoolArray

    @property
    def never_active(self) -> BoolArray:
        """(T,) bool: whether it is active at no time."""
        never: BoolArray = self.unplaceable | self.unrecorded
        return never

    @property
    def completed(self) -> BoolArray:
        """(T,) bool: whether it ended well."""
        return ~np.isnan(self.end)

    @property
    def waits_forever(self) -> BoolArray:
        """(T,) bool: whether it waits when all is over, though it could run on its own."""
        return np.isinf(self.over)

    @property
    def withdrawn(self) -> BoolArray:
        """(T,) bool: whether its user withdrew it before it ended well."""
        withdrawn: BoolArray = ~self.completed & ~self.waits_forever & ~self.never_active
        return withdrawn


def follow_tasks(workload: Workload, log: RunLog) -> TaskOutcomes:
    """Compute the outcome of every task of a workload in a run; O(T + P)."""
    of_task = np.repeat(np.arange(workload.n_sets, dtype=np.int32), workload.set_tasks)
    submit = workload.job_submit[workload.set_job][of_task]
    unplaceable = log.set_unplaceable[of_task]
    unrecorded = np.isnan(workload.task_start) & log.is_recorded
    _, end = log.task_times(workload)
    first_start = np.full(workload.n_tasks, np.nan)
    # Of several starts of a task the log has the first one first; written last, it stays.
    first_start[log.task[::-1]] = log.start[::-1]
    over = workload.job_cancel[workload.set_job][of_task]
    np.maximum.at(over, log.task[log.lost], log.end[log.lost])
    over = np.where(np.isnan(end), over, end)
    return TaskOutcomes(
        set=of_task,
        user=workload.job_user[workload.set_job][of_task],
        submit=submit,
        first_start=first_start,
        end=end,
        over=np.where(unplaceable | unrecorded, submit, over),
        unplaceable=unplaceable,
        unrecorded=unrecorded,
    )
