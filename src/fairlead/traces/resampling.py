"""Resample a trace: shift the jobs of each user in time.

All jobs of a user are shifted by the same random number of whole weeks, or of days in a trace
shorter than four weeks. Jobs shifted beyond the end wrap around to the beginning. So each user
keeps its daily rhythm (and with weeks its weekly one), but competes with other jobs than in the
trace. (Zakay and Feitelson 2013 also resample users.)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairlead.errors import InputError
from fairlead.model.workload import Workload
from fairlead.traces.logs.job_collector import rows_in_order

DAY = 86_400.0
WEEK = 7 * DAY


def resampled(workload: Workload, seed: int) -> Workload:
    """Return a resampled workload; servers and their events stay, recorded starts are dropped.

    Raises InputError if all jobs are submitted within a day, as none could be shifted then.

    Examples
    --------
    >>> from fairlead.traces.generator import generate_day
    >>> workload = generate_day(servers=20, users=5, jobs=200, hours=60)
    >>> resampled(workload, seed=1).n_tasks == workload.n_tasks
    True
    """
    first, last = float(workload.job_submit.min()), float(workload.job_submit.max())
    unit = WEEK if last - first >= 4 * WEEK else DAY
    periods = int((last - first) // unit) + 1
    if periods < 2:
        raise InputError("all jobs come within a day: there is nothing to resample", "seeds")
    shift = np.random.default_rng(seed).integers(periods, size=workload.n_users) * unit
    moved = first + (workload.job_submit - first + shift[workload.job_user]) % (periods * unit)
    order = np.argsort(moved, kind="stable")
    sets_of_job = np.diff(workload.first_set)
    sets = rows_in_order(sets_of_job, order)
    tasks = rows_in_order(workload.set_tasks.astype(np.int64), sets)
    origin = f"{workload.origin}, resampled {seed}" if workload.origin else f"resampled {seed}"
    until = workload.recorded_until
    return replace(
        workload,
        origin=origin,
        recorded_until=None if until is None else max(until, float(moved.max())),
        job_names=workload.job_names[order],
        job_user=workload.job_user[order],
        job_submit=moved[order],
        job_cancel=(workload.job_cancel - workload.job_submit + moved)[order],
        job_limit=workload.job_limit[order],
        job_gang=workload.job_gang[order],
        set_job=np.repeat(np.arange(len(order), dtype=np.int32), sets_of_job[order]),
        set_tasks=workload.set_tasks[sets],
        set_shape=workload.set_shape[sets],
        set_place=workload.set_place[sets],
        task_duration=workload.task_duration[tasks],
        task_start=np.full_like(workload.task_start, np.nan),
        task_server=np.full_like(workload.task_server, -1),
    )
