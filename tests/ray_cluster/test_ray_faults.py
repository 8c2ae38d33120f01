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
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

import fairlead.ray
from conftest import STORE, Connect, running, state, submitted, until, wait_for
from fairlead.errors import InputError
from fairlead.ray import Fair, _agent
from fairlead.ray._agent import Agent
from fairlead.ray._dispatcher import Dispatcher
from fairlead.ray._ray_calls import AGENT, CallOptions, LostError
from fairlead.ray._ray_engine import RayEngine, RayNode
from fairlead.ray.connection import NoDispatcherError, stop
from fairlead.service.bounds import PREEMPTED
from fairlead.service.client.calls import act_on_job
from fairlead.service.client.exchange import Reply
from fairlead.service.engines.protocol import Ending, EngineNode, JobSpec, Start
from fairlead.service.engines.worker_loop import Link

pytestmark = pytest.mark.timeout(200)
NODE = {"cpu": 2}  # all of a node


@pytest.fixture
def restart(connect: Connect) -> Iterator[Callable[..., None]]:
    """Replace the dispatcher by one with other options; the default one is back at the end."""
    connect("ana")

    def restarted(**options: Any) -> None:
        stop()
        fairlead.ray.start(**options)

    yield restarted
    restarted()


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


async def begun(node: str = "n0") -> RayEngine:
    """Return an engine that got an order to start a task on a node, for an absent agent."""
    engine = RayEngine()
    engine.ray_nodes = {"n0": RayNode(EngineNode("n0", {"cpu": 1.0}, {}), "before")}
    job = JobSpec(user="ana", command=[AGENT, "driver"], environment={})
    await engine.start([Start((1, 0, 1), node, {"cpu": 1.0}, None, job)])
    return engine


def test_cancellations_leave_no_answers_in_the_journal() -> None:
    """Keys make a journal keep answers; a dispatcher repeats no cancellation."""
    asked: list[tuple[str, dict[str, str]]] = []

    async def ask(_: str, target: str, headers: dict[str, str], _body: bytes) -> Reply:
        asked.append((target, headers))
        return Reply(200, {}, b"{}")

    dispatcher = Dispatcher.__new__(Dispatcher)
    exchange: Any = SimpleNamespace(url="", ask=ask)
    dispatcher._link = Link(exchange)
    asyncio.run(dispatcher._try_all(act_on_job("7", "cancel")))
    assert asked == [("/v1/jobs/7/cancel", {})]


def test_a_start_on_a_node_that_is_gone_is_lost() -> None:
    """The node may be back before the service hears of it: then nothing else ends the attempt."""
    engine = asyncio.run(begun("gone"))
    assert engine.endings() == [Ending((1, 0, 1), None, "node lost")]


def test_a_node_that_returns_has_another_id_and_lost_its_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = {"Alive": True, "NodeName": "n0", "Resources": {"CPU": 1.0}, "Labels": {}}
    monkeypatch.setattr(ray, "nodes", lambda: [row | {"NodeID": "after"}])
    engine = asyncio.run(begun())
    assert engine.endings() == []
    asyncio.run(engine.update_nodes())
    assert engine.ray_nodes["n0"].id == "after"
    assert engine.endings() == [Ending((1, 0, 1), None, "node lost")]


def test_an_agent_hears_of_a_stop_when_it_joins_again() -> None:
    """Ended at once, the task would be started again while the agent still runs it."""
    engine = asyncio.run(begun())
    engine.stop((1, 0, 1), PREEMPTED)
    assert not engine.endings()
    engine.join("driver", "ana", ["1"])
    messages = engine.agents["driver"].session.messages
    assert [message.kind for message in messages] == ["start", "stop"]


