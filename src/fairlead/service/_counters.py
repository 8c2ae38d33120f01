"""Counters of a service since its start, and the distributions of durations, for Prometheus."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from fairlead.service.jobs import Effects, EndedAttempt

BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)  # seconds
OUTCOMES = ("finished", "failed", "cancelled", "lost")
disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the page


class Counters:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.decision = self._histogram(
            "decision_seconds", "From a request's arrival until its change is on disk."
        )
        self.cycle = self._histogram("cycle_seconds", "Carrying out requests and placing.")
        self.commit = self._histogram("commit_seconds", "Writing and syncing the journal.")
        self.refused = self._counter("requests_refused", "Answers of status 400 and above.", "code")
        self._placements = self._counter("placements", "Tasks that were started.")
        self._ended = self._counter("tasks_ended", "Starts of tasks that are over.", "outcome")
        self._events = self._counter("events", "Events on disk.", "kind")
        for outcome in OUTCOMES:
            self._ended.labels(outcome)
        ProcessCollector(registry=self.registry)

    def count(self, kinds: Iterable[str], effects: Effects) -> None:
        """Count events that are on disk, and their effects."""
        for kind, n in Tally(kinds).items():
            self._events.labels(kind).inc(n)
        self._placements.inc(len(effects.starts))
        for outcome, n in Tally(map(_outcome, effects.attempts)).items():
            self._ended.labels(outcome).inc(n)

    def _histogram(self, name: str, what: str) -> Histogram:
        return Histogram(f"fairlead_{name}", what, buckets=BOUNDS, registry=self.registry)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"fairlead_{name}", what, labels, registry=self.registry)


def _outcome(attempt: EndedAttempt) -> str:
    if attempt.status is None:
        return "lost"
    if not attempt.status:
        return "finished"
    return "cancelled" if attempt.reason == "cancelled" else "failed"
