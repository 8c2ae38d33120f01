"""Forecast starts: run times of ended and running tasks, intervals, and what a service learns."""

from __future__ import annotations

import asyncio
import math
import random
from time import sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asked_service import Asked, served
from fairlead.service import _forks, run_times, start_forecasts
from fairlead.service import service as service_module
from fairlead.service._forks import AnswerFork
from fairlead.service._state_thread import Transaction
from fairlead.service.jobs import EndedAttempt, TaskKey
from fairlead.service.run_times import RunTimes, Survival, command_name
from fairlead.service.service_state import ServiceState
from fairlead.service.start_forecasts import LEAST, StartIntervals, StartOutlook, simulate_starts
from service.test_state import end, place, submit, with_servers

SECONDS = st.one_of(st.integers(0, 20).map(float), st.floats(0, 1e6))


def part_beyond(seconds: float, ended: list[float], running: list[float]) -> float:
    """Return the fraction that runs longer: the product of Kaplan and Meier, term by term."""
    part = 1.0
    for time in sorted({time for time in ended if time <= seconds}):
        at_risk = sum(t >= time for t in ended) + sum(t >= time for t in running)
        part *= 1 - ended.count(time) / at_risk
    return part


@given(st.lists(SECONDS, min_size=1, max_size=30), st.lists(SECONDS, max_size=30), SECONDS)
def test_the_median_halves_the_part_that_still_runs(
    ended: list[float], running: list[float], elapsed: float
) -> None:
    found = Survival(ended, running).median_beyond(elapsed)
    left, last = part_beyond(elapsed, ended, running), max(ended)
    half = 0.5 * left
    if part_beyond(last, ended, running) <= half + 1e-9 and elapsed < last:
        assert found in ended
        assert found > elapsed
        assert part_beyond(found, ended, running) <= half + 1e-9
        assert part_beyond(math.nextafter(found, 0), ended, running) >= half - 1e-9
    else:
        # Beyond the longest run time, tasks end at a constant rate.
        mean = (sum(ended) + sum(running)) / len(ended)
        least = max(elapsed, last)
        assert least <= found <= least + mean * math.log(2) * (1 + 1e-9) + 1e-9


def test_the_latest_run_times_stand_for_all_tasks_that_ended() -> None:
    """On a busy cluster 200 run times are kept, and 2,000 tasks run."""
    rng = random.Random(2)
    ended = [rng.expovariate(1 / 3600) for _ in range(200)]
    # A task is found running with a chance that grows with its run time.
    lasts = [rng.gammavariate(2, 3600) for _ in range(2000)]
    running = [rng.uniform(0, seconds) for seconds in lasts]
    assert Survival(ended, running).median_beyond(0) > 20_000
    found = Survival(ended, running, weight=200 / 100_000).median_beyond(0)
    assert found == pytest.approx(3600 * math.log(2), rel=0.2)


def attempt(
    seconds: float, job: int = 1, user: str = "ana", status: int | None = 0, reason: str = ""
) -> EndedAttempt:
    demand = {"cpu": 1.0, "memory": 1.0}
    return EndedAttempt(TaskKey(job, 0, 1), user, "a", demand, 5.0, 5.0 + seconds, status, reason)


def estimates_for(
    state: ServiceState, jobs: list[int], ended: list[EndedAttempt]
) -> list[float | None]:
    """Return the estimated run times of jobs after attempts that ended often enough to count."""
    found = RunTimes()
    for each in ended:
        for _ in range(run_times.LEAST):
            found.add(each)
    estimates = found.estimates([], 0.0)
    groups = [next(iter(state.jobs[job].groups.values())) for job in jobs]
    return [estimates.run_time(group) for group in groups]


