"""Counters of a service since its start, and the distribution of durations.

Each number is written by one thread alone, so that counting takes no lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from fairlead.service.jobs import Effects, EndedAttempt

BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)  # seconds
OUTCOMES = ("finished", "failed", "cancelled", "lost")


@dataclass(slots=True)
class Histogram:
    """Count durations by the bounds between which they fall, and add them up."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


@dataclass(slots=True)
class Counters:
    """All counters; `refused` belongs to the event loop's thread, the others to the state's."""

    decision: Histogram = field(default_factory=Histogram)  # from a request's arrival to the disk
    cycle: Histogram = field(default_factory=Histogram)  # to carry out a batch and place tasks
    commit: Histogram = field(default_factory=Histogram)  # to write and sync a batch
    events: Counter[str] = field(default_factory=Counter)  # by kind
    placements: int = 0
    ended: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(OUTCOMES, 0)))
    refused: Counter[int] = field(default_factory=Counter)  # answers by status of 400 or above

    def count(self, kinds: Iterable[str], effects: Effects) -> None:
        """Count events that are on disk, and their effects."""
        self.events.update(kinds)
        self.placements += len(effects.starts)
        self.ended.update(map(_outcome, effects.attempts))


def _outcome(attempt: EndedAttempt) -> str:
    if attempt.status is None:
        return "lost"
    if not attempt.status:
        return "finished"
    return "cancelled" if attempt.reason == "cancelled" else "failed"
