"""The metrics, the summary of the cluster for the live page, and its stream."""

from __future__ import annotations

import asyncio
import json
import math
import re
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from asked_service import Asked, as_, served
from fairlead.errors import CertificateError
from fairlead.scheduler.live_shares import SharesQuestion
from fairlead.service import _overview as overview_module
from fairlead.service.journal.event_journal import JournalError
from fairlead.service.messages import DeniedError
from live_cluster import Cluster, until

ROOT = Path(__file__).parents[3]
DASHBOARD = ROOT / "docs" / "grafana" / "fairlead.json"
Samples = dict[tuple[str, ...], float]


async def read(ask: Asked, *, fresh: bool = True) -> Samples:
    """Return the values on the page by name and values of labels."""
    ask.service.metrics.most_age = 0.0 if fresh else 1000.0
    ask.service.shares.took = 0.0
    answer = await ask.http.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def of(samples: Samples, name: str) -> dict[str, float]:
    return {key[1]: value for key, value in samples.items() if key[0] == f"fairlead_{name}"}


@served
async def test_the_metrics_match_the_state(ask: Asked) -> None:
    empty = await read(ask)
    assert math.isnan(empty["fairlead_fairness_error",])
    assert empty["process_resident_memory_bytes",] > 0
    await ask.join("a", "b", cpu=4)
    await ask("PUT", "/v1/users/bo", json={"weight": 2})
    await ask.submit({"tasks": 10}, {"user": "bo", "tasks": 10}, {"cpu": 5, "tasks": 3})
    await ask.submit({"user": "cy", "after": ["1"], "tasks": 4})
    (held,) = await ask.submit({"user": "cy", "tasks": 6})
    await ask("POST", f"/v1/jobs/{held}/hold")
    await ask("POST", "/v1/servers/b/drain")
    found = await read(ask)
    users = {u["name"]: u for u in (await ask("GET", "/v1/users"))["users"]}
    answer = await ask("GET", "/v1/shares")
    assert answer["certificate"]["holds"]
    shares = {u["name"]: u for u in answer["users"]}
    for metric, by_name, field in (
        ("weight", users, "weight"),
        ("pending_tasks", users, "pending"),
        ("running_tasks", users, "running"),
        ("share", shares, "share"),
        ("fair_share", shares, "fair_share"),
    ):
        assert of(found, metric) == {name: u[field] for name, u in by_name.items()}
    running = of(found, "running_tasks")
    assert sum(running.values()) == of(found, "used")["cpu"]
    assert of(found, "capacity") == {"cpu": 8, "memory": 16, "gpu": 0}
    held_by_weight = (of(found, "share")[n] * users[n]["weight"] for n in users)
    assert math.isclose(sum(held_by_weight), sum(running.values()) / 8)
    pending = sum(u["pending"] for u in users.values())
    assert of(found, "pending_by_reason") == {
        "stopping": 0,
        "after": 4,
        "held": of(found, "pending_tasks")["cy"] - 4,
        "too_large": 3,
        "room": pending - 3 - of(found, "pending_tasks")["cy"],
    }
    assert of(found, "servers") == {"ready": 1, "drained": 1, "unreachable": 0, "lost": 0}
    apart = sum(abs(u["difference"]) for u in shares.values())
    error = apart / sum(u["fair_share"] for u in shares.values())
    assert math.isclose(found["fairlead_fairness_error",], error)
    assert 0 <= found["fairlead_shares_age_seconds",] < 5
    assert found["fairlead_ready",] == 1


