"""Many servers join in parts, so that decisions need not wait; a drain outlives a reboot."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest

from asked_service import Asked, served
from fairlead.errors import InputError
from fairlead.service import _workers as workers
from fairlead.service._state_thread import StateThread
from fairlead.service.journal.tokens import Caller
from fairlead.service.messages import FullError, JoinRequest
from fairlead.service.service_state import MOST_DRAINED
from fairlead.service.sessions import Session
from service.test_state import end, place, submit, with_servers

NAMES = [f"n{i}" for i in range(30)]
OWNER = Caller("w", "worker", "")


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add one server in each transaction."""
    monkeypatch.setattr(workers, "JOIN_SECONDS", -1.0)


@pytest.mark.usefixtures("in_parts")
@served
async def test_other_requests_are_answered_during_a_join(ask: Asked) -> None:
    await ask.submit({"tasks": 60})
    joining = asyncio.create_task(ask.join(*NAMES))
    seen: set[int] = set()
    while not joining.done():
        seen.add(len((await ask("GET", "/v1/servers"))["servers"]))
    assert len(seen - {0, 30}) > 3
    orders = await ask.sync(await joining)
    keys = [tuple(key) for _, key, *_ in orders["start"]]
    assert len(keys) == len(set(keys)) == 60, "tasks placed meanwhile are sent once"


@served
async def test_starts_come_once_with_the_report_they_follow(ask: Asked) -> None:
    """Starts that follow a report come in its answer, not in that of the waiting request."""

    session = await ask.join("a")
    (job,) = await ask.submit({"tasks": 3})
    seen = (await ask.sync(session))["seen"]
    wake_up = ask.service.workers.sessions.by_id[session].wake_up
    with mock.patch.object(wake_up, "wait", wraps=wake_up.wait) as wait:
        waiting = asyncio.create_task(ask.sync(session, seen, wait=10.0))
        while not wait.called:
            assert not waiting.done()
            await asyncio.sleep(0.01)
    orders = await ask.sync(session, seen, [[1, 0, 1, 0, ""]])
    assert [start[1] for start in orders["start"]] == [[1, 2, 1]]
    assert not waiting.done()
    await ask("POST", f"/v1/jobs/{job}/cancel")
    assert len((await waiting)["stop"]) == 2


def test_a_failed_report_wakes_the_waiting_request() -> None:
    session = Session("i", {"a"}, "w")

    def fail() -> None:
        session.queue("stop", "")
        assert not session.wake_up.is_set()
        raise FullError

    with pytest.raises(FullError), session.reporting():
        fail()
    assert session.wake_up.is_set()


@served
async def test_fewer_gpus_keep_off_no_task_without(ask: Asked) -> None:
    session = await ask.join("a", cpu=8, gpu=2)
    await ask.submit({"gpu": 1, "tasks": 2})
    assert len((await ask.sync(session))["start"]) == 2
    await ask.join("a", cpu=8, gpu=1)
    await ask.submit({"cpu": 1}, {"gpu": 1})
    (server,) = (await ask("GET", "/v1/servers"))["servers"]
    assert (server["capacity"]["gpu"], server["used"]["gpu"]) == (1, 2)
    states = [(await ask("GET", f"/v1/jobs/{job}"))["state"] for job in (1, 2, 3)]
    assert states == ["running", "running", "pending"]


@pytest.mark.usefixtures("in_parts")
@served
async def test_servers_that_a_join_leaves_out_are_lost(ask: Asked) -> None:
    await ask.join(*NAMES)
    await ask.join(*NAMES[:3], "new")
    left = (await ask("GET", "/v1/servers"))["servers"]
    assert [server["name"] for server in left] == [*NAMES[:3], "new"]
    taken = {"name": NAMES[0], "cpu": 1, "memory": 1}
    asked = {"identity": "2", "servers": [{**taken, "name": "other"}, taken]}
    refused = await ask("POST", "/v1/workers/join", json=asked, status=422)
    assert "held by another worker" in refused["detail"], "the worker then tries again later"
    assert len((await ask("GET", "/v1/servers"))["servers"]) == 4


@pytest.mark.usefixtures("in_parts")
@served
async def test_names_of_two_joins_at_once_are_bounded(ask: Asked) -> None:
    def body(name: str) -> dict[str, Any]:
        resources = {f"{name}-{i}": 1 for i in range(40)}
        servers = [
            {"name": f"{name}{i}", "cpu": 1, "memory": 1, "resources": resources} for i in range(5)
        ]
        return {"identity": name, "servers": servers}

    answers = await asyncio.gather(
        *(ask.http.post("/v1/workers/join", json=body(name)) for name in "ab")
    )
    assert sorted(answer.status_code for answer in answers) == [200, 422]


