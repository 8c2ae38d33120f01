"""Orders of a false service, or of another version, are refused as a whole."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from asked_service import OverHttpx
from fairlead.service.engines import worker_loop
from fairlead.service.engines.links import Link
from fairlead.service.engines.protocol import EngineNode, Orders, first_fault
from fairlead.service.engines.worker_loop import WorkerLoop
from fairlead.service.worker._attempts import Attempt
from memory_engine import InMemory

KEY = [7, 0, 1]
JOB = {"user": "ana", "command": ["true"], "environment": {}, "directory": "/", "tasks": 1}
NONE: dict[str, Any] = {"seen": 0, "start": [], "stop": [], "logs": [], "jobs": {}}
JOINED = {"session": "s", "wait": 0.01, "tasks": []}
START = ["a", KEY, {"cpu": 1.0, "gpu": 0}, None]
GOOD = NONE | {"seen": 1, "start": [START], "jobs": {"7": JOB}}


class Recording(InMemory):
    """An engine in memory that also records stops and requests for output."""

    def __init__(self) -> None:
        super().__init__([EngineNode("a", {"cpu": 4.0}, {})], lambda _: 1000.0)
        self.others: list[object] = []

    def stop(self, key: object, why: str) -> None:
        self.others.append((key, why))

    async def output(self, key: object, stream: str, offset: int) -> Mapping[str, Any]:
        self.others.append((key, stream, offset))
        return {"fault": "none"}


def follow(monkeypatch: pytest.MonkeyPatch, bad: object, path: str, engine: InMemory) -> int:
    """Follow a service whose first answer at a path is bad; return the number of joins."""
    monkeypatch.setattr(worker_loop, "LONGEST_PAUSE", 0.01)
    joins, bads = 0, [bad]
    over = asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        nonlocal joins
        await asyncio.sleep(0.001)
        joins += request.url.path.endswith("join")
        if request.url.path.endswith(path) and bads:
            content = bads.pop()
            if isinstance(content, bytes):
                return httpx.Response(200, content=content)
            return httpx.Response(200, json=content)
        if request.url.path.endswith("join"):
            return httpx.Response(200, json=JOINED)
        over.set()
        return httpx.Response(200, json=NONE)

    async def whole() -> None:
        transport = httpx.MockTransport(answer)
        async with httpx.AsyncClient(transport=transport, base_url="http://false") as client:
            running = asyncio.create_task(WorkerLoop(Link(OverHttpx(client)), engine).run())
            waiting = asyncio.create_task(over.wait())
            await asyncio.wait({running, waiting}, return_when="FIRST_COMPLETED", timeout=30)
            assert over.is_set(), running
            running.cancel()
            await asyncio.wait({running})

    asyncio.run(whole())
    return joins


def started(*changes: object) -> dict[str, Any]:
    """Return orders whose start begins with other parts than the right ones."""
    return GOOD | {"start": [START, [*changes, *START[len(changes) :]]]}


def spec(**changes: object) -> dict[str, Any]:
    return GOOD | {"jobs": {"7": JOB | changes}}


MALFORMED = {
    "nothing": None,
    "a list": [],
    "a part": {"seen": 0},
    "a path in a key": started("a", ["../../x", 0, 1]),
    "text of digits in a key": started("a", ["7", 0, 1]),
    "a fraction in a key": started("a", [7.5, 0, 1]),
    "a flag in a key": started("a", [True, 0, 1]),
    "a job below 1": started("a", [0, 0, 1]),
    "a job too large": started("a", [2**53 + 1, 0, 1]),
    "an index below 0": started("a", [7, -1, 1]),
    "an index too large": started("a", [7, 10**6 + 1, 1]),
    "an attempt below 1": started("a", [7, 0, 0]),
    "an attempt too large": started("a", [7, 0, 2**31 + 1]),
    "a key of two": started("a", [7, 0]),
    "a key of four": started("a", [7, 0, 1, 1]),
    "no demand": started("a", KEY, None),
    "less than nothing": started("a", KEY, {"cpu": -1.0}),
    "an amount too large": started("a", KEY, {"cpu": 1e10}),
    "an amount as text": started("a", KEY, {"cpu": "1"}),
    "a limit of 0": started("a", KEY, {}, 0.0),
    "a name too long": started("a" * 201),
    "a slash in a name": started("a/b"),
    "no command": spec(command=[]),
    "a command that is text": spec(command="rm -rf /"),
    "a word with a zero": spec(command=["a\0b"]),
    "a user with a slash": spec(user="../root"),
    "no user": spec(user=None),
    "a directory that is a number": spec(directory=5),
    "an environment of numbers": spec(environment={"A": 1}),
    "tasks below 1": spec(tasks=0),
    "a job's id that is none": GOOD | {"jobs": {"../7": JOB}},
    "a stop of a path": GOOD | {"stop": [["a", ["../../x", 0, 1], "why"]]},
    "a stop for a number": GOOD | {"stop": [["a", KEY, 5]]},
    "a reason too long": GOOD | {"stop": [["a", KEY, "x" * 1001]]},
    "logs of another file": GOOD | {"logs": [["q", "a", KEY, "../record", 0]]},
    "logs before the begin": GOOD | {"logs": [["q", "a", KEY, "stdout", -1]]},
    "no number of what was seen": GOOD | {"seen": "1"},
}


PAGES = {"HTML": b"<html>", "depth": b"[" * 10**5}  # of another program


@pytest.mark.parametrize("orders", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_orders_are_refused(orders: object) -> None:
    with pytest.raises(ValidationError):
        Orders.model_validate(orders)


@pytest.mark.parametrize("name", ["nothing", "a path in a key", "a stop of a path"])
def test_nothing_of_malformed_orders_is_done(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    engine = Recording()
    assert follow(monkeypatch, MALFORMED[name], "sync", engine) == 2
    assert engine.started == []
    assert engine.others == []
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert "\n" not in line


def test_a_fault_names_its_place() -> None:
    with pytest.raises(ValidationError) as fault:
        Orders.model_validate(MALFORMED["a path in a key"])
    assert first_fault(fault.value).startswith("start.1.1.0: ")


def test_good_orders_are_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Recording()
    more = {"stop": [["a", KEY, "cancelled"]], "logs": [["q", "a", KEY, "stdout", 0]]}
    assert follow(monkeypatch, GOOD | more, "sync", engine) == 1
    assert [task.key for task in engine.started] == [(7, 0, 1)]
    assert engine.others == [((7, 0, 1), "cancelled"), ((7, 0, 1), "stdout", 0)]


@pytest.mark.parametrize(
    "answer",
    [
        *PAGES.values(),
        {},
        JOINED | {"session": ""},
        JOINED | {"wait": -1.0},
        JOINED | {"wait": 1e9},
        JOINED | {"tasks": [["a", ["../../x", 0, 1]]]},
    ],
    ids=range(7),
)
def test_a_malformed_join_ends_no_task(monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
    engine, kept = Recording(), []
    monkeypatch.setattr(engine, "keep_only", kept.append)
    assert follow(monkeypatch, answer, "join", engine) == 2
    assert kept == [set()]


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_a_page_in_place_of_orders_ends_no_session(
    monkeypatch: pytest.MonkeyPatch, page: bytes
) -> None:
    engine = Recording()
    assert follow(monkeypatch, page, "sync", engine) == 1
    assert engine.started == []


@pytest.mark.parametrize("key", [("../../x", 0, 1), (1, 0, True), (1, 0), (-1, 0, 1), (1.0, 0, 1)])
def test_a_path_is_of_three_numbers(tmp_path: Path, key: Any) -> None:
    with pytest.raises(ValueError, match="three numbers"):
        Attempt.make(tmp_path, key, [], None, 0.0, None)
    assert list(tmp_path.iterdir()) == []


def test_fields_of_a_later_version_are_ignored() -> None:
    later = GOOD | {"later": 1, "jobs": {"7": JOB | {"name": "x", "later": 2}}}
    assert Orders.model_validate(later) == Orders.model_validate(GOOD)
