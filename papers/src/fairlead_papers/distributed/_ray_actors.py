"""Run servers that divide themselves in actors of a Ray cluster, which exchange users' totals.

No actor controls the division, and there is no common clock. The driver gathers the running
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

SAMPLE_SECONDS = 0.1  # between samples
SILENT_SECONDS = 10.0  # an actor without an answer for this time counts as lost
START_SECONDS = 60.0  # all actors must have started within this time
SHORTEST_PERIOD = 0.05
# Ray delivers this rate without a growing queue; its maximum is a few thousand.
MESSAGES_PER_SECOND = 500
# An actor's longest period doubles after this many rounds with changed totals, and at most this
# many times.
ROUNDS_BEFORE_SLOWER, MOST_DOUBLINGS = 20, 6


class Sample:
    """Running tasks, (N, S), on all servers at one time, as the actors report them."""

    def __init__(self, setting: AsynchronousSetting, tasks: FloatArray) -> None:
        self._setting, self.tasks = setting, tasks

    def group_tasks(self) -> FloatArray:
        """Return (N, G) tasks on each whole group."""
        return self._setting.by_group(self.tasks)

    def certificate(self) -> Certificate:
        """Certify the running tasks, by Theorem 1 (RDM) or Theorem 2 (TDM)."""
        problem, _ = self._setting.servers_as_groups
        return prepare_sweeps(problem, self._setting.mechanism).certify(problem, self.tasks)


@dataclass(frozen=True)
class ActorReport:
    """Running tasks and counts of an actor."""

    tasks: dict[int, FloatArray]  # by shard, (N, K) on its K servers
    rounds: int  # of all its servers
    runs: int  # of the server procedure
    messages: int  # sent
    overuse: float  # largest relative overuse of a server after any run


class ServerActor:
    """Run the servers of a shard by its own clock, and send changed totals to the other actors.

    If messages take about as long as a period, all actors react to the same messages, and may
    oscillate for ever. So periods grow by random factors while rounds change totals.
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

    async def start(self, peers: Sequence[Any]) -> None:
        """Set the other actors, and start to run the servers."""
        self._peers = list(peers)
        if self._running is None:
            self._running = asyncio.create_task(self._run())

    async def receive(self, news: Sequence[Totals]) -> None:
        """Receive the totals of another actor."""
        self._holder.receive(news)

    async def take_over(self, shard: int, tenure: int) -> None:
        """Take over a shard of a lost actor."""
        self._holder.take_over(shard, tenure)

    async def report(self) -> ActorReport:
        """Return the running tasks and the counts."""
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
                peer.receive.remote(news)
                self._messages += 1


