"""Errors of a worker loop's link or engine are logged, and delay nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fairlead.errors import InputError
from fairlead.service.engines import worker_loop
from fairlead.service.engines.protocol import EngineNode, Start
from fairlead.service.engines.worker_loop import WorkerLoop
from fairlead.service.messages import UnavailableError
from memory_engine import InMemory

JOB = {"user": "ana", "command": ["true"], "environment": {}, "directory": "/", "tasks": 1}
NONE: dict[str, Any] = {"seen": 0, "start": [], "stop": [], "logs": [], "jobs": {}}
JOINED = {"session": "s", "wait": 0.0, "tasks": []}
LOGS = NONE | {"seen": 1, "logs": [[f"q{k}", "a", [6, k, 1], "stdout", 0] for k in range(9)]}


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


class Faulty(InMemory):
    """Tasks in memory; some cannot start, or give no output."""

    def __init__(self) -> None:
        super().__init__([EngineNode("a", {"cpu": 4.0}, {})], lambda _: 1000.0)
        self.faults: dict[int, Exception] = {}
        self.is_output_lost = False

    def _start(self, task: Start) -> None:
        if (fault := self.faults.pop(task.key[0], None)) is not None:
            raise fault
        super()._start(task)

    async def output(self, *_: object) -> Mapping[str, Any]:
        if self.is_output_lost:
            await asyncio.Event().wait()
        return {"data": "", "offset": 0, "size": 2**60}


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
    link, engine = Scripted(LOGS, start(7)), Faulty()
    engine.is_output_lost = is_output_lost
    follow(link, engine, lambda: bool(engine.started))
    assert link.joined == 1
    if not is_output_lost:
        follow(link := Scripted(LOGS), engine, lambda: link.pieces == 9)


def test_a_task_that_fails_to_start_holds_up_no_other() -> None:
    link, engine = Scripted(start(7, 8), start(7, 8)), Faulty()
    engine.faults[7] = RuntimeError("a fault")
    link.known = [["a", [8, 0, 1]]]
    follow(link, engine, lambda: len(engine.started) == 2)
    assert [task.key[0] for task in engine.started] == [8, 7]
    assert link.joined == 2, "the service repeated all orders"


@pytest.mark.parametrize("fault", [RuntimeError("a fault"), UnavailableError("a page")])
def test_no_fault_of_a_link_ends_a_worker_or_session(fault: Exception) -> None:
    link, engine = Scripted(fault, start(7)), Faulty()
    link.joins = [fault]
    follow(link, engine, lambda: bool(engine.started))
    assert link.joined == 2, "the first join failed, and no session was left"


def test_a_new_node_joins_while_a_request_waits() -> None:
    link, engine = Scripted(), Faulty()
    link.is_patient = True

    def has_joined_again() -> bool:
        if link.joined == 1 and len(engine.nodes()) == 1:
            engine.add(EngineNode("b", {"cpu": 1.0}, {}))
        return link.joined == 2

    follow(link, engine, has_joined_again)


def test_orders_are_applied() -> None:
    asked = {"stop": [["a", [7, 0, 1], "cancelled"]], "logs": LOGS["logs"][:1]}
    link, engine = Scripted(start(7) | asked), Faulty()
    follow(link, engine, lambda: bool(engine.started and not engine.running and link.pieces))
    assert (len(engine.started), link.pieces, link.joined) == (1, 1, 1)


@pytest.mark.parametrize("bad", [None, LOGS | start(7) | {"stop": [["a", ["../x", 0, 1], ""]]}])
def test_nothing_of_malformed_orders_is_done(bad: object, caplog: pytest.LogCaptureFixture) -> None:
    link, engine = Scripted(bad), Faulty()
    follow(link, engine, lambda: link.joined == 2)
    assert (engine.started, link.pieces) == ([], 0)
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert "\n" not in line


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        JOINED | {"session": ""},
        JOINED | {"wait": -1.0},
        JOINED | {"wait": 1e9},
        JOINED | {"tasks": [["a", ["../../x", 0, 1]]]},
    ],
)
def test_a_malformed_join_ends_no_task(monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
    link, engine = Scripted(), Faulty()
    link.joins = [answer]
    kept: list[object] = []
    monkeypatch.setattr(engine, "keep_only", kept.append)
    follow(link, engine, lambda: bool(kept))
    assert (link.joined, kept) == (2, [set()])


def test_a_refusal_ends_a_worker_that_never_joined() -> None:
    link, engine = Scripted(), Faulty()
    link.joins = [InputError("no such token")]
    with pytest.raises(ExceptionGroup) as faults:
        follow(link, engine, lambda: False)
    assert faults.group_contains(InputError)


def test_a_refusal_ends_no_worker_that_joined() -> None:
    """Another program may answer at the address while the service is away."""
    stale = worker_loop.StaleSessionError("join again")
    link, engine = Scripted(stale, start(7)), Faulty()
    link.joins = [JOINED, InputError("no such token"), InputError("not found")]
    follow(link, engine, lambda: bool(engine.started))
    assert link.joined == 4
