"""Search for jobs, compared with a plain filter and sort of all jobs."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from asked_service import Asked, as_, change, served

SORTS = ("id", "user", "name", "state", "tasks", "running", "priority", "submitted", "started")
NAMES = (None, "train", "Train 2", "eval", "a%_'\"")


def key_of(sort: str, job: dict[str, Any]) -> Any:
    value = int(job["id"]) if sort == "id" else job[sort]
    if sort == "started":
        return float("inf") if value is None else value
    return value or ("" if sort == "name" else 0)


def plainly(jobs: list[dict[str, Any]], query: dict[str, Any]) -> list[str]:
    """Return the ids that a search finds, by its definition."""
    text = query["text"].casefold()
    found = [
        job
        for job in jobs
        if query["user"] in (None, job["user"])
        and (
            query["state"] in ("live", "ended", job["state"])
            or (query["state"] == "held" and job["held"])
        )
        and (text in (job["name"] or "").casefold() or text in job["user"] or text == job["id"])
    ]
    found.sort(key=lambda job: int(job["id"]), reverse=query["descending"])
    if query["state"] in ("live", "pending", "running", "held"):
        found.sort(key=lambda job: int(job["id"]))  # ties go to the smaller id
    found.sort(key=lambda job: key_of(query["sort"], job), reverse=query["descending"])
    return [job["id"] for job in found]


async def populated(ask: Asked, rng: Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Submit random jobs; some run, are held, or have ended. Return the live and the ended ones."""
    session = await ask.join("a", cpu=6)
    rows: list[dict[str, Any]] = [
        {"user": rng.choice(["ana", "bo"]), "tasks": rng.randint(1, 3), "name": rng.choice(NAMES)}
        | {"priority": rng.randint(-1, 1)}
        for _ in range(40)
    ]
    ids = await ask.submit(*rows)
    orders = await ask.sync(session)
    seen, started = orders["seen"], orders["start"]
    ended = [[*start[1], rng.choice([0, 1]), ""] for start in started[:3]]
    await ask.sync(session, seen, ended)
    for job in rng.sample(ids[20:], 6):
        await ask("POST", f"/v1/jobs/{job}/{rng.choice(['hold', 'cancel'])}")
    listed = (await ask("GET", "/v1/jobs?all=true"))["jobs"]
    is_over = {"finished", "failed", "cancelled"}
    live = [job for job in listed if job["state"] not in is_over]
    return live, [job for job in listed if job["state"] in is_over]


@served
async def test_a_search_is_a_filter_and_a_sort(ask: Asked) -> None:
    rng = Random(1)
    live, ended = await populated(ask, rng)
    assert live
    assert ended
    for _ in range(60):
        query = {
            "user": rng.choice([None, None, "ana", "bo", "nobody"]),
            "state": rng.choice(
                ["live", "pending", "running", "held", "ended", "finished", "failed", "cancelled"]
            ),
            "text": rng.choice(["", "", "train", "TRAIN", "%", "'", "an", live[0]["id"]]),
            "sort": rng.choice(SORTS),
            "descending": rng.random() < 0.5,
        }
        is_live = query["state"] in ("live", "pending", "running", "held")
        wanted = plainly(live if is_live else ended, query)
        offset, limit = rng.choice([(0, 200), (0, 3), (2, 5), (1000, 10)])
        given = {name: value for name, value in query.items() if value is not None}
        found = await ask(
            "GET", "/v1/jobs/search", params=given | {"offset": offset, "limit": limit}
        )
        assert [job["id"] for job in found["jobs"]] == wanted[offset : offset + limit]
        if found["jobs"]:
            assert found["found"] == len(wanted)


@served(tokens=True)
async def test_a_user_finds_own_jobs_only(ask: Asked) -> None:
    await ask.submit({}, {"user": "bo"}, **as_("root"))
    for query in ("", "?user=bo", "?state=pending"):
        found = await ask("GET", f"/v1/jobs/search{query}", **as_("ana"))
        assert [job["user"] for job in found["jobs"]] == ["ana"]
    await ask("POST", "/v1/jobs/2/cancel", **as_("bo"))
    assert (await ask("GET", "/v1/jobs/search?state=ended", **as_("ana")))["found"] == 0
    await ask("GET", "/v1/jobs/search", status=403, **as_("w"))
    await ask("GET", "/v1/jobs/search", status=401)


@served
async def test_attempts_are_those_that_run_and_ended(ask: Asked) -> None:
    session = await ask.join("a", cpu=2)
    await ask.submit({"tasks": 3})
    orders = await ask.sync(session)
    await ask.sync(session, orders["seen"], [[1, 0, 1, 3, "bad"]])
    rows = (await ask("GET", "/v1/jobs/1/attempts"))["attempts"]
    found = [(row["task"], row["status"], row["ended"] is None) for row in rows]
    assert found == [(1, None, True), (2, None, True), (0, 3, False)]
    await ask("GET", "/v1/jobs/9/attempts", status=404)


@served
async def test_ended_jobs_of_any_letters_are_found(ask: Asked) -> None:
    await ask.submit({"name": "\u00c9T\u00c9 \u00dcnder"}, {"name": "other"})
    for job in (1, 2):
        await ask("POST", f"/v1/jobs/{job}/cancel")
    for text in ("\u00c9T\u00c9", "\u00e9t\u00e9", "\u00fcNDER"):
        found = await ask("GET", "/v1/jobs/search", params={"state": "ended", "text": text})
        assert [job["id"] for job in found["jobs"]] == ["1"]
    beyond = await ask("GET", "/v1/jobs/search?state=ended&offset=7")
    assert beyond == {"jobs": [], "found": 2}


@served
async def test_a_damaged_job_spoils_no_list(ask: Asked, tmp_path: Path) -> None:
    await ask.submit({}, {})
    for job in (1, 2):
        await ask("POST", f"/v1/jobs/{job}/cancel")
    for damaged in ('"x"', "{bad", '{"a":1}\0', "{}"):
        blob = damaged.encode().hex()
        change(tmp_path / "j.db", f"UPDATE jobs SET outcome = x'{blob}' WHERE id = 1")
        for query in ("/search?state=ended", "?all=true"):
            found = await ask("GET", f"/v1/jobs{query}")
            assert [job["id"] for job in found["jobs"]] == ["2"]
        await ask("GET", "/v1/jobs/1", status=404)
        await ask.refused({"after": ["1"]})
