"""The setting of self-dividing servers: clocks, messages, and users that come and go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heapreplace
from itertools import groupby
from math import floor, isfinite
from typing import Literal

import numpy as np

from fairlead.errors import InputError, RefusalError
from fairlead.mechanisms.catalogue import find_mechanism
from fairlead.model.arguments import whole_number
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.model.reductions import split_groups

Start = Literal["random", "together", "in-turn"]
STARTS = ("random", "together", "in-turn")
LARGEST_JITTER = 0.9


@dataclass(frozen=True)
class Clocks:
    """The clocks of all servers; raises InputError for values out of range."""

    period: float = 1.0  # mean seconds from one run of a server's procedure to its next
    # Each interval varies uniformly by up to this fraction of the period, from 0 to 0.9. With
    # jitter the clocks drift apart.
    jitter: float = 0.0
    # The first run of each server: at a ``"random"`` time within the first period, all
    # ``"together"`` at 0 s, or ``"in-turn"``, in order and evenly spaced over the period.
    start: Start = "random"

    def __post_init__(self) -> None:
        if not (isfinite(self.period) and self.period > 0):
            raise InputError(f"must be a positive number of seconds, not {self.period}", "period")
        if not 0 <= self.jitter <= LARGEST_JITTER:
            raise InputError(
                f"must be a fraction of the period from 0 to {LARGEST_JITTER}, not {self.jitter}",
                "jitter",
            )
        if self.start not in STARTS:
            raise InputError(f"must be one of {', '.join(STARTS)}, not {self.start!r}", "start")

    @property
    def shortest(self) -> float:
        """The shortest time between two runs of one server, in seconds."""
        return self.period * (1.0 - self.jitter)

    def runs(self, n_servers: int, random: np.random.Generator) -> Iterator[tuple[float, int]]:
        """Yield (time, server) of each run in order of time, then of servers, without end.

        O(log S) for each run, with S servers.
        """
        first = self._first_runs(n_servers, random)
        due = [(time, server) for server, time in enumerate(first.tolist())]
        heapify(due)
        count = [0] * n_servers
        while True:
            time, server = due[0]
            yield time, server
            count[server] += 1
            if self.jitter:
                after = time + self.period * (1.0 + self.jitter * random.uniform(-1.0, 1.0))
            else:  # a sum of periods would drift by rounding
                after = float(first[server]) + count[server] * self.period
            heapreplace(due, (after, server))

    def _first_runs(self, n_servers: int, random: np.random.Generator) -> FloatArray:
        """Return the time of each server's first run, (S,)."""
        if self.start == "random":
            return random.uniform(0.0, self.period, n_servers)
        if self.start == "together":
            return np.zeros(n_servers)
        return self.period * np.arange(n_servers) / n_servers


# A message that arrives this many seconds after a run still counts for it, because of rounding.
ARRIVAL_TOLERANCE = 1e-9
# Largest number of floats in stored messages: two gigabytes.
LARGEST_STORE = 250_000_000


@dataclass(frozen=True)
class Delay:
    """The delay of messages in seconds: uniform between two times, drawn for each receiver.

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
    """The messages under way, and the last arrivals.

    After every run a server sends all others its tasks of each user. Messages may overtake each
    other; a receiver uses the newest that it has, by time of sending. Memory is O(S N V), where V
    is the longest delay over the shortest interval, plus O(S^2 V) if the delay varies.

    Parameters
    ----------
    tasks : (N, S) array
        Tasks at the start, known to all servers.
    delay : Delay
        The delay of each message.
    shortest_interval : float
        Shortest time between two messages of one server, in seconds.
    random : numpy.random.Generator
        Draws delays that vary.

    Raises
    ------
    InputError
        When more messages would be under way than fit in memory.
    """

    def __init__(
        self,
        tasks: FloatArray,
        delay: Delay,
        shortest_interval: float,
        random: np.random.Generator,
    ) -> None:
        n_users, n_servers = tasks.shape
        versions = floor(delay.longest / shortest_interval + ARRIVAL_TOLERANCE) + 2
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

        It replaces the sender's oldest message. Every receiver has a newer one by then, because the
        message after the oldest was sent more than the longest delay ago.
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
        """Return (N,) users' tasks on all other servers, by arrived messages; O(S (N + V))."""
        others = self._others[server]
        receiver = server if self._delay.varies else 0
        arrived = self._arrival[:, others, receiver] <= time + ARRIVAL_TOLERANCE
        slot = np.where(arrived, self._serial[:, others], -1).argmax(axis=0)
        known: FloatArray = self._tasks[slot, others].sum(axis=0)
        return known


@dataclass(frozen=True)
class JoinOrLeave:
    """The arrival or departure of a user."""

    time: float  # seconds from the start
    user: int  # index
    joins: bool  # whether it arrives


@dataclass(frozen=True, eq=False)
class Phase:
    """A time without arrivals and departures of users."""

    # Seconds from the start. Changes at `start` are part of the phase, changes at `end` are not.
    start: float
    end: float
    active: BoolArray  # (N,): users that are present
    # Changes at its start; empty for the first phase, unless users leave at 0 s.
    changes: tuple[JoinOrLeave, ...] = ()

    @property
    def users(self) -> tuple[int, ...]:
        """Present users, by index."""
        return tuple(np.flatnonzero(self.active).tolist())


