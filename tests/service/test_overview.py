"""The summary of the cluster for the live page, and its stream."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from random import Random
from typing import Any

import httpx
import pytest

from asked_service import Asked, as_, served
from fairlead.service import _overview as overview_module
from fairlead.service.messages import DeniedError
from live_cluster import Cluster, until


async def fresh(ask: Asked) -> Any:
    """Return a summary of the present state, not a cached one."""
    await ask.service.overview.latest()  # a computation may be under way
    ask.service.overview._fresh_until = 0.0
    return await ask("GET", "/v1/overview")


@served
async def test_groups_sum_up_the_servers(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that are read in parts are the sums of the servers that the API lists."""
    monkeypatch.setattr(overview_module, "SERVERS_AT_ONCE", 4)
    monkeypatch.setattr(overview_module, "MOST_GROUPS", 4)
    rng = Random(1)
    rows = [
        {"name": f"n{k}", "cpu": rng.choice([2, 4]), "memory": 8, "labels": {"rack": f"r{k % 3}"}}
        for k in range(11)
    ]
    await ask("POST", "/v1/workers/join", json={"identity": "1", "servers": rows})
    await ask.submit({"tasks": 9}, {"user": "bo", "tasks": 30, "memory": 1})
    await ask("POST", "/v1/servers/n3/drain")
    found = await fresh(ask)
    servers = (await ask("GET", "/v1/servers"))["servers"]
    assert (len(found["groups"]), found["more_groups"]) == (4, 2)
    for group in found["groups"]:
        alike = [
            server
            for server in servers
            if (server["capacity"], server["labels"]) == (group["capacity"], group["labels"])
        ]
        assert group["servers"] == len(alike)
        assert group["tasks"] == sum(server["tasks"] for server in alike)
        for resource in ("cpu", "memory"):
            used = sum(server["used"][resource] for server in alike)
            assert group["used"].get(resource, 0) == pytest.approx(used)
    assert found["servers"] == {"ready": 10, "drained": 1}
    for amounts in ("used", "capacity"):
        assert found[amounts]["cpu"] == sum(server[amounts]["cpu"] for server in servers)


@served
async def test_users_hold_parts_of_the_cluster(ask: Asked) -> None:
    await ask.join("a", cpu=4)
    await ask("PUT", "/v1/users/bo", json={"weight": 3})
    await ask.submit({"tasks": 4})
    await ask.submit({"user": "bo", "tasks": 9})
    await ask.submit({"user": "cy", "cpu": 50})
    found = await fresh(ask)
    bo, ana = (next(u for u in found["users"] if u["name"] == name) for name in ("bo", "ana"))
    assert found["users"][0] == bo  # the user that is owed most comes first
    assert (bo["fair"], ana["fair"]) == pytest.approx((0.75, 0.25))
    assert (bo["held"], ana["held"]) == (0, 1)
    assert (found["short_users"], found["all_users"], found["active_users"]) == (1, 3, 3)
    assert found["reasons"]["too_large"] == 1
    assert found["proof_holds"]


@served
async def test_a_stream_waits_for_its_caller_and_ends_with_it(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller without allowance gets nothing new; the stream of a removed token ends."""
    monkeypatch.setattr(overview_module, "FRESH_SECONDS", 0.05)
    overview = ask.service.overview
    await overview.latest()
    answers: list[Any] = [False, False, True, DeniedError("gone")]
    sizes = []

    def admit(size: int) -> bool:
        sizes.append(size)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    await ask.join("a")
    pieces = [piece async for piece in overview.events(dict, admit)]
    assert len(pieces) == 2  # the cached summary, and that of the third round
    summaries = [json.loads(piece.removeprefix(b"data: ")) for piece in pieces]
    assert [sum(summary["servers"].values()) for summary in summaries] == [0, 1]
    assert sizes == [0, 0, 0, len(pieces[1])]


@served
async def test_streams_end_with_the_service(ask: Asked) -> None:
    overview = ask.service.overview
    await overview.latest()
    events = overview.events(dict, lambda _: True)
    await anext(events)
    ask.service.wake()
    async with asyncio.timeout(5):
        assert len([piece async for piece in events]) <= 1


def test_streams_of_a_caller_are_bounded(cluster: Cluster) -> None:
    """Over sockets: the ninth is refused until one is closed; a removed token ends its streams."""
    cluster.start_service()
    made = cluster.run("token", "add", "ana", "--role", "user", "--db", str(cluster.db))
    headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
    with ExitStack() as stack, httpx.Client(base_url=cluster.url, headers=headers) as client:
        until(lambda: client.get("/v1/whoami").status_code == 200)
        most = overview_module.MOST_STREAMS_OF_A_CALLER
        streams = [stack.enter_context(client.stream("GET", "/v1/live")) for _ in range(most)]
        assert [stream.status_code for stream in streams] == [200] * most
        assert client.get("/v1/live").status_code == 429
        streams[0].close()

        def opens() -> bool:
            with client.stream("GET", "/v1/live") as another:
                return another.status_code == 200

        until(opens)  # until the service has noticed the end of the first stream
        assert cluster.run("token", "remove", "ana", "--db", str(cluster.db)).returncode == 0
        for _ in streams[1].iter_bytes():
            pass  # until it ends


@served
async def test_a_summary_that_failed_is_refused(
    ask: Asked, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    await ask.service.overview.latest()
    with monkeypatch.context() as patched:
        patched.setattr(overview_module, "_summary", lambda *_: 1 / 0)
        ask.service.overview._fresh_until = 0.0
        for _ in range(2):
            await ask("GET", "/v1/overview", status=503)
    assert "ZeroDivisionError" in caplog.text
    ask.service.overview._fresh_until = 0.0
    await ask("GET", "/v1/overview")


@served
async def test_a_stop_outlives_a_failed_loop(ask: Asked) -> None:
    async def fails() -> None:
        raise ValueError

    ask.service._background.append(asyncio.create_task(fails()))
    await asyncio.sleep(0)  # it has failed; the service can stop all the same


@served(tokens=True)
async def test_what_a_token_sees(ask: Asked) -> None:
    await ask.join("a", cpu=1, **as_("w"))
    await ask.submit({"name": "mine"}, {"user": "bo", "name": "theirs"}, **as_("root"))
    await ask("POST", "/v1/jobs/1/cancel", **as_("ana"))
    for path in ("/metrics", "/v1/overview", "/v1/live", "/v1/servers/search", "/v1/users/ana"):
        await ask("GET", path, status=401)
        await ask("GET", path, status=403, **as_("w"))
    assert (await ask.http.get("/metrics", **as_("ana"))).status_code == 200
    assert await ask("GET", "/v1/whoami", **as_("ana")) == {"role": "user", "subject": "ana"}
    assert (await ask("GET", "/v1/whoami", **as_("w")))["role"] == "worker"
    servers = await ask("GET", "/v1/servers/search", **as_("bo"))
    names = [task.get("name") for task in servers["servers"][0]["running"]]
    assert "mine" not in names
    await ask("GET", "/v1/users/zoe", status=404, **as_("ana"))
