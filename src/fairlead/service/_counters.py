"""What the service has done since it began: counts, and how long things took.

Each number is written by one thread alone, so that counting takes no lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from fairlead.service.jobs import Effects, Past

BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)  # seconds
OUTCOMES = ("finished", "failed", "cancelled", "lost")


@dataclass(slots=True)
class Spread:
    """How many of some durations were at most how long."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


@dataclass(slots=True)
class Tally:
    """All counts; those of refusals belong to the event loop's thread, all others to the engine's.

    Attributes
    ----------
    decision : Spread
        From the arrival of a request that changes something until that is on disk.
    cycle : Spread
        Carrying out what came in together, and placing.
    commit : Spread
        Writing and syncing it.
    events : dict of str to int
        By kind.
    placements : int
    ended : dict of str to int
        Starts of tasks that are over, by outcome.
    refused : dict of int to int
        Requests answered with a status of 400 or above, by status.
    """

    decision: Spread = field(default_factory=Spread)
    cycle: Spread = field(default_factory=Spread)
    commit: Spread = field(default_factory=Spread)
    events: dict[str, int] = field(default_factory=dict)
    placements: int = 0
    ended: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    refused: dict[int, int] = field(default_factory=dict)

    def note(self, kinds: Iterable[str], effects: Effects) -> None:
        """Count events that are on disk, and what followed from them."""
        for kind in kinds:
            self.events[kind] = self.events.get(kind, 0) + 1
        self.placements += len(effects.starts)
        for past in effects.past:
            self.ended[_outcome(past)] += 1

    def refuse(self, status: int) -> None:
        """Count a request that was not granted."""
        self.refused[status] = self.refused.get(status, 0) + 1


def _outcome(past: Past) -> str:
    if past.status is None:
        return "lost"
    if not past.status:
        return "finished"
    return "cancelled" if past.reason == "cancelled" else "failed"
