"""What each server knows of the others: the newest of their messages that has arrived."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, isfinite

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import FloatArray

# Of a server's time in seconds; what arrives this little later has arrived.
AT_ONCE = 1e-9
# Numbers in messages that may still be wanted: two gigabytes.
LARGEST_STORE = 250_000_000


@dataclass(frozen=True)
class Delay:
    """How long messages take, in seconds: uniform between two times, drawn for each receiver.

    Raises InputError unless ``0 <= shortest <= longest``, both finite.
    """

    shortest: float = 0.0
    longest: float = 0.0

    def __post_init__(self) -> None:
        if not (isfinite(self.longest) and 0 <= self.shortest <= self.longest):
            raise InputError(
                "must be a number of seconds from 0, or two of them in order, not "
                f"{self.shortest:g} to {self.longest:g}",
                "delay",
            )

    @property
    def varies(self) -> bool:
        """Whether messages can overtake each other."""
        return self.longest > self.shortest


class Messages:
    """The messages under way and those that arrived last.

    Each server tells all others, after every run, how many tasks of each user it runs. Messages
    may overtake each other; a receiver goes by the newest that it has, by the time of sending.

    Parameters
    ----------
    tasks : (N, S) float
        What everybody knows at the start.
    shortest_interval : float
        The shortest time between two messages of one server, in seconds.
    random : Generator
        Source of delays that vary.

    Raises
    ------
    InputError
        When more messages would be under way than fit in memory.

    Notes
    -----
    Memory O(S N V) where V is the delay over the interval, plus O(S^2 V) if the delay varies.
    """

    def __init__(
        self,
        tasks: FloatArray,
        delay: Delay,
        shortest_interval: float,
        random: np.random.Generator,
    ) -> None:
        n_users, n_servers = tasks.shape
        versions = floor(delay.longest / shortest_interval + AT_ONCE) + 2
        receivers = n_servers if delay.varies else 1
        size = versions * n_servers * (n_users + receivers)
        if size > LARGEST_STORE:
            raise InputError(
                f"{versions:,} messages of each of {n_servers:,} servers would be under way at a "
                f"time, {size:,} numbers in all; at most {LARGEST_STORE:,} are kept",
                "delay",
            )
        self._delay = delay
        self._random = random
        self._tasks = np.zeros((versions, n_servers, n_users))
        self._tasks[0] = tasks.T
        self._arrival = np.full((versions, n_servers, receivers), np.inf)
        self._arrival[0] = -np.inf
        self._serial = np.zeros((versions, n_servers), dtype=np.int64)
        self._sent = np.zeros(n_servers, dtype=np.int64)
        everyone = np.arange(n_servers)
        self._others = [np.delete(everyone, server) for server in range(n_servers)]

    def send(self, server: int, time: float, tasks: FloatArray) -> None:
        """Send a server's (N,) tasks to all others; O(N), or O(N + S) if delays vary.

        The oldest message of the sender makes room. Everybody has a newer one by then: more than
        the longest delay lies between it and the one that follows it.
        """
        self._sent[server] += 1
        slot = self._sent[server] % len(self._serial)
        self._serial[slot, server] = self._sent[server]
        self._tasks[slot, server] = tasks
        if self._delay.varies:
            receivers = self._arrival.shape[2]
            self._arrival[slot, server] = time + self._random.uniform(
                self._delay.shortest, self._delay.longest, receivers
            )
        else:
            self._arrival[slot, server] = time + self._delay.shortest

    def known_elsewhere(self, server: int, time: float) -> FloatArray:
        """Return (N,) users' tasks on all other servers, as this one knows them; O(S (N + V))."""
        others = self._others[server]
        receiver = server if self._delay.varies else 0
        arrived = self._arrival[:, others, receiver] <= time + AT_ONCE
        slot = np.where(arrived, self._serial[:, others], -1).argmax(axis=0)
        known: FloatArray = self._tasks[slot, others].sum(axis=0)
        return known
