"""Intervals for forecast starts, and how a service learns them."""

from __future__ import annotations

import asyncio
import math
import random
import time

import pytest

from asked_service import Asked, served
from fairlead.service import _start_forecasts, run_times, start_intervals
from fairlead.service import service as service_module
from fairlead.service._forks import AnswerFork
from fairlead.service._start_forecasts import StartOutlook
from fairlead.service._state_thread import Transaction
from fairlead.service.start_intervals import LEAST, StartIntervals


def test_intervals_are_as_wide_as_forecasts_alike_were_wrong() -> None:
    rng = random.Random(1)
    intervals = StartIntervals()
    for job in range(600):
        expected, spread = (10_000.0, 0.1) if job % 3 else (100_000.0, 1.0)
        intervals.ask(job, 0.0, expected)
        intervals.start(job, expected * math.exp(rng.gauss(0.0, spread)))
    (low, high), (wide_low, wide_high) = map(intervals.interval, (10_000.0, 100_000.0))  # type: ignore[misc]
    assert 8_000 < low < 10_000 < high < 12_500
    assert wide_low < 50_000
    assert wide_high > 200_000


def test_the_first_forecast_of_a_job_counts_and_others_are_forgotten() -> None:
    intervals = StartIntervals()
    for job in range(LEAST):
        intervals.ask(job, 0.0, 1000.0)
        intervals.ask(job, 500.0, 1.0)
        intervals.start(job, 1000.0)
        intervals.start(job, 9000.0)
    assert intervals.interval(1000.0) == pytest.approx((1000.0, 1000.0))
    for job in range(LEAST, 2 * LEAST):
        intervals.ask(job, 0.0, 1000.0)
        intervals.drop(job)
        intervals.start(job, 9000.0)
    assert intervals.interval(1000.0) == pytest.approx((1000.0, 1000.0))


def test_four_of_five_starts_are_within_intervals_as_loads_change() -> None:
    """In the second half, jobs wait three times as long as before, with larger variation."""
    rng = random.Random(1)
    intervals, inside = StartIntervals(), []
    for job in range(1500):
        late = job >= 600
        waited = 10_000.0 * math.exp(rng.gauss(1.1 * late, 0.3 + 0.3 * late))
        found = intervals.interval(10_000.0)
        assert (found is None) == (job < LEAST)
        if found is not None and job >= 650:
            inside.append(found[0] <= waited <= found[1])
        intervals.ask(job, 0.0, 10_000.0)
        intervals.start(job, waited)
    assert 0.8 <= sum(inside) / len(inside) <= 0.85


def test_hits_make_no_interval_narrower_than_past_ratios() -> None:
    """After quiet weeks, in which every forecast came true, busy weeks begin."""
    rng = random.Random(1)
    intervals = StartIntervals()
    waits = [10_000.0 * math.exp(rng.gauss(0.0, 0.5)) for _ in range(400)]
    for job, waited in enumerate([*waits, *[10_000.0] * 400]):
        intervals.ask(job, 0.0, 10_000.0 if job < 400 else 1e6)
        intervals.start(job, waited if job < 400 else 1e6)
    low, high = intervals.interval(10_000.0) or (0.0, 0.0)
    inside = sum(low <= waited <= high for waited in waits[300:])
    assert inside >= 75


def test_a_job_that_waits_beyond_its_interval_counts_at_once_and_once() -> None:
    rng = random.Random(1)
    intervals = StartIntervals()
    for job in range(100):
        intervals.ask(job, 0.0, 1000.0)
        intervals.start(job, rng.uniform(500.0, 1500.0))
    before = intervals.interval(1000.0)
    assert before is not None
    for job in range(100, 110):
        intervals.ask(job, 0.0, 1000.0)
    later = before[1] + 1.0
    intervals.ask(200, later, 1000.0)
    wider = intervals.interval(1000.0)
    assert wider is not None
    assert wider[1] > before[1]
    intervals.ask(201, later + 1.0, 1000.0)
    assert intervals.interval(1000.0) == wider


