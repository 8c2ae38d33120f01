"""Who gained and who lost, against loops over jobs and tasks."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import InputError
from fairlead.simulation.metrics.comparison import compare
from fairlead.simulation.metrics.summary import Summary, summarise
from fairlead.simulation.runs import recorded_run
from oracles.plain_metrics import PlainMetrics
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload
from random_runs import jobs_on_a_server, run_by_seed


@cache
def two_runs(seed: int) -> tuple[Summary, Summary]:
    """The same workload under two policies."""
    workload, log = run_by_seed(seed)
    other = plain_replay(workload, "tsf/first-fit")
    return summarise(workload, log, instants=0), summarise(workload, other, instants=0)


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else nan


@settings(max_examples=8)
@given(st.integers(0, 9_999))
def test_users(seed: int) -> None:
    ours, theirs = two_runs(seed)
    found, workload = compare(ours, theirs), ours.workload
    plain = PlainMetrics(workload, ours.log)
    for u in range(workload.n_users):
        pairs = [
            (a, b)
            for a, b, owner in zip(
                ours.jobs.completion, theirs.jobs.completion, workload.job_user, strict=True
            )
            if owner == u and not isnan(a + b)
        ]
        assert found.jobs[u] == len(pairs)
        ratio = mean([a for a, _ in pairs]) / mean([b for _, b in pairs])
        assert found.completion_ratio[u] == pytest.approx(ratio, nan_ok=True)
        means = mean([a for a, _ in pairs]), mean([b for _, b in pairs])
        both = found.completion[u], found.baseline_completion[u]
        assert both == pytest.approx(means, nan_ok=True)
        tasks = [task for task, owner in enumerate(plain.user_of) if owner == u]
        starts = [(ours.outcomes.first_start[t], theirs.outcomes.first_start[t]) for t in tasks]
        starts = [(a, b) for a, b in starts if not isnan(a + b)]
        assert found.started[u] == len(starts)
        later = mean([a - b for a, b in starts])
        assert found.task_wait_difference[u] == pytest.approx(later, nan_ok=True, abs=1e-12)
        waits = [
            a - b
            for a, b, owner in zip(ours.jobs.wait, theirs.jobs.wait, workload.job_user, strict=True)
            if owner == u and not isnan(a + b)
        ]
        assert len(waits) == len(pairs)
        expected = pytest.approx(mean(waits), nan_ok=True, abs=1e-12)
        assert found.wait_difference[u] == expected
        more = sum(~np.isnan(ours.outcomes.end[tasks])) - sum(~np.isnan(theirs.outcomes.end[tasks]))
        assert found.completed_difference[u] == more
        assert found.horizon == min(ours.horizon, theirs.horizon)
        submitted = [t for t in tasks if ours.outcomes.submit[t] <= found.horizon]
        first, second = (
            mean([float(side.outcomes.end[t] <= found.horizon) for t in submitted])
            for side in (ours, theirs)
        )
        assert found.horizon_difference[u] == pytest.approx(first - second, nan_ok=True)
        better = ratio <= 1 - 1e-3 if pairs else more > 0
        worse = ratio >= 1 + 1e-3 if pairs else more < 0
        assert (found.gained[u], found.lost[u]) == (better, worse)


@pytest.mark.parametrize(
    ("ratio", "gains", "loses"),
    [(0.999, True, False), (0.9991, False, False), (1.0009, False, False), (1.001, False, True)],
)  # fmt: skip
def test_less_than_a_thousandth_is_no_change(ratio: float, gains: bool, loses: bool) -> None:
    found = compare(*two_runs(7))
    found = replace(
        found,
        jobs=np.ones_like(found.jobs),
        completion=np.full(len(found.users), ratio),
        baseline_completion=np.ones(len(found.users)),
    )
    assert set(found.gained) == {gains}
    assert set(found.lost) == {loses}


def test_plain_values() -> None:
    found = compare(*two_runs(3))
    values = found.to_dict()
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert values["baseline"] == "tsf/first-fit"
    assert values["gained"] == found.gained.sum()
    assert list(values["by_job_size"]) == list(found.reduction.labels)
    assert values["by_job_size"]["1-50"]["jobs"] == found.reduction.jobs[0]
    assert [user["started"] for user in values["users"].values()] == found.started.tolist()


def test_other_jobs_or_times_are_refused() -> None:
    ours, _ = two_runs(3)
    with pytest.raises(InputError, match="must be measured from 0 s on"):
        compare(ours, summarise(ours.workload, ours.log, since=0.1, instants=0))
    other = random_workload(4)
    log = plain_replay(other, "slots:4")
    with pytest.raises(InputError, match=r"^baseline: is of another workload$"):
        compare(ours, summarise(other, log, instants=0))


def test_the_same_jobs_under_other_weights_are_compared() -> None:
    ours, theirs = two_runs(3)
    weighed = replace(ours.workload, weight=ours.workload.weight * 2)
    found = compare(ours, summarise(weighed, theirs.log, instants=0))
    assert found.to_dict() == compare(ours, theirs).to_dict()


def test_tasks_with_times_in_one_run_only_count_in_no_figure() -> None:
    """The log lacks the time of ana's second task, and of all tasks of bo."""
    rows = [(0, 0.0, 1.0, 5.0), (0, 0.0, 1.0, 5.0), (1, 0.0, 1.0, 5.0)]
    workload = jobs_on_a_server(2.0, rows, task_start=[1.0, nan, nan])
    logs = recorded_run(workload), plain_replay(workload, "drf/best-fit")
    recorded, replay = (summarise(workload, log, horizon=7.0, instants=0) for log in logs)
    for one, other in ((recorded, replay), (replay, recorded)):
        found = compare(one, other)
        assert found.known.tolist() == [True, False, False]
        assert found.unknown.tolist() == [False, True]
        assert found.completed_difference.tolist() == [0, 0]
        assert (found.done[0], found.baseline_done[0]) == (1.0, 1.0)
        assert not (found.gained | found.lost)[1]
