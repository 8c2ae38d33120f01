"""Forecast starts from time limits and from run times, with intervals from past forecasts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from random import choice
from time import monotonic
from typing import Any, NamedTuple

from fairlead.scheduler.explanation import Explanation, duration
from fairlead.service._forks import AnswerFork
from fairlead.service.jobs import Effects, SimulatedStarts, StartForecast
from fairlead.service.journal.event_journal import Journal
from fairlead.service.run_times import RunTimes
from fairlead.service.service_state import FORECAST_ENDS, ServiceState
from fairlead.service.start_intervals import StartIntervals

LEARN_SECONDS = 60.0  # between noted forecasts, and shortest wait of a job that is noted
NEWEST = 1000  # newest jobs, from which the noted one is drawn
ATTEMPTS = 10_000  # ended attempts whose run times are read at the start
MOST_RUNNING = 5000  # a state with more running tasks is simulated in a copy of the process
FRESH_SECONDS = 10.0  # for which a simulation in a copy is used; it takes .5 s of a core
TIMES = {"starts", "not_before", "expected", "earliest", "latest"}


class StartOutlook(NamedTuple):
    """Starts of jobs, simulated from one state by time limits and by run times."""

    at: float  # the time of the state
    rests_on: int  # number of tasks that had ended
    newest_group: int  # the largest number of a scheduler's group in the state
    by_limits: SimulatedStarts
    by_run_times: SimulatedStarts | None  # None if no task had ended


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
            self.intervals.start(run.key.job, run.since)
        for job in effects.ended:
            self.intervals.drop(job.id)

    def note_one(self, state: ServiceState, now: float) -> Future[StartOutlook] | None:
        """Note the forecast of a random job that has waited a minute, to learn how it comes true.

        If a simulation in a copy of the process has to end first, notes none and returns it.
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
                self.intervals.ask(job, outlook.at, found["expected"] - outlook.at)
        return None

    def forecast(self, state: ServiceState, job: int, now: float) -> dict[str, Any] | None:
        """Return the times in a `WhenView` of a job that waits for a server, or the reason.

        Returns None if `simulation` has to simulate the start first.
        """
        outlook = self._outlook(state, job, now)
        if outlook is None:
            return None
        found = outlook.by_limits.of(job)
        why = None if found.starts is not None else _explanation(state, job, now)
        if why is not None and (why.never or why.held_by == "drained"):
            return {"starts": None, "never": why.never, "reason": _as_clause(why.reason)}
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
        """Start a simulation of all starts in a copy of the process, or return the running one.

        Raises `UnavailableError` if no copy can be made.
        """
        if self._simulation is None or self._simulation.done():
            compute = partial(simulate, state, self.run_times, now)
            fork = AnswerFork(compute, "the forecast of starts", niceness=0)
            self._simulation = self._reader.submit(self._read, fork)
        return self._simulation

    def _read(self, fork: AnswerFork[StartOutlook]) -> StartOutlook:
        """In another thread: return the child's simulation, which is used for `FRESH_SECONDS`."""
        outlook = fork.answer()
        self._fresh_until = monotonic() + FRESH_SECONDS
        return outlook

    def _outlook(self, state: ServiceState, job: int, now: float) -> StartOutlook | None:
        """Return a simulation with the job; None if a copy of the process has to make it.

        A small state is simulated at once. So is any state on systems other than Linux, because a
        process with threads cannot be forked there.
        """
        if sys.platform != "linux" or sum(state.running.values()) <= MOST_RUNNING:
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
    """Simulate starts by time limits and by run times; see `ServiceState.simulate_starts`."""
    by_limits = state.simulate_starts(now, None, until)
    by_run_times = state.simulate_starts(now, run_times, until) if run_times.ended else None
    return StartOutlook(now, run_times.ended, state.newest_group(), by_limits, by_run_times)


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


def _explanation(state: ServiceState, job: int, now: float) -> Explanation | None:
    group = state.job(job).group
    return None if group is None else state.scheduler.explain(group, now, 1)


def _as_clause(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


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
