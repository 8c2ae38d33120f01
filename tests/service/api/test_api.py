"""The HTTP API: answers, refusals, rights of callers, and workers that join and leave."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import fairlead
from asked_service import Asked, as_, served
from fairlead.formats.queue_file import QueueFile
from fairlead.service import _workers as workers
from fairlead.service.http import access
from fairlead.service.journal.event_journal import Journal
from fairlead.service.rate_limits import Limits
from fairlead.service.service import Settings

PAGE = Path(fairlead.__file__).parent / "service" / "http" / "page"


@pytest.fixture(autouse=True)
def quick_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(access, "TOKENS_AGE", 0.1)


@served
async def test_a_job_from_submission_to_its_end(ask: Asked) -> None:
    (job,) = await ask.submit({"cpu": "500m", "memory": "1Gi", "directory": "/tmp"})
    session = await ask.join("a")
    orders = await ask.sync(session)
    ((server, key, demand, limit),) = orders["start"]
    assert (server, key, limit) == ("a", [1, 0, 1], None)
    assert demand == {"cpu": 0.5, "memory": 1.0, "gpu": 0}
    assert orders["jobs"][job]["command"] == ["true"]
    assert orders["jobs"][job]["directory"] == "/tmp"
    assert (await ask("GET", f"/v1/jobs/{job}"))["state"] == "running"
    waiting = asyncio.create_task(ask("GET", f"/v1/jobs/{job}/wait?seconds=20"))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await ask.sync(session, orders["seen"], [[*key, 3, ""]])
    view = await waiting
    assert (view["state"], view["exit_status"], view["server"]) == ("failed", 3, "a")
    assert (await ask("GET", "/v1/jobs"))["jobs"] == []
    assert [j["id"] for j in (await ask("GET", "/v1/jobs?all=true"))["jobs"]] == [job]
    (row,) = (await ask("GET", "/v1/history"))["usage"]
    assert (row["user"], row["tasks"]) == ("ana", 1)


@served
async def test_orders_are_told_until_they_were_seen(ask: Asked) -> None:
    session = await ask.join("a")
    await ask.submit({}, {})
    first = await ask.sync(session)
    assert len(first["start"]) == 2
    again = await ask.sync(session)
    assert again["start"] == first["start"]
    other = await ask.join("b", cpu=0.5, identity="2")
    await ask.sync(other, 0, [[1, 0, 1, 0, ""]])
    assert (await ask("GET", "/v1/jobs/1"))["state"] == "running", "not the other's to end"
    done = await ask.sync(session, first["seen"], [[1, 0, 1, 0, ""]])
    assert done["start"] == []
    assert (await ask("GET", "/v1/jobs/1"))["state"] == "finished"
    newer = await ask.join("a")
    assert await ask.sync(session, status=409) == {"detail": "join again"}
    orders = await ask.sync(newer)
    assert [key for _, key, *_ in orders["start"]] == [[2, 0, 1]]


async def pass_without_requests(ask: Asked, server: str, seconds: float, state: str) -> None:
    """Move a worker's last request into the past; wait until the server has a state."""
    ask.service.workers.sessions.by_server[server].last_request -= seconds
    found = ""
    async with asyncio.timeout(20):
        while found != state:
            await asyncio.sleep(0.02)
            servers = (await ask("GET", "/v1/servers"))["servers"]
            found = {each["name"]: each["state"] for each in servers}.get(server, "gone")