def phases_between(
    problem: Problem, changes: Sequence[JoinOrLeave], until: float
) -> tuple[Phase, ...]:
    """Split the time from 0 to `until` (seconds) into phases, at the times of changes.

    A user whose first change is to join is absent before; all others are present from the start.
    Raises InputError for an unknown user, a change outside the time, and a user that joins or
    leaves twice in a row, or both at one time.
    """
    for change in changes:
        if not 0 <= change.user < problem.n_users:
            raise InputError(f"there is no user {change.user}", "changes")
        if not (isfinite(change.time) and 0 <= change.time < until):
            name = problem.users.names[change.user]
            raise InputError(
                f"{name!r} cannot {_verb(change)} at {change.time:g} s: the time is 0 s to "
                f"{until:g} s, its end excluded",
                "changes",
            )
    ordered = sorted(changes, key=lambda change: (change.time, change.user))
    active = np.ones(problem.n_users, dtype=bool)
    for change in reversed(ordered):
        active[change.user] = not change.joins
    phases = [Phase(0.0, until, active)]
    for time, together in groupby(ordered, key=lambda change: change.time):
        now = tuple(together)
        active = _apply_changes(problem, phases[-1].active, now)
        before = phases.pop()
        if time > 0:
            phases.append(Phase(before.start, time, before.active, before.changes))
        phases.append(Phase(time, until, active, now))
    return tuple(phases)


def _apply_changes(problem: Problem, before: BoolArray, now: Sequence[JoinOrLeave]) -> BoolArray:
    """Return (N,) users present after changes at one time; raise InputError as `phases_between`."""
    active = before.copy()
    seen: set[int] = set()
    for change in now:
        name = problem.users.names[change.user]
        if change.user in seen:
            raise InputError(f"{name!r} both comes and goes at {change.time:g} s", "changes")
        if active[change.user] == change.joins:
            state = "already present" if change.joins else "absent"
            raise InputError(
                f"{name!r} cannot {_verb(change)} at {change.time:g} s: it is {state}", "changes"
            )
        seen.add(change.user)
        active[change.user] = change.joins
    return active


def _verb(change: JoinOrLeave) -> str:
    return "join" if change.joins else "leave"


MOST_SERVERS = 2_000


@dataclass(frozen=True, eq=False)
class AsynchronousSetting:
    """A cluster whose servers divide themselves, for a time.

    Raises InputError for values without meaning or too many servers, RefusalError when PS-DSF does
    not admit the problem.
    """

    problem: Problem
    until: float  # the end, in seconds
    changes: tuple[JoinOrLeave, ...] = ()
    # Whether servers are shared by time (TDM) instead of divided by resource (RDM).
    time_shared: bool = False
    # The runs of each server's procedure; by default once a second, from a random time on.
    clocks: Clocks = field(default_factory=Clocks)
    delay: Delay = field(default_factory=Delay)  # of messages; by default none
    # Weight of a server's old belief about the others' tasks when a message arrives, from 0 to
    # below 1. The server always divides all its capacity, by its belief.
    damping: float = 0.0
    # Whether each server of a group decides by itself; otherwise a group decides as one server.
    apart: bool = False
    seed: int = 0  # of all randomness: clocks and delays

    def __post_init__(self) -> None:
        find_mechanism(self.mechanism).refuse_unsupported(self.problem)
        for n in np.flatnonzero(self.problem.weight == 0):
            name = self.problem.users.names[n]
            why = (
                "has weight 0, and servers that decide by themselves give it no tasks; leave it out"
            )
            raise RefusalError(self.mechanism, f"user {name!r} {why}")
        if not (isfinite(self.until) and self.until > 0):
            raise InputError(f"must be a positive number of seconds, not {self.until}", "until")
        if not 0 <= self.damping < 1:
            raise InputError(f"must be from 0 to below 1, not {self.damping}", "damping")
        whole_number(self.seed, "seed")
        if self.servers > MOST_SERVERS:
            raise InputError(
                f"{self.servers:,} servers are too many; at most {MOST_SERVERS:,}",
                "apart" if self.apart else "servers",
            )

    @property
    def mechanism(self) -> str:
        """The mechanism whose allocation the servers approach."""
        return "ps-dsf-tdm" if self.time_shared else "ps-dsf"

    @property
    def servers(self) -> int:
        """The number of servers that decide by themselves, S."""
        return int(self.problem.count.sum()) if self.apart else self.problem.n_groups

    @property
    def crowd(self) -> float:
        """The mean number of servers that run while a message is under way.

        None of them knows the decisions of the others. With more than one or two they tend to
        overreact together, and oscillate.
        """
        mean = 0.5 * (self.delay.shortest + self.delay.longest)
        return self.servers * mean / self.clocks.period

    @cached_property
    def servers_as_groups(self) -> tuple[Problem, IntArray]:
        """The problem with the S deciding servers as groups, and the group of each, (S,)."""
        if self.apart:
            return split_groups(self.problem)
        return self.problem, np.arange(self.problem.n_groups)

    def by_group(self, tasks: FloatArray) -> FloatArray:
        """Return (N, G) tasks on each whole group, from (N, S) tasks on the servers."""
        first = np.flatnonzero(np.diff(self.servers_as_groups[1], prepend=-1))
        added: FloatArray = np.add.reduceat(tasks, first, axis=1)
        return added

    def phases(self) -> tuple[Phase, ...]:
        """Return the phases of `phases_between`; raise InputError for invalid changes."""
        return phases_between(self.problem, self.changes, self.until)
