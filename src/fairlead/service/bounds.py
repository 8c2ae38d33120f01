"""Bounds of requests that clients check before they send them, as well as the service."""

from __future__ import annotations

from fairlead.errors import InputError

MOST_TASKS = 10**6  # of a job
MOST_JOBS = 10_000  # of one request
LONGEST_NAME = 200
GPU_PARTS = 1024  # of which a task takes some, if it takes less than a GPU
LEAST_WEIGHT, MOST_WEIGHT = 1e-9, 1e9  # of a user, unless it is 0
NAME = r"^[^\x00-\x1f\x7f-\x9f/]+$"
JOB_ID = r"^[1-9][0-9]{0,17}$"
# Why a task is to stop: for another one, or by Ctrl-C in the terminal that runs it.
PREEMPTED, INTERRUPTED = "preempted", "interrupted"
STOPPED = frozenset({"cancelled", INTERRUPTED, PREEMPTED})  # why attempts are stopped


def check_weight(weight: float, what: str) -> None:
    """Raise `InputError` for a weight that no user can have."""
    if weight != 0 and not LEAST_WEIGHT < weight < MOST_WEIGHT:
        fault = f"must be 0, or above {LEAST_WEIGHT:g} and below {MOST_WEIGHT:g}, not {weight:g}"
        raise InputError(fault, what)