@served(settings=Settings(grace=150.0))
async def test_silent_servers_are_drained_and_then_given_up(
    ask: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    session = await ask.join("a")
    await ask.join("b", identity="2")
    await ask.submit({"where": ["a"]}, {"where": ["b"]}, {"where": ["a", "b"], "cpu": 2})
    await pass_without_requests(ask, "a", 100.0, "unreachable")
    why = (await ask("GET", "/v1/jobs/3/explain"))["text"]
    assert "Unresponsive servers count as drained: 1 (a)." in why
    (late,) = await ask.submit({"where": ["a"]})
    assert (await ask("GET", f"/v1/jobs/{late}"))["state"] == "pending"
    assert len((await ask.sync(session))["start"]) == 2, "a server that responds again is used"
    await pass_without_requests(ask, "a", 200.0, "gone")
    (other,) = (await ask("GET", "/v1/servers"))["servers"]
    assert (other["name"], other["state"]) == ("b", "ready")
    view = await ask("GET", "/v1/jobs/1")
    assert (view["state"], view["attempts"]) == ("pending", 1)
    await ask.sync(session, status=409)
    assert "without a request of their workers: a; their tasks run again" in caplog.text
    assert list(ask.service.workers.lost) == ["a"]
    await ask.work(await ask.join("a"))
    assert (await ask("GET", "/v1/jobs/1"))["attempts"] == 2
    found = [ask.service.journal.jobs.last_attempt(1, 0, n) for n in (None, 1, 3)]
    assert found == [(2, "a"), (1, "a"), None]


@served
async def test_output_comes_from_the_worker(ask: Asked) -> None:
    session = await ask.join("a")
    await ask.submit({})
    await ask("GET", "/v1/jobs/1/logs?index=7", status=404)
    # The offset is too large for a worker.
    await ask("GET", f"/v1/jobs/1/logs?offset={2**53 + 1}", status=422)
    orders = await ask.sync(session)
    reading = asyncio.create_task(ask("GET", "/v1/jobs/1/logs?stream=stderr&offset=5"))
    request = (await ask.sync(session, orders["seen"]))["logs"]
    ((name, server, key, stream, offset),) = request
    assert (server, key, stream, offset) == ("a", [1, 0, 1], "stderr", 5)
    data = base64.b64encode(b"oops").decode()
    piece = {"session": session, "request": name, "data": data, "size": 9, "is_over": True}
    await ask("POST", "/v1/workers/logs", json=piece, status=204)
    assert await reading == {"data": data, "offset": 5, "size": 9, "is_over": True}


@served
async def test_hold_release_modify_explain(ask: Asked) -> None:
    (job,) = await ask.submit({"cpu": 9, "where": {"gpu": "T4"}})
    assert (await ask("POST", f"/v1/jobs/{job}/hold"))["state"] == "held"
    assert "is held" in (await ask("GET", f"/v1/jobs/{job}/explain"))["reason"]
    await ask("POST", f"/v1/jobs/{job}/release")
    await ask.join("a")
    why = await ask("GET", f"/v1/jobs/{job}/explain")
    assert (why["state"], why["never"], why["held_by"]) == ("pending", True, "where")
    await ask("PATCH", f"/v1/jobs/{job}", json={"anywhere": True})
    why = await ask("GET", f"/v1/jobs/{job}/explain")
    assert why["servers"] == [{"name": "a", "lacks": {"cpu": 7.0}}]
    view = await ask("PATCH", f"/v1/jobs/{job}", json={"cpu": 1, "priority": 5})
    assert (view["demand"]["cpu"], view["priority"]) == (1.0, 5)
    assert (await ask("GET", f"/v1/jobs/{job}"))["state"] == "running"
    refused = await ask("PATCH", f"/v1/jobs/{job}", json={}, status=422)
    assert refused["detail"] == "nothing to change was given"
    (throttled,) = await ask.submit({"cpu": 0.1, "tasks": 3, "at_most": 1})
    why = await ask("GET", f"/v1/jobs/{throttled}/explain")
    assert why["reason"] == "at most 1 of its tasks run at a time"


@served
async def test_running_tasks_keep_their_demand_and_limit(ask: Asked) -> None:
    session = await ask.join("a", cpu=2)
    await ask.submit({"tasks": 3, "time_limit": 100})
    await ask.submit({"cpu": 2, "time_limit": 100})
    orders = await ask.sync(session)
    assert [start[3] for start in orders["start"]] == [100.0, 100.0]
    await ask("PATCH", "/v1/jobs/1", json={"time_limit": 5})
    started = (await ask("GET", "/v1/jobs/1"))["started"]
    starts = (await ask("GET", "/v1/jobs/2/when"))["starts"]
    assert starts - started == pytest.approx(105)
    await ask("POST", "/v1/jobs/2/cancel")
    await ask.sync(session, orders["seen"], ended=[[1, 0, 1, 0, ""]])
    (third,) = (await ask.sync(session, orders["seen"]))["start"]
    assert third[3] == 5.0
    refused = await ask("PATCH", "/v1/jobs/1", json={"cpu": 1}, status=422)
    assert refused["detail"] == "job 1: all of its tasks have started"


@served
async def test_when_and_why_jobs_start(ask: Asked) -> None:
    session = await ask.join("a", cpu=1)
    await ask.submit({"time_limit": 100}, {"time_limit": 50})
    await ask.submit({"after": ["1"]}, {"cpu": 2})
    await ask.sync(session)
    runs, waits, after, large = [await ask("GET", f"/v1/jobs/{n}/when") for n in range(1, 5)]
    assert runs["state"] == "running"
    assert waits["starts"] - runs["starts"] == pytest.approx(100)
    assert (after["starts"], after["reason"]) == (None, "it waits for job 1")
    assert (large["starts"], large.get("not_before"), large["never"]) == (None, None, True)
    assert large["reason"] == "no allowed server is large enough: it asks for 2 cpu of at most 1"
    await ask("GET", "/v1/jobs/9/when", status=404)
    await ask("POST", "/v1/jobs/3/hold")
    await ask("POST", "/v1/jobs/4/cancel")
    runs, _, after, large = [await ask("GET", f"/v1/jobs/{n}/explain") for n in range(1, 5)]
    assert runs["reason"] == "all of its tasks have started"
    assert "succeed: 1, and it is held" in after["reason"]
    assert large["reason"] == "it is cancelled"


@served
async def test_a_job_for_drained_servers_may_start_after_the_drain(ask: Asked) -> None:
    await ask.join("a", cpu=1)
    await ask("POST", "/v1/servers/a/drain")
    await ask.submit({})
    found = await ask("GET", "/v1/jobs/1/when")
    assert (found["starts"], found["never"]) == (None, False)
    assert found["reason"] == "all allowed servers are drained"
    await ask.join("b", identity="2", cpu=0.5)
    found = await ask("GET", "/v1/jobs/1/when")
    assert found["reason"] == "it waits until the drain of a ends"
    await ask.submit({"cpu": 0.5}, {"cpu": 2})  # the first one has no limit; that is not the cause
    found = await ask("GET", "/v1/jobs/3/when")
    assert (found["starts"], found["never"]) == (None, True)


@served(tokens=True)
async def test_the_page_is_self_contained_and_needs_no_token(ask: Asked) -> None:
    """Its files need no token, but the requests of its scripts do."""
    answer = await ask.http.get("/")
    assert answer.status_code == 200
    rules = answer.headers["Content-Security-Policy"]
    assert rules.startswith("default-src 'none'; script-src 'self'; ")
    assert "--paper:" in answer.text  # a variable of the pages' style
    texts = [answer.text]
    for name in re.findall(r'(?:src|href)="(page/[^"]+)"', answer.text):
        found = await ask.http.get(f"/{name}")
        assert found.status_code == 200, name
    for path in PAGE.glob("*.js"):
        texts.append((await ask.http.get(f"/page/{path.name}")).text)
    for text in texts:
        assert not re.search(r"https?://|innerHTML|insertAdjacent|unsafeHTML|eval\(", text)
    asked = set(re.findall(r"[\"`](/v1/[a-z/-]+)", "".join(texts)))
    assert len(asked) >= 11
    for path in asked:
        await ask("GET", path, status=401)
    docs = await ask.http.get("/docs")
    assert docs.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert 'src="http' not in docs.text
    assert (await ask.http.get("/docs-files/swagger-ui-bundle.js")).status_code == 200


@served
async def test_without_its_libraries_the_page_says_so(
    ask: Asked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("fairlead.service.http._pages.LIBRARIES", tmp_path / "missing")
    answer = await ask.http.get("/")
    assert (answer.status_code, "npm" in answer.text) == (503, True)


MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"cpu": "x"}, "jobs.0.cpu: must be a number or a quantity"),
    ({"cpu": -1}, "jobs.0.cpu: must not be negative"),
    ({"cpu": 1e300}, "jobs.0.cpu: "),
    ({"tasks": 0}, "jobs.0.tasks: "),
    ({"command": []}, "jobs.0.command: "),
    ({"command": "rm -rf /"}, "jobs.0.command: "),
    ({"command": ["a\0b"]}, "jobs.0.command.0: "),
    ({"user": "a/b"}, "jobs.0.user: "),
    ({"user": None}, "user: must be given"),
    ({"after": ["99"]}, "after: there is no job 99"),
    ({"where": {}, "cpus": 1}, "jobs.0.cpus: Extra inputs are not permitted"),
    ({"cpu": 0}, "demand: takes nothing"),
    ({"tasks": 2, "gang": True, "at_most": 1}, "jobs.0: at_most has no meaning"),
    ({"checkpoint_signal": "KILL"}, "jobs.0.checkpoint_signal: "),
]


