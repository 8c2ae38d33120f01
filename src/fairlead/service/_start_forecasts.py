"""Forecasts of starts: from time limits, from run times, and from how past forecasts came true."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from random import choice
from typing import Any

from fairlead.scheduler.explanation import duration
from fairlead.service.jobs import Effects, StartForecast
from fairlead.service.journal.event_journal import FORECASTS, Journal
from fairlead.service.run_times import RunTimes
from fairlead.service.service_state import FORECAST_ENDS, ServiceState
from fairlead.service.start_intervals import StartIntervals

LEARN_SECONDS = 60.0  # between forecasts that are noted, and that their jobs have waited before
KEEP_SECONDS = 600.0  # between writes of past forecasts
NEWEST = 1000  # jobs of which one is forecast
ATTEMPTS = 10_000  # whose run times are read at the start


class StartForecasts:
    """Run times and starts so far, and forecasts from them; for the state's thread."""

    def __init__(self, journal: Journal) -> None:
        self.run_times = RunTimes()
        self.intervals = StartIntervals(journal.kept(FORECASTS))
        for attempt in journal.jobs.latest_attempts(ATTEMPTS):
            self.run_times.add(attempt)

    def learn(self, effects: Effects) -> None:
        """Learn from tasks that ended and jobs that started."""
        for attempt in effects.attempts:
            self.run_times.add(attempt)
        for run in effects.starts:
            self.intervals.start(run.key.job, run.since)
        for job in effects.ended:
            self.intervals.drop(job.id)

    def note_one(self, state: ServiceState, now: float) -> None:
        """Note the forecast of one of the newest jobs that have waited for a minute."""
        newest = islice(reversed(state.jobs.values()), NEWEST)
        since = now - LEARN_SECONDS
        waiting = [
            job.id
            for job in newest
            if job.started is None and job.group is not None and job.submitted <= since
        ]
        if waiting:
            job = choice(waiting)
            if found := self.expect(state, job, now):
                self.intervals.ask(job, now, found["expected"] - now)

    def forecast(self, state: ServiceState, job: int, now: float) -> dict[str, Any]:
        """Return the times in a `WhenView` for a job that waits for a server, or the reason."""
        found = state.forecast_start(job, now)
        answer: dict[str, Any] = {"starts": found.starts, "not_before": found.not_before}
        # While the scheduler is behind, run times do not matter: all starts are now.
        is_behind = found.ended >= FORECAST_ENDS and found.not_before == now
        if found.starts != now and not is_behind:
            answer |= self.expect(state, job, now)
        if found.starts is None and "expected" not in answer:
            answer["reason"] = _why_unknown(state, job, found)
        return answer

    def expect(self, state: ServiceState, job: int, now: float) -> dict[str, Any]:
        """Return when a job is expected to start; empty if no run time is known."""
        if not self.run_times.ended:
            return {}
        found = state.forecast_start(job, now, self.run_times)
        if found.starts is None:
            return {}
        answer: dict[str, Any] = {"expected": found.starts, "rests_on": self.run_times.ended}
        answer |= {"server": found.server, "freed_by": found.freed_by}
        interval = self.intervals.interval(found.starts - now)
        if interval is not None:
            answer |= {"earliest": now + interval[0], "latest": now + interval[1]}
        return answer


def expected_in_words(forecast: Mapping[str, Any], now: float) -> str:
    """Describe an expected start in one sentence."""
    text = f"It is expected to start in {_minutes(forecast['expected'] - now)}"
    if "earliest" in forecast:
        earliest, latest = (_minutes(forecast[name] - now) for name in ("earliest", "latest"))
        text += f" (four times in five in {earliest} to {latest})"
    text += f", on {forecast['server']}"
    if forecast["freed_by"]:
        text += f" after a task of {forecast['freed_by']}"
    return f"{text}."


def _minutes(seconds: float) -> str:
    """Return a time as text, rounded to two digits."""
    return duration(max(0.0, seconds), 2)


def _why_unknown(state: ServiceState, job: int, found: StartForecast) -> str:
    """Return why a forecast has no start."""
    group = state.job(job).group
    never = group is not None and state.scheduler.explain(group).never
    if never or not (found.endless or found.ended >= FORECAST_ENDS):
        return "it fits on none of the present servers"
    if found.ended >= FORECAST_ENDS:
        return f"{found.ended:,} tasks start or end first"
    return f"tasks that run without a time limit: {found.endless:,}"
