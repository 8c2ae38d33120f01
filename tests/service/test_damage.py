"""A journal with lost or changed events is refused; a damaged row of a job spoils only that."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from pydantic_core import to_json

import fairlead.service._state_thread
from asked_service import Asked, change, run, served
from fairlead.errors import InputError
from fairlead.service._state_thread import Transaction
from fairlead.service.jobs import Effects
from fairlead.service.journal import _journal_file as journal_file
from fairlead.service.journal.event_journal import Batch, Journal, JournalError
from fairlead.service.journal.job_records import DAMAGED
from service.test_journal import Writer


def write(path: Path, count: int = 20) -> None:
    with closing(Journal(path)) as journal:
        batch = Batch()
        for number in range(count):
            body = to_json({"name": f"u{number}", "weight": 1.0})
            batch.add(journal.last + number + 1.0, "user", body)
        journal.commit(batch, Effects())


def refused(path: Path) -> str:
    with pytest.raises(InputError) as fault, closing(Journal(path)) as journal:
        journal.recover("drf/best-fit")
    assert "\n" not in str(fault.value)
    return str(fault.value)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (
            "UPDATE events SET body = replace(body, '1.0', '2.0') WHERE seq = 7",
            "event 7: is damaged",
        ),
        ("UPDATE events SET now = now + 1 WHERE seq = 7", "7: is damaged"),
        ("UPDATE events SET kind = 'drain' WHERE seq = 7", "7: is damaged"),
        ("DELETE FROM events WHERE seq = 7", "event 8: does not follow event 6"),
        ("DELETE FROM events WHERE seq > 15", "lacks events 16 to 20"),
    ],
)
def test_changed_and_missing_events_are_named(tmp_path: Path, statement: str, says: str) -> None:
    path = tmp_path / "j.db"
    write(path)
    change(path, statement)
    assert says in refused(path)


def test_a_damaged_log_is_not_taken_for_the_end(tmp_path: Path) -> None:
    path, log = tmp_path / "j.db", tmp_path / "j.db-wal"
    write(path, 1)
    reader = sqlite3.connect(path)  # an open reader keeps SQLite from copying the log into the file
    reader.execute("SELECT count(*) FROM events").fetchone()
    write(path)
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in (path, log, journal_file.acknowledged_path(path)):
        shutil.copy(file, copy)
    reader.close()
    damaged = copy / "j.db-wal"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    assert "which were acknowledged" in refused(copy / "j.db")
    assert (copy / "j.db-wal.damaged").read_bytes() == bytes(content)
    journal_file.acknowledged_path(copy / "j.db").unlink()
    Journal(copy / "j.db").close()  # the rest may be used after the file was removed


@pytest.mark.parametrize("at", [0, 100, 8192])
def test_a_damaged_file_is_one_clear_line(tmp_path: Path, at: int) -> None:
    path = tmp_path / "j.db"
    write(path, 200)
    content = bytearray(path.read_bytes())
    content[at : at + 400] = os.urandom(400)
    path.write_bytes(content)
    assert str(path) in refused(path)


def test_no_other_path_leads_around_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    write(path)
    (tmp_path / "link").symlink_to(path)
    journal = Journal(path)
    with pytest.raises(InputError, match="in use"):
        Journal(tmp_path / "link")
    journal.close()
    os.link(path, tmp_path / "hard")
    for name in ("j.db", "hard"):
        with pytest.raises(InputError, match="second name"):
            Journal(tmp_path / name)


def test_only_the_request_that_fails_to_commit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(tmp_path / "j.db")
    commit = Journal.commit

    def some(journal: Journal, batch: Batch, effects: Effects) -> None:
        if any(b"guilty" in body for _, _, body in batch.events):
            raise JournalError("no")
        commit(journal, batch, effects)

    monkeypatch.setattr(Journal, "commit", some)
    enqueue = writer.state_thread.enqueue
    stopped = enqueue(lambda _: sleep(0.3))  # so that the later requests form one batch
    names = ["a", "guilty", "b"]
    asked = [enqueue(lambda tx, n=n: tx.apply("user", name=n, weight=1.0)) for n in names]
    stopped.result(30)
    faults = [future.exception(30) for future in asked]
    assert [fault is None for fault in faults] == [True, False, True]
    assert list(writer.state_thread.state.users) == ["a", "b"]
    writer.close()


def test_durations_go_on_when_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall, steady = [1e9 + 3e7], [0.0]
    monkeypatch.setattr(fairlead.service._state_thread.time, "time", lambda: wall[0])
    monkeypatch.setattr(fairlead.service._state_thread, "monotonic", lambda: steady[0])
    writer = Writer(tmp_path / "j.db")

    def moment(tx: Transaction) -> float:
        tx.apply("user", name="ana", weight=1.0)
        return tx.now

    first = writer.ask(moment)
    wall[0], steady[0] = 1e9, 100.0
    second = writer.ask(moment)
    steady[0] = 150.0
    third = writer.ask(moment)
    assert second - first == pytest.approx(100.0, abs=0.01)
    assert third - second == pytest.approx(50.0, abs=0.01)
    writer.close()


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


def test_the_kept_part_of_a_large_ended_job_has_a_digest(tmp_path: Path) -> None:
    for _ in range(2):
        with_a_job(tmp_path, environment={"a": "x" * 10_000})
    change(tmp_path / "j.db", "UPDATE jobs SET spec = CAST(substr(spec, 2) AS BLOB) WHERE id = 2")

    async def test(ask: Asked) -> None:
        for job, command in ((1, ["echo", "AAAA"]), (2, None)):
            await ask("POST", f"/v1/jobs/{job}/cancel")
            view = await ask("GET", f"/v1/jobs/{job}")
            assert (view["state"], view["reason"]) == ("cancelled", "cancelled")
            assert view["command"] == command

    run(tmp_path, test)
    with closing(Journal(tmp_path / "j.db")) as journal:
        assert journal.jobs.specs([1])[1]["command"] == ["echo", "AAAA"]
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
