"""What one actor does: its servers divide themselves, knowing of all others users' totals alone.

The servers are parted into shards. An actor has one, and more where it took over those of others.
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
    """A message: (N,) tasks that users have on all servers of a shard together.

    The newest has the largest `tenure`, which counts who had the shard before, and of these the
    largest `serial`: what an actor says that was taken to be dead is never the newest.
    """

    shard: int
    tenure: int
    serial: int
    tasks: FloatArray


@dataclass(eq=False)
class Shard:
    """Servers of an actor: `tasks` is (N, K) of the K `servers`, `said` what others were told."""

    servers: list[Server]
    tasks: FloatArray
    said: Totals


class ShardHolder:
    """The shards of one actor, and the newest totals that it received of all.

    `shards` has the servers of each shard, by their index in `AsynchronousSetting.watched`; the
    holder begins with the shard `own`. `runs` counts runs of the procedure, `overuse` is the most
    by which a server, after any run, used more than it has, relative to that.
    """

    def __init__(self, setting: AsynchronousSetting, shards: Sequence[IntArray], own: int) -> None:
        problem, _ = setting.watched
        self._damping, self._members = setting.damping, shards
        self._servers = servers_of(problem, setting.mechanism)
        self._everybody = np.ones(problem.n_users, dtype=bool)
        nothing = np.zeros(problem.n_users)
        self._heard = [Totals(shard, 0, 0, nothing) for shard in range(len(shards))]
        self._shards: dict[int, Shard] = {}
        self.runs, self.overuse = 0, 0.0
        self.take_over(own, 0)

    def hear(self, news: Iterable[Totals]) -> None:
        """Keep messages that are newer than the earlier ones."""
        for totals in news:
            if totals[1:3] > self._heard[totals.shard][1:3]:
                self._heard[totals.shard] = totals
                self._shards.pop(totals.shard, None)  # another actor has taken it over

    def take_over(self, shard: int, tenure: int) -> None:
        """Take a shard over with its known totals, split by what each server can run."""
        known = self._heard[shard]
        servers = [self._servers[index] for index in self._members[shard]]
        tasks = np.zeros((len(known.tasks), len(servers)))
        for column, server in enumerate(servers):
            tasks[server.users, column] = server.rate
        parts = tasks.sum(axis=1, keepdims=True)
        tasks *= np.divide(known.tasks[:, None], parts, out=np.zeros_like(parts), where=parts > 0)
        said = known._replace(tenure=tenure)
        self._shards[shard] = Shard(servers, tasks, said)
        self._heard[shard] = said
        everywhere = self._everywhere()
        for column, server in enumerate(servers):
            server.believed = (everywhere - tasks[:, column])[server.users]
        self._divide(self._shards[shard])  # the parted totals may be infeasible

    def run_round(self) -> list[Totals]:
        """Run each server's procedure once; return changed totals."""
        news = []
        for shard in self._shards.values():
            self._divide(shard)
            totals = shard.tasks.sum(axis=1)
            if shard.said.serial == 0 or not np.array_equal(totals, shard.said.tasks):
                shard.said = shard.said._replace(serial=shard.said.serial + 1, tasks=totals)
                news.append(shard.said)
        return news

    def tasks(self) -> dict[int, FloatArray]:
        """Return the (N, K) tasks that run on the servers of each shard."""
        return {number: shard.tasks.copy() for number, shard in self._shards.items()}

    def _divide(self, shard: Shard) -> None:
        for column, server in enumerate(shard.servers):
            elsewhere = self._everywhere() - shard.tasks[:, column]
            tasks = server.run(
                elsewhere[server.users], self._everybody[server.users], self._damping
            )
            shard.tasks[server.users, column] = tasks
            self._heard[shard.said.shard] = shard.said._replace(tasks=shard.tasks.sum(axis=1))
            self.runs += 1
            self.overuse = max(self.overuse, server.overuse(tasks))

    def _everywhere(self) -> FloatArray:
        """Return (N,) users' tasks on all servers, as known."""
        everywhere: FloatArray = np.sum([totals.tasks for totals in self._heard], axis=0)
        return everywhere
