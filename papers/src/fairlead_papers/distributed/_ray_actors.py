"""Servers that divide themselves in actors of a Ray cluster, and exchange users' totals.

No actor is in charge of the division, and there is no common clock. The driver gathers the running
tasks, certifies them, ends the actors when the certificate holds, and moves the shards of a lost
actor to another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic, sleep
from typing import Any

import numpy as np
import ray
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fairlead.errors import FairleadError
from fairlead.executors.ray_tasks import last_line, working_nodes
from fairlead.mechanisms.psdsf import prepare_sweeps
from fairlead.model.allocation import Certificate
from fairlead.model.arguments import whole_number
from fairlead.model.cluster import FloatArray, IntArray
from fairlead_papers.distributed._shards import ShardHolder, Totals
from fairlead_papers.distributed.network_setting import AsynchronousSetting
from fairlead_papers.distributed.simulated_run import ActorCount, AsynchronousRun, Samples

# Seconds between samples; until an actor that does not answer counts as lost; until all began.
SAMPLE_SECONDS, SILENT_SECONDS, BEGIN_SECONDS = 0.1, 10.0, 60.0
LEAST_PERIOD = 0.05
# Messages that Ray carries without a queue that grows; a few thousand a second are its most.
MESSAGES_PER_SECOND = 500
# Rounds with changed totals after which an actor's longest period doubles, and most doublings.
ROUNDS_BEFORE_SLOWER, MOST_DOUBLINGS = 20, 6


class Sample:
    """Running tasks, (N, S), on all servers at one time, as the actors report them."""

    def __init__(self, setting: AsynchronousSetting, tasks: FloatArray) -> None:
        self._setting, self.tasks = setting, tasks

    def group_tasks(self) -> FloatArray:
        """Return (N, G) tasks on each whole group."""
        return self._setting.by_group(self.tasks)

    def certificate(self) -> Certificate:
        """Certify the running tasks, by the theorem that defines the mechanism."""
        problem, _ = self._setting.watched
        return prepare_sweeps(problem, self._setting.mechanism).certify(problem, self.tasks)


@dataclass(frozen=True)
class ActorReport:
    """Running tasks and counts of an actor."""

    tasks: dict[int, FloatArray]
    rounds: int
    runs: int
    messages: int
    overuse: float


class ServerActor:
    """Runs its servers by its own clock, and sends changed totals to the other actors.

    Where messages take about as long as a period, all actors answer the same news, and may swing
    for ever. So, while rounds change something, periods become longer, by random times.
    """

    def __init__(
        self, setting: AsynchronousSetting, shards: Sequence[IntArray], number: int
    ) -> None:
        self._holder = ShardHolder(setting, shards, number)
        self._random = np.random.default_rng([setting.seed, number])
        self._due = setting.clocks.runs(1, self._random)
        self._peers: list[Any] = []
        self._rounds = self._messages = 0
        self._running: asyncio.Task[None] | None = None

    async def begin(self, peers: Sequence[Any]) -> None:
        """Set the other actors, and start the servers."""
        self._peers = list(peers)
        if self._running is None:
            self._running = asyncio.create_task(self._run())

    async def hear(self, news: Sequence[Totals]) -> None:
        """Receive totals of another actor."""
        self._holder.hear(news)

    async def take_over(self, shard: int, tenure: int) -> None:
        """Take over the servers of a lost actor."""
        self._holder.take_over(shard, tenure)

    async def report(self) -> ActorReport:
        """Return the running tasks."""
        holder = self._holder
        return ActorReport(
            holder.tasks(), self._rounds, holder.runs, self._messages, holder.overuse
        )

    async def _run(self) -> None:
        before, changed = 0.0, 0
        for time, _ in self._due:
            longest = 2 ** min(changed // ROUNDS_BEFORE_SLOWER, MOST_DOUBLINGS)
            await asyncio.sleep((time - before) * self._random.uniform(1, longest))
            before = time
            news = self._holder.run_round()
            changed += bool(news)
            self._rounds += 1
            for peer in self._peers if news else ():
                peer.hear.remote(news)
                self._messages += 1


class ServerActors:
    """The actors of a setting, spread over the nodes of the Ray cluster of this process.

    There is at most one actor a server. Raises InputError for more, or none; FairleadError when an
    actor does not begin.
    """

    def __init__(self, setting: AsynchronousSetting, count: int) -> None:
        whole_number(count, "actors", 1, setting.servers)
        self._setting = setting
        self.shards = np.array_split(np.arange(setting.servers), count)
        self._holds = {number: [number] for number in range(count)}
        self._tenure = [0] * count
        nodes = list(working_nodes().items())
        self.actors: dict[int, Any] = {}
        self._counts: list[ActorCount] = []
        self._reports: dict[int, ActorReport] = {}
        given = ray.put(setting)
        for number in range(count):
            node, (name, _) = nodes[number % len(nodes)]
            self._counts.append(ActorCount(name, len(self.shards[number]), 0, 0, lost=False))
            self.actors[number] = (
                ray.remote(num_cpus=0)(ServerActor)
                .options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
                .remote(given, self.shards, number)
            )
        self._ask({n: a.report.remote() for n, a in self.actors.items()}, BEGIN_SECONDS)
        self._introduce()

    def sample(self) -> Sample:
        """Gather the running tasks, after the shards of lost actors were taken over.

        Raises FairleadError when no actor is left.
        """
        while True:
            lost = self._ask({n: a.report.remote() for n, a in self.actors.items()}, SILENT_SECONDS)
            if not lost:
                break
            for number in lost:
                self._replace(number)
        tasks = np.zeros((self._setting.problem.n_users, self._setting.servers))
        for number, report in self._reports.items():
            for shard, on_servers in report.tasks.items():
                if shard in self._holds.get(number, ()):
                    tasks[:, self.shards[shard]] = on_servers
        return Sample(self._setting, tasks)

    def counts(self) -> tuple[ActorCount, ...]:
        """Return what each actor did, lost ones included."""
        return tuple(
            replace(
                count,
                servers=sum(len(self.shards[shard]) for shard in self._holds.get(number, ())),
                rounds=self._reports[number].rounds,
                messages=self._reports[number].messages,
                lost=number not in self.actors,
            )
            for number, count in enumerate(self._counts)
        )

    @property
    def runs(self) -> int:
        """How often servers ran their procedure."""
        return sum(report.runs for report in self._reports.values())

    @property
    def overuse(self) -> float:
        """The most by which a server used more than it has."""
        return max(report.overuse for report in self._reports.values())

    def end(self) -> None:
        """End all actors."""
        for actor in self.actors.values():
            ray.kill(actor)
        self.actors = {}

    def _ask(self, asked: dict[int, Any], seconds: float) -> list[int]:
        """Record the messages of actors, and return the lost ones."""
        ready, _ = ray.wait(list(asked.values()), num_returns=len(asked), timeout=seconds)
        lost = []
        for number, ref in asked.items():
            try:
                if ref not in ready:
                    raise exceptions.GetTimeoutError(f"no answer within {seconds:.0f} s")
                self._reports[number] = ray.get(ref)
            except exceptions.RayTaskError as fault:
                raise FairleadError(f"an actor failed: {last_line(fault)}") from None
            except exceptions.RayError as fault:
                if number not in self._reports:
                    raise FairleadError(f"an actor did not begin: {last_line(fault)}") from None
                lost.append(number)
        return lost

    def _replace(self, number: int) -> None:
        """Move the shards of a lost actor to the actors with the fewest servers."""
        ray.kill(self.actors.pop(number))  # one that was merely silent says nothing more
        if not self.actors:
            raise FairleadError("no actor is left")
        for shard in self._holds.pop(number):
            sizes = {n: sum(len(self.shards[s]) for s in self._holds[n]) for n in self.actors}
            heir = min(sizes, key=sizes.__getitem__)
            self._tenure[shard] += 1
            self._holds[heir].append(shard)
            self.actors[heir].take_over.remote(shard, self._tenure[shard])
        self._introduce()

    def _introduce(self) -> None:
        for number, actor in self.actors.items():
            actor.begin.remote([peer for n, peer in self.actors.items() if n != number])


def run_in_actors(
    setting: AsynchronousSetting,
    actors: int | None = None,
    period: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> AsynchronousRun:
    """Run servers in actors until their division is certified, or the time is over.

    Parameters
    ----------
    setting : AsynchronousSetting
        Without changes and delays. Its seconds are real ones, and its clocks those of actors: all
        servers of an actor run in turn when it is time.
    actors : int, optional
        By default one for each processor of the cluster, but at most one for each server.
    period : float, optional
        Seconds between two rounds of an actor, in place of the setting's; when absent, as short as
        Ray's rate of messages allows.
    on_progress : callable, optional
        Called with the samples taken, and how many there are if nothing is certified.

    Raises
    ------
    InputError
        When there are more actors than servers, or more samples than fit in memory.
    FairleadError
        When no actor is left.
    """
    if actors is None:
        cpus = sum(int(cpus) for _, cpus in working_nodes().values())
        actors = max(1, min(cpus, setting.servers))
    if period is None:
        period = max(LEAST_PERIOD, actors * (actors - 1) / MESSAGES_PER_SECOND)
    setting = replace(setting, clocks=replace(setting.clocks, period=period))
    record = Samples(setting.problem, SAMPLE_SECONDS, setting.until, keep_tasks=False)
    cluster = ServerActors(setting, actors)
    try:
        began = monotonic()
        for k in range(len(record.times)):
            sleep(max(0.0, began + record.times[k] - monotonic()))
            sample = cluster.sample()
            record.times[k] = monotonic() - began
            record.take(k, sample)
            certificate = sample.certificate()
            if on_progress is not None:
                on_progress(k + 1, len(record.times))
            if certificate.holds or record.times[k] >= setting.until:
                break
        return AsynchronousRun(
            setting=setting,
            phases=setting.phases(),
            times=record.times[: k + 1],
            user_tasks=record.user_tasks[: k + 1],
            utilisation=record.utilisation[: k + 1],
            violation=record.violation[: k + 1],
            tasks=sample.group_tasks(),
            tasks_over_time=None,
            certificate=certificate,
            runs=cluster.runs,
            overuse=cluster.overuse,
            actors=cluster.counts(),
        )
    finally:
        cluster.end()
