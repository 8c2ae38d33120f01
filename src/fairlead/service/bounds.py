"""Bounds of requests, which both the clients and the service check."""

from __future__ import annotations

from fairlead.errors import InputError

MOST_TASKS = 10**6  # of a job
MOST_JOBS = 10_000  # in one request
LONGEST_NAME = 200
GPU_PARTS = 1024  # equal parts of a GPU; a task with less than a GPU takes some of them
LEAST_WEIGHT, MOST_WEIGHT = 1e-9, 1e9  # a weight other than 0 is between them, both excluded
NAME = r"^[^\x00-\x1f\x7f-\x9f/]+$"
JOB_ID = r"^[1-9][0-9]{0,17}$"
# Reasons to stop a task: for another task, or by Ctrl-C in the terminal of `fairlead run`.
PREEMPTED, INTERRUPTED = "preempted", "interrupted"
# Reasons of stopped attempts, whose run times and statuses say nothing about tasks or servers.
STOPPED = frozenset({"cancelled", INTERRUPTED, PREEMPTED})


def check_weight(weight: float, what: str) -> None:
    """Raise `InputError` for a weight that no user can have."""
    if weight != 0 and not LEAST_WEIGHT < weight < MOST_WEIGHT:
        fault = f"must be 0, or above {LEAST_WEIGHT:g} and below {MOST_WEIGHT:g}, not {weight:g}"
        raise InputError(fault, what)