@served
async def test_a_malformed_request_is_refused_in_one_line(ask: Asked) -> None:
    for wrong, says in MALFORMED:
        detail = await ask.refused(wrong, {})
        assert detail.startswith(says)
        assert "\n" not in detail
    assert (await ask("GET", "/v1/jobs"))["jobs"] == []


@served
async def test_bodies_that_are_none(ask: Asked) -> None:
    json_type = {"Content-Type": "application/json"}
    await ask("POST", "/v1/jobs", content=b"[" * 100_000, headers=json_type, status=400)
    await ask("POST", "/v1/jobs", content=b"\xff", headers=json_type, status=400)
    await ask("POST", "/v1/jobs", data={"a": "b"}, status=422)
    for wrong in (-1, 1e-10, 1e9):
        await ask("PUT", "/v1/users/ana", json={"weight": wrong}, status=422)
    await ask("GET", "/v1/jobs/0", status=422)
    await ask("GET", f"/v1/jobs/{10**30}", status=422)
    await ask("GET", "/v1/jobs/7", status=404)
    await ask("GET", "/v1/nothing", status=404)


@served(limits=Limits(body=1000))
async def test_a_body_that_is_too_large_is_not_read(ask: Asked) -> None:
    await ask("POST", "/v1/jobs", content=b"x" * 2000, status=413)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100

    await ask("POST", "/v1/jobs", content=pieces(), status=413)


