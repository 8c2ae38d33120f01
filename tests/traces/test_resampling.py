"""Resampled traces: the jobs of each user move together by whole days or weeks."""

from __future__ import annotations

import numpy as np
import pytest

from effort import cases
from fairlead.errors import InputError
from fairlead.model.workload import Workload
from fairlead.traces.generator import generate_day
from fairlead.traces.resampling import DAY, WEEK, resampled
from fairlead.traces.time_window import time_window


def jobs_of(workload: Workload) -> dict[str, tuple[object, ...]]:
    """Return all terms of each job but its times, by its name."""
    found = {}
    for j in range(workload.n_jobs):
        sets = range(workload.first_set[j], workload.first_set[j + 1])
        rows = [
            (
                workload.shapes[workload.set_shape[k]].tolist(),
                workload.places[workload.set_place[k]].tolist(),
                workload.task_duration[
                    workload.first_task[k] : workload.first_task[k + 1]
                ].tolist(),
            )
            for k in sets
        ]
        lifetime = round(workload.job_cancel[j] - workload.job_submit[j], 3)
        terms = (workload.job_user[j], workload.job_limit[j], workload.job_gang[j], lifetime)
        found[str(workload.job_names[j])] = (*terms, rows)
    return found


@pytest.mark.parametrize(("hours", "unit"), [(60, DAY), (24 * 40, WEEK)])
def test_users_move_by_whole_periods(hours: float, unit: float) -> None:
    moved = 0
    for seed in range(cases(5)):
        before = generate_day(servers=20, users=6, jobs=300, hours=hours, seed=seed)
        after = resampled(before, seed)
        assert jobs_of(after) == jobs_of(before)
        assert (np.diff(after.job_submit) >= 0).all()
        old = dict(zip(before.job_names.tolist(), before.job_submit.tolist(), strict=True))
        first, last = before.job_submit[0], before.job_submit[-1]
        span = ((last - first) // unit + 1) * unit
        for user in range(before.n_users):
            mine = after.job_user == user
            names, times = after.job_names[mine].tolist(), after.job_submit[mine]
            shifts = (times - np.array([old[name] for name in names])) % span / unit
            whole = np.round(shifts)
            assert np.abs(shifts - whole).max() < 1e-6
            assert len(np.unique(whole % (span // unit))) == 1
            moved += int(whole[0] > 0)
        assert after.job_submit.max() <= first + span
    assert moved > 5


def test_a_trace_of_a_day_is_refused() -> None:
    with pytest.raises(InputError):
        resampled(generate_day(servers=20, users=6, jobs=50, hours=20), 1)


@pytest.mark.parametrize("seed", range(2))
def test_a_cut_is_not_before_the_last_submission(seed: int) -> None:
    part = time_window(generate_day(servers=20, users=5, jobs=200, hours=60), end=30 * 3600)
    assert part.recorded_until == 30 * 3600
    moved = resampled(part, seed)
    assert moved.recorded_until == max(30 * 3600, moved.job_submit[-1])