@served
async def test_servers_of_a_token_are_bounded(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MOST_SERVERS", 10)

    async def join(names: list[str], identity: str, who: Caller = OWNER) -> None:
        servers = [{"name": name, "cpu": 1, "memory": 1} for name in names]
        asked = JoinRequest.model_validate({"identity": identity, "servers": servers})
        await ask.service.workers.join(asked, who)

    with pytest.raises(InputError):  # for ever, so that the worker ends
        await join(NAMES[:11], "1")
    await join(NAMES[:6], "1")
    await join(NAMES[:6], "1")  # the same servers again
    with pytest.raises(FullError):
        await join(NAMES[6:11], "2")
    await join(NAMES[6:10], "2")
    await join(NAMES[:5], "1")
    await join([*NAMES[6:10], "x"], "2")
    with pytest.raises(FullError):
        await join(["y"], "3")
    await join(["y"], "3", Caller("v", "worker", ""))
    await join(NAMES[11:], "4", Caller("boss", "admin", ""))


def test_a_drained_server_of_a_lost_gang_stays_drained() -> None:
    state = with_servers(a=1, b=1)
    submit(state, tasks=2, gang=True)
    assert place(state) == ["1.0.1 a", "1.1.1 b"]
    state.apply("drain", {"name": "a"}, 2.0)
    state.apply("lost", {"name": "a"}, 2.0)
    assert (state.servers["a"].state, state.drained) == ("lost", {})
    end(state, "1.1.1", 143)
    assert list(state.drained) == ["a"]


def test_events_of_earlier_versions_forget_a_drain() -> None:
    state = with_servers(a=1)
    state.apply("drain", {"name": "a"}, 0.0)
    state.apply("lost", {"name": "a"}, 1.0)
    body = {"name": "a", "capacity": {"cpu": 1.0}, "labels": {}, "identity": "2"}
    state.apply("server", body, 2.0)  # without `drained`, as earlier versions wrote it
    assert (state.servers["a"].state, state.drained) == ("ready", {})


def test_names_of_drained_servers_are_bounded() -> None:
    state = with_servers(last=1)
    state.drained = dict.fromkeys(map(str, range(MOST_DRAINED)))
    state.apply("drain", {"name": "last"}, 0.0)
    state.apply("lost", {"name": "last"}, 1.0)
    assert len(state.drained) == MOST_DRAINED
    assert list(state.drained)[:: MOST_DRAINED - 1] == ["1", "last"]


@served
async def test_a_worker_that_comes_back_is_drained_until_undone(ask: Asked) -> None:
    async def states() -> list[str]:
        return [server["state"] for server in (await ask("GET", "/v1/servers"))["servers"]]

    await ask.join("a")
    await ask("POST", "/v1/servers/a/drain")
    await ask("DELETE", "/v1/servers/a")
    assert await states() == ["gone"]
    await ask.join("a", identity="2")
    assert await states() == ["drained"]
    await ask("DELETE", "/v1/servers/a")
    await ask("POST", "/v1/servers/a/drain", status=404)
    await ask("POST", "/v1/servers/a/undrain")
    assert await states() == []
    await ask("POST", "/v1/servers/a/undrain", status=404)


@served
async def test_a_join_that_fails_halfway_can_be_repeated(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "JOIN_SECONDS", -1.0)
    answer, calls = StateThread.run, [0]

    async def some(engine: StateThread, *asked: Any) -> Any:
        calls[0] += 1
        if calls[0] == 5:
            raise workers.UnavailableError("no")
        return await answer(engine, *asked)

    monkeypatch.setattr(StateThread, "run", some)
    servers = [{"name": name, "cpu": 1, "memory": 1} for name in NAMES]
    asked = {"identity": "1", "servers": servers}
    await ask("POST", "/v1/workers/join", json=asked, status=503)
    assert 0 < len(ask.service.state_thread.state.servers) < len(NAMES)
    assert set(ask.service.sessions.without_session) == set(NAMES)
    session = await ask.join(*NAMES)
    assert len(ask.service.state_thread.state.servers) == len(NAMES)
    assert ask.service.sessions.by_id[session].servers == set(NAMES)
    assert not ask.service.sessions.without_session
