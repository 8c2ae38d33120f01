"""A damaged row of the journal changes no command and spoils no list."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from asked_service import Asked, change, run, served
from fairlead.service.journal.event_journal import Journal
from fairlead.service.journal.job_records import DAMAGED

FLIPPED = "UPDATE jobs SET spec = CAST(replace(spec, 'AAAA', 'AAAC') AS BLOB)"


def with_a_job(folder: Path, **job: Any) -> None:
    async def test(ask: Asked) -> None:
        await ask.submit({"command": ["echo", "AAAA"], **job})

    run(folder, test)


@pytest.mark.parametrize("damage", [FLIPPED, "UPDATE jobs SET spec = 'zzz'"])
def test_a_damaged_command_fails_its_job_alone(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        with_a_job(tmp_path)
    change(tmp_path / "j.db", f"{damage} WHERE id = 1")

    async def test(ask: Asked) -> None:
        assert "damaged" in caplog.text  # logged at the start already
        waiting = await ask("GET", "/v1/jobs/1")
        assert (waiting["state"], waiting["command"]) == ("pending", None)
        assert waiting["reason"] == DAMAGED
        session = await ask.join("a")
        orders = await ask.sync(session)
        assert [key for _, key, *_ in orders["start"]] == [[1, 0, 1], [2, 0, 1]]
        assert [job["command"] for job in orders["jobs"].values()] == [["echo", "AAAA"]]
        unknown = "the service does not know the job"  # a worker's message about an absent job
        await ask.sync(session, orders["seen"], [[1, 0, 1, 126, unknown]])
        view = await ask("GET", "/v1/jobs/1")
        assert (view["state"], view["exit_status"], view["reason"]) == ("failed", 126, DAMAGED)
        ended = (await ask("GET", "/v1/jobs?all=true"))["jobs"][-1]
        assert (ended["id"], ended["reason"]) == ("1", DAMAGED)

    with caplog.at_level(logging.ERROR):
        run(tmp_path, test)


def test_a_large_damaged_job_can_be_cancelled(tmp_path: Path) -> None:
    with_a_job(tmp_path, environment={"a": "AAAA" * 2000})
    change(tmp_path / "j.db", "UPDATE jobs SET spec = CAST(substr(spec, 2) AS BLOB)")

    async def test(ask: Asked) -> None:
        await ask("POST", "/v1/jobs/1/cancel")
        view = await ask("GET", "/v1/jobs/1")
        assert (view["state"], view["command"], view["reason"]) == ("cancelled", None, "cancelled")

    run(tmp_path, test)


def test_the_kept_part_of_an_ended_job_has_a_digest(tmp_path: Path) -> None:
    async def test(ask: Asked) -> None:
        await ask.submit({"command": ["AAAA"], "environment": {"a": "x" * 10_000}})
        await ask("POST", "/v1/jobs/1/cancel")
        assert (await ask("GET", "/v1/jobs/1"))["command"] == ["AAAA"]

    run(tmp_path, test)
    with closing(Journal(tmp_path / "j.db")) as journal:
        assert journal.jobs.specs([1])[1]["command"] == ["AAAA"]
    change(tmp_path / "j.db", FLIPPED)
    with closing(Journal(tmp_path / "j.db")) as journal:
        assert journal.jobs.specs([1]) == {}


@served
async def test_a_damaged_outcome_spoils_no_list(ask: Asked, tmp_path: Path) -> None:
    for job in await ask.submit({}, {}):
        await ask("POST", f"/v1/jobs/{job}/cancel")
    change(
        tmp_path / "j.db", "UPDATE jobs SET outcome = CAST(substr(outcome, 2) AS BLOB) WHERE id = 1"
    )
    assert [job["id"] for job in (await ask("GET", "/v1/jobs?all=true"))["jobs"]] == ["2"]
    await ask("GET", "/v1/jobs/1", status=404)
    await ask.refused({"after": ["1"]})