@served
async def test_counters_count_events_and_their_effects(ask: Asked) -> None:
    session = await ask.join("a", "b", cpu=2)
    await ask.submit({"tasks": 4}, {"tasks": 2})
    await ask.sync(session, 0, [[1, 0, 1, 0, ""], [1, 1, 1, 3, ""]])
    await ask("POST", "/v1/jobs/2/cancel")
    await ask.sync(session, 0, [[2, k, 1, 143, "cancelled"] for k in (0, 1)])
    await ask("DELETE", "/v1/servers/b")
    await ask("GET", "/v1/jobs/99", status=404)
    await ask("POST", "/v1/jobs", json={"jobs": []}, status=422)
    await ask.sync("nobody", status=409)
    found = await read(ask)
    for kind, n in {"server": 2, "submit": 1, "end": 2, "cancel": 1, "lost": 1}.items():
        assert of(found, "events_total")[kind] == n, kind
    ended = of(found, "tasks_ended_total")
    assert ended == {"finished": 1, "failed": 1, "cancelled": 2, "lost": 1}
    running = sum(of(found, "running_tasks").values())
    assert found["fairlead_placements_total",] == sum(ended.values()) + running
    assert of(found, "requests_refused_total") == {"404": 1, "422": 1, "409": 1}
    changes = 7  # policy, join, submit, two syncs, cancel, remove
    assert found["fairlead_decision_seconds_count",] == changes
    assert changes <= found["fairlead_commit_seconds_count",]
    assert 0 < found["fairlead_commit_seconds_sum",] <= found["fairlead_decision_seconds_sum",]


@served
async def test_users_with_most_tasks_have_gauges(ask: Asked) -> None:
    ask.service.metrics.most_users = 2
    await ask.join("a", cpu=3)
    for name in ("idle", "ana", "bo", "cy"):
        await ask("PUT", f"/v1/users/{name}", json={"weight": 1})
    await ask.submit({"cpu": 8, "tasks": 9}, {"user": "bo", "tasks": 2}, {"user": "cy"})
    found = await read(ask)
    assert of(found, "running_tasks") == {"bo": 2, "cy": 1}
    assert of(found, "share").keys() == {"bo", "cy"}
    ask.service.metrics.most_users = 3
    assert of(await read(ask), "pending_tasks") == {"ana": 9, "bo": 0, "cy": 0}


