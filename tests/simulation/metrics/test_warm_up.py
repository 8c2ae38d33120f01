"""Figures measured after a warm-up: by hand, and against plain sums over every moment."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead
from fairlead.errors import InputError
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.comparison import compare
from fairlead.simulation.metrics.fairness_error import FairnessError
from fairlead.simulation.metrics.summary import Summary, summarise
from fairlead.simulation.simulate import Outcome
from fairlead.simulation.studies import figures_of
from fairlead.simulation.waiting_job import longest_wait
from oracles.plain_metrics import PlainMetrics
from random_runs import Run, one_server, runs


def by_hand() -> Run:
    """Server of 2 cpu: ana's jobs run 0-6 and 6-8, bo's 6-10 and 10-14."""
    workload = Workload.from_arrays(
        one_server(2.0),
        ["ana", "bo"],
        job_user=[0, 1, 0, 1],
        job_submit=[0.0, 1.0, 4.0, 8.0],
        set_job=range(4),
        set_tasks=[1] * 4,
        shapes=[[2.0], [1.0], [1.0], [2.0]],
        task_duration=[6.0, 4.0, 2.0, 4.0],
    )
    log = RunLog(
        "by hand",
        task=np.arange(4, dtype=np.int32),
        server=np.zeros(4, dtype=np.int32),
        start=np.array([0.0, 6.0, 6.0, 10.0]),
        end=np.array([6.0, 10.0, 8.0, 14.0]),
        lost=np.zeros(4, dtype=bool),
        set_unplaceable=np.zeros(4, dtype=bool),
    )
    return workload, log


def test_figures_by_hand() -> None:
    summary = summarise(*by_hand(), since=4.0, instants=4)
    found = summary.to_dict()
    assert (found["measured_since"], found["averaged_until"]) == (4.0, 14.0)
    assert (found["arrivals_until"], found["makespan"]) == (8.0, 14.0)
    assert (found["tasks"], found["completed"], found["jobs"], found["jobs_completed"]) == (2,) * 4
    assert (found["mean_wait"], found["mean_completion_time"]) == (2.0, 5.0)
    assert (found["mean_task_wait"], found["mean_slowdown"]) == (2.0, 1.75)
    assert found["utilization"] == {"cpu": pytest.approx(18 / 20)}
    assert found["horizon"] == {
        "time": 8.0,
        "submitted": 2,
        "completed": 1,
        "completion_ratio": 0.5,
        "utilization": {"cpu": pytest.approx(1.0)},
    }
    # From 4 to 6 ana holds all and bo nothing; then each holds half.
    assert (found["jain"], found["least_share"]) == pytest.approx((0.8, 0.25))
    assert found["longest_without"] == {"user": "bo", "seconds": 2.0}
    assert found["fairness_error"] == pytest.approx(0.5)
    ana, bo = found["users"]["ana"], found["users"]["bo"]
    assert (ana["dominant_share"], bo["dominant_share"]) == pytest.approx((0.75, 0.25))
    assert bo["owed_cluster_hours"] == pytest.approx(1 / 3600)
    assert (ana["mean_wait"], ana["tasks"], bo["mean_completion_time"]) == (2.0, 1, 6.0)
    assert summary.utilization.edges[[0, -1]].tolist() == [4.0, 14.0]


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else nan


def same(found: float | None, expected: float) -> bool:
    return (nan if found is None else found) == pytest.approx(expected, nan_ok=True)


def measured(run: Run, part: float, instants: int = 0) -> tuple[float, Summary, Summary]:
    """The end of the warm-up, the summary of the whole run, and the one after the warm-up."""
    whole = summarise(*run, instants=0, bins=1)
    since = part * min(whole.until, whole.arrivals, whole.horizon)
    return since, whole, summarise(*run, since=since, instants=instants, bins=1)


PARTS = st.floats(0.0, 0.99)


@given(runs(), PARTS)
def test_job_figures_are_of_jobs_submitted_since(run: Run, part: float) -> None:
    (workload, log), plainly = run, PlainMetrics(*run)
    since, whole, found = measured(run, part)
    values, later = found.to_dict(), workload.job_submit >= since
    tasks = later[plainly.job_of]
    assert values["tasks"] == tasks.sum()
    counts = ("completed", "unplaceable", "cancelled", "waiting", "unrecorded")
    assert sum(values[name] for name in counts) == values["tasks"]
    assert values["completed"] == whole.outcomes.completed[tasks].sum()
    assert values["lost"] == sum(lost and tasks[task] for task, _, _, _, lost in plainly.starts)
    assert values["makespan"] == log.makespan
    for owner in (None, *range(workload.n_users)):
        of = later & (True if owner is None else workload.job_user == owner)
        row = values if owner is None else values["users"][workload.users[owner]]
        assert row["jobs"] == of.sum()
        for name, times in (
            ("mean_wait", whole.jobs.wait),
            ("mean_completion_time", whole.jobs.completion),
            ("mean_slowdown", whole.jobs.slowdown),
        ):
            assert same(row[name], mean([t for t in times[of].tolist() if not isnan(t)]))
        waits = whole.outcomes.wait[of[plainly.job_of]].tolist()
        assert same(row["mean_task_wait"], mean([t for t in waits if not isnan(t)]))
    done = whole.outcomes.end[tasks] <= found.horizon
    assert values["horizon"]["completed"] == done.sum()


@given(runs(), PARTS)
def test_shares_and_starvation_begin_at_since(run: Run, part: float) -> None:
    (workload, log), plainly = run, PlainMetrics(*run)
    since, whole, found = measured(run, part)
    over = whole.outcomes.over[np.isfinite(whole.outcomes.over)]
    end = max(log.makespan, found.arrivals, over.max(initial=0.0))
    for u in range(workload.n_users):
        held = active = longest = stretch = Fraction(0)
        wanted = ran = ever = False
        for t, length in plainly.intervals(since, end):
            wants = any(plainly.user_of[task] == u for task in plainly.active(t))
            runs_now = any(plainly.user_of[task] == u for task in plainly.running(t))
            stretch = stretch + length if wants and not runs_now else Fraction(0)
            longest = max(longest, stretch)
            ever |= runs_now
            if t < found.arrivals:
                held += plainly.share(t, u) * length
                active += length * wants
                wanted |= wants
                ran |= runs_now
        assert found.starvation.longest[u] == pytest.approx(float(longest))
        nothing = (wanted and not ran) or (not ever and longest > 0)
        assert found.starvation.got_nothing[u] == nothing
        share = found.shares_of_arrivals.mean_while_active[u]
        assert share == pytest.approx(float(held / active) if active else nan, nan_ok=True)


def test_windows_of_a_day_begin_at_since() -> None:
    """Too much at one instant makes up for too little at the next one, in the same window."""
    day, held = 86_400.0, np.array([[1.0], [0.0], [1.0], [0.0]])
    time = day * np.array([0.75, 1.25, 1.75, 2.25])
    fair, active = np.full((4, 1), 0.5), np.ones((4, 1), dtype=bool)
    found = FairnessError("drfh", time, held, fair, active, np.ones(1), day / 2, since=day / 2)
    assert found.over(day) == 0.0
    summary = summarise(*by_hand(), since=4.0, instants=1)
    assert summary.fairness is not None
    assert summary.fairness.since == 4.0


def test_lost_runs_are_of_jobs_that_count() -> None:
    workload, log = by_hand()
    lost = replace(log, lost=np.array([True, False, False, True]))
    for since, expected in ((0.0, 2), (4.0, 1)):
        outcome = Outcome("by hand", workload, lost, since=since)
        assert outcome.to_dict()["lost"] == figures_of(outcome)["lost"] == expected


@pytest.mark.parametrize("since", [-1.0, 8.0, 14.0, nan, float("inf")])
def test_unusable_times_are_refused(since: float) -> None:
    with pytest.raises(InputError) as caught:
        summarise(*by_hand(), since=since)
    assert caught.value.place == "since"
    with pytest.raises(InputError) as caught:
        fairlead.simulate(by_hand()[0], "drf/best-fit", processes=1, warm_up=since)
    assert caught.value.place == "warm_up"


def test_since_is_before_the_end_that_is_given() -> None:
    found = summarise(*by_hand(), since=4.0, until=10.0, instants=0)
    assert found.horizon_utilization.tolist() == pytest.approx([10 / 12])
    assert found.utilization.mean.tolist() == pytest.approx([10 / 12])
    for options in ({"until": 4.0}, {"horizon": 3.0}):
        with pytest.raises(InputError) as caught:
            summarise(*by_hand(), since=4.0, **options)
        assert caught.value.place == "since"


def test_nothing_runs_after_the_warm_up() -> None:
    """The last jobs fit on no server, so the makespan is within the warm-up."""
    workload, _ = by_hand()
    shapes = np.array([[2.0], [1.0], [3.0], [3.0]])
    large = Workload.from_arrays(
        workload.cluster, workload.users, job_user=workload.job_user,
        job_submit=[0.0, 1.0, 14.0, 18.0], set_job=range(4), set_tasks=[1] * 4, shapes=shapes,
        task_duration=workload.task_duration,
    )  # fmt: skip
    outcome = fairlead.simulate(large, "drf/best-fit", processes=1, warm_up=12.0)["drf/best-fit"]
    found = outcome.to_dict()
    assert (found["makespan"], found["averaged_until"]) == (10.0, 18.0)
    assert (found["unplaceable"], found["utilization"]) == (2, {"cpu": 0.0})
    assert found["mean_wait"] is found["fairness_error"] is None


def test_runs_measured_alike_are_compared() -> None:
    run = by_hand()
    one = summarise(*run, since=4.0, instants=0)
    found = compare(one, one)
    assert (found.jobs.tolist(), found.completion.tolist()) == ([1, 1], [4.0, 6.0])
    assert found.reduction.jobs.sum() == 2
    with pytest.raises(InputError):
        compare(one, summarise(*run, instants=0))


def test_the_longest_wait_is_of_jobs_that_count() -> None:
    workload, log = by_hand()
    names = workload.job_names.tolist()
    assert longest_wait(workload, log, "bo") == (names[1], 3.5)
    assert longest_wait(workload, log, "bo", since=4.0) == (names[3], 9.0)


def test_simulate_measures_after_the_warm_up() -> None:
    workload, _ = by_hand()
    whole = fairlead.simulate(workload, "drf/best-fit", processes=1)["drf/best-fit"]
    later = fairlead.simulate(workload, "drf/best-fit", processes=1, warm_up=4.0)["drf/best-fit"]
    assert later.since == 4.0
    assert later.log.start.tolist() == whole.log.start.tolist()
    assert later.summary.jobs.wait.tolist() == whole.summary.jobs.wait[2:].tolist()
    jobs = later._columns("jobs")
    assert [len(column) for column in jobs.values()] == [2] * len(jobs)
    assert jobs["submitted"].tolist() == [4.0, 8.0]
    assert figures_of(later)["mean_wait"] == later.to_dict()["mean_wait"]
