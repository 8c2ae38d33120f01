"""What is killed: workers, nodes, the dispatcher, drivers. Nothing is lost, nothing runs twice.

Side effects are counted in files: each start of a call makes one, named by its attempt.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

import fairlead.ray
from conftest import STORE, state, until
from fairlead.errors import InputError
from fairlead.ray import Fair
from fairlead.ray._ray_calls import AGENT, LostError
from fairlead.ray._ray_engine import RayEngine, RayNode
from fairlead.ray.connection import NoDispatcherError, stop
from fairlead.service.bounds import PREEMPTED
from fairlead.service.engines.protocol import EngineNode, JobSpec, Start

pytestmark = pytest.mark.timeout(120)
Connect = Callable[..., Fair]


def starts(folder: Path, name: object) -> int:
    return len(list(folder.glob(f"{name}.*")))


def noting(folder: Path, name: object, seconds: float) -> int:
    """Note a start, and last."""
    path = folder / f"{name}.{time.time_ns()}.{os.getpid()}"
    path.touch()
    time.sleep(seconds)
    return os.getpid()


def lasting_once(folder: Path, name: object) -> None:
    """Note a start; the first one lasts until it is killed, a later one returns at once."""
    noting(folder, name, 0 if starts(folder, name) else 600)


def test_a_start_on_a_node_that_is_gone_is_lost() -> None:
    """The node may be back before the service hears of it: then nothing else ends the attempt."""

    async def begin() -> list[tuple[object, object]]:
        engine = RayEngine()
        job = JobSpec(user="ana", command=[AGENT, "driver"], environment={})
        await engine.start([Start((1, 0, 1), "gone", {"cpu": 1.0}, None, job)])
        return [(ending.key, ending.status) for ending in engine.endings()]

    assert asyncio.run(begin()) == [((1, 0, 1), None)]


def test_an_agent_hears_of_a_stop_when_it_joins_again() -> None:
    """Ended at once, the task would be started again while the agent still runs it."""

    async def begin() -> list[str]:
        engine = RayEngine()
        engine.ray_nodes = {"n0": RayNode(EngineNode("n0", {"cpu": 1.0}, {}), "id")}
        job = JobSpec(user="ana", command=[AGENT, "driver"], environment={})
        await engine.start([Start((1, 0, 1), "n0", {"cpu": 1.0}, None, job)])
        engine.stop((1, 0, 1), PREEMPTED)
        assert not engine.endings()
        engine.join("driver", "ana", ["1"])
        return [message.kind for message in engine.agents["driver"].session.messages]

    assert asyncio.run(begin()) == ["start", "stop"]


def test_the_call_of_a_dead_worker_is_repeated(connect: Connect, tmp_path: Path) -> None:
    fair = connect("ana")

    def dies_once() -> int:
        noting(tmp_path, "once", 0)
        if starts(tmp_path, "once") == 1:
            os._exit(1)
        return 5

    assert ray.get(fair.submit(dies_once), timeout=60) == 5
    assert starts(tmp_path, "once") == 2
    until(lambda: not fair.jobs())
    assert fair.client.jobs("ana", is_all=True)[0].attempts == 2


def test_attempts_are_limited_and_seen(connect: Connect, tmp_path: Path) -> None:
    fair = connect("ana")

    @fair.remote(attempts=2)
    def dies() -> None:
        noting(tmp_path, "dies", 0)
        os._exit(1)

    with pytest.raises(LostError, match="was lost 2 times, at last by WorkerCrashedError"):
        ray.get(dies.remote(), timeout=60)
    assert starts(tmp_path, "dies") == 2
    until(lambda: not fair.jobs())
    job = fair.client.jobs("ana", is_all=True)[0]
    assert (job.state, job.attempts) == ("failed", 2)
    assert "WorkerCrashedError" in job.reason


def test_calls_of_a_lost_node_run_elsewhere(
    connect: Connect, cluster: Cluster, tmp_path: Path
) -> None:
    fair = connect("ana")
    more = cluster.add_node(num_cpus=2, object_store_memory=STORE, node_name="n2")
    until(lambda: "n2" in state()["nodes"])
    before = state()["nodes"]["n2"]
    here = [fair.submit(lasting_once, tmp_path, f"n2-{k}", where=["n2"]) for k in range(2)]
    anywhere = [fair.submit(noting, tmp_path, k, 0.5) for k in range(4)]
    until(lambda: all(starts(tmp_path, f"n2-{k}") for k in range(2)), 60)
    moved = fair.submit(noting, tmp_path, "moved", 0.1)
    cluster.remove_node(more, allow_graceful=False)
    until(lambda: "n2" not in state()["nodes"], 60)
    assert len(set(ray.get([*anywhere, moved], timeout=60))) >= 1
    assert [starts(tmp_path, name) for name in (*range(4), "moved")] == [1] * 5
    # The agent may still hold the lost calls when their next starts come.
    again = cluster.add_node(num_cpus=2, object_store_memory=STORE, node_name="n2")
    ray.get(here, timeout=60)
    assert state()["nodes"]["n2"] not in ("", before)
    assert [starts(tmp_path, f"n2-{k}") for k in range(2)] == [2, 2]
    until(lambda: not fair.jobs())
    # Ray may tell of lost calls before it tells of their node: then a start fails there once more.
    lost = [job for job in fair.client.jobs("ana", is_all=True) if job.where == ["n2"]]
    assert {job.attempts for job in lost} & {2, 3}
    cluster.remove_node(again)
    # Until then, calls of the next test may start on this node, and again after its loss.
    until(lambda: "n2" not in state()["nodes"], 60)


def test_a_killed_dispatcher_goes_on_where_it_was(connect: Connect, tmp_path: Path) -> None:
    fairs = [connect("ana"), connect("bo", weight=2.0)]
    refs = [f.submit(noting, tmp_path, f"{f.user}-{k}", 0.4) for k in range(12) for f in fairs]
    until(lambda: starts(tmp_path, "*") >= 4)
    before = state()["process"]
    os.kill(before, signal.SIGKILL)
    until(lambda: state()["process"] != before, 60)
    ray.get(refs, timeout=60)
    names = [f"{f.user}-{k}" for k in range(12) for f in fairs]
    assert {name: starts(tmp_path, name) for name in names} == dict.fromkeys(names, 1)
    assert {u.name: u.weight for u in fairs[0].client.users()}["bo"] == 2.0
    until(lambda: not fairs[0].jobs() and not fairs[1].jobs())
    fairs[1].set_weight(1.0)


def test_allowed_users_survive_a_restart(connect: Connect, tmp_path: Path) -> None:
    bo = connect("bo")
    stop()
    fairlead.ray.start(users={"ana": 1.0})
    before = state()["process"]
    os.kill(before, signal.SIGKILL)
    until(lambda: state()["process"] != before, 60)
    with pytest.raises(InputError, match="there is no user 'fay'"):
        connect("fay")
    assert ray.get(connect("ana").submit(abs, -1), timeout=30) == 1
    with pytest.raises(NoDispatcherError, match="there is no user 'bo'"):
        ray.get(bo.submit(abs, -1), timeout=30)
    stop()
    with pytest.raises(InputError, match="service: has its own policy and seed"):
        fairlead.ray.start("drf/rrr", service="http://127.0.0.1:9")
    fairlead.ray.start("tsf/rrr", seed=5, journal=f"{tmp_path}/./of-another.db")
    assert (state()["policy"], state()["seed"]) == ("tsf/rrr", 5)
    assert ray.get(connect("fay").submit(abs, -1), timeout=30) == 1  # another one knows of nothing
    stop()
    fairlead.ray.start()


def wait_for(file: Path) -> None:
    """Last until a file is there."""
    while not file.exists():
        time.sleep(0.05)


def test_calls_go_on_with_the_next_dispatcher(connect: Connect, tmp_path: Path) -> None:
    fair = connect("ana")
    running = [fair.submit(wait_for, tmp_path / "end") for _ in range(4)]
    until(lambda: sum(job["running"] for job in fair.jobs()) == 4)
    waiting = fair.submit(abs, -7)
    until(lambda: len(fair.jobs()) >= 2)
    stop()
    fairlead.ray.start()
    (tmp_path / "end").touch()
    assert ray.get([*running, waiting], timeout=60) == [None] * 4 + [7]
    stop()
    with pytest.raises(NoDispatcherError, match="was stopped"):
        ray.get(fair.submit(abs, -8), timeout=60)
    fairlead.ray.start()
    assert ray.get(fair.submit(abs, -9), timeout=60) == 9
    until(lambda: not fair.jobs())


class Idle:
    def rest(self) -> None:
        """Do nothing."""


def interrupted(folder: Path, name: object, seconds: float) -> str:
    """Note a start and an interruption; the first start lasts, a later one returns at once."""
    is_first = not starts(folder, name)
    (folder / f"{name}.{time.time_ns()}").touch()
    end = time.monotonic() + seconds * is_first
    while time.monotonic() < end:
        try:
            time.sleep(0.05)
        except KeyboardInterrupt:
            (folder / f"{name}-interrupted.{time.time_ns()}").touch()
            if name == "polite":
                raise
            if name == "careless":
                raise OSError("no place to save to") from None
    return f"{name} done"


def test_preempted_calls_are_interrupted_or_killed_and_made_again(
    connect: Connect, tmp_path: Path
) -> None:
    """Ana holds both nodes, of which one is due to bo; her later call lost less work."""
    ana, bo = connect("ana"), connect("bo")
    stop()
    fairlead.ray.start("drf/best-fit/over-share", grace=1.0)
    held = ana.submit(time.sleep, 100, demand={"cpu": 2})
    until(lambda: sum(job["running"] for job in ana.jobs()) == 1)
    for name in ("polite", "careless", "stubborn"):
        later = ana.submit(interrupted, tmp_path, name, 100, demand={"cpu": 2})
        until(lambda name=name: starts(tmp_path, name) == 1)
        assert ray.get(bo.submit(noting, tmp_path, "bo", 0.1, demand={"cpu": 2}), timeout=30)
        assert ray.get(later, timeout=30) == f"{name} done"
        assert starts(tmp_path, name) == 2
        assert starts(tmp_path, f"{name}-interrupted") == 1
    actor = ray.get(ana.remote(cpu=2)(Idle).submit(), timeout=30)
    assert ray.get(bo.submit(abs, -1, demand={"cpu": 2}), timeout=30) == 1
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(actor.rest.remote(), timeout=30)
    assert [job["running"] for job in ana.jobs()] == [1]
    ray.cancel(held)
    until(lambda: not ana.jobs())
    stop()
    fairlead.ray.start()


DRIVER = """
import sys, time, ray, fairlead.ray
ray.init(address=sys.argv[1], logging_level="warning")
fair = fairlead.ray.connect("cy")
refs = [fair.submit(time.sleep, 100) for _ in range(6)]
group = None
print("ready", flush=True)
time.sleep(100)
"""


def test_a_killed_driver_frees_its_amounts(
    connect: Connect, drivers: dict[str, Fair], cluster: Cluster
) -> None:
    fair = connect("ana")
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, cluster.address], stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == "ready\n"
    until(lambda: sum(j.running for j in fair.client.jobs("cy")) >= 4)
    waiting = fair.submit(lambda: 3)
    driver.kill()
    driver.wait()
    assert ray.get(waiting, timeout=30) == 3
    until(lambda: not fair.client.jobs("cy"))
    until(lambda: "cy" not in {agent["user"] for agent in state()["agents"]})
    actors = ray._private.state.actors().values()
    alive = {actor["Name"].split("-")[0] for actor in actors if actor["State"] != "DEAD"}
    assert alive == {"fairlead", *(f"fairlead {user}" for user in drivers)}