def test_memory_of_forecasts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_intervals, "KEPT", 50)
    monkeypatch.setattr(start_intervals, "MOST_NOTED", 20)
    intervals = StartIntervals()
    for job in range(25):
        intervals.ask(job, 0.0, 1.0)
    assert len(intervals._noted) == 20
    for job in range(10, 70):
        intervals.ask(job, 0.0, 1.0)
        intervals.start(job, 1.0)
    assert len(intervals._past) == 50


@served
async def test_a_service_learns_how_forecasts_come_true(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_intervals, "LEAST", 3)
    monkeypatch.setattr(run_times, "LEAST", 1)
    monkeypatch.setattr(_start_forecasts, "choice", min)
    session = await ask.join("a", cpu=1)
    forecasts = ask.service.start_forecasts

    def note(tx: Transaction) -> None:
        forecasts.note_one(tx.state, tx.now + 120.0)

    await ask.submit(*[{} for _ in range(8)])
    seen = 0
    for job in range(1, 7):
        orders = await ask.sync(session, seen)
        seen = orders["seen"]
        await ask.service.state_thread.run(note)
        assert list(forecasts.intervals._noted) == ([job + 1] if job > 1 else [])
        await ask.sync(session, seen, ended=[[job, 0, 1, 0, ""]])
    found = await ask("GET", "/v1/jobs/8/when")
    assert found["rests_on"] == 6
    assert found["starts"] is None
    assert found["not_before"] <= found["earliest"] <= found["latest"]
    assert found["expected"] > found["not_before"]


@served
async def test_one_simulation_in_a_copy_answers_all_callers(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_times, "LEAST", 1)
    session = await ask.join("a", cpu=1)
    await ask.submit(*[{"time_limit": 100} for _ in range(5)])
    orders = await ask.sync(session)
    await ask.sync(session, orders["seen"], ended=[[1, 0, 1, 0, ""]])
    jobs = range(3, 6)
    at_once = [await ask("GET", f"/v1/jobs/{job}/when") for job in jobs]
    forks: list[AnswerFork[StartOutlook]] = []

    class Counted(AnswerFork[StartOutlook]):
        def answer(self) -> StartOutlook:
            forks.append(self)
            return super().answer()

    monkeypatch.setattr(_start_forecasts, "AnswerFork", Counted)
    monkeypatch.setattr(_start_forecasts, "MOST_RUNNING", 0)
    found = await asyncio.gather(*[ask("GET", f"/v1/jobs/{job}/when") for job in jobs])
    assert len(forks) == 1
    for here, there in zip(at_once, found, strict=True):
        assert there["starts"] == pytest.approx(here["starts"], abs=0.001)
        assert there["expected"] == pytest.approx(here["expected"], abs=5)
        assert (there["server"], there["freed_by"]) == (here["server"], here["freed_by"])
    (later,) = await ask.submit({"time_limit": 100})  # this job is not in the simulation
    assert (await ask("GET", f"/v1/jobs/{later}/when"))["starts"] > found[-1]["starts"]
    assert len(forks) == 2
    await ask("PATCH", "/v1/jobs/3", json={"priority": 1})  # nor is job 3 after its change
    await ask("GET", "/v1/jobs/3/when")
    assert len(forks) == 3


@served
async def test_forecasts_are_noted_from_copies(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_times, "LEAST", 1)
    monkeypatch.setattr(service_module, "LEARN_SECONDS", 0.01)
    monkeypatch.setattr(_start_forecasts, "LEARN_SECONDS", 0.0)
    monkeypatch.setattr(_start_forecasts, "MOST_RUNNING", 0)
    session = await ask.join("a", cpu=1)
    await ask.submit({}, {}, {})
    orders = await ask.sync(session)
    await ask.sync(session, orders["seen"], ended=[[1, 0, 1, 0, ""]])
    task = asyncio.create_task(ask.service._forecast_starts())
    async with asyncio.timeout(20):
        while not ask.service.start_forecasts.intervals._noted:
            await asyncio.sleep(0.01)
    task.cancel()
    assert list(ask.service.start_forecasts.intervals._noted) == [3]


