"""The summary of a run, whole and after a warm-up: by hand, and against plain sums and waits."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from math import isnan, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fairlead
from fairlead.errors import InputError
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload, first_seconds
from fairlead.simulation.metrics.distribution import jain_index
from fairlead.simulation.metrics.summary import Summary, summarise
from fairlead.simulation.waiting_job import longest_wait
from oracles.plain_metrics import PlainMetrics
from oracles.plain_replay import plain_replay
from random_runs import Run, jobs_on_a_server, run_by_hand, runs

PARTS = st.one_of(st.just(0.0), st.floats(0.0, 0.99))


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else nan


def same(found: float | None, expected: float) -> bool:
    return (nan if found is None else found) == pytest.approx(expected, nan_ok=True)


def measured(run: Run, part: float, instants: int = 0) -> tuple[float, Summary, Summary]:
    """The end of the warm-up, the summary of the whole run, and the one after the warm-up."""
    whole = summarise(*run, instants=0, bins=1)
    since = part * min(whole.until, whole.arrivals, whole.horizon)
    return since, whole, summarise(*run, since=since, instants=instants, bins=1)


@given(runs(), PARTS)
def test_figures_are_sums_over_tasks_and_jobs(run: Run, part: float) -> None:
    """Of jobs submitted after the warm-up."""
    (workload, log), plainly = run, PlainMetrics(*run)
    since, whole, found = measured(run, part)
    values, later = found.to_dict(), workload.job_submit >= since
    tasks = later[plainly.job_of]
    unplaceable = log.set_unplaceable[plainly.set_of] & tasks
    waiting = [task for task in plainly.active(Fraction(10**6)) if tasks[task]]  # for ever
    completed = {task for task, _, _, _, lost in plainly.starts if not lost and tasks[task]}
    assert values["tasks"] == tasks.sum()
    assert values["completed"] == len(completed)
    assert values["unplaceable"] == unplaceable.sum()
    assert values["waiting"] == len(waiting)
    rest = tasks.sum() - len(completed) - unplaceable.sum() - len(waiting)
    assert values["cancelled"] == rest
    assert values["lost"] == sum(lost and tasks[task] for task, _, _, _, lost in plainly.starts)
    assert values["makespan"] == log.makespan
    for owner in (None, *range(workload.n_users)):
        of = later & (True if owner is None else workload.job_user == owner)
        of_tasks = of[plainly.job_of]
        row = values if owner is None else values["users"][workload.users[owner]]
        assert (row["jobs"], row["tasks"]) == (of.sum(), of_tasks.sum())
        assert row["jobs_completed"] == whole.jobs.completed[of].sum()
        assert row["completed"] == sum(bool(of_tasks[task]) for task in completed)
        assert row["unplaceable"] == (unplaceable & of_tasks).sum()
        end_to_end = whole.outcomes.end - whole.outcomes.submit
        for name, times in (
            ("mean_wait", whole.jobs.wait[of]),
            ("mean_completion_time", whole.jobs.completion[of]),
            ("mean_slowdown", whole.jobs.slowdown[of]),
            ("mean_bounded_slowdown", whole.jobs.bounded_slowdown[of]),
            ("mean_task_wait", whole.outcomes.wait[of_tasks]),
            ("mean_task_completion_time", end_to_end[of_tasks]),
        ):
            assert same(row[name], mean([t for t in times.tolist() if not isnan(t)])), name
    assert values["horizon"]["completed"] == (whole.outcomes.end[tasks] <= found.horizon).sum()


@given(runs(), PARTS)
def test_shares_and_starvation_begin_at_since(run: Run, part: float) -> None:
    (workload, log), plainly = run, PlainMetrics(*run)
    since, whole, found = measured(run, part)
    over = whole.outcomes.over[np.isfinite(whole.outcomes.over)]
    end = max(log.makespan, found.arrivals, over.max(initial=0.0))
    levels = []
    for u in range(workload.n_users):
        held = active = Fraction(0)
        wanted = ran = ever = False
        for t, length in plainly.intervals(since, end):
            wants = any(plainly.user_of[task] == u for task in plainly.active(t))
            runs_now = any(plainly.user_of[task] == u for task in plainly.running(t))
            ever |= runs_now
            if t < found.arrivals:
                held += plainly.share(t, u) * length
                active += length * wants
                wanted |= wants
                ran |= runs_now
        longest = plainly.longest_without(u, since, end)
        assert found.starvation.longest[u] == pytest.approx(longest)
        nothing = (wanted and not ran) or (not ever and longest > 0)
        assert found.starvation.got_nothing[u] == nothing
        share = found.shares_of_arrivals.mean_while_active[u]
        assert share == pytest.approx(float(held / active) if active else nan, nan_ok=True)
        if active and workload.weight[u]:
            levels.append(float(held / active) / workload.weight[u])
    jain = jain_index(np.array(levels))
    assert found.shares_of_arrivals.jain == pytest.approx(jain, nan_ok=True)


@settings(max_examples=10)
@given(runs())
def test_the_documented_layout(run: Run) -> None:
    found = summarise(*run, instants=3, bins=2).to_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert list(found["utilization"]) == list(run[0].cluster.resources)
    assert list(found["users"]) == list(run[0].users)


def small(*, submit: float = 0.0) -> Workload:
    """Tasks of 2 and 6 s and one that fits nowhere, for a server that takes one at a time."""
    rows = [(0, submit, 2.0, 2.0), (0, submit, 1.5, 6.0), (1, submit, 3.0, 1.0)]
    return jobs_on_a_server(2.0, rows)


def test_by_hand() -> None:
    workload = small()
    log = plain_replay(workload, "drf/best-fit")
    found = summarise(workload, log, horizon=4.0).to_dict()
    users: dict[str, Any] = found["users"]
    # Ana is alone: all of the server is fair while both tasks want to run, then all that one takes.
    assert found["fairness_error"] == pytest.approx(0.0, abs=1e-12)
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


def by_hand() -> Run:
    """Server of 2 cpu: ana's jobs run 0-6 and 6-8, bo's 6-10 and 10-14."""
    rows = [(0, 0.0, 2.0, 6.0), (1, 1.0, 1.0, 4.0), (0, 4.0, 1.0, 2.0), (1, 8.0, 2.0, 4.0)]
    return run_by_hand(jobs_on_a_server(2.0, rows), [0.0, 6.0, 6.0, 10.0])


def test_by_hand_after_a_warm_up() -> None:
    summary = summarise(*by_hand(), since=4.0, instants=4)
    found = summary.to_dict()
    assert (found["measured_since"], found["averaged_until"]) == (4.0, 14.0)
    assert (found["arrivals_until"], found["makespan"]) == (8.0, 14.0)
    assert found["utilization"] == {"cpu": pytest.approx(18 / 20)}
    assert (found["horizon"]["submitted"], found["horizon"]["completed"]) == (2, 1)
    assert found["horizon"]["utilization"] == {"cpu": pytest.approx(1.0)}
    # From 4 to 6 ana holds all and bo nothing; then each holds half.
    assert (found["jain"], found["least_share"]) == pytest.approx((0.8, 0.25))
    assert found["longest_without"] == {"user": "bo", "seconds": 2.0}
    assert found["fairness_error"] == pytest.approx(0.5)
    assert found["users"]["bo"]["owed_cluster_hours"] == pytest.approx(1 / 3600)


def test_nothing_ran() -> None:
    workload, log = run_by_hand(small(), [nan] * 3)
    log = replace(log, set_unplaceable=np.ones(3, dtype=bool))
    found = summarise(workload, log).to_dict()
    assert found["makespan"] == 0.0
    assert found["utilization"] == {"cpu": 0.0}
    for name in ("mean_completion_time", "mean_wait", "fairness_error", "jain", "least_share"):
        assert found[name] is None, name


def test_nothing_runs_after_the_warm_up() -> None:
    """The last jobs fit on no server, so the makespan is within the warm-up."""
    rows = [(0, 0.0, 2.0, 6.0), (1, 1.0, 1.0, 4.0), (0, 14.0, 3.0, 2.0), (1, 18.0, 3.0, 4.0)]
    large = jobs_on_a_server(2.0, rows)
    outcome = fairlead.simulate(large, "drf/best-fit", processes=1, warm_up=12.0)["drf/best-fit"]
    found = outcome.to_dict()
    assert (found["makespan"], found["averaged_until"]) == (10.0, 18.0)
    assert (found["unplaceable"], found["utilization"]) == (2, {"cpu": 0.0})
    assert found["mean_wait"] is found["fairness_error"] is None


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


def test_simulate_measures_after_the_warm_up() -> None:
    workload, _ = by_hand()
    whole = fairlead.simulate(workload, "drf/best-fit", processes=1)["drf/best-fit"]
    later = fairlead.simulate(workload, "drf/best-fit", processes=1, warm_up=4.0)["drf/best-fit"]
    assert later.since == 4.0
    assert later.log.start.tolist() == whole.log.start.tolist()
    assert later.summary.jobs.wait.tolist() == whole.summary.jobs.wait[2:].tolist()
    assert later.to_frame("jobs")["submitted"].to_list() == [4.0, 8.0]
    assert longest_wait(*by_hand(), "bo", since=4.0) == (workload.job_names[3], 9.0)


@pytest.mark.parametrize(
    "options", [{"until": 0.0}, {"bins": 0}, {"instants": -1}, {"mechanism": "magic"}]
)
def test_unusable_options(options: dict[str, Any]) -> None:
    workload = small()
    log = plain_replay(workload, "drf/best-fit")
    with pytest.raises(InputError, match=f"^{next(iter(options))}: "):
        summarise(workload, log, **options)


def test_a_warm_up_ends_before_the_other_times() -> None:
    unusable = [{"since": since} for since in (-1.0, 8.0, nan, float("inf"))]
    for options in (*unusable, {"since": 4.0, "until": 4.0}, {"since": 4.0, "horizon": 3.0}):
        with pytest.raises(InputError, match=r"^since: "):
            summarise(*by_hand(), **options)
    with pytest.raises(InputError, match=r"^warm_up: "):
        fairlead.simulate(by_hand()[0], "drf/best-fit", processes=1, warm_up=8.0)


@given(runs(), st.sampled_from([3.0, 5.0, 8.0]))
def test_waits_of_a_cut_window_end_with_it(run: Run, until: float) -> None:
    """Later jobs of a user may run while the earlier ones wait, so both are judged until then."""
    workload, log = run
    early = workload.job_submit < until
    assume(early.any() and not early.all())
    part = first_seconds(workload, until)
    kept = log.task < part.n_tasks  # jobs are in order of submission
    sets = slice(part.n_sets)
    columns = {name: getattr(log, name)[kept] for name in ("task", "start", "end", "lost")}
    servers = np.zeros(kept.sum(), dtype=np.int32)
    cut = RunLog("cut", **columns, server=servers, set_unplaceable=log.set_unplaceable[sets])
    found = summarise(part, cut, instants=0).starvation
    plain = PlainMetrics(*run)
    for u in range(workload.n_users):
        assert found.longest[u] == pytest.approx(plain.longest_without(u, 0.0, until))


def one_is_starved(drain: float) -> Run:
    """Ana's jobs have the server until the last comes, which runs for long beside Bo's task."""
    later = np.arange(10.0, 100.0, 10.0).tolist()
    whole = [(0, t, 1.0, 10.0) for t in later[:-1]]
    rows = [(0, 0.0, 1.0, 10.0), (1, 0.0, 0.5, 5.0), *whole, (0, later[-1], 0.5, drain)]
    return run_by_hand(jobs_on_a_server(1.0, rows), [0.0, 90.0, *later])


@pytest.mark.parametrize("drain", [10.0, 10_000.0])
def test_the_drain_does_not_thin_the_error(drain: float) -> None:
    """Half of the server is Bo's by right, of which it has nothing; and it is said so by name."""
    found = summarise(*one_is_starved(drain), instants=20).to_dict()
    assert found["arrivals_until"] == 90.0
    assert found["fairness_error"] == pytest.approx(1.0)
    bo = found["users"]["bo"]
    assert (bo["fairness_error"], bo["fair_share"]) == pytest.approx((0.5, 0.5))
    assert found["least_share"] == 0.0
    assert found["got_nothing"] == {"bo": 90.0}
    assert found["longest_without"] == {"user": "bo", "seconds": 90.0}
    assert found["users"]["ana"]["longest_without"] == 0.0


@pytest.mark.parametrize(
    ("job", "seconds"),
    [
        # All the time with events; or, of the last job, the rest of it.
        (1, 100.0),
        (10, 5.0),
    ],
)
def test_who_never_gets_anything_is_named(job: int, seconds: float) -> None:
    workload, log = one_is_starved(10.0)
    bos = replace(workload, job_user=np.where(np.arange(11) == job, 1, 0).astype(np.int32))
    kept = log.task != job
    columns = ("task", "server", "start", "end", "lost")
    starved = replace(log, **{name: getattr(log, name)[kept] for name in columns})
    found = summarise(bos, starved, instants=0).to_dict()
    assert found["got_nothing"] == {"bo": seconds}
    assert found["never_ran"] == ["bo"]


def test_users_that_never_ran_have_tasks_and_no_start() -> None:
    """One without tasks asked for nothing; one that started late ran something."""
    workload, log = one_is_starved(10.0)
    more = replace(workload, users=(*workload.users, "cy"), weight=np.ones(3))
    assert summarise(more, log, instants=0).to_dict()["never_ran"] == []