@served
async def test_shares_are_kept_for_a_while(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    await ask.service.overview.latest()  # the summary computes shares, too
    asked, answer, may_go_on = [], SharesQuestion.answer, threading.Event()
    readers: list[tuple[float, ...]] = []
    recent = ask.service.shares.recent

    def slow(question: SharesQuestion) -> Any:
        asked.append(question)
        may_go_on.wait(60)
        return answer(question)

    async def noted(*limits: float) -> Any:
        readers.append(limits)
        return await recent(*limits)

    monkeypatch.setattr(SharesQuestion, "answer", slow)
    monkeypatch.setattr(ask.service.shares, "recent", noted)
    monkeypatch.setattr("fairlead.service._metrics_page.PATIENCE", 60.0)
    await ask.join("a")
    await ask.submit({"tasks": 2})
    gone = asyncio.create_task(ask.service.shares.now())
    while not asked:
        await asyncio.sleep(0.01)
    gone.cancel()  # a caller that leaves stops no computation
    reading = [asyncio.create_task(read(ask)) for _ in range(5)]
    while len(readers) < 5:
        await asyncio.sleep(0.01)
    may_go_on.set()
    await asyncio.gather(*reading)
    await read(ask, fresh=False)
    ask.service.metrics.most_age, ask.service.shares.took = 0.0, 100.0
    await ask.http.get("/metrics")  # shares are computed for at most a tenth of the time
    assert len(asked) == 1
    may_go_on.clear()
    monkeypatch.setattr("fairlead.service._metrics_page.PATIENCE", 0.3)
    late = asyncio.create_task(read(ask))
    while len(asked) < 2:
        await asyncio.sleep(0.01)
    await ask.submit({"user": "bo"})  # accepted while shares are computed
    found = await late
    assert found["fairlead_shares_age_seconds",] >= 0.3
    assert of(found, "share")["ana"] > 0
    earlier = asyncio.create_task(ask.service.shares.now())
    await ask.submit({"user": "cy"})  # while shares are computed of a state without cy
    may_go_on.set()
    assert "cy" in [queue.name for queue in (await ask.service.shares.now()).shares.queues]
    await earlier


@served
async def test_no_proof_leaves_shares_out(
    ask: Asked, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: SharesQuestion) -> Any:
        time.sleep(0.1)
        raise CertificateError("no answer was proved")

    monkeypatch.setattr(SharesQuestion, "answer", fails)
    await ask.submit({"tasks": 2})
    shares = ask.service.shares
    failing = asyncio.create_task(shares.now())
    await asyncio.sleep(0)  # until it has begun
    assert await asyncio.gather(*(shares.recent(patience=60) for _ in range(3))) == [None] * 3
    with pytest.raises(CertificateError):
        await failing
    assert [record.getMessage() for record in caplog.records] == ["no shares were found"]
    await ask("GET", "/v1/shares", status=500)
    found = await read(ask)
    assert of(found, "share") == {}
    assert of(found, "pending_tasks") == {"ana": 2}
    assert math.isnan(found["fairlead_fairness_error",])


@pytest.mark.parametrize("fault", [JournalError("no space is left"), ZeroDivisionError("secret")])
@served
async def test_a_journal_that_fails_is_told(
    ask: Asked, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """A defect shows no details."""
    await ask.submit({})
    with monkeypatch.context() as patched:
        for name in ("commit", "save"):
            patched.setattr(ask.service.journal, name, Mock(side_effect=fault))
        refused = await ask.refused(status=503)
        ready = await ask("GET", "/readyz", status=503)
        assert [str(fault) in text for text in (refused, ready["detail"])] == [
            isinstance(fault, JournalError)
        ] * 2
        found = await read(ask)
        assert found["fairlead_ready",] == 0
        assert of(found, "pending_tasks") == {}
        assert of(found, "requests_refused_total") == {"503": 2}


@served
async def test_the_dashboard_and_the_guide_name_all_metrics(ask: Asked) -> None:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    named = set(re.findall(r"\bfairlead_\w+", " ".join(queries)))
    session = await ask.join("a")
    await ask.submit({})
    await ask.work(session)
    await ask("GET", "/v1/jobs/99", status=404)
    assert named
    assert named <= {key[0] for key in await read(ask)}
    text = (await ask.http.get("/metrics")).text
    families = re.findall(r"^# TYPE (fairlead_\w+)", text, re.MULTILINE)
    assert len(families) == 20
    guide = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    assert [name for name in families if f"`{name}`" not in guide] == []


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
    await ask.submit({"tasks": 30})
    await ask.submit({"user": "bo", "tasks": 9, "memory": 1})
    await ask("POST", "/v1/servers/n3/drain")
    await ask.submit({"user": "cy", "cpu": 50})
    found = await fresh(ask)
    # The user that is owed most comes first.
    owed = [(not user["is_short"], user["held"] - user["fair"]) for user in found["users"]]
    assert owed == sorted(owed)
    assert found["short_users"] == sum(user["is_short"] for user in found["users"]) > 0
    assert (found["all_users"], found["active_users"], found["reasons"]["too_large"]) == (3, 3, 1)
    assert found["proof_holds"]
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
    events = overview.events(dict, lambda _: True)
    await anext(events)
    ask.service.wake()  # the streams end with the service
    async with asyncio.timeout(5):
        assert len([piece async for piece in events]) <= 1


def test_streams_of_a_caller_are_bounded(cluster: Cluster) -> None:
    """Over sockets: the ninth is refused until one is closed; a removed token ends its streams."""
    cluster.start_service()
    made = cluster.run("token", "add", "ana", "--role", "user", "--db", str(cluster.db))
    headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
    with (
        ExitStack() as stack,
        httpx.Client(base_url=cluster.url, headers=headers, timeout=60) as client,
    ):
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
