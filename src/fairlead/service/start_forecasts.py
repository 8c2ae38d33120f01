"""Forecast starts from time limits and from run times, with intervals from past forecasts.

A forecast simulates the present state without later jobs, and with estimated run times. The error
depends on the cluster and its policy. So the interval of a forecast comes from similar past
forecasts (split conformal prediction): from their ratios of waiting time to expected waiting time.

Loads change, so intervals from past ratios may miss starts. Each start below or above its interval
widens that side of later intervals; each other start narrows it a little, as in adaptive conformal
inference (Gibbs and Candès, NeurIPS 2021). So about the fraction `PART` of starts is within the
intervals. This is no guarantee, because an interval never exceeds the range of similar past ratios.
It never becomes narrower than the middle `PART` of them: it would be too narrow on a busy day after
quiet weeks. A job that still waits at the end of its interval counts as a late miss at the next
noted forecast, before it starts.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import islice
from math import exp, log
from random import choice
from time import monotonic
from typing import Any, NamedTuple

from fairlead.scheduler.explanation import Explanation, duration
from fairlead.service._forks import AnswerFork
from fairlead.service.jobs import Effects, JobGroup
from fairlead.service.journal.event_journal import Journal
from fairlead.service.run_times import Estimates, RunTimes
from fairlead.service.service_state import ServiceState

LEARN_SECONDS = 60.0  # between noted forecasts, and shortest wait of a job that is noted
NEWEST = 1000  # newest jobs, from which the job to note is drawn
ATTEMPTS = 10_000  # ended attempts whose run times are read when the service starts
MOST_RUNNING = 5000  # a state with more running tasks is simulated in a copy of the process
FRESH_SECONDS = 10.0  # for which a simulation in a copy is used; it takes 0.5 s of a core
FORECAST_ENDS = 5000  # largest number of ends of tasks in a forecast, which takes 0.1 s then
FORECAST_STARTS = 2000  # largest number of starts in a forecast; more only if placing is behind
KEPT = 5000  # past forecasts of started jobs
MOST_NOTED = 1000  # forecasts of waiting jobs
LEAST = 20  # past forecasts that an interval needs; pages in docs state the number
ALIKE = 10  # the most similar 1/10 of past forecasts gives the interval
PART = 0.8  # the wanted fraction of starts within the interval
BEYOND = 0.5 * (1.0 - PART)  # largest fraction of past ratios beyond each side
STEP = 0.02  # a miss lowers the fraction beyond a side by 0.9 STEP, a hit raises it by 0.1 STEP
SHORT = 300.0  # seconds that are added to times, so that short times count as similar
TIMES = {"starts", "not_before", "expected", "earliest", "latest"}


class StartForecast(NamedTuple):
    """The simulated start of a job; times are seconds since 1970."""

    starts: float | None  # None if unknown
    not_before: float  # a time before which it does not start
    endless: int  # number of running tasks without a known end
    ended: int  # number of tasks that end before the job starts
    server: str = ""  # where its first task starts
    freed_by: str = ""  # user of the last task that ends there before; empty if none ends


class SimulatedStarts(NamedTuple):
    """The starts of jobs in one simulation of the state."""

    starts: dict[int, StartForecast]  # by job
    others: StartForecast  # of each job that does not start in the simulation

    def of(self, job: int) -> StartForecast:
        return self.starts.get(job, self.others)


class StartOutlook(NamedTuple):
    """Starts of jobs, simulated from one state by time limits and by run times."""

    at: float  # the time of the state
    rests_on: int  # number of tasks that had ended
    newest_group: int  # the largest number of a scheduler's group in the state
    by_limits: SimulatedStarts
    by_run_times: SimulatedStarts | None  # None if no task had ended


class NotedForecast(NamedTuple):
    """The forecast of a job that still waits."""

    at: float  # time of the forecast
    expected: float  # seconds from `at`
    interval: tuple[float, float] | None  # seconds from `at`; None if unknown, or after its end


class StartIntervals:
    """Intervals for the starts of jobs, from the forecasts of started and of waiting jobs."""

    def __init__(self) -> None:
        self._noted: OrderedDict[int, NotedForecast] = OrderedDict()  # by job
        # Newest first: the `_scale` of the expected wait, and the logarithm of the ratio.
        self._past: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._beyond = [BEYOND] * 2  # the fractions of ratios below and above an interval

    def note(self, job: int, now: float, expected: float) -> None:
        """Count overdue jobs as late misses; note a job's first forecast, in `expected` seconds."""
        for late, noted in self._noted.items():
            if noted.interval is not None and now - noted.at > noted.interval[1]:
                self._adapt(1, is_missed=True)
                self._noted[late] = noted._replace(interval=None)
        if job not in self._noted:
            self._noted[job] = NotedForecast(now, expected, self.interval(expected))
            if len(self._noted) > MOST_NOTED:
                self._noted.popitem(last=False)

    def learn_start(self, job: int, now: float) -> None:
        """Compare the start of a job with its noted forecast."""
        noted = self._noted.pop(job, None)
        if noted is None:
            return
        waited, expected = now - noted.at, _scale(noted.expected)
        self._past.appendleft((expected, _scale(waited) - expected))
        if noted.interval is not None:
            self._adapt(0, is_missed=waited < noted.interval[0])
            self._adapt(1, is_missed=waited > noted.interval[1])

    def drop(self, job: int) -> None:
        """Forget a job that ended without a start."""
        self._noted.pop(job, None)

    def interval(self, expected: float) -> tuple[float, float] | None:
        """Return the shortest and longest likely wait in seconds; None before `LEAST` starts."""
        if len(self._past) < LEAST:
            return None
        here = _scale(expected)
        past = sorted(self._past, key=lambda found: abs(found[0] - here))
        ratios = sorted(ratio for _, ratio in past[: max(LEAST, len(past) // ALIKE)])
        below, above = (int(part * (len(ratios) - 1)) for part in self._beyond)
        low, high = ratios[below], ratios[-1 - above]
        return max(0.0, _seconds(here + low)), max(0.0, _seconds(here + high))

    def _adapt(self, side: int, *, is_missed: bool) -> None:
        """Widen side 0 (early) or 1 (late) of later intervals after a miss, else narrow it."""
        moved = self._beyond[side] + STEP * (BEYOND - is_missed)
        self._beyond[side] = min(max(0.0, moved), BEYOND)


def _scale(seconds: float) -> float:
    """Return the logarithm of a time, on which waiting times are compared."""
    return log(max(0.0, seconds) + SHORT)


def _seconds(scale: float) -> float:
    return exp(scale) - SHORT


class StartForecasts:
    """Forecasts from run times and starts so far; its methods are for the state's thread."""

    def __init__(self, journal: Journal) -> None:
        self.run_times = RunTimes()
        self.intervals = StartIntervals()
        for attempt in journal.jobs.latest_attempts(ATTEMPTS):
            self.run_times.add(attempt)
        self._simulation: Future[StartOutlook] | None = None  # the latest one
        self._fresh_until = 0.0  # when the latest simulation is too old, by the monotonic clock
        self._reader = ThreadPoolExecutor(1, "forecast")

    def learn(self, effects: Effects) -> None:
        """Learn from tasks that ended and jobs that started."""
        for attempt in effects.attempts:
            self.run_times.add(attempt)
        for run in effects.starts:
            self.intervals.learn_start(run.key.job, run.since)
        for job in effects.ended:
            self.intervals.drop(job.id)

    def note_one(self, state: ServiceState, now: float) -> Future[StartOutlook] | None:
        """Note the forecast of a random job that has waited a minute, to compare it with its start.

        If a simulation in a copy of the process is needed first, note none and return it.
        """
        newest = islice(reversed(state.jobs.values()), NEWEST)
        since = now - LEARN_SECONDS
        waiting = [
            job.id
            for job in newest
            if job.started is None and job.group is not None and job.submitted <= since
        ]
        if waiting and self.run_times.ended:
            job = choice(waiting)
            outlook = self._outlook(state, job, now)
            if outlook is None:
                return self.simulation(state, now)
            if found := self._expected(outlook, job):
                self.intervals.note(job, outlook.at, found["expected"] - outlook.at)
        return None

    def forecast(self, state: ServiceState, job: int, now: float) -> dict[str, Any] | None:
        """Return fields of the `WhenView` of a job that waits; None if it needs a `simulation`."""
        outlook = self._outlook(state, job, now)
        if outlook is None:
            return None
        found = outlook.by_limits.of(job)
        why, group = None, state.job(job).group
        if found.starts is None and group is not None:
            why = state.scheduler.explain(group, now, 1)
        if why is not None and (why.never or why.held_by == "drained"):
            reason = why.reason[:1].lower() + why.reason[1:].rstrip(".")  # as a clause
            return {"starts": None, "never": why.never, "reason": reason}
        answer: dict[str, Any] = {"starts": found.starts, "not_before": found.not_before}
        # If more tasks fit now than a forecast starts, all simulated starts are now.
        is_behind = found.ended >= FORECAST_ENDS and found.not_before == outlook.at
        if found.starts != outlook.at and not is_behind:
            answer |= self._expected(outlook, job)
        if found.starts is None and "expected" not in answer:
            answer["reason"] = _why_unknown(found, why)
        # The simulation may be some seconds old, while the job still waits.
        for name in TIMES & answer.keys():
            if answer[name] is not None:
                answer[name] = max(answer[name], now)
        return answer

    def expect(self, state: ServiceState, job: int, now: float) -> dict[str, Any]:
        """Return when a job is expected to start; empty if no run time is known."""
        return self._expected(simulate(state, self.run_times, now, job), job)

    def simulation(self, state: ServiceState, now: float) -> Future[StartOutlook]:
        """Start a simulation in a copy of the process, or return the running one.

        Raises `UnavailableError` if no copy can be made.
        """
        if self._simulation is None or self._simulation.done():
            compute = partial(simulate, state, self.run_times, now)
            fork = AnswerFork(compute, "the forecast of starts", niceness=0)
            self._simulation = self._reader.submit(self._read, fork)
        return self._simulation

    def _read(self, fork: AnswerFork[StartOutlook]) -> StartOutlook:
        """In another thread: return the child's simulation; use it for `FRESH_SECONDS`."""
        outlook = fork.answer()
        self._fresh_until = monotonic() + FRESH_SECONDS
        return outlook

    def _outlook(self, state: ServiceState, job: int, now: float) -> StartOutlook | None:
        """Return a simulation with the job; None if a copy of the process has to make it.

        A small state is simulated at once, and any state on systems other than Linux: there a
        process with threads cannot be forked.
        """
        if sys.platform != "linux" or state.running <= MOST_RUNNING:
            return simulate(state, self.run_times, now, job)
        latest = self._simulation
        if latest is None or not latest.done() or latest.exception() is not None:
            return None
        outlook, group = latest.result(), state.job(job).group
        # A job that was submitted or changed after the simulation has a newer group.
        is_in_it = group is None or group <= outlook.newest_group
        return outlook if is_in_it and monotonic() <= self._fresh_until else None

    def _expected(self, outlook: StartOutlook, job: int) -> dict[str, Any]:
        """Return the fields of a `WhenView` that rest on run times; empty if unknown."""
        if outlook.by_run_times is None:
            return {}
        found = outlook.by_run_times.of(job)
        if found.starts is None:
            return {}
        answer: dict[str, Any] = {"expected": found.starts, "rests_on": outlook.rests_on}
        answer |= {"server": found.server, "freed_by": found.freed_by}
        interval = self.intervals.interval(found.starts - outlook.at)
        if interval is not None:
            answer |= {"earliest": outlook.at + interval[0], "latest": outlook.at + interval[1]}
        return answer


def simulate(
    state: ServiceState, run_times: RunTimes, now: float, until: int | None = None
) -> StartOutlook:
    """Simulate starts by time limits and by run times; see `simulate_starts`."""
    by_limits = simulate_starts(state, now, None, until)
    by_run_times = simulate_starts(state, now, run_times, until) if run_times.ended else None
    newest_group = max(state.groups, default=0)  # later groups have larger numbers
    return StartOutlook(now, run_times.ended, newest_group, by_limits, by_run_times)


def simulate_starts(
    state: ServiceState, now: float, run_times: RunTimes | None = None, until: int | None = None
) -> SimulatedStarts:
    """Simulate when each job starts its next task if no job is submitted and no task fails.

    Tasks run for their estimates from `run_times`, if given, and at most for their time limits.
    Held and dependent jobs do not start. The simulation is undone. It stops when job `until`
    starts, after `FORECAST_ENDS` ends of tasks, or after `FORECAST_STARTS` starts.
    """
    ended, starts_left = 0, FORECAST_STARTS
    starts: dict[int, StartForecast] = {}
    runs = [run for server in state.servers.values() for run in server.running.values()]
    estimates = None if run_times is None else run_times.estimates(runs, now)
    ends: list[tuple[float, int, str, str]] = []  # a heap of (time, task, server, user)
    for run in runs:
        run_time = _run_time(run.job_group, now - run.since, estimates)
        if run_time is not None:
            ends.append((run.since + run_time, run.task, run.server, run.job_group.job.user))
    heapify(ends)
    freed_by: dict[str, str] = {}  # by server, the user of the task that ended there last
    endless = len(runs) - len(ends)  # tasks without a known end
    with state.scheduler.what_if():
        while True:
            placed = state.scheduler.place(now, starts_left)
            starts_left -= len(placed)
            for start in placed:
                job_group = state.groups[start.group]
                if job_group.job.id not in starts:
                    user = freed_by.get(start.server, "")
                    found = StartForecast(now, now, endless, ended, start.server, user)
                    starts[job_group.job.id] = found
                    if job_group.job.id == until:
                        return SimulatedStarts(starts, found)
                run_time = _run_time(job_group, 0.0, estimates)
                if run_time is None:
                    endless += 1
                else:
                    heappush(ends, (now + run_time, start.task, start.server, job_group.job.user))
            if not starts_left:
                ended = FORECAST_ENDS  # the simulation stops, as after too many ends
            if not ends or ended >= FORECAST_ENDS:
                return SimulatedStarts(starts, StartForecast(None, now, endless, ended))
            now = max(now, ends[0][0])
            while ends and ends[0][0] <= now:
                _, task, server, freed_by[server] = heappop(ends)
                state.scheduler.finish(task)
                ended += 1


def _run_time(job_group: JobGroup, elapsed: float, estimates: Estimates | None) -> float | None:
    """Return the estimate of a run time after `elapsed` seconds, at most the task's limit.

    Return the other one if the estimate or the limit is missing; None if both are.
    """
    limit = job_group.time_limit
    estimate = None if estimates is None else estimates.run_time(job_group, elapsed)
    if estimate is None or limit is None:
        return limit if estimate is None else estimate
    return min(estimate, limit)


def expected_in_words(forecast: Mapping[str, Any], now: float) -> str:
    """Describe an expected start in one sentence."""
    text = f"It is expected to start in {_minutes(forecast['expected'] - now)}"
    if "earliest" in forecast:
        earliest, latest = (_minutes(forecast[name] - now) for name in ("earliest", "latest"))
        text += f" (four times in five between {earliest} and {latest})"
    else:
        text += " (a rough guess: fewer than 20 forecast jobs have started)"
    text += f", on {forecast['server']}"
    if forecast["freed_by"]:
        text += f" after a task of {forecast['freed_by']}"
    return f"{text}."


def _minutes(seconds: float) -> str:
    """Return a time as text, rounded to two digits."""
    return duration(max(0.0, seconds), 2)


def _why_unknown(found: StartForecast, why: Explanation | None) -> str:
    """Return why a forecast has no start."""
    if found.ended >= FORECAST_ENDS:
        return "more tasks start or end before it than a forecast follows"
    if found.endless:
        return f"running tasks without a time limit: {found.endless:,}"
    drained = [each.of for each in (why.would_change if why else ()) if each.kind == "drain"]
    if drained:
        return f"it waits until the drain of {drained[0]} ends"
    return "it still waits when all other tasks have ended"
