"""Bounds on each caller's requests, jobs and bytes; no caller's load delays the others."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from time import sleep
from typing import Any
from unittest.mock import patch

import pytest
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json
from starlette.exceptions import HTTPException

from asked_service import Asked, as_, run, served
from fairlead.service import rate_limits, sessions
from fairlead.service import service as service_module
from fairlead.service.http import access
from fairlead.service.http import http_server as server_module
from fairlead.service.journal import job_records
from fairlead.service.journal.job_records import (
    ENDED_BYTES,
    LISTED_BYTES,
    short_request,
)
from fairlead.service.messages import (
    MOST_JOB_BYTES,
    JobChange,
    JobRequest,
    JobsRequest,
    JoinRequest,
    SkipRequest,
    SyncRequest,
)
from fairlead.service.rate_limits import CALLER, Allowance, Limits, in_turn
from fairlead.service.service import Settings
from fairlead.service.service_state import MOST_RESOURCES
from state_invariants import check

MANY = dict.fromkeys(map(str, range(20_000)), 1)


def join_body(resources: dict[str, float], name: str = "n") -> dict[str, Any]:
    server = {"name": name, "cpu": 1, "memory": 1, "resources": resources}
    return {"identity": "i", "servers": [server]}


@served
async def test_references_of_a_request_are_bounded(ask: Asked) -> None:
    ids = await ask.submit(*[{}] * 100)
    await ask.refused(*[{"after": ids}] * 101)
    await ask.submit(*[{"after": ids}] * 100)


@served
async def test_ended_jobs_are_looked_up_once_a_request(ask: Asked) -> None:
    ids = await ask.submit(*[{"cpu": 0.01}] * 50)
    await ask.work(await ask.join("a", cpu=8))
    records = ask.service.journal.jobs
    with patch.object(records, "outcomes", side_effect=records.outcomes) as looked_up:
        await ask.submit(*[{"after": ids}] * 100)
    assert (await ask("GET", "/v1/jobs/51"))["after"] == []
    # 50 by another thread, none by the state's.
    assert [len(list(call.args[0])) for call in looked_up.call_args_list] == [50, 0]


@served
async def test_old_jobs_are_deleted_and_their_hours_stay(ask: Asked) -> None:
    await ask.submit({})
    await ask.work(await ask.join("a"))
    before = await ask("GET", "/v1/history")
    ask.service.journal.jobs.delete_old(2.0**40)
    assert await ask("GET", "/v1/history") == before
    await ask("GET", "/v1/jobs/1", status=404)
    await ask.refused({"after": ["1"]})


@served
async def test_names_of_resources_are_bounded_and_forgotten(ask: Asked) -> None:
    many = {f"r{k}": 1.0 for k in range(MOST_RESOURCES)}
    await ask("POST", "/v1/workers/join", json=join_body(many), status=422)
    for turn in range(3):
        names = {f"r{turn}-{k}": 1.0 for k in range(MOST_RESOURCES - 3)}
        await ask("POST", "/v1/workers/join", json=join_body(names))
        await ask.submit({})
        assert len(ask.service.state_thread.state.resources) == MOST_RESOURCES
        assert set(names) < set(ask.service.state_thread.state.resources)
    assert b"fairlead_ready 1" in (await ask.http.get("/metrics")).content
    check(ask.service.state_thread.state)


@served(tokens=True)
async def test_one_token_brings_new_names_seldom(ask: Asked) -> None:
    for resource, status in (("x", 200), ("x", 200), ("y", 429)):
        body = join_body({resource: 1.0}, "a")
        await ask("POST", "/v1/workers/join", json=body, status=status, **as_("w"))


@pytest.mark.parametrize(
    "ended",
    [
        [1, 0, 1, 256, ""],
        [1, 0, 1, -1, ""],
        [2**63, 0, 1, 0, ""],
        [1, 10**6, 1, 0, ""],
        [1, 0, 2**31, 0, ""],
        [1, 0, 0, 0, ""],
    ],
)
def test_integers_of_a_worker_are_bounded(ended: list[Any]) -> None:
    with pytest.raises(ValidationError):
        SyncRequest.model_validate({"session": "x", "ended": [ended]})


@served(tokens=True)
async def test_a_bound_worker_touches_no_other_server(ask: Asked) -> None:
    await ask.join("node1", identity="stolen", **as_("root"))
    await ask.join("a", identity="stolen", **as_("w"))
    rows = (await ask("GET", "/v1/servers", **as_("root")))["servers"]
    assert {row["name"]: row["state"] for row in rows} == {"node1": "ready", "a": "ready"}


@served(tokens=True)
async def test_without_a_token_no_body_is_read(ask: Asked) -> None:
    was_read = False

    async def body() -> Any:
        nonlocal was_read
        was_read = True
        yield b"{}"

    await ask("POST", "/v1/jobs", content=body(), status=401, **as_("nobody"))
    assert not was_read


@pytest.mark.parametrize(
    ("message", "given"),
    [
        (JobsRequest, {"jobs": [{"command": [1] * 10_000}] * 300}),
        (JobsRequest, {"jobs": [{"command": ["x"], **dict.fromkeys(map(str, range(90)))}] * 300}),
        (JobsRequest, {"jobs": [{"command": ["x"], "environment": MANY}]}),
        (JobsRequest, {"jobs": [{"command": ["x"], "where": MANY}]}),
        (JobsRequest, {"jobs": [{"command": ["x"], "after": [{}] * 1000}] * 300}),
        (JobsRequest, {"jobs": [{"command": ["x"], "bundles": [{"cpu": "x"}] * 1000}] * 300}),
        (JobsRequest, MANY),
        (SkipRequest, {"tasks": ["x"] * 10**6}),
        (SyncRequest, {"session": "x", "ended": [{}] * 100_000}),
        (SyncRequest, {"session": "x", "ended": [[1, 2, 3, 4, []]] * 100_000}),
        (JoinRequest, {"identity": "x", "servers": [{"name": 1}] * 10_000}),
        (JoinRequest, {"identity": "x", "servers": [{"name": "a", "resources": MANY}]}),
    ],
)
def test_the_faults_of_a_message_are_few(message: type[BaseModel], given: Any) -> None:
    with pytest.raises(ValidationError) as fault:
        message.model_validate(given)
    assert fault.value.error_count() <= 200


@served(tokens=True)
async def test_questions_of_one_caller_wait_for_each_other(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each costs 50 ms of the state's thread, also on a slow machine."""
    done: list[str] = []
    queue, charge = ask.service.state_thread._queue_question, Allowance.charge

    def charge_evenly(
        allowance: Allowance, body: int = 0, answer: int = 0, seconds: float = 0.0
    ) -> None:
        charge(allowance, body, answer, 0.05 if seconds else 0.0)

    monkeypatch.setattr(Allowance, "charge", charge_evenly)
    monkeypatch.setattr(rate_limits, "monotonic", lambda: 0.0)  # no refill

    def slow(question: Any) -> Any:
        def timed(tx: Any) -> Any:
            done.append("ana")
            sleep(0.05)
            return question(tx)

        return queue(timed)

    ask.service.state_thread._queue_question = slow  # type: ignore[method-assign]
    users = [ask.http.get("/v1/users", **as_("ana")) for _ in range(100)]
    asked = [asyncio.create_task(each) for each in users]
    while not done:
        await asyncio.sleep(0.01)
    await ask.submit({"user": "bo"}, **as_("bo"))
    assert len(done) < 12  # only the questions before it are answered, not a queue of 100
    answers = [answer.status_code for answer in await asyncio.gather(*asked)]
    assert 5 <= answers.count(200) < 40  # of a burst of 500 ms
    assert set(answers) == {200, 429}