class ServerActors:
    """The actors of a setting, spread over the nodes of the Ray cluster of this process.

    Raises InputError for fewer actors than 1 or more than servers, FairleadError when an actor does
    not start.
    """

    def __init__(self, setting: AsynchronousSetting, count: int) -> None:
        whole_number(count, "actors", 1, setting.servers)
        self._setting = setting
        self.shards = np.array_split(np.arange(setting.servers), count)
        self._shards_of = {number: [number] for number in range(count)}
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
        self._collect_reports({n: a.report.remote() for n, a in self.actors.items()}, START_SECONDS)
        self._connect()

    def sample(self) -> Sample:
        """Gather the running tasks, after other actors took over the shards of lost ones.

        Raises FairleadError when no actor is left.
        """
        while True:
            lost = self._collect_reports(
                {n: a.report.remote() for n, a in self.actors.items()}, SILENT_SECONDS
            )
            if not lost:
                break
            for number in lost:
                self._replace(number)
        tasks = np.zeros((self._setting.problem.n_users, self._setting.servers))
        for number, report in self._reports.items():
            for shard, on_servers in report.tasks.items():
                if shard in self._shards_of.get(number, ()):
                    tasks[:, self.shards[shard]] = on_servers
        return Sample(self._setting, tasks)

    def counts(self) -> tuple[ActorCount, ...]:
        """Return the counts of each actor, lost ones included."""
        return tuple(
            replace(
                count,
                servers=sum(len(self.shards[shard]) for shard in self._shards_of.get(number, ())),
                rounds=self._reports[number].rounds,
                messages=self._reports[number].messages,
                lost=number not in self.actors,
            )
            for number, count in enumerate(self._counts)
        )

    @property
    def runs(self) -> int:
        """Runs of the server procedure, of all actors together."""
        return sum(report.runs for report in self._reports.values())

    @property
    def overuse(self) -> float:
        """The largest relative overuse of a server after any run."""
        return max(report.overuse for report in self._reports.values())

    def end(self) -> None:
        """End all actors."""
        for actor in self.actors.values():
            ray.kill(actor)
        self.actors = {}

    def _collect_reports(self, requests: dict[int, Any], seconds: float) -> list[int]:
        """Record the reports of actors, and return the numbers of lost actors."""
        ready, _ = ray.wait(list(requests.values()), num_returns=len(requests), timeout=seconds)
        lost = []
        for number, ref in requests.items():
            try:
                if ref not in ready:
                    raise exceptions.GetTimeoutError(f"no answer within {seconds:.0f} s")
                self._reports[number] = ray.get(ref)
            except exceptions.RayTaskError as error:
                raise FairleadError(f"an actor failed: {last_line(error)}") from None
            except exceptions.RayError as error:
                if number not in self._reports:
                    raise FairleadError(f"an actor did not start: {last_line(error)}") from None
                lost.append(number)
        return lost

    def _replace(self, number: int) -> None:
        """Move the shards of a lost actor to the actors with the fewest servers."""
        ray.kill(self.actors.pop(number))  # an actor that was only slow must not go on
        if not self.actors:
            raise FairleadError("no actor is left")
        for shard in self._shards_of.pop(number):
            sizes = {n: sum(len(self.shards[s]) for s in self._shards_of[n]) for n in self.actors}
            new_holder = min(sizes, key=sizes.__getitem__)
            self._tenure[shard] += 1
            self._shards_of[new_holder].append(shard)
            self.actors[new_holder].take_over.remote(shard, self._tenure[shard])
        self._connect()

    def _connect(self) -> None:
        """Start each actor with the others as peers; a running one only gets new peers."""
        for number, actor in self.actors.items():
            actor.start.remote([peer for n, peer in self.actors.items() if n != number])


def run_in_actors(
    setting: AsynchronousSetting,
    actors: int | None = None,
    period: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> AsynchronousRun:
    """Run servers in actors until their division is certified, or until the end of the setting.

    Parameters
    ----------
    setting : AsynchronousSetting
        Without changes and delays. Its seconds are real ones. Its clocks are those of the actors,
        which run all their servers in turn.
    actors : int, optional
        By default one for each processor of the cluster, but at most one for each server.
    period : float, optional
        Seconds between two rounds of an actor, instead of the setting's; when absent, as short as
        the rate of messages allows, at least 0.05 s.
    on_progress : callable, optional
        Called with the number of samples taken, and the largest possible number.

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
        period = max(SHORTEST_PERIOD, actors * (actors - 1) / MESSAGES_PER_SECOND)
    setting = replace(setting, clocks=replace(setting.clocks, period=period))
    samples = Samples(setting.problem, SAMPLE_SECONDS, setting.until, keep_tasks=False)
    cluster = ServerActors(setting, actors)
    try:
        started = monotonic()
        for k in range(len(samples.times)):
            sleep(max(0.0, started + samples.times[k] - monotonic()))
            sample = cluster.sample()
            samples.times[k] = monotonic() - started
            samples.record(k, sample)
            certificate = sample.certificate()
            if on_progress is not None:
                on_progress(k + 1, len(samples.times))
            if certificate.holds or samples.times[k] >= setting.until:
                break
        return AsynchronousRun(
            setting=setting,
            phases=setting.phases(),
            times=samples.times[: k + 1],
            user_tasks=samples.user_tasks[: k + 1],
            utilisation=samples.utilisation[: k + 1],
            violation=samples.violation[: k + 1],
            tasks=sample.group_tasks(),
            tasks_over_time=None,
            certificate=certificate,
            runs=cluster.runs,
            overuse=cluster.overuse,
            actors=cluster.counts(),
        )
    finally:
        cluster.end()