@served
async def test_a_slow_body_is_given_up(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.service.http.access.BODY_SECONDS", 0.3)

    async def slowly() -> AsyncIterator[bytes]:
        yield b'{"jobs": ['
        await asyncio.sleep(30)

    slow = asyncio.create_task(ask("POST", "/v1/jobs", content=slowly(), status=408))
    assert await ask.submit() == ["1"]  # other requests are answered meanwhile
    await slow
    assert await ask.submit() == ["2"]


TEAM = QueueFile(
    [{"name": "team"}], {"ana": "team", "bo": "team"}, {"team": {"jobs": 2}, "ana": {"jobs": 1}}
)


@served(settings=Settings(policy="drf/first-fit", queues=TEAM, pending_tasks=10))
async def test_jobs_beyond_a_limit_are_refused(ask: Asked) -> None:
    (first,) = await ask.submit({})
    refused = await ask.refused({}, status=429)
    assert refused == "'ana' has 1 unfinished job; 1 more would exceed the limit of 1"
    await ask.submit({"user": "bo"})
    assert "'team' has 2 unfinished jobs" in await ask.refused({"user": "bo"}, status=429)
    await ask.submit({"user": "cy"}, {"user": "cy", "tasks": 7})
    refused = await ask.refused({"user": "cy", "tasks": 3}, status=429)
    assert refused.startswith("8 tasks of 'cy' wait")
    await ask("POST", f"/v1/jobs/{first}/cancel")
    await ask.submit({"user": "bo"}, {"user": "cy", "tasks": 2})


@served(tokens=True)
async def test_rights_of_roles(ask: Asked) -> None:
    await ask("GET", "/v1/jobs", status=401)
    await ask("GET", "/v1/jobs", headers={"Authorization": "Bearer wrong"}, status=401)
    await ask("GET", "/healthz")
    (mine,) = await ask.submit({"user": None}, **as_("ana"))
    (theirs,) = await ask.submit({"user": "bo"}, **as_("root"))
    for job in (theirs, "999"):
        refused = await ask.refused({"after": [job]}, **as_("ana"))
        assert refused == f"after: there is no job {job}", "it reveals no job of another user"
    await ask.submit({"user": "bo", "after": [theirs]}, **as_("root"))
    refused = await ask.refused(status=403, **as_("bo"))
    assert refused == "you are 'bo', and may not submit for 'ana'"
    for path in ("", "/explain", "/logs", "/wait?seconds=0"):
        await ask("GET", f"/v1/jobs/{theirs}{path}", status=404, **as_("ana"))
    for what in ("cancel", "hold", "release"):
        await ask("POST", f"/v1/jobs/{theirs}/{what}", status=404, **as_("ana"))
    await ask("PATCH", f"/v1/jobs/{theirs}", json={"cpu": 1}, status=404, **as_("ana"))
    assert [j["id"] for j in (await ask("GET", "/v1/jobs?user=bo", **as_("ana")))["jobs"]] == [mine]
    assert len((await ask("GET", "/v1/jobs", **as_("root")))["jobs"]) == 3
    for method, path in (
        ("PUT", "/v1/users/ana"),
        ("POST", "/v1/servers/a/drain"),
        ("POST", "/v1/servers/a/undrain"),
        ("DELETE", "/v1/servers/a"),
        ("POST", "/v1/workers/join"),
        ("POST", "/v1/workers/sync"),
        ("POST", "/v1/workers/logs"),
    ):
        await ask(method, path, json={}, status=403, **as_("ana"))
    await ask("GET", "/v1/jobs", status=403, **as_("w"))
    await ask.join("a", **as_("w"))
    asked = {"identity": "1", "servers": [{"name": "b", "cpu": 1, "memory": 1}]}
    await ask("POST", "/v1/workers/join", json=asked, status=403, **as_("w"))
    headers = {**as_("ana")["headers"], "Idempotency-Key": "k"}
    await ask("POST", f"/v1/jobs/{mine}/cancel", headers=headers)
    await ask("POST", f"/v1/jobs/{mine}/cancel?interrupt=true", headers=headers, status=422)
    headers = {**as_("bo")["headers"], "Idempotency-Key": "k"}
    await ask("POST", f"/v1/jobs/{mine}/cancel", headers=headers, status=404)


@served(tokens=True)
async def test_a_worker_s_token_speaks_for_its_own_session_only(ask: Asked) -> None:
    theirs = await ask.join("b", **as_("root"))
    await ask.sync(theirs, status=409, **as_("w"))
    piece = {"session": theirs, "request": "x"}
    await ask("POST", "/v1/workers/logs", json=piece, status=204, **as_("w"))
    mine = await ask.join("a", **as_("w"))
    await ask.submit({"where": ["a"]}, **as_("root"))
    assert len((await ask.sync(mine, **as_("w")))["start"]) == 1


@served(tokens=True)
async def test_a_token_that_is_taken_back_is_worth_nothing(ask: Asked, tmp_path: Path) -> None:
    await ask("GET", "/v1/jobs", **as_("ana"))
    other = Journal(tmp_path / "j.db", shared=True)
    other.tokens.remove("ana")
    other.close()
    await asyncio.sleep(0.2)
    await ask("GET", "/v1/jobs", status=401, **as_("ana"))