def test_stop_returns_when_the_name_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray may find a killed dispatcher for a while; then `start` would return it."""
    old = SimpleNamespace(_actor_id="1")
    killed: list[object] = []
    found = [old] * 4

    def get_actor(*_: object, **__: object) -> object:
        if not found:
            raise ValueError("no actor")
        return found.pop()

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "get_actor", get_actor)
    monkeypatch.setattr(ray, "kill", lambda actor, **_: killed.append(actor))
    stop()
    assert (killed, found) == ([old], [])


def test_an_agent_fails_where_no_other_dispatcher_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_there(*_: object, **__: object) -> None:
        raise ValueError("no actor")

    async def gone(*_: object) -> None:
        raise ray.exceptions.ActorDiedError

    async def call() -> None:
        dispatcher = SimpleNamespace(submit=SimpleNamespace(remote=gone))
        agent = Agent("ana-1", "ana", dispatcher)
        await agent.define(1, b"", "abs")
        with pytest.raises(NoDispatcherError, match="was stopped"):
            await agent.run(CallOptions("tasks", 1, "{}", 4), (-8,), {})

    monkeypatch.setattr(ray, "get_actor", none_there)
    monkeypatch.setattr(_agent, "REPLACEMENT_SECONDS", 0.0)
    asyncio.run(call())


def test_lost_calls_are_repeated_as_often_as_allowed(connect: Connect, tmp_path: Path) -> None:
    fair = connect("ana")

    def dies(name: str, often: int) -> int:
        noting(tmp_path, name, 0)
        if starts(tmp_path, name) <= often:
            os._exit(1)
        return 5

    once = fair.submit(dies, "once", 1)
    always = fair.remote(attempts=2)(dies).remote("always", 9)
    with pytest.raises(LostError, match="was lost 2 times, at last by WorkerCrashedError"):
        ray.get(always, timeout=60)
    assert ray.get(once, timeout=60) == 5
    assert (starts(tmp_path, "once"), starts(tmp_path, "always")) == (2, 2)
    until(lambda: not fair.jobs())
    ended = {job.state: job for job in fair.client.jobs("ana", is_all=True)[:2]}  # in any order
    assert {state: job.attempts for state, job in ended.items()} == {"failed": 2, "finished": 2}
    assert "WorkerCrashedError" in ended["failed"].reason


def test_calls_of_a_lost_node_run_elsewhere(
    connect: Connect, cluster: Cluster, tmp_path: Path
) -> None:
    fair = connect("ana")
    more = cluster.add_node(num_cpus=2, object_store_memory=STORE, node_name="n2")
    until(lambda: "n2" in state()["nodes"])
    held = fair.submit(wait_for, tmp_path / "end", demand=NODE, where=["n1"])
    until(lambda: running(fair) == 1)
    lost = [fair.submit(lasting_once, tmp_path, f"n2-{k}", where=["n1", "n2"]) for k in range(2)]
    until(lambda: starts(tmp_path, "n2-*") == 2)
    anywhere = [fair.submit(noting, tmp_path, k, 0.5) for k in range(4)]
    cluster.remove_node(more, allow_graceful=False)
    until(lambda: "n2" not in state()["nodes"])
    (tmp_path / "end").touch()
    ray.get([held, *lost, *anywhere], timeout=60)
    assert [starts(tmp_path, f"n2-{k}") for k in range(2)] == [2, 2]
    assert [starts(tmp_path, k) for k in range(4)] == [1] * 4
    until(lambda: not fair.jobs())
    # Ray may tell of lost calls before it tells of their node: then a start fails there once more.
    jobs = [job for job in fair.client.jobs("ana", is_all=True) if job.where == ["n1", "n2"]]
    assert {job.attempts for job in jobs} & {2, 3}


def test_a_killed_dispatcher_goes_on_where_it_was(
    connect: Connect, restart: Callable[..., None], tmp_path: Path
) -> None:
    fairs, fay = [connect("ana"), connect("bo")], connect("fay")
    restart(users={"ana": 1.0, "bo": 2.0})
    refs = [f.submit(noting, tmp_path, f"{f.user}-{k}", 0.4) for k in range(8) for f in fairs]
    until(lambda: starts(tmp_path, "*") >= 4)
    before = state()["process"]
    os.kill(before, signal.SIGKILL)
    until(lambda: state()["process"] != before)
    ray.get(refs, timeout=60)
    names = [f"{f.user}-{k}" for k in range(8) for f in fairs]
    assert {name: starts(tmp_path, name) for name in names} == dict.fromkeys(names, 1)
    assert {u.name: u.weight for u in fairs[0].client.users()}["bo"] == 2.0
    until(lambda: not fairs[0].jobs() and not fairs[1].jobs())
    with pytest.raises(InputError, match="there is no user 'guy'"):
        fairlead.ray.connect("guy")
    with pytest.raises(NoDispatcherError, match="there is no user 'fay'"):
        ray.get(fay.submit(abs, -1), timeout=60)


def test_calls_go_on_with_the_next_dispatcher(
    connect: Connect, restart: Callable[..., None], tmp_path: Path
) -> None:
    fair = connect("ana")
    refs = [fair.submit(wait_for, tmp_path / "end", demand=NODE) for _ in range(2)]
    until(lambda: running(fair) == 2)
    refs.append(fair.submit(abs, -7))
    until(lambda: submitted(fair) == 3)
    restart()
    (tmp_path / "end").touch()
    assert ray.get(refs, timeout=60) == [None, None, 7]


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
    connect: Connect, restart: Callable[..., None], tmp_path: Path
) -> None:
    """Ana holds both nodes, of which one is due to bo; her later call lost less work."""
    ana, bo = connect("ana"), connect("bo")
    options = {"policy": "drf/best-fit/over-share", "seed": 5, "grace": 5.0}
    restart(**options, journal=f"{tmp_path}/./of-another.db")
    there = options | {"journal": f"{tmp_path}/of-another.db"}
    assert {what: state()[what] for what in there} == there
    held = ana.submit(wait_for, tmp_path / "end", demand=NODE)
    until(lambda: running(ana) == 1)
    for name in ("polite", "careless", "stubborn"):
        later = ana.submit(interrupted, tmp_path, name, 600, demand=NODE)
        until(lambda name=name: starts(tmp_path, name) == 1)
        assert ray.get(bo.submit(noting, tmp_path, "bo", 0.1, demand=NODE), timeout=60)
        assert ray.get(later, timeout=60) == f"{name} done"
        assert starts(tmp_path, name) == 2
        assert starts(tmp_path, f"{name}-interrupted") == 1
    actor = ray.get(ana.remote(cpu=2)(Idle).submit(), timeout=60)
    assert ray.get(bo.submit(abs, -1, demand=NODE), timeout=60) == 1
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(actor.rest.remote(), timeout=60)
    assert [job["running"] for job in ana.jobs()] == [1]
    (tmp_path / "end").touch()
    ray.get(held, timeout=60)


def live_actors() -> set[str]:
    """Return the names of the cluster's actors, without the numbers of drivers."""
    actors = ray._private.state.actors().values()
    return {actor["Name"].split("-")[0] for actor in actors if actor["State"] != "DEAD"}


DRIVER = """
import sys, time, fairlead.ray
fair = fairlead.ray.connect("cy", address=sys.argv[1])
refs = [fair.submit(time.sleep, 600, demand={"cpu": 2}) for _ in range(3)]
print("ready", flush=True)
time.sleep(600)
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
    until(lambda: sum(j.running for j in fair.client.jobs("cy")) == 2)
    waiting = fair.submit(lambda: 3)
    driver.kill()
    driver.wait()
    assert ray.get(waiting, timeout=60) == 3
    until(lambda: not fair.client.jobs("cy"))
    until(lambda: "cy" not in {agent["user"] for agent in state()["agents"]})
    # Ray may list an actor as alive for a while after its end.
    until(lambda: live_actors() == {"fairlead", *(f"fairlead {user}" for user in drivers)})