def test_the_most_similar_tasks_count() -> None:
    state = with_servers(a=1)
    jobs = [submit(state, user=user) for user in ("ana", "ana", "bo", "cy")]
    ended = [attempt(10.0, jobs[0]), attempt(100.0, 77), attempt(1000.0, 78, "bo")]
    # From its job; from similar tasks of its user; from the other user; from all tasks.
    assert estimates_for(state, jobs, ended) == [10.0, 10.0, 1000.0, 100.0]
    # Tasks with the same command count before others.
    wanted = (("ana", "python3 train.py"), ("ana", "python3 test.py"), ("ana", ""), ("bo", "make"))
    jobs = [submit(state, user=user, program=program) for user, program in wanted]
    large = submit(state, user="ana", program="make", demand={"cpu": 2.0, "memory": 1.0})
    seconds = {"python3 train.py": 10.0, "python3 test.py": 500.0, "make": 60.0}
    ended = [attempt(time, 77)._replace(program=program) for program, time in seconds.items()]
    # Other users and unknown commands: from similar tasks; ana's larger task: from its command.
    assert estimates_for(state, [*jobs, large], ended) == [10.0, 500.0, 60.0, 60.0, 60.0]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/opt/bin/lmp", "-in", "in.melt"], "lmp"),
        (["python", "-m", "lab.train", "7"], "python lab.train"),
        (["/usr/bin/bash", "run/all.sh"], "bash all.sh"),
        (["python3", "-"], "python3"),
        (["/bin/sh", "-c", "cd run && make"], "cd"),
        (["/bin/sh", "-c", "\n# first\n\nOMP=4 nice -n 10 env A=1 ./sim.x 3"], "sim.x"),
        (["/bin/sh", "-c", "# nothing\n"], ""),
        (["mpirun", "-np", "16", "./solve"], "solve"),
        (["x" * 100], "x" * 60),
        ([""], ""),
    ],
)
def test_the_name_of_a_command(command: list[str], name: str) -> None:
    assert command_name(command) == name


def test_only_tasks_that_ended_by_themselves_count() -> None:
    found = RunTimes()
    found.add(attempt(1.0, status=None, reason="server lost"))
    for reason in ("cancelled", "interrupted", "preempted"):
        found.add(attempt(1.0, status=143, reason=reason))
    assert found.ended == 0
    found.add(attempt(1.0, status=1))
    found.add(attempt(1.0, status=143, reason="time limit"))
    assert found.ended == 2


def test_a_start_is_expected_from_run_times() -> None:
    state = with_servers(a=1)
    found = RunTimes()
    jobs = [submit(state, time_limit=3600.0), submit(state, time_limit=3600.0), submit(state)]
    place(state, 100.0)
    for seconds in (50.0, 60.0, 70.0):
        found.add(attempt(seconds, 77))
    before = state.snapshot()
    assert simulate_starts(state, 110.0, None, jobs[2]).of(jobs[2]).starts == 100.0 + 2 * 3600.0
    assert simulate_starts(state, 110.0, found, jobs[2]).of(jobs[2]) == (220, 220, 0, 2, "a", "ana")
    assert state.snapshot() == before
    # A task that has run longer than all others is expected to run on, up to its limit.
    late = simulate_starts(state, 100.0 + 3000.0, found, jobs[1]).of(jobs[1]).starts
    assert late is not None
    assert 3100.0 < late <= 3700.0
    end(state, f"{jobs[0]}.0.1", now=3200.0)
    place(state, 3200.0)
    assert simulate_starts(state, 3200.0, found, jobs[2]).of(jobs[2]).starts == 3200.0 + 60.0


def test_intervals_are_as_wide_as_forecasts_alike_were_wrong() -> None:
    rng = random.Random(1)
    intervals = StartIntervals()
    for job in range(600):
        expected, spread = (10_000.0, 0.1) if job % 3 else (100_000.0, 1.0)
        intervals.note(job, 0.0, expected)
        intervals.learn_start(job, expected * math.exp(rng.gauss(0.0, spread)))
    (low, high), (wide_low, wide_high) = map(intervals.interval, (10_000.0, 100_000.0))  # type: ignore[misc]
    assert 8_000 < low < 10_000 < high < 12_500
    assert wide_low < 50_000
    assert wide_high > 200_000


