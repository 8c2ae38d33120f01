"""Servers in actors of a Ray cluster: certified, near the exact answer, whoever is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

from conftest import until
from fairlead import solve
from fairlead.certificates.bottleneck_theorems import certify_bottleneck, certify_time_sharing
from fairlead.cli._application import run_command
from fairlead.errors import FairleadError
from fairlead.executors.ray_tasks import ray_executor
from fairlead.formats.problem_file import load
from fairlead_papers.distributed._ray_actors import ServerActor, ServerActors
from fairlead_papers.distributed._shards import Totals
from fairlead_papers.distributed.network_setting import AsynchronousSetting, Clocks
from random_problems import random_problem

PARK = str(Path(__file__).parents[2] / "examples/google-park.yaml")


def test_actors_agree_with_the_exact_answer(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    # With a server's time divided, totals are unique.
    assert run_command(["converge", PARK, "--ray", cluster.address, "--json", "--tdm"]) == 0
    said = capsys.readouterr()
    answer = json.loads(said.out)
    assert said.err == ""
    assert answer["converged"]
    assert answer["certificate"]["violation"] <= 1e-6
    assert len(answer["actors"]) == 4  # one for each processor
    assert len({actor["node"] for actor in answer["actors"]}) == 2
    assert sum(actor["servers"] for actor in answer["actors"]) == load(PARK).n_groups
    assert answer["messages"] == sum(actor["messages"] for actor in answer["actors"]) > 0
    assert all(actor["rounds"] and not actor["lost"] for actor in answer["actors"])
    exact = [user["exact"][answer["mechanism"]] for user in answer["users"]]
    assert [user["tasks"] for user in answer["users"]] == pytest.approx(exact, rel=1e-4)


def test_actors_that_are_killed_are_replaced(cluster: Cluster) -> None:
    problem = random_problem(np.random.default_rng(5), 6, 8, 2, weighted=True)
    clocks = Clocks(period=0.05)
    setting = AsynchronousSetting(problem, 60.0, time_shared=True, clocks=clocks)
    with ray_executor(cluster.address):
        actors = ServerActors(setting, 4)
        actors.sample()
        ray.kill(actors.actors[1])
        pid = actors.actors[2].__ray_call__.remote(lambda _: os.getpid())
        os.kill(ray.get(pid), signal.SIGKILL)
        look = until(lambda: (found := actors.sample()).certificate().holds and found)
        counts = actors.counts()
        for actor in actors.actors.values():
            ray.kill(actor)
        with pytest.raises(FairleadError, match="no actor is left"):
            actors.sample()
    assert certify_time_sharing(problem, look.group_tasks()).violation <= 1e-6
    assert [count.lost for count in counts] == [False, True, True, False]
    assert [count.servers for count in counts] == [4, 0, 0, 4]
    exact = solve(problem, "ps-dsf-tdm").user_tasks
    assert look.group_tasks().sum(axis=1) == pytest.approx(exact, rel=1e-4)


class SlowPeer:
    """Another actor, which hears news late."""

    def __init__(self, actor: ServerActor) -> None:
        self._actor, self.receive = actor, self

    def remote(self, news: list[Totals]) -> None:
        """Deliver after four periods."""
        loop = asyncio.get_running_loop()
        loop.call_later(0.04, lambda: loop.create_task(self._actor.receive(news)))


def test_actors_settle_where_messages_take_longer_than_a_period() -> None:
    problem = load(PARK)
    setting = AsynchronousSetting(problem, 60.0, clocks=Clocks(period=0.01))
    shards = np.array_split(np.arange(setting.servers), 4)

    async def violations() -> AsyncIterator[float]:
        actors = [ServerActor(setting, shards, number) for number in range(4)]
        for actor in actors:
            await actor.start([SlowPeer(peer) for peer in actors if peer is not actor])
        tasks = np.zeros((problem.n_users, setting.servers))
        while True:
            await asyncio.sleep(0.1)
            for actor in actors:
                for shard, on_servers in (await actor.report()).tasks.items():
                    tasks[:, shards[shard]] = on_servers
            yield certify_bottleneck(problem, tasks).violation

    async def settle() -> None:
        async with aclosing(violations()) as seen, asyncio.timeout(60):
            async for violation in seen:
                if violation <= 1e-6:
                    return

    asyncio.run(settle())


@pytest.mark.parametrize(
    ("more", "said"),
    [(["--actors", "99999"], "actors: must be"), (["--leave", "x:3"], "--leave: not with --ray")],
)
def test_what_has_no_meaning_is_refused(
    cluster: Cluster, more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["converge", PARK, "--ray", cluster.address, *more]) == 2
    assert said in capsys.readouterr().err