@served
async def test_a_simulation_that_is_killed_is_refused(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_start_forecasts, "MOST_RUNNING", 0)
    await ask.sync(await ask.join("a", cpu=1))
    await ask.submit({}, {})
    with monkeypatch.context() as slow:
        slow.setattr(_start_forecasts, "FORK_SECONDS", 0.0)
        slow.setattr(_start_forecasts, "simulate", lambda *_: time.sleep(60))
        refused = await ask("GET", "/v1/jobs/2/when", status=503)
    assert "failed, or took more than" in refused["detail"]
    assert (await ask("GET", "/v1/jobs/2/when"))["starts"] is None  # it is asked anew


@served
async def test_run_times_are_read_back_from_the_journal(ask: Asked) -> None:
    session = await ask.join("a", cpu=3)
    await ask.submit({"tasks": 3, "command": ["python3", "train.py"]})
    orders = await ask.sync(session)
    assert ask.service.state_thread.state.jobs[1].program == "python3 train.py"
    for task in (1, 0, 2):
        await ask.sync(session, orders["seen"], ended=[[1, task, 1, task, ""]])
    journal = ask.service.journal
    found = journal.jobs.latest_attempts(10)
    assert [(attempt.key.index, attempt.status) for attempt in found] == [(1, 1), (0, 0), (2, 2)]
    assert {(attempt.user, attempt.server) for attempt in found} == {("ana", "a")}
    assert all(attempt.ended > attempt.started for attempt in found)
    assert found[0].demand["cpu"] == 1.0
    assert {attempt.program for attempt in found} == {"python3 train.py"}
    assert [attempt.key.index for attempt in journal.jobs.latest_attempts(2)] == [0, 2]
    assert _start_forecasts.StartForecasts(journal).run_times.ended == 3


@served
async def test_an_explanation_begins_with_shares_and_the_expected_start(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_times, "LEAST", 1)
    monkeypatch.setattr(service_module, "SHARES_PATIENCE", 30.0)
    session = await ask.join("a", cpu=2)
    await ask("PUT", "/v1/users/ana", json={"weight": 3})
    await ask.submit(*[{"cpu": 2} for _ in range(3)])
    await ask.submit({"user": "bo", "cpu": 2, "tasks": 2})
    why = await ask("GET", "/v1/jobs/3/explain")
    assert why["text"].startswith("ana holds 100 % of the cluster; 75 % is fair.\n")
    assert why["forecast"] == {}
    orders = await ask.sync(session)
    await ask.sync(session, orders["seen"], ended=[[1, 0, 1, 0, ""]])
    why = await ask("GET", "/v1/jobs/4/explain")
    assert why["fair"] == pytest.approx(0.25)
    assert why["forecast"]["rests_on"] == 1
    assert why["forecast"]["server"] == "a"
    assert why["text"].split("\n")[1].startswith("It is expected to start in ")
    assert "forecast" not in await ask("GET", "/v1/jobs/1/explain")  # it runs


@served
async def test_slow_shares_do_not_delay_an_explanation(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = asyncio.Event()

    await ask.service.overview.latest()
    monkeypatch.setattr(ask.service.shares, "_latest", None)  # drop the summary's shares
    monkeypatch.setattr(ask.service.shares, "_compute", lambda _: released.wait())
    await ask.join("a", cpu=1)
    await ask.submit({}, {})
    for _ in range(3):
        why = await ask("GET", "/v1/jobs/2/explain")
        assert why["text"].startswith("This task of ana: 1 waiting, ")
    released.set()