def test_the_first_forecast_of_a_job_counts() -> None:
    intervals = StartIntervals()
    for job in range(LEAST):
        intervals.note(job, 0.0, 1000.0)
        intervals.note(job, 500.0, 1.0)
        intervals.learn_start(job, 1000.0)
        intervals.learn_start(job, 9000.0)
    assert intervals.interval(1000.0) == pytest.approx((1000.0, 1000.0))
    for job in range(LEAST, 2 * LEAST):
        intervals.note(job, 0.0, 1000.0)
        intervals.drop(job)
        intervals.learn_start(job, 9000.0)
    assert intervals.interval(1000.0) == pytest.approx((1000.0, 1000.0))


def test_four_of_five_starts_are_within_intervals() -> None:
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
        intervals.note(job, 0.0, 10_000.0)
        intervals.learn_start(job, waited)
    assert 0.8 <= sum(inside) / len(inside) <= 0.85


def test_a_job_beyond_its_interval_counts_at_once_and_once() -> None:
    rng = random.Random(1)
    intervals = StartIntervals()
    for job in range(1000):
        intervals.note(job, 0.0, 1000.0)
        intervals.learn_start(job, rng.uniform(500.0, 1500.0))
    before = intervals.interval(1000.0)
    assert before is not None
    for job in range(1000, 1003):
        intervals.note(job, 0.0, 1000.0)
    later = before[1] + 1.0
    intervals.note(2000, later, 1000.0)
    wider = intervals.interval(1000.0)
    assert wider is not None
    assert wider[1] > before[1]
    intervals.note(2001, later + 1.0, 1000.0)
    assert intervals.interval(1000.0) == wider


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((start_forecasts, "KEPT"), (start_forecasts, "MOST_NOTED")):
        monkeypatch.setattr(module, name, 20)
    monkeypatch.setattr(run_times, "MOST_KINDS", 20)
    intervals, times = StartIntervals(), RunTimes()
    for job in range(60):
        intervals.note(job, 0.0, 1.0)
        times.add(attempt(1.0, job))
    for job in range(100, 160):
        intervals.note(job, 0.0, 1.0)
        intervals.learn_start(job, 1.0)
    assert max(len(intervals._noted), len(intervals._past), len(times._by_kind)) == 20


@served
async def test_a_service_learns_how_forecasts_come_true(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_forecasts, "LEAST", 3)
    monkeypatch.setattr(run_times, "LEAST", 1)
    monkeypatch.setattr(start_forecasts, "choice", min)
    session = await ask.join("a", cpu=1)
    forecasts = ask.service.start_forecasts

    def note(tx: Transaction) -> None:
        forecasts.note_one(tx.state, tx.now + 120.0)

    await ask.submit(*[{} for _ in range(8)])
    seen = 0
    for job in range(1, 7):
        await ask.service.state_thread.run(note)
        assert list(forecasts.intervals._noted) == ([job + 1] if job > 1 else [])
        seen = (await ask.work(session, seen))["seen"]
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
    await ask.submit(*[{"time_limit": 100} for _ in range(5)])
    await ask.work(await ask.join("a", cpu=1))
    jobs = range(3, 6)
    at_once = [await ask("GET", f"/v1/jobs/{job}/when") for job in jobs]
    forks: list[AnswerFork[StartOutlook]] = []

    class Counted(AnswerFork[StartOutlook]):
        def answer(self) -> StartOutlook:
            forks.append(self)
            return super().answer()

    monkeypatch.setattr(start_forecasts, "AnswerFork", Counted)
    monkeypatch.setattr(start_forecasts, "MOST_RUNNING", 0)
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
    monkeypatch.setattr(start_forecasts, "LEARN_SECONDS", 0.0)
    monkeypatch.setattr(start_forecasts, "MOST_RUNNING", 0)
    await ask.submit({}, {}, {})
    await ask.work(await ask.join("a", cpu=1))
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
    monkeypatch.setattr(start_forecasts, "MOST_RUNNING", 0)
    await ask.sync(await ask.join("a", cpu=1))
    await ask.submit({}, {})
    with monkeypatch.context() as slow:
        slow.setattr(_forks, "ANSWER_SECONDS", 0.0)
        slow.setattr(start_forecasts, "simulate", lambda *_: sleep(60))
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
    assert start_forecasts.StartForecasts(journal).run_times.ended == 3


@served
async def test_an_explanation_begins_with_shares_and_the_start(
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
    await ask.work(session)
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
