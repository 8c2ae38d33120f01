"""Completion, slowdown, waiting, ratios and distributions, against loops over everything."""

from __future__ import annotations

from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.simulation.metrics.comparison import reduction_by_size
from fairlead.simulation.metrics.distribution import (
    cumulative_distribution,
    jain_index,
    mean,
    percentile,
)
from fairlead.simulation.metrics.task_outcomes import (
    JobTimes,
    follow_tasks,
    measure_jobs,
)
from oracles.plain_metrics import PlainMetrics
from oracles.plain_replay import plain_replay
from random_runs import Run, run_by_seed, runs

values = st.lists(st.sampled_from([nan, 0.0, 1.0, 1.0, 2.5, 3.0, 7.0])).map(np.array)


def plain_end(run: Run, task: int) -> float:
    ends = [
        end
        for which, end, lost in zip(run[1].task, run[1].end, run[1].lost, strict=True)
        if which == task and not lost
    ]
    return ends[0] if ends else nan


@settings(max_examples=8)
@given(runs())
def test_what_became_of_tasks(run: Run) -> None:
    workload, log = run
    course, plain = follow_tasks(*run), PlainMetrics(*run)
    # Later than anything happens.
    active = [(t, set(plain.active(t))) for t, _ in plain.intervals(0.0, 200.0)]
    for task in range(workload.n_tasks):
        starts = [s for which, s in zip(log.task, log.start, strict=True) if which == task]
        submit = workload.job_submit[plain.job_of[task]]
        assert course.submit[task] == submit
        assert course.user[task] == plain.user_of[task]
        assert course.end[task] == pytest.approx(plain_end(run, task), nan_ok=True)
        first = min(starts, default=nan)
        assert course.first_start[task] == pytest.approx(first, nan_ok=True)
        assert course.wait[task] == pytest.approx(first - submit, nan_ok=True)
        for t, wanting in active:
            wants = course.submit[task] <= t < course.over[task]
            assert wants == (task in wanting)
    fates = (course.completed, course.waits_forever, course.withdrawn, course.unplaceable)
    assert (np.sum(fates, axis=0) == 1).all()
    assert not course.unrecorded.any()


@given(runs())
def test_jobs(run: Run) -> None:
    (workload, log), plain = run, PlainMetrics(*run)
    found = measure_jobs(workload, follow_tasks(*run))
    for job in range(workload.n_jobs):
        tasks = [task for task in range(workload.n_tasks) if plain.job_of[task] == job]
        ends = [plain_end(run, task) for task in tasks]
        assert found.completed[job] == (not any(map(isnan, ends)))
        if found.completed[job]:
            completion = max(ends) - workload.job_submit[job]
            assert found.completion[job] == completion
            longest = max(workload.task_duration[tasks])
            assert found.slowdown[job] == completion / longest
            assert found.slowdown[job] >= 1 - 1e-12
            assert found.bounded_slowdown[job] == max(1.0, completion / max(longest, 10.0))
            starts = [s for t, s in zip(log.task, log.start, strict=True) if t in tasks]
            assert found.wait[job] == min(starts) - workload.job_submit[job]
        else:
            times = (found.completion, found.slowdown, found.wait, found.bounded_slowdown)
            assert np.isnan([values[job] for values in times]).all()


@given(values)
def test_distributions(found: np.ndarray) -> None:
    there = [v for v in found.tolist() if not isnan(v)]
    value, part = cumulative_distribution(found)
    assert value.tolist() == sorted(set(there))
    assert part.tolist() == [sum(v <= x for v in there) / len(there) for x in value]
    assert mean(found) == pytest.approx(sum(there) / len(there) if there else nan, nan_ok=True)
    for percent in (0, 37, 50, 95, 100):
        enough = [x for x in there if sum(v <= x for v in there) >= percent / 100 * len(there)]
        assert percentile(found, percent) == pytest.approx(min(enough, default=nan), nan_ok=True)


@given(values, st.integers(2, 5))
def test_a_thinned_distribution_keeps_its_ends(found: np.ndarray, points: int) -> None:
    value, part = cumulative_distribution(found)
    few, few_parts = cumulative_distribution(found, points)
    assert len(few) <= points
    assert set(zip(few, few_parts, strict=True)) <= set(zip(value, part, strict=True))
    if len(value):
        assert (few[0], few[-1]) == (value[0], value[-1])


@given(st.integers(0, 9_999), st.lists(st.integers(1, 8), min_size=1, max_size=3, unique=True))
def test_reduction_by_size(seed: int, sizes: list[int]) -> None:
    """The same workload under two policies."""
    workload, log = run_by_seed(seed)
    other = plain_replay(workload, "tsf/first-fit")
    ours, theirs = (measure_jobs(workload, follow_tasks(workload, a)) for a in (log, other))
    classes = tuple(sorted(sizes))
    found = reduction_by_size(workload.job_tasks, ours, theirs, classes)
    bounds = list(zip((1, *(s + 1 for s in classes)), (*classes, 10**9), strict=True))
    for c, (low, high) in enumerate(bounds):
        pairs = [
            (a, b)
            for a, b, n in zip(ours.completion, theirs.completion, workload.job_tasks, strict=True)
            if not isnan(a + b) and low <= n <= high
        ]
        assert found.jobs[c] == len(pairs)
        assert found.shortened[c] == sum(a < b - 1e-9 * b for a, b in pairs)
        assert found.lengthened[c] == sum(a > b + 1e-9 * b for a, b in pairs)
        means = (nan, nan)
        if pairs:
            mine, its = sum(a for a, _ in pairs), sum(b for _, b in pairs)
            means = (sum(1 - a / b for a, b in pairs) / len(pairs), 1 - mine / its)
        assert (found.mean[c], found.of_means[c]) == pytest.approx(means, nan_ok=True)


def test_the_classes_of_the_paper() -> None:
    """Of 11 jobs; the last two are complete under one policy each, and do not count."""
    sizes = np.array([1, 50, 51, 100, 101, 500, 501, 1000, 1001, 7, 7])
    rest = np.ones(11), np.zeros(11), np.ones(11)
    halved = JobTimes(np.array([1.0] * 9 + [nan, 1.0]), *rest)
    before = JobTimes(np.array([2.0] * 9 + [1.0, nan]), *rest)
    found = reduction_by_size(sizes, halved, before)
    assert found.labels == ("1-50", "51-100", "101-500", "501-1000", ">1000")
    assert found.jobs.tolist() == [2, 2, 2, 2, 1]
    assert found.mean.tolist() == found.of_means.tolist() == [0.5] * 5
    assert found.shortened.tolist() == [2, 2, 2, 2, 1]


@given(st.lists(st.integers(0, 9), min_size=1))
def test_jain_is_what_its_authors_write(amounts: list[int]) -> None:
    squares = sum(x * x for x in amounts)
    expected = sum(amounts) ** 2 / (len(amounts) * squares) if squares else float("nan")
    assert jain_index(np.array(amounts, dtype=float)) == pytest.approx(expected, nan_ok=True)
