"""Limits on the values in requests, checked by the clients and by the service."""

from __future__ import annotations

from fairlead.errors import InputError

MOST_TASKS = 10**6  # of a job
MOST_JOBS = 10_000  # in one request
LONGEST_NAME = 200
GPU_PARTS = 1024  # equal parts of a GPU; a task with less than a GPU takes some of them
LEAST_WEIGHT, MOST_WEIGHT = 1e-9, 1e9  # a weight other than 0 is between them, both excluded
NAME = r"^[^\x00-\x1f\x7f-\x9f/]+$"
JOB_ID = r"^[1-9][0-9]{0,17}$"
# Reasons to stop a task: another task preempts it, or Ctrl-C in the terminal of `fairlead run`.
PREEMPTED, INTERRUPTED = "preempted", "interrupted"
# Attempts stopped for these reasons do not count as run times, or as failures of their servers.
STOPPED = frozenset({"cancelled", INTERRUPTED, PREEMPTED})


def check_weight(weight: float, what: str) -> None:
    """Raise `InputError` for a weight out of bounds; `what` names it in the message."""
    if weight != 0 and not LEAST_WEIGHT < weight < MOST_WEIGHT:
        fault = f"must be 0, or above {LEAST_WEIGHT:g} and below {MOST_WEIGHT:g}, not {weight:g}"
        raise InputError(fault, what)
