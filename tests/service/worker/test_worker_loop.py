"""The worker loop: no task is lost or runs twice, no fault delays others; bad orders do nothing."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from asked_service import Asked, OverHttpx, run, served
from fairlead.errors import InputError
from fairlead.service.engines import worker_loop
from fairlead.service.engines.protocol import Ending, EngineNode, Key, Orders, Start
from fairlead.service.engines.worker_loop import Link, WorkerLoop, do_all
from fairlead.service.journal.tokens import Caller
from fairlead.service.messages import (
    JoinAnswer,
    JoinRequest,
    LogsPiece,
    StaleSessionError,
    SyncRequest,
    UnavailableError,
)
from fairlead.service.worker._attempts import folder_name

KEY = [7, 0, 1]
JOB = {"user": "ana", "command": ["true"], "environment": {}, "directory": "/", "tasks": 1}
NONE: dict[str, Any] = {"seen": 0, "start": [], "stop": [], "logs": [], "jobs": {}}
JOINED = {"session": "s", "wait": 0.0, "tasks": []}
LOGS = NONE | {"seen": 1, "logs": [[f"q{k}", "a", [6, k, 1], "stdout", 0] for k in range(9)]}

# Nodes that join and leave, with a service


class InMemory:
    """An engine without processes: a task ends after some seconds; see `TaskEngine`."""

    identity = "memory"

    def __init__(self, nodes: Iterable[EngineNode], lasts: Callable[[], float]) -> None:
        self.changed = asyncio.Event()
        self.running: dict[Key, Start] = {}
        self.started: list[Start] = []
        self.faults: dict[int, Exception] = {}  # by job: the error of its next start
        self.is_output_lost = False
        self._nodes = {node.name: node for node in nodes}
        self._lasts = lasts
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._over: dict[Key, Ending] = {}

    def add(self, node: EngineNode) -> None:
        self._nodes[node.name] = node
        self.changed.set()

    def remove(self, name: str) -> None:
        del self._nodes[name]
        for key, task in list(self.running.items()):
            if task.node == name:
                self._end(key, None, "node lost")
        self.changed.set()

    def nodes(self) -> Sequence[EngineNode]:
        return list(self._nodes.values())

    async def start(self, tasks: Sequence[Start]) -> None:
        do_all(self._start, tasks)

    def _start(self, task: Start) -> None:
        if (fault := self.faults.pop(task.key[0], None)) is not None:
            raise fault
        if task.key in self.running or task.key in self._over:
            return
        self.running[task.key] = task
        later = asyncio.get_running_loop().call_later
        self._timers[task.key] = later(self._lasts(), self._end, task.key, 0)
        if task.node in self._nodes:
            self.started.append(task)
        else:  # the service may never hear that it was gone
            self._end(task.key, None, "node lost")

    def stop(self, key: Key, why: str) -> None:
        if key in self.running:
            self._end(key, 143, why)

    def keep_only(self, keys: Collection[Key]) -> None:
        for key in self.running.keys() - set(keys):
            self._end(key, 143)
        for key in self._over.keys() - set(keys):
            del self._over[key]

    def endings(self) -> Sequence[Ending]:
        return list(self._over.values())

    def forget(self, endings: Sequence[Ending]) -> None:
        for ending in endings:
            self._over.pop(ending.key, None)

    async def output(self, *_: object) -> Mapping[str, Any]:
        if self.is_output_lost:
            await asyncio.Event().wait()
        return {"data": "", "offset": 0, "size": 2**60}

    async def attend(self) -> None:
        await asyncio.Event().wait()

    def finish(self) -> None:
        """End all running tasks now."""
        for key in list(self.running):
            self._end(key, 0)

    def _end(self, key: Key, status: int | None, why: str = "") -> None:
        self._timers.pop(key).cancel()
        del self.running[key]
        self._over[key] = Ending(key, status, why)
        self.changed.set()


def node(name: str, cpu: float = 2.0, **more: float) -> EngineNode:
    return EngineNode(name, {"cpu": cpu, "memory": 8.0, **more}, {"zone": name})


def followed(folder: Path, engine: InMemory, test: Callable[[Asked], Awaitable[None]]) -> None:
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
    engine = InMemory(spare[:2], lambda: rng.uniform(0.005, 0.05))
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
    engine = InMemory([node("a")], lambda: 0.01)

    async def test(ask: Asked) -> None:
        licensed = {"resources": {"license": 1.5}}
        await ask.refused(licensed)
        engine.add(node("b", license=2.0))
        while len((await ask("GET", "/v1/servers"))["servers"]) < 2:
            await asyncio.sleep(0.01)
        for job in await ask.submit(licensed, licensed):
            assert (await over(ask, job))["server"] == "b"
        assert [task.demand["license"] for task in engine.started] == [1.5, 1.5]
        assert 'resource="license"' in (await ask.http.get("/metrics")).text

    followed(tmp_path, engine, test)


def test_a_gang_of_unlike_tasks(tmp_path: Path) -> None:
    engine = InMemory([node("a", 1.0), node("b", 6.0)], lambda: 0.05)

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
    seconds = iter([1000.0])  # the first task lasts until the others are skipped
    engine = InMemory([node("a", 1.0)], lambda: next(seconds, 0.01))

    async def test(ask: Asked) -> None:
        (job,) = await ask.submit({"tasks": 6})
        while not engine.running:
            await asyncio.sleep(0.01)
        view = await ask("POST", f"/v1/jobs/{job}/skip", json={"tasks": [0, 2, 3, 5, 99]})
        assert (view["ended_tasks"], view["running"]) == (3, 1)
        engine.finish()
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
        waiting = asyncio.create_task(workers.sync(request, Caller(session.owner, "admin", "")))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        session.wake_up.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait({waiting})
            assert waiting.cancelled()


# Faults of a link or of an engine


def start(*jobs: int) -> dict[str, Any]:
    rows = [["a", [job, 0, 1], {"cpu": 1.0}, None] for job in jobs]
    return NONE | {"seen": 2, "start": rows, "jobs": {str(job): JOB for job in jobs}}


class Scripted:
    """A link whose service gives these orders, or raises the exceptions among them."""

    def __init__(self, *orders: object) -> None:
        self.joins: list[object] = []  # answers to the first joins
        self.joined, self.pieces = 0, 0
        self.known: list[Any] = []  # the tasks that the service takes for running
        self.is_patient = False  # whether a request without new orders waits for ever
        self._orders = list(orders)

    async def join(self, _: Mapping[str, Any]) -> object:
        self.joined += 1
        return _next_of(self.joins, JOINED | {"tasks": self.known})

    async def sync(self, _: Mapping[str, Any]) -> object:
        await asyncio.sleep(0.001)
        if self.is_patient and not self._orders:
            await asyncio.Event().wait()
        return _next_of(self._orders, NONE)

    async def logs(self, _: Mapping[str, Any]) -> None:
        self.pieces += 1
        raise InputError("size must be at most 9007199254740992")


def _next_of(answers: list[object], otherwise: object) -> object:
    answer = answers.pop(0) if answers else otherwise
    if isinstance(answer, Exception):
        raise answer
    return answer


def long_running() -> InMemory:
    return InMemory([node("a")], lambda: 1000.0)


def follow(link: Scripted, engine: InMemory, is_over: Callable[[], bool]) -> None:
    """Run a worker loop until a condition holds."""

    async def whole() -> None:
        running = asyncio.create_task(WorkerLoop(link, engine).run())
        async with asyncio.timeout(30):
            while not is_over():
                await asyncio.sleep(0.001)
                if running.done():
                    await running
        running.cancel()
        await asyncio.wait({running})

    asyncio.run(whole())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_loop, "FAULT_PAUSE", 0.0)
    monkeypatch.setattr(worker_loop, "LONGEST_PAUSE", 0.01)


@pytest.mark.parametrize("is_output_lost", [False, True])
def test_bad_output_holds_up_no_start(
    monkeypatch: pytest.MonkeyPatch, is_output_lost: bool
) -> None:
    async def never(_: float) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(worker_loop, "_sleep_about", never)
    link, engine = Scripted(LOGS, start(7)), long_running()
    engine.is_output_lost = is_output_lost
    follow(link, engine, lambda: bool(engine.started))
    assert link.joined == 1
    if not is_output_lost:
        follow(link := Scripted(LOGS), engine, lambda: link.pieces == 9)


def test_a_task_that_fails_to_start_holds_up_no_other() -> None:
    link, engine = Scripted(start(7, 8), start(7, 8)), long_running()
    engine.faults[7] = RuntimeError("a fault")
    link.known = [["a", [8, 0, 1]]]
    follow(link, engine, lambda: len(engine.started) == 2)
    assert [task.key[0] for task in engine.started] == [8, 7]
    assert link.joined == 2, "the service repeated all orders"


@pytest.mark.parametrize("fault", [RuntimeError("a fault"), UnavailableError("a page")])
def test_no_fault_of_a_link_ends_a_worker_or_session(fault: Exception) -> None:
    link, engine = Scripted(fault, start(7)), long_running()
    link.joins = [fault]
    follow(link, engine, lambda: bool(engine.started))
    assert link.joined == 2, "the first join failed, and no session was left"


def test_a_new_node_joins_while_a_request_waits() -> None:
    link, engine = Scripted(), long_running()
    link.is_patient = True

    def has_joined_again() -> bool:
        if link.joined == 1 and len(engine.nodes()) == 1:
            engine.add(EngineNode("b", {"cpu": 1.0}, {}))
        return link.joined == 2

    follow(link, engine, has_joined_again)


def test_orders_are_applied() -> None:
    asked = {"stop": [["a", [7, 0, 1], "cancelled"]], "logs": LOGS["logs"][:1]}
    link, engine = Scripted(start(7) | asked), long_running()
    follow(link, engine, lambda: bool(engine.started and not engine.running and link.pieces))
    assert (len(engine.started), link.pieces, link.joined) == (1, 1, 1)


@pytest.mark.parametrize("bad", [None, LOGS | start(7) | {"stop": [["a", ["../x", 0, 1], ""]]}])
def test_nothing_of_malformed_orders_is_done(bad: object, caplog: pytest.LogCaptureFixture) -> None:
    link, engine = Scripted(bad), long_running()
    follow(link, engine, lambda: link.joined == 2)
    assert (engine.started, link.pieces) == ([], 0)
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert "\n" not in line
    assert "stop.0.1.0: " in line or bad is None


@pytest.mark.parametrize("answer", [None, {}, JOINED | {"tasks": [["a", ["../../x", 0, 1]]]}])
def test_a_malformed_join_ends_no_task(monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
    link, engine = Scripted(), long_running()
    link.joins = [answer]
    kept: list[object] = []
    monkeypatch.setattr(engine, "keep_only", kept.append)
    follow(link, engine, lambda: bool(kept))
    assert (link.joined, kept) == (2, [set()])


def test_a_refusal_ends_a_worker_that_never_joined() -> None:
    link, engine = Scripted(), long_running()
    link.joins = [InputError("no such token")]
    with pytest.raises(ExceptionGroup) as faults:
        follow(link, engine, lambda: False)
    assert faults.group_contains(InputError)


def test_a_refusal_ends_no_worker_that_joined() -> None:
    """Another program may answer at the address while the service is away."""
    stale = StaleSessionError("join again")
    link, engine = Scripted(stale, start(7)), long_running()
    link.joins = [JOINED, InputError("no such token"), InputError("not found")]
    follow(link, engine, lambda: bool(engine.started))
    assert link.joined == 4


# Orders of a false service

START = ["a", KEY, {"cpu": 1.0, "gpu": 0}, None]
GOOD = NONE | {"seen": 1, "start": [START], "jobs": {"7": JOB}}


MALFORMED: dict[str, object] = {
    "nothing": None,
    "a part": {"seen": 0},
    "a path in a key": {"start": [["a", ["../../x", 0, 1], {}, None]]},
    "text of digits in a key": {"start": [["a", ["7", 0, 1], {}, None]]},
    "a flag in a key": {"start": [["a", [True, 0, 1], {}, None]]},
    "an amount as text": {"start": [["a", KEY, {"cpu": "1"}, None]]},
    "a slash in a name": {"start": [["a/b", KEY, {}, None]]},
    "a command that is text": {"jobs": {"7": JOB | {"command": "rm -rf /"}}},
    "no command": {"jobs": {"7": JOB | {"command": []}}},
    "a word with a zero": {"jobs": {"7": JOB | {"command": ["a\0b"]}}},
    "a user with a slash": {"jobs": {"7": JOB | {"user": "../root"}}},
    "an environment of numbers": {"jobs": {"7": JOB | {"environment": {"A": 1}}}},
    "a path as a job's id": {"jobs": {"../7": JOB}},
    "a stop of a path": {"stop": [["a", ["../../x", 0, 1], "why"]]},
    "logs of another file": {"logs": [["q", "a", KEY, "../record", 0]]},
}


@pytest.mark.parametrize("orders", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_orders_are_refused(orders: object) -> None:
    given = NONE | orders if isinstance(orders, dict) and "seen" not in orders else orders
    with pytest.raises(ValidationError):
        Orders.model_validate(given)


LOWEST, HIGHEST = {"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}
BOUNDS = {  # by type: a schema has one of each set
    "integer": [LOWEST, HIGHEST],
    "number": [LOWEST, HIGHEST],
    "string": [{"maxLength", "enum"}],
    "array": [{"maxItems"}],
    "object": [{"maxProperties", "properties"}],
}


def unbounded(schema: object, place: str) -> Iterator[str]:
    """Yield the places in a schema that admit numbers, texts or lists of any size."""
    if isinstance(schema, dict):
        if not all(bounds & schema.keys() for bounds in BOUNDS.get(schema.get("type", ""), [])):
            yield place
        for name, part in schema.items():
            yield from unbounded(part, f"{place}.{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from unbounded(part, place)


ELSEWHERE = {"submitted", "cpu", "memory"}  # only compared, or checked by a function


@pytest.mark.parametrize("message", [Orders, JoinAnswer, JoinRequest, SyncRequest, LogsPiece])
def test_all_numbers_and_texts_of_messages_are_bounded(message: type[BaseModel]) -> None:
    found = unbounded(message.model_json_schema(), "message")
    assert [place for place in found if not ELSEWHERE & set(place.split("."))] == []


@pytest.mark.parametrize("key", [("../../x", 0, 1), (1, 0, True), (1, 0), (-1, 0, 1), (1.0, 0, 1)])
def test_a_path_is_of_three_numbers(key: Any) -> None:
    with pytest.raises(ValueError, match="three numbers"):
        folder_name(key)


def test_fields_of_a_later_version_are_ignored() -> None:
    later = GOOD | {"later": 1, "jobs": {"7": JOB | {"name": "x", "later": 2}}}
    assert Orders.model_validate(later) == Orders.model_validate(GOOD)
