"""How long tasks wait, and which part of them gets done."""

from __future__ import annotations

import numpy as np

from fairlead.metrics.course import Course
from fairlead.model.cluster import BoolArray, FloatArray


def waiting_times(course: Course) -> FloatArray:
    """Return (T,) seconds from submission to first start; not a number where there is no start.

    A task that was lost and waits again shows in the completion time of its job.
    """
    waits: FloatArray = course.first_start - course.submit
    return waits


def task_completion_times(course: Course) -> FloatArray:
    """Return (T,) seconds from each task's submission to its end; not a number without one."""
    times: FloatArray = course.end - course.submit
    return times


def completion_ratio(
    course: Course, n_users: int, horizon: float, among: BoolArray | None = None
) -> FloatArray:
    """Return which part of each user's tasks was done at a time.

    Parameters
    ----------
    course : Course
    n_users : int
    horizon : float
        The time, seconds.
    among : (T,) bool, optional
        Tasks that count; all when absent.

    Returns
    -------
    (N,) float
        Tasks that had ended well by then over those submitted by then, withdrawn and unplaceable
        ones too, but not those whose times nobody knows; not a number for users that had
        submitted none.

    Notes
    -----
    Cost O(T). Wang, Liang and Li 2015, Fig. 7.
    """
    counts = ~course.unrecorded if among is None else among & ~course.unrecorded
    submitted = np.bincount(course.user[counts & (course.submit <= horizon)], minlength=n_users)
    # A task that never ended is not done at any time: comparing with "not a number" is false.
    done = np.bincount(course.user[counts & (course.end <= horizon)], minlength=n_users)
    ratio: FloatArray = np.divide(
        done, submitted, out=np.full(n_users, np.nan), where=submitted > 0
    )
    return ratio
