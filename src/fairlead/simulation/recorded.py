"""What the log of a trace says happened, as the run of a policy: nothing is replayed."""

from __future__ import annotations

import numpy as np

from fairlead.errors import InputError
from fairlead.model.run_log import RECORDED, RunLog
from fairlead.model.workload import Workload


def recorded_run(workload: Workload) -> RunLog:
    """Return what happened, in order of starts, from the start times that came with a workload.

    A task that started runs as long as it takes, whatever became of it; one that never started has
    no row and waits, until it is withdrawn if it is; one whose start nobody knows has no row
    either, and `TaskOutcomes` leaves it out of all accounts. Nothing is
    unplaceable: what ran, could. The server is -1 where the log does not say and there are several.

    Raises InputError when the workload says of no task when it started. Cost O(T log T).
    """
    check_recorded(workload)
    started = np.flatnonzero(np.isfinite(workload.task_start))
    task = started[np.argsort(workload.task_start[started], kind="stable")].astype(np.int32)
    start = workload.task_start[task]
    server = workload.task_server[task] if workload.n_servers > 1 else np.zeros_like(task)
    return RunLog(
        policy=RECORDED,
        task=task,
        server=server,
        start=start,
        end=start + workload.task_duration[task],
        lost=np.zeros(len(task), dtype=bool),
        set_unplaceable=np.zeros(workload.n_sets, dtype=bool),
    )


def check_recorded(workload: Workload, source: str = "") -> None:
    """Raise `InputError` when a workload, read from a source, says of no task when it started."""
    if not workload.has_starts:
        raise InputError(
            "the trace does not say when its tasks started; name a policy to replay it under, such "
            "as drf/best-fit",
            f"policy {RECORDED}",
            source,
        )
