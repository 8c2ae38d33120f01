"""When each server looks at its division again: every server has a clock of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import isfinite
from typing import Literal

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import FloatArray

Start = Literal["random", "together", "in-turn"]
STARTS = ("random", "together", "in-turn")
LARGEST_JITTER = 0.9


@dataclass(frozen=True)
class Clocks:
    """The clocks of all servers.

    Raises
    ------
    InputError
        For a period that is not positive, a jitter out of range or an unknown start.
    """

    period: float = 1.0  # seconds from one run of a server's procedure to its next, on average
    # By what part of the period each of these times varies, uniformly to both sides, from 0 to 0.9.
    # With jitter the clocks drift apart.
    jitter: float = 0.0
    # When each server runs first: at a ``"random"`` time within the first period, all
    # ``"together"`` at 0 s, or ``"in-turn"``, in order and evenly spaced.
    start: Start = "random"

    def __post_init__(self) -> None:
        if not (isfinite(self.period) and self.period > 0):
            raise InputError(f"must be a positive number of seconds, not {self.period}", "period")
        if not 0 <= self.jitter <= LARGEST_JITTER:
            raise InputError(
                f"must be a part of the period from 0 to {LARGEST_JITTER}, not {self.jitter}",
                "jitter",
            )
        if self.start not in STARTS:
            raise InputError(f"must be one of {', '.join(STARTS)}, not {self.start!r}", "start")

    @property
    def shortest(self) -> float:
        """The shortest time between two runs of one server, in seconds."""
        return self.period * (1.0 - self.jitter)

    def runs(self, n_servers: int, random: np.random.Generator) -> Iterator[tuple[float, int]]:
        """Yield when which server runs, without end; of those at one time the first is first.

        O(log S) for each of S servers.
        """
        first = self._first(n_servers, random)
        due = [(time, server) for server, time in enumerate(first.tolist())]
        heapify(due)
        count = [0] * n_servers
        while True:
            time, server = due[0]
            yield time, server
            count[server] += 1
            if self.jitter:
                after = time + self.period * (1.0 + self.jitter * random.uniform(-1.0, 1.0))
            else:  # a product does not drift as a sum would
                after = float(first[server]) + count[server] * self.period
            heapreplace(due, (after, server))

    def _first(self, n_servers: int, random: np.random.Generator) -> FloatArray:
        if self.start == "random":
            return random.uniform(0.0, self.period, n_servers)
        if self.start == "together":
            return np.zeros(n_servers)
        return self.period * np.arange(n_servers) / n_servers
