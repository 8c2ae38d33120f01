"""Who does worse when sharing, against loops over jobs and tasks."""

from __future__ import annotations

import json
from math import isnan, nan
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.metrics.sharing import compare_sharing
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.simulation.dedicated import replay_dedicated
from oracles.plain_replay import plain_replay
from small_workloads import small_workload


def ends(log: RunLog) -> dict[int, float]:
    return {
        task: end
        for task, end, lost in zip(log.task.tolist(), log.end, log.lost, strict=True)
        if not lost
    }


def plain_ratio(w: Workload, log: RunLog, user: int, horizon: float) -> float:
    done, submitted, end = 0, 0, ends(log)
    for k in range(w.n_sets):
        job = w.set_job[k]
        if w.job_user[job] == user and w.job_submit[job] <= horizon:
            for task in range(w.first_task[k], w.first_task[k + 1]):
                submitted += 1
                done += end.get(task, np.inf) <= horizon
    return done / submitted if submitted else nan


def plain_means(w: Workload, logs: list[RunLog], user: int) -> list[float]:
    times: list[list[float]] = [[], []]
    for job in range(w.n_jobs):
        tasks = range(w.first_task[w.first_set[job]], w.first_task[w.first_set[job + 1]])
        if w.job_user[job] == user and all(t in ends(log) for log in logs for t in tasks):
            for log, mine in zip(logs, times, strict=True):
                mine.append(max(ends(log)[t] for t in tasks) - w.job_submit[job])
    return [mean(mine) if mine else nan for mine in times]


def equal(one: float, other: float) -> bool:
    return (isnan(one) and isnan(other)) or one == pytest.approx(other)


@given(st.integers(0, 2**32), st.sampled_from([None, 2.0, 5.0]))
def test_against_loops(seed: int, horizon: float | None) -> None:
    w = small_workload(np.random.default_rng(seed))
    shared = plain_replay(w, "drf/best-fit")
    alone = replay_dedicated(w, "drf/best-fit", plain_replay)
    found = compare_sharing(w, shared, alone, horizon)
    end = w.span if horizon is None else horizon
    assert found.horizon == end
    worse = {"fewer": 0, "slower": 0, "active": 0}
    for n in range(2):
        ratios = [plain_ratio(w, log, n, end) for log in (shared, alone)]
        assert equal(found.shared_ratio[n], ratios[0])
        assert equal(found.dedicated_ratio[n], ratios[1])
        means = plain_means(w, [shared, alone], n)
        assert equal(found.shared_time[n], means[0])
        assert equal(found.dedicated_time[n], means[1])
        assert found.active[n] == (not isnan(ratios[0]))
        assert found.fewer_tasks[n] == (ratios[0] < ratios[1])
        worse["active"] += not isnan(ratios[0])
        worse["fewer"] += ratios[0] < ratios[1]
        worse["slower"] += bool(found.slower[n])
    said = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [said[f"users_{w}"] for w in ("active", "with_fewer_tasks", "with_slower_jobs")] == [
        worse["active"],
        worse["fewer"],
        worse["slower"],
    ]
    assert list(said["users"]) == ["ana", "bo"]


def test_equal_times_are_not_slower() -> None:
    w = small_workload(np.random.default_rng(217))
    log = plain_replay(w, "drf/best-fit")
    found = compare_sharing(w, log, log)
    assert not found.slower.any()
    assert not found.fewer_tasks.any()
