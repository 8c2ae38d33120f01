"""What a run of servers that decide on their own is given, and what has no meaning."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite

import numpy as np

from fairlead.errors import InputError, RefusalError
from fairlead.mechanisms.catalogue import find_mechanism
from fairlead.model.arguments import whole_number
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.model.reductions import split_groups
from fairlead_papers.distributed.clocks import Clocks
from fairlead_papers.distributed.messages import Delay
from fairlead_papers.distributed.presence import JoinOrLeave, Phase, phases_between

MOST_SERVERS = 2_000


@dataclass(frozen=True, eq=False)
class AsynchronousSetting:
    """A cluster whose servers divide themselves, and the time it is watched for.

    Raises
    ------
    InputError
        For times, changes, a damping or a seed without meaning, or too many servers to watch.
    RefusalError
        When PS-DSF does not admit the problem.
    """

    problem: Problem
    until: float  # when it ends, in seconds
    changes: tuple[JoinOrLeave, ...] = ()  # who comes and goes when
    # Whether servers are shared by time (TDM) instead of divided by resource (RDM).
    time_shared: bool = False
    # When servers run their procedure; once a second, each from a random time on.
    clocks: Clocks = field(default_factory=Clocks)
    delay: Delay = field(default_factory=Delay)  # how long messages take; none
    # Which part of what it believed before a server keeps on believing when it hears news: from 0,
    # none, to below 1. It divides all that it has by what it believes.
    damping: float = 0.0
    # Whether each server of a group decides by itself; otherwise a group is one server.
    apart: bool = False
    seed: int = 0  # of all that is random: clocks and delays

    def __post_init__(self) -> None:
        find_mechanism(self.mechanism).refuse_unsupported(self.problem)
        for n in np.flatnonzero(self.problem.weight == 0):
            name = self.problem.users.names[n]
            why = "has weight 0, and servers that decide alone give it nothing; leave it out"
            raise RefusalError(self.mechanism, f"user {name!r} {why}")
        if not (isfinite(self.until) and self.until > 0):
            raise InputError(f"must be a positive number of seconds, not {self.until}", "until")
        if not 0 <= self.damping < 1:
            raise InputError(f"must be from 0 to below 1, not {self.damping}", "damping")
        whole_number(self.seed, "seed")
        if self.servers > MOST_SERVERS:
            raise InputError(
                f"{self.servers:,} servers are too many to watch; at most {MOST_SERVERS:,}",
                "apart" if self.apart else "servers",
            )

    @property
    def mechanism(self) -> str:
        """The name of what the servers aim at."""
        return "ps-dsf-tdm" if self.time_shared else "ps-dsf"

    @property
    def servers(self) -> int:
        """How many decide on their own, S."""
        return int(self.problem.count.sum()) if self.apart else self.problem.n_groups

    @property
    def crowd(self) -> float:
        """How many servers run, on average, while a message is under way.

        Each of them decides without knowing of the others. Beyond one or two they tend to give and
        take all at once, again and again.
        """
        mean = 0.5 * (self.delay.shortest + self.delay.longest)
        return self.servers * mean / self.clocks.period

    @cached_property
    def watched(self) -> tuple[Problem, IntArray]:
        """The S servers that decide, as groups of a problem, and the group of each, (S,)."""
        if self.apart:
            return split_groups(self.problem)
        return self.problem, np.arange(self.problem.n_groups)

    def by_group(self, tasks: FloatArray) -> FloatArray:
        """Return (N, G) tasks on each whole group, of (N, S) on the servers."""
        first = np.flatnonzero(np.diff(self.watched[1], prepend=-1))
        added: FloatArray = np.add.reduceat(tasks, first, axis=1)
        return added

    def phases(self) -> tuple[Phase, ...]:
        """Return the times in which nobody comes or goes; raise InputError as `phases_between`."""
        return phases_between(self.problem, self.changes, self.until)
