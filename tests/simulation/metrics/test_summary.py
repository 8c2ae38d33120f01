"""The summary of a run: the documented layout, and every figure from loops over everything."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from math import isnan, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from fairlead.errors import InputError
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.summary import plain, summarise
from oracles.plain_metrics import PlainMetrics
from oracles.plain_replay import plain_replay
from random_runs import Run, one_server, runs


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else nan


def same(found: float | None, expected: float) -> bool:
    return (nan if found is None else found) == pytest.approx(expected, nan_ok=True)


@given(runs())
def test_figures_are_sums_over_tasks_and_jobs(run: Run) -> None:
    (workload, log), plainly = run, PlainMetrics(*run)
    found = summarise(*run, instants=0).to_dict()
    ends = {task: end for task, _, _, end, lost in plainly.starts if not lost}
    first: dict[int, float] = {}
    for task, _, start, _, _ in plainly.starts:
        first.setdefault(task, start)
    submit = [workload.job_submit[j] for j in plainly.job_of]
    never = [bool(log.set_unplaceable[k]) for k in plainly.set_of]
    late = plainly.active(Fraction(10**6))  # nothing happens so late
    assert found["tasks"] == workload.n_tasks
    assert found["completed"] == len(ends)
    assert found["unplaceable"] == sum(never)
    assert found["waiting"] == len(late)
    assert found["cancelled"] == workload.n_tasks - len(ends) - sum(never) - len(late)
    assert found["lost"] == sum(lost for *_, lost in plainly.starts)
    assert found["makespan"] == max((end for _, _, _, end, _ in plainly.starts), default=0.0)
    for who in (None, *range(workload.n_users)):
        mine = [t for t, u in enumerate(plainly.user_of) if who in (None, u)]
        jobs = [j for j, u in enumerate(workload.job_user) if who in (None, u)]
        of = {j: [t for t in mine if plainly.job_of[t] == j] for j in jobs}
        whole = [j for j in jobs if all(t in ends for t in of[j])]
        times = [max(ends[t] for t in of[j]) - workload.job_submit[j] for j in whole]
        longest = [max(workload.task_duration[of[j]]) for j in whole]
        part = found if who is None else found["users"][workload.users[who]]
        assert part["tasks"] == len(mine)
        assert part["completed"] == sum(t in ends for t in mine)
        assert part["unplaceable"] == sum(never[t] for t in mine)
        assert (part["jobs"], part["jobs_completed"]) == (len(jobs), len(whole))
        assert same(part["mean_completion_time"], mean(times))
        pairs = list(zip(times, longest, strict=True))
        assert same(part["mean_slowdown"], mean([time / run for time, run in pairs]))
        bounded = [max(time / max(run, 10.0), 1.0) for time, run in pairs]
        assert same(part["mean_bounded_slowdown"], mean(bounded))
        waits = [min(first[t] for t in of[j]) - workload.job_submit[j] for j in whole]
        assert same(part["mean_wait"], mean(waits))
        waits = [first[t] - submit[t] for t in mine if t in first]
        assert same(part["mean_task_wait"], mean(waits))
        times = [ends[t] - submit[t] for t in mine if t in ends]
        assert same(part["mean_task_completion_time"], mean(times))


@settings(max_examples=10)
@given(runs())
def test_the_documented_layout(run: Run) -> None:
    found = summarise(*run, instants=3, bins=2).to_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert list(found["utilization"]) == list(run[0].cluster.resources)
    assert list(found["users"]) == list(run[0].users)


def small(*, submit: float = 0.0) -> Workload:
    """Tasks of 2 and 6 s and one that fits nowhere, for a server that takes one at a time."""
    return Workload.from_arrays(
        one_server(2.0),
        ["ana", "bo"],
        job_user=[0, 0, 1],
        job_submit=[submit] * 3,
        set_job=[0, 1, 2],
        set_tasks=[1, 1, 1],
        shapes=[[2.0], [1.5], [3.0]],
        task_duration=[2.0, 6.0, 1.0],
    )


def test_by_hand() -> None:
    workload = small()
    log = plain_replay(workload, "drf/best-fit")
    found = summarise(workload, log, horizon=4.0).to_dict()
    users: dict[str, Any] = found.pop("users")
    # Ana is alone: all of the server is fair while both tasks want to run, then all that one takes.
    assert found.pop("fairness_error") == pytest.approx(0.0, abs=1e-12)
    for of, median, p95 in (
        ("completion_time", 2.0, 8.0),
        ("slowdown", 1.0, 8 / 6),
        ("wait", 0.0, 2.0),
        ("task_completion_time", 2.0, 8.0),
        ("task_wait", 0.0, 2.0),
    ):
        assert (found[f"median_{of}"], found[f"p95_{of}"]) == pytest.approx((median, p95))
    assert found["utilization"] == {"cpu": pytest.approx((2 * 2 + 6 * 1.5) / 16)}
    assert found["fairness"] == {
        "mechanism": "drfh",
        "instants": 100,
        "unsolved": 0,
        "fault": None,
        "jain": pytest.approx(1.0),
        "over_a_day": 0.0,
        "over_a_week": 0.0,
    }
    assert (found["jain"], found["least_share"]) == pytest.approx((1.0, 13 / 16))
    assert (found["got_nothing"], found["never_ran"]) == ({}, ["bo"])
    assert found["horizon"] == {
        "time": 4.0,
        "submitted": 3,
        "completed": 1,
        "completion_ratio": pytest.approx(1 / 3),
        "utilization": {"cpu": pytest.approx((2 * 2 + 2 * 1.5) / 8)},
    }
    assert users["bo"]["completion_ratio"] == users["bo"]["longest_without"] == 0.0
    assert users["bo"]["dominant_share"] is users["bo"]["fair_share"] is None
    assert users["ana"]["dominant_share"] == pytest.approx(13 / 16)
    assert users["ana"]["completion_ratio"] == 0.5


def test_nothing_ran() -> None:
    workload = small()
    empty = np.zeros(0, dtype=np.int32)
    seconds, lost = np.zeros(0), np.zeros(0, dtype=bool)
    log = RunLog("idle", empty, empty, seconds, seconds, lost, np.ones(3, dtype=bool))
    found = summarise(workload, log).to_dict()
    assert found["makespan"] == 0.0
    assert found["utilization"] == {"cpu": 0.0}
    for name in ("mean_completion_time", "mean_wait", "fairness_error", "jain", "least_share"):
        assert found[name] is None, name


def test_times_that_are_taken() -> None:
    """Use is averaged to the last task; ratios and fairness to the last submission."""
    workload = small(submit=3.0)
    log = plain_replay(workload, "drf/best-fit")
    found = summarise(workload, log, instants=0)
    assert (found.until, found.arrivals, found.horizon) == (11.0, 11.0, 3.0)
    assert found.utilization.edges[[0, -1]].tolist() == [0.0, 11.0]
    spread = replace(workload, job_submit=np.array([1.0, 3.0, 4.0]))
    found = summarise(spread, log, instants=0)
    assert (found.until, found.arrivals, found.horizon) == (11.0, 4.0, 4.0)
    found = summarise(workload, log, until=5.0, instants=0)
    assert (found.until, found.arrivals, found.horizon) == (5.0, 5.0, 5.0)
    assert found.fairness is None
    assert found.to_dict()["fairness_error"] is None


@pytest.mark.parametrize("options", [{"until": 0.0}, {"instants": -1}, {"mechanism": "magic"}])
def test_unusable_options(options: dict[str, Any]) -> None:
    workload = small()
    log = plain_replay(workload, "drf/best-fit")
    with pytest.raises(InputError, match=f"^{next(iter(options))}: "):
        summarise(workload, log, **options)


def test_plain_values() -> None:
    values = {"a": [1.0, nan], "b": (float("inf"), np.array([1.0, nan])), "c": "nan", "d": 3}
    assert plain(values) == {"a": [1.0, None], "b": [None, [1.0, None]], "c": "nan", "d": 3}
    assert not isnan(plain(2.0))
