"""The shards of one actor: its servers divide themselves, knowing only users' totals elsewhere.

The servers are split into shards. An actor has one shard, and those that it took over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead_papers.distributed.network_setting import AsynchronousSetting
from fairlead_papers.distributed.simulated_run import Server, servers_of


class Totals(NamedTuple):
    """A message: users' tasks on all servers of a shard together.

    The newest message has the largest `tenure`, and of these the largest `serial`. So a message of
    an actor that lost its shard is never the newest.
    """

    shard: int
    tenure: int  # number of actors that had the shard before
    serial: int  # counts the messages under one tenure
    tasks: FloatArray  # (N,)


@dataclass(eq=False)
class Shard:
    """K servers of an actor, and their tasks."""

    servers: list[Server]
    tasks: FloatArray  # (N, K)
    sent: Totals  # the last message to the other actors


class ShardHolder:
    """The shards of one actor, and the newest totals that it received of all.

    `shards` has the servers of each shard, by index in `AsynchronousSetting.servers_as_groups`; the
    holder starts with the shard `own`. `runs` counts runs of the server procedure, `overuse` is the
    largest relative overuse of a server after any run.
    """

    def __init__(self, setting: AsynchronousSetting, shards: Sequence[IntArray], own: int) -> None:
        problem, _ = setting.servers_as_groups
        self._damping, self._members = setting.damping, shards
        self._servers = servers_of(problem, setting.mechanism)
        self._all_active = np.ones(problem.n_users, dtype=bool)
        nothing = np.zeros(problem.n_users)
        self._received = [Totals(shard, 0, 0, nothing) for shard in range(len(shards))]
        self._shards: dict[int, Shard] = {}
        self.runs, self.overuse = 0, 0.0
        self.take_over(own, 0)

    def receive(self, news: Iterable[Totals]) -> None:
        """Keep messages newer than the known ones; give up shards that others took over."""
        for totals in news:
            if totals[1:3] > self._received[totals.shard][1:3]:
                self._received[totals.shard] = totals
                self._shards.pop(totals.shard, None)  # another actor has taken it over

    def take_over(self, shard: int, tenure: int) -> None:
        """Take a shard over: split its last known totals by the servers' rates, and divide."""
        known = self._received[shard]
        servers = [self._servers[index] for index in self._members[shard]]
        tasks = np.zeros((len(known.tasks), len(servers)))
        for column, server in enumerate(servers):
            tasks[server.users, column] = server.rate
        rates = tasks.sum(axis=1, keepdims=True)
        tasks *= np.divide(known.tasks[:, None], rates, out=np.zeros_like(rates), where=rates > 0)
        taken_over = known._replace(tenure=tenure)
        self._shards[shard] = Shard(servers, tasks, taken_over)
        self._received[shard] = taken_over
        everywhere = self._everywhere()
        for column, server in enumerate(servers):
            server.believed = (everywhere - tasks[:, column])[server.users]
        self._divide(self._shards[shard])  # the split totals may be infeasible

    def run_round(self) -> list[Totals]:
        """Run each server's procedure once; return the changed totals, to be sent."""
        news = []
        for shard in self._shards.values():
            self._divide(shard)
            totals = shard.tasks.sum(axis=1)
            if shard.sent.serial == 0 or not np.array_equal(totals, shard.sent.tasks):
                shard.sent = shard.sent._replace(serial=shard.sent.serial + 1, tasks=totals)
                news.append(shard.sent)
        return news

    def tasks(self) -> dict[int, FloatArray]:
        """Return, by shard, the (N, K) running tasks on its K servers."""
        return {number: shard.tasks.copy() for number, shard in self._shards.items()}

    def _divide(self, shard: Shard) -> None:
        """Run the procedure of each server of a shard, in turn."""
        for column, server in enumerate(shard.servers):
            elsewhere = self._everywhere() - shard.tasks[:, column]
            tasks = server.run(
                elsewhere[server.users], self._all_active[server.users], self._damping
            )
            shard.tasks[server.users, column] = tasks
            self._received[shard.sent.shard] = shard.sent._replace(tasks=shard.tasks.sum(axis=1))
            self.runs += 1
            self.overuse = max(self.overuse, server.overuse(tasks))

    def _everywhere(self) -> FloatArray:
        """Return (N,) users' tasks on all servers, by the newest messages."""
        everywhere: FloatArray = np.sum([totals.tasks for totals in self._received], axis=0)
        return everywhere
