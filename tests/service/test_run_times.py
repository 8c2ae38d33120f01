"""Run times, estimated from ended and running tasks."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_state import end, place, submit, with_servers

from fairlead.service.jobs import EndedAttempt, TaskKey
from fairlead.service.run_times import LEAST, RunTimes, Survival, command_name
from fairlead.service.service_state import ServiceState

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
    """Return the estimated run times of jobs after each attempt has ended `LEAST` times."""
    run_times = RunTimes()
    for each in ended:
        for _ in range(LEAST):
            run_times.add(each)
    estimates = run_times.estimates([], 0.0)
    groups = [next(iter(state.jobs[job].entries.values())) for job in jobs]
    return [estimates.run_time(group) for group in groups]


def test_the_most_similar_tasks_count() -> None:
    state = with_servers(a=1)
    jobs = [submit(state, user=user) for user in ("ana", "ana", "bo", "cy")]
    ended = [attempt(10.0, jobs[0]), attempt(100.0, 77), attempt(1000.0, 78, "bo")]
    # From its job; from similar tasks of its user; from the other user; from all tasks.
    assert estimates_for(state, jobs, ended) == [10.0, 10.0, 1000.0, 100.0]


def test_tasks_with_the_same_command_count_before_others() -> None:
    state = with_servers(a=1)
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
    run_times = RunTimes()
    run_times.add(attempt(1.0, status=None, reason="server lost"))
    for reason in ("cancelled", "interrupted", "preempted"):
        run_times.add(attempt(1.0, status=143, reason=reason))
    assert run_times.ended == 0
    run_times.add(attempt(1.0, status=1))
    run_times.add(attempt(1.0, status=143, reason="time limit"))
    assert run_times.ended == 2


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.service.run_times.MOST_KINDS", 50)
    run_times = RunTimes()
    for job in range(60):
        run_times.add(attempt(1.0, job))
    assert len(run_times._by_kind) == 50


def test_a_start_is_expected_from_run_times() -> None:
    state = with_servers(a=1)
    run_times = RunTimes()
    jobs = [submit(state, time_limit=3600.0), submit(state, time_limit=3600.0), submit(state)]
    place(state, 100.0)
    for seconds in (50.0, 60.0, 70.0):
        run_times.add(attempt(seconds, 77))
    before = state.snapshot()
    assert state.forecast_start(jobs[2], 110.0).starts == 100.0 + 2 * 3600.0
    assert state.forecast_start(jobs[2], 110.0, run_times).starts == 100.0 + 2 * 60.0
    assert state.snapshot() == before
    # A task that has run longer than all others is expected to run on, up to its limit.
    late = state.forecast_start(jobs[1], 100.0 + 3000.0, run_times).starts
    assert late is not None
    assert 3100.0 < late <= 3700.0
    end(state, f"{jobs[0]}.0.1", now=3200.0)
    place(state, 3200.0)
    assert state.forecast_start(jobs[2], 3200.0, run_times).starts == 3200.0 + 60.0
