"""Forecasts of starts: from time limits, from run times, and from how past forecasts came true."""

from __future__ import annotations

from itertools import islice
from random import choice
from typing import Any

from fairlead.service.jobs import Effects
from fairlead.service.journal.event_journal import Journal
from fairlead.service.run_times import RunTimes
from fairlead.service.service_state import FORECAST_ENDS, ServiceState
from fairlead.service.start_intervals import StartIntervals

LEARN_SECONDS = 60.0  # between forecasts that are noted, and that their jobs have waited before
NEWEST = 1000  # jobs of which one is forecast
ATTEMPTS = 10_000  # whose run times are read at the start


class StartForecasts:
    """What was learnt of run times and starts; its methods are for the state's thread."""

    def __init__(self, journal: Journal) -> None:
        self.run_times, self.intervals = RunTimes(), StartIntervals()
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
            self._expect(state, choice(waiting), now)

    def forecast(self, state: ServiceState, job: int, now: float) -> dict[str, Any]:
        """Return the times in a `WhenView` for a job that waits for a server, or the reason."""
        starts, not_before, endless, ended = state.forecast_start(job, now)
        answer: dict[str, Any] = {"starts": starts, "not_before": not_before}
        if starts != now:
            answer |= self._expect(state, job, now)
        if starts is None and "expected" not in answer:
            answer["reason"] = _why_unknown(state, job, endless, ended)
        return answer

    def _expect(self, state: ServiceState, job: int, now: float) -> dict[str, Any]:
        """Return and note when a job is expected to start; empty if no run time is known."""
        if not self.run_times.ended:
            return {}
        starts = state.forecast_start(job, now, self.run_times).starts
        if starts is None:
            return {}
        answer = {"expected": starts, "rests_on": self.run_times.ended}
        found = self.intervals.interval(starts - now)
        self.intervals.ask(job, now, starts - now)
        if found is not None:
            answer |= {"earliest": now + found[0], "latest": now + found[1]}
        return answer


def _why_unknown(state: ServiceState, job: int, endless: int, ended: int) -> str:
    """Return why no start is known after some ends, with tasks that run without a limit."""
    group = state.job(job).group
    never = group is not None and state.scheduler.explain(group).never
    if never or not (endless or ended >= FORECAST_ENDS):
        return "it fits on none of the present servers"
    if ended >= FORECAST_ENDS:
        return f"{ended:,} tasks end first"
    return f"tasks that run without a time limit: {endless:,}"