OTHER_SITES: list[tuple[dict[str, str], int]] = [
    ({"Host": "localhost:8400"}, 200),
    ({"Host": "127.0.0.2:8400"}, 200),
    ({"Host": "evil.example"}, 421),
    ({"Origin": "http://127.0.0.1:8400"}, 200),
    ({"Origin": "http://evil.example"}, 403),
    ({"Sec-Fetch-Site": "same-origin"}, 200),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Content-Length": "0", "Transfer-Encoding": "chunked"}, 400),
]


@served
async def test_no_page_of_another_site_asks_but_it_may_link(ask: Asked) -> None:
    for headers, status in OTHER_SITES:
        answer = await ask.http.get("/v1/users", headers=headers)
        assert answer.status_code == status
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    linked = await ask.http.get("/", headers={"Sec-Fetch-Site": "cross-site"})
    assert linked.status_code == 200


def test_a_user_asks_at_a_rate_and_an_admin_at_any(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(rate_limits, "monotonic", lambda: now)
    limits = Limits(rate=2, burst=5.5)
    user, admin = Allowance("user", limits), Allowance("admin", limits)
    for _ in range(5):
        user.take()
    for _ in range(20):
        admin.take()
    with pytest.raises(HTTPException, match="429"):
        user.take()
    now = 0.5
    user.take()
    with pytest.raises(HTTPException, match="429"):
        user.take()


@served(limits=Limits(burst=120.0), tokens=True)
async def test_a_worker_is_not_charged_for_output_that_is_asked_for(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "monotonic", lambda: 0.0)  # no refill on slow machines
    session = await ask.join("a", **as_("w"))
    await ask.submit({}, **as_("root"))
    seen = (await ask.sync(session, **as_("w")))["seen"]
    data = "A" * 2**20  # charged as 64 requests each, if it were charged
    for is_asked in (True, False):
        for _ in range(9):
            piece = {"session": session, "request": "x", "data": data}
            if is_asked:
                url = "/v1/jobs/1/logs"
                reading = asyncio.create_task(ask("GET", url, **as_("root")))
                orders = await ask.sync(session, seen, **as_("w"))
                seen, piece["request"] = orders["seen"], orders["logs"][0][0]
            answer = await ask.http.post("/v1/workers/logs", json=piece, **as_("w"))
            if is_asked:
                await reading
        assert answer.status_code == (204 if is_asked else 429)


@served
async def test_orders_of_large_jobs_come_in_parts(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "BYTES_AT_ONCE", 150_000)
    session = await ask.join("a", cpu=100)
    large = {"environment": {"x": "y" * 60_000}}
    await ask.submit(*[{**large, "tasks": 3}] * 3, {"tasks": 2})
    parts, seen = [], 0
    for _ in range(2):
        orders = await ask.sync(session, seen)
        seen = orders["seen"]
        parts.append([start[1][0] for start in orders["start"]])
        assert set(orders["jobs"]) == {str(job) for job in parts[-1]}
    assert parts == [[1, 1, 1, 2, 2, 2], [3, 3, 3, 4, 4]]


@served(tokens=True)
async def test_bytes_under_way_are_bounded(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "BYTES_OF_A_CALLER", 1500)
    monkeypatch.setattr(access, "BYTES_UNDER_WAY", 2500)
    go_on = asyncio.Event()
    begun = 0

    async def slow() -> AsyncIterator[bytes]:
        nonlocal begun
        yield b" " * 1000
        begun += 1
        await go_on.wait()
        yield b"{}"

    async def post(name: str, content: Any) -> int:
        return (await ask.http.post("/v1/jobs", content=content, **as_(name))).status_code

    waiting = [asyncio.create_task(post(name, slow())) for name in ("ana", "bo")]
    while begun < 2:
        await asyncio.sleep(0.01)
    assert await post("ana", b" " * 600) == 503  # too many bytes of one caller
    assert await post("root", b" " * 600) == 503  # too many bytes in all
    go_on.set()
    assert await asyncio.gather(*waiting) == [422, 422]
    assert await post("ana", b" " * 600) == 422


def test_a_repeated_warning_is_logged_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(server_module.time, "monotonic", lambda: now)
    shown = server_module.RepeatFilter()

    def log(message: str, *args: object, level: int = logging.WARNING) -> str | None:
        record = logging.LogRecord("x", level, "", 0, message, args, None)
        return record.getMessage() if shown.filter(record) else None

    assert log("no %s", "a") == "no a"
    assert [log("no %s", name) for name in "bcd"] == [None] * 3
    assert log("other") == "other"
    assert [log("said", level=logging.INFO) for _ in range(2)] == ["said"] * 2
    now = 61.0
    assert log("no %s", "e") == "no e (3 more since it was last shown)"
    assert log("no %s", "f") is None


FOUR_TEXTS = dict.fromkeys("abcd", "y" * 60_000)
SMILE = "\N{GRINNING FACE}"
NAMES = [f"{SMILE * 190}{i}" for i in range(400)]  # 300 KiB


@pytest.mark.parametrize(
    "large",
    [
        {"where": NAMES},
        {"where": dict.fromkeys(NAMES[:100], "x"), "environment": FOUR_TEXTS},
        {"bundles": [{"resources": dict.fromkeys(NAMES[:4], 1)}] * 100},
        {"resources": dict.fromkeys(NAMES[:100], 1), "environment": FOUR_TEXTS},
    ],
)
def test_all_of_a_job_counts_towards_its_limit(large: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=f"{MOST_JOB_BYTES:,}"):
        JobRequest(command=["x"], **large)


def test_a_job_with_1000_bundles_and_references_is_taken() -> None:
    after = [str(10**17 + i) for i in range(1000)]
    JobRequest(command=["x"], bundles=[{}] * 1000, after=after, where=NAMES[:200])  # type: ignore[list-item]


def test_a_long_place_is_refused_in_a_change() -> None:
    with pytest.raises(ValidationError, match=f"{MOST_JOB_BYTES:,}"):
        JobChange(where=NAMES)
    JobChange(where=NAMES[:300])


@served(settings=Settings(live_bytes=5000))
async def test_live_bytes_of_a_user_are_bounded(ask: Asked) -> None:
    large = {"environment": {"a": "y" * 3000}}
    (first,) = await ask.submit(large)
    await ask.refused(large, status=429)
    await ask.submit(large | {"user": "bo"})
    await ask("POST", f"/v1/jobs/{first}/cancel")
    (job,) = await ask.submit()
    before = ask.service.state_thread.state.users["ana"].live_bytes
    await ask("PATCH", f"/v1/jobs/{job}", json={"where": ["a" * 150, "b" * 150]})
    state = ask.service.state_thread.state
    assert state.users["ana"].live_bytes == state.jobs[int(job)].size > before + 290
    long = {"where": [f"{i:0150}" for i in range(40)]}
    await ask("PATCH", f"/v1/jobs/{job}", json=long, status=429)
    await ask("PATCH", f"/v1/jobs/{job}", json={"anywhere": True})
    assert state.users["ana"].live_bytes == before
    await ask("POST", f"/v1/jobs/{job}/cancel")
    assert state.users["ana"].live_bytes == 0


def test_an_ended_job_keeps_4_kib(tmp_path: Path) -> None:
    async def test(ask: Asked) -> None:
        first = await ask.submit(*[{"where": ["none"]}] * 900)
        (job,) = await ask.submit({"where": NAMES[:200], "after": first, "command": [SMILE] * 9000})
        live = await ask("GET", f"/v1/jobs/{job}")
        assert (len(live["where"]), len(live["after"]), live["shortened"]) == (200, 900, [])
        await ask("POST", f"/v1/jobs/{job}/cancel")
        ended = await ask("GET", f"/v1/jobs/{job}")
        assert ended["shortened"] == ["where", "after"]
        assert (ended["where"], ended["after"]) == (None, [])
        assert ended["command"] == [SMILE, SMILE, SMILE, "..."]

    run(tmp_path, test)
    with sqlite3.connect(tmp_path / "j.db") as connection:
        chosen = "SELECT length(spec), length(outcome) FROM jobs WHERE id = 901"
        ((spec, outcome),) = connection.execute(chosen).fetchall()
    assert max(spec, outcome) <= ENDED_BYTES


@pytest.mark.parametrize("word", ["x", "\x01", SMILE, "\\"])
def test_requests_of_ended_jobs_are_short_for_all_characters(word: str) -> None:
    request = {"user": "a", "name": "n", "tasks": 1, "submitted": 0.5}
    for command in ([word * 60_000], [word] * 10_000, [word * 1000, word * 60_000]):
        kept = from_json(short_request(request | {"command": command, "directory": word * 9000}))
        assert len(to_json(kept)) <= ENDED_BYTES
        assert kept["command"][0].startswith(word)


@served
async def test_lists_are_bounded_by_bytes_and_number(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await ask.submit(*[{"where": NAMES[:300]}] * 5)
    few = await ask("GET", "/v1/jobs?limit=3&beyond=4")
    assert ([job["id"] for job in few["jobs"]], few["next"]) == (["5", "6", "7"], "7")
    seen: list[str] = []
    beyond, pages = "0", 0
    while beyond is not None:
        answer = await ask.http.get(f"/v1/jobs?beyond={beyond}")
        assert len(answer.content) < LISTED_BYTES + 1000
        seen += [job["id"] for job in answer.json()["jobs"]]
        beyond, pages = answer.json()["next"], pages + 1
    assert seen == [str(job) for job in range(1, 16)]
    assert pages == 2
    for job in await ask.submit({}, {}, {}):
        await ask("POST", f"/v1/jobs/{job}/cancel")
    one = len(to_json(ask.service.journal.jobs.ended_jobs()[0]))
    monkeypatch.setattr(job_records, "LISTED_BYTES", 2.5 * one)
    assert [job["id"] for job in ask.service.journal.jobs.ended_jobs()] == ["18", "17"]
    for module in (service_module, job_records):  # a list has at least one job
        monkeypatch.setattr(module, "LISTED_BYTES", 10)
    assert len(ask.service.journal.jobs.ended_jobs()) == 1
    for beyond, following in ((3, "4"), (14, None)):
        page = await ask("GET", f"/v1/jobs?beyond={beyond}")
        assert ([job["id"] for job in page["jobs"]], page["next"]) == ([str(beyond + 1)], following)


def test_one_question_of_a_caller_waits_at_a_time() -> None:
    """With ten questions of ana before it, bo's question is answered second or third."""
    order: list[str] = []

    async def ask_as(name: str, allowance: Allowance, lock: asyncio.Lock) -> None:
        CALLER.set(allowance)
        async with in_turn(lock):
            await asyncio.sleep(0.001)
            order.append(name)

    async def whole() -> None:
        lock = asyncio.Lock()
        of = {name: Allowance("user", Limits()) for name in ("ana", "bo")}
        await asyncio.gather(*(ask_as(name, of[name], lock) for name in ["ana"] * 10 + ["bo"]))

    asyncio.run(whole())
    assert order.index("bo") <= 2
