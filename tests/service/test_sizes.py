"""Limits on the size of a job: in a request, in the journal after its end, and in a list."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from asked_service import Asked, run, served
from fairlead.service import service as service_module
from fairlead.service.journal.event_journal import reading
from fairlead.service.journal.job_records import (
    ENDED_BYTES,
    LISTED_BYTES,
    short_request,
    short_view,
)
from fairlead.service.messages import MOST_JOB_BYTES, JobChange, JobRequest
from fairlead.service.service import Settings

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
async def test_a_change_counts_towards_live_bytes(ask: Asked) -> None:
    (job,) = await ask.submit()
    before = ask.service.state_thread.state.live_bytes["ana"]
    await ask("PATCH", f"/v1/jobs/{job}", json={"where": ["a" * 150, "b" * 150]})
    state = ask.service.state_thread.state
    assert state.live_bytes["ana"] == state.jobs[1].size > before + 290
    long = {"where": [f"{i:0150}" for i in range(40)]}
    await ask("PATCH", f"/v1/jobs/{job}", json=long, status=429)
    await ask("PATCH", f"/v1/jobs/{job}", json={"anywhere": True})
    assert state.live_bytes["ana"] == before
    await ask("POST", f"/v1/jobs/{job}/cancel")
    assert state.live_bytes["ana"] == 0


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


@pytest.mark.parametrize("where", [None, NAMES, dict.fromkeys(NAMES[:100], SMILE * 200)])
def test_views_of_ended_jobs_are_short(where: Any) -> None:
    view = {"where": where, "after": ["1"] * 1000, "shortened": [], "reason": "\x01" * 100}
    assert len(to_json(short_view(view))) <= ENDED_BYTES


@served
async def test_lists_are_bounded_by_bytes_and_number(ask: Asked) -> None:
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


@served
async def test_a_list_has_one_job_at_least(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "LISTED_BYTES", 10)
    await ask.submit({}, {})
    first = await ask("GET", "/v1/jobs")
    assert ([job["id"] for job in first["jobs"]], first["next"]) == (["1"], "1")
    last = await ask("GET", "/v1/jobs?beyond=1")
    assert ([job["id"] for job in last["jobs"]], last["next"]) == (["2"], None)


def test_lists_of_ended_jobs_are_bounded_by_bytes(tmp_path: Path) -> None:
    async def test(ask: Asked) -> None:
        await ask.submit({})
        await ask("POST", "/v1/jobs/1/cancel")

    run(tmp_path, test)
    path = tmp_path / "j.db"
    with sqlite3.connect(path) as connection:
        ((outcome,),) = connection.execute("SELECT outcome FROM jobs WHERE id = 1").fetchall()
        long = to_json(from_json(outcome) | {"where": NAMES[:4]})
        connection.execute("UPDATE jobs SET outcome = ?", (long,))
        copy = "SELECT ?, user, submitted, spec, ended, outcome, digest FROM jobs WHERE id = 1"
        connection.executemany(f"INSERT INTO jobs {copy}", [(n,) for n in range(2, 701)])
    with reading(path) as journal:
        listed = journal.jobs.ended_jobs(limit=1000)
        assert len(listed) == LISTED_BYTES // len(long) < 700
