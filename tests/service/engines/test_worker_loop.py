"""Tasks in memory on nodes that join and leave: no task is lost, and none runs twice."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from asked_service import Asked, OverHttpx, run, served
from fairlead.service.engines.protocol import EngineNode, TaskEngine
from fairlead.service.engines.worker_loop import Link, WorkerLoop
from fairlead.service.journal.tokens import Token
from fairlead.service.messages import SyncRequest
from memory_engine import InMemory


def node(name: str, cpu: float = 2.0, **more: float) -> EngineNode:
    return EngineNode(name, {"cpu": cpu, "memory": 8.0, **more}, {"zone": name})


def followed(folder: Path, engine: TaskEngine, test: Callable[[Asked], Awaitable[None]]) -> None:
    """Run a test while a worker loop applies the service's orders to the engine."""

    async def whole(ask: Asked) -> None:
        link = Link(OverHttpx(ask.http))
        working = asyncio.create_task(WorkerLoop(link, engine).run())
        tested = asyncio.create_task(test(ask))  # type: ignore[arg-type]
        done, _ = await asyncio.wait({working, tested}, return_when="FIRST_COMPLETED", timeout=60)
        for task in (working, tested):
            task.cancel()
        await asyncio.wait({working, tested})
        assert done, "it took too long"
        await done.pop()

    run(folder, whole)


async def over(ask: Asked, job: str) -> dict[str, object]:
    while True:
        view: dict[str, object] = await ask("GET", f"/v1/jobs/{job}/wait")
        if view["state"] in ("finished", "failed", "cancelled"):
            return view


@pytest.mark.parametrize("seed", range(2))
def test_nodes_come_and_go(tmp_path: Path, seed: int) -> None:
    """Each task succeeds once, whichever nodes leave; no node ever runs more than its capacity."""
    rng = random.Random(seed)
    spare = [node(f"n{k}", 2.0 + k % 2) for k in range(5)]
    engine = InMemory(spare[:2], lambda _: rng.uniform(0.005, 0.05))
    most: Counter[str] = Counter()

    async def test(ask: Asked) -> None:
        jobs = await ask.submit(
            {"tasks": 60}, {"tasks": 20, "user": "bo"}, {"tasks": 2, "gang": True}
        )
        watched = asyncio.create_task(watch())
        for _ in range(12):
            # On a busy machine all 82 tasks may have started before the last round.
            wanted = min(len(engine.started) + 5, 82)
            while len(engine.started) < wanted:
                await asyncio.sleep(0.002)
            there = {n.name for n in engine.nodes()}
            busy = {task.node for task in engine.running.values()}
            gone = [n for n in spare if n.name not in there]
            if gone and rng.random() < 0.6:
                engine.add(rng.choice(gone))
            elif len(there) > 1:
                engine.remove(rng.choice(sorted(busy or there)))
        for n in spare:
            engine.add(n)
        for job in jobs:
            assert (await over(ask, job))["state"] == "finished"
        watched.cancel()
        keys = Counter(task.key for task in engine.started)
        assert max(keys.values()) == 1, "a task ran twice under one attempt"
        tasks = {(key[0], key[1]) for key in keys}
        assert len(tasks) == 82
        assert len(keys) > 82, "no task was lost"
        for n in spare:
            assert most[n.name] <= n.capacity["cpu"]
        assert {s["name"] for s in (await ask("GET", "/v1/servers"))["servers"]} == {
            n.name for n in spare
        }

    async def watch() -> None:
        while True:
            for name, n in Counter(task.node for task in engine.running.values()).items():
                most[name] = max(most[name], n)
            await asyncio.sleep(0)

    followed(tmp_path, engine, test)


def test_nodes_with_other_resources(tmp_path: Path) -> None:
    engine = InMemory([node("a")], lambda _: 0.01)

    async def test(ask: Asked) -> None:
        waits = {"resources": {"license": 1.5}}
        await ask.refused(waits)
        (running,) = await ask.submit({"tasks": 50})
        engine.add(node("b", license=2.0))
        while len((await ask("GET", "/v1/servers"))["servers"]) < 2:
            await asyncio.sleep(0.01)
        first, second = await ask.submit(waits, waits)
        assert (await over(ask, first))["server"] == "b"
        assert (await over(ask, second))["server"] == "b"
        assert (await over(ask, running))["state"] == "finished"
        licensed = [task for task in engine.started if task.demand.get("license")]
        assert [task.demand["license"] for task in licensed] == [1.5, 1.5]
        text = (await ask.http.get("/metrics")).text
        assert 'resource="license"' in text

    followed(tmp_path, engine, test)


def test_a_gang_of_unlike_tasks(tmp_path: Path) -> None:
    engine = InMemory([node("a", 1.0), node("b", 6.0)], lambda _: 0.05)

    async def test(ask: Asked) -> None:
        bundles = [{"cpu": 1, "tasks": 2}, {"cpu": 3, "memory": "2Gi"}]
        (job,) = await ask.submit({"bundles": bundles})
        view = await over(ask, job)
        assert (view["state"], view["tasks"], view["gang"]) == ("finished", 3, True)
        held = sorted((task.key[1], task.demand["cpu"], task.node) for task in engine.started)
        assert [row[:2] for row in held] == [(0, 1.0), (1, 1.0), (2, 3.0)]
        assert held[2][2] == "b"

    followed(tmp_path, engine, test)


def test_tasks_that_are_skipped_count_as_done(tmp_path: Path) -> None:
    engine = InMemory([node("a", 1.0)], lambda _: 0.05)

    async def test(ask: Asked) -> None:
        (job,) = await ask.submit({"tasks": 6})
        while not engine.running:
            await asyncio.sleep(0.01)
        view = await ask("POST", f"/v1/jobs/{job}/skip", json={"tasks": [0, 2, 3, 5, 99]})
        assert (view["ended_tasks"], view["running"]) == (3, 1)
        assert (await over(ask, job))["state"] == "finished"
        assert [task.key[1] for task in engine.started] == [0, 1, 4]
        (gang,) = await ask.submit({"tasks": 2, "gang": True})
        await ask("POST", f"/v1/jobs/{gang}/skip", json={"tasks": [0]}, status=422)

    followed(tmp_path, engine, test)


@served
async def test_a_request_ends_though_it_is_woken_as_well(ask: Asked) -> None:
    workers = ask.service.workers
    session = workers.sessions.by_id[await ask.join("a")]
    request = SyncRequest(session=session.id, seen=0, wait=9.0)
    for steps in range(5):
        waiting = asyncio.create_task(workers.sync(request, Token(session.owner, "admin", "")))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        session.wake_up.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait({waiting})
            assert waiting.cancelled()
