"""The journal: tokens, snapshots, deletion of old events, and damage, which is detected."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json

from asked_service import Asked, change, run
from fairlead.errors import InputError
from fairlead.service.jobs import Effects
from fairlead.service.journal import _journal_file as journal_file
from fairlead.service.journal.event_journal import Batch, Journal, JournalError, reading
from fairlead.service.journal.job_records import DAMAGED
from fairlead.service.journal.tokens import Caller
from fairlead.service.service_state import ServiceState
from live_cluster import until
from service.test_state_thread import Writer, end, join, submit


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    started = Writer(tmp_path / "j.db")
    yield started
    started.close()


def test_a_commit_is_synced(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    with journal._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    journal.close()


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    journal.tokens.add(Caller("ana", "user", "ana"), "secret")
    for path in tmp_path.iterdir():
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    journal.close()
    assert b"secret" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_a_closed_journal_is_read_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(tmp_path / "j.db")
    writer.ask(submit)
    writer.close()
    before = {path.name for path in tmp_path.iterdir()}
    monkeypatch.setattr("fairlead.service.journal._journal_file.os.access", lambda *_: False)
    with reading(tmp_path / "j.db") as journal:
        kinds = [kind for _, _, kind, _ in journal.events()]
        assert kinds == ["policy", "place", "submit", "place"]
        assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", [":memory:", "\udcff.db"])
def test_any_name_of_a_file_names_a_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    writer = Writer(Path(name))
    writer.ask(submit)
    writer.close()
    with reading(Path(name)) as journal:
        assert [kind for _, _, kind, _ in journal.events()] == [
            "policy",
            "place",
            "submit",
            "place",
        ]


def test_another_format_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "j.db").close()
    change(tmp_path / "j.db", "UPDATE meta SET value = '99'")
    with pytest.raises(InputError, match="is of format 99"):
        Journal(tmp_path / "j.db")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (
            "UPDATE events SET body = '{\"limit\":2000,\"placed\":7}' WHERE kind = 'place'",
            "other placements",
        ),
        ("UPDATE events SET kind = 'nonsense' WHERE kind = 'submit'", "cannot be carried out"),
    ],
)
def test_events_that_give_another_state_are_refused(tmp_path: Path, damage: str, says: str) -> None:
    """In journals that were written before events had digests."""
    writer = Writer(tmp_path / "j.db")
    for request in (submit, join, end, submit):
        writer.ask(request)
    writer.close()
    change(
        tmp_path / "j.db", "DELETE FROM snapshot_parts", "UPDATE events SET digest = NULL", damage
    )
    with pytest.raises(InputError, match=says):
        Writer(tmp_path / "j.db")


def snapshots_in(writer: Writer) -> list[int]:
    return writer.journal.snapshots.seqs()


def test_the_newest_and_the_oldest_snapshots_are_kept(writer: Writer) -> None:
    taken = []
    for _ in range(6):
        writer.ask(submit)
        writer.state_thread._save()
        taken.append(writer.journal.seq)
    assert snapshots_in(writer) == [*taken[:2], *taken[-2:]]


def test_events_are_deleted_behind_an_old_snapshot(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "j.db")
    taken: list[tuple[int, float]] = []
    for _ in range(4):
        writer.ask(submit)
        writer.state_thread._save()
        taken.append((writer.journal.seq, writer.journal.last))
    writer.journal.delete_old(taken[0][1])
    assert writer.journal.replay_start() == (0, 0.0, None)
    writer.journal.delete_old(taken[1][1] + 1e-6)
    assert snapshots_in(writer) == [seq for seq, _ in taken[1:]]
    assert writer.journal.replay_start()[:2] == taken[1]
    first, *_ = writer.journal.events(taken[1][0])
    assert first[0] == taken[1][0] + 1
    before = writer.state_thread.state.snapshot()
    writer.close()
    # The newest are damaged.
    change(tmp_path / "j.db", f"UPDATE snapshot_parts SET data = x'00' WHERE seq > {taken[1][0]}")
    again = Writer(tmp_path / "j.db")
    assert again.state_thread.state.snapshot() == before
    again.close()
    change(tmp_path / "j.db", "DELETE FROM snapshot_parts")
    with pytest.raises(InputError, match="is the first event"):
        Writer(tmp_path / "j.db")


def test_no_event_is_deleted_behind_a_damaged_snapshot(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "j.db")
    for _ in range(3):
        writer.ask(submit)
        writer.state_thread._save()
    first, second, third = snapshots_in(writer)
    change(tmp_path / "j.db", f"UPDATE snapshot_parts SET data = x'00' WHERE seq = {second}")
    writer.journal.delete_old(writer.journal.last + 1)
    assert snapshots_in(writer) == [first, second, third]  # events behind the first are kept
    assert writer.journal.replay_start()[0] == first
    writer.close()


def test_snapshots_are_taken_while_it_goes_on(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.service._state_thread.SNAPSHOT_EVENTS", 5)
    monkeypatch.setattr("fairlead.service._forks.PART_BYTES", 100)
    states: dict[int, bytes] = {}
    for _ in range(30):
        writer.ask(submit)
        writer.ask(lambda tx: states.update({writer.journal.seq: tx.state.snapshot()}))
    until(lambda: snapshots_in(writer) != [], 10)
    fork = writer.state_thread._fork
    assert fork is not None
    fork.reader.join()
    (*_, seq) = snapshots_in(writer)
    assert 0 < seq <= writer.journal.seq
    with writer.journal._engine.connect() as connection:
        parts = f"SELECT data FROM snapshot_parts WHERE seq = {seq} ORDER BY part"
        found = list(connection.exec_driver_sql(parts).scalars())
    assert len(found) > 5
    assert b"".join(found) == states[seq]


def test_a_copy_that_fails_leaves_no_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fairlead.service._state_thread.SNAPSHOT_EVENTS", 5)
    writer = Writer(tmp_path / "j.db")
    snapshot = ServiceState.snapshot

    def dies(self: ServiceState) -> bytes:
        if os.getpid() != here:
            os._exit(7)
        return snapshot(self)

    here = os.getpid()
    monkeypatch.setattr(ServiceState, "snapshot", dies)
    for _ in range(6):
        writer.ask(submit)
    until(lambda: "no snapshot could be kept" in caplog.text, 10)
    assert snapshots_in(writer) == []
    assert writer.ask(submit)
    monkeypatch.undo()
    writer.close()


def test_a_snapshot_without_its_end_is_not_read(writer: Writer, tmp_path: Path) -> None:
    writer.ask(submit)
    before = writer.state_thread.state.snapshot()

    def parts() -> Iterator[bytes]:
        yield from (b"a", b"b", b"c")
        raise JournalError("no more")

    with pytest.raises(JournalError):
        writer.journal.save(writer.journal.seq, parts())
    assert snapshots_in(writer) == []
    state, events = Journal(tmp_path / "j.db", shared=True).recover("drf/best-fit")
    assert events == writer.journal.seq
    assert state.snapshot() == before


def test_a_damaged_snapshot_is_left_out(writer: Writer, tmp_path: Path) -> None:
    kept = []
    for _ in range(2):
        writer.ask(submit)
        writer.state_thread._save()
        kept.append(writer.journal.seq)
    writer.ask(submit)
    before, last = writer.state_thread.state.snapshot(), writer.journal.seq
    for newest in (*reversed(kept), 0):
        state, events = Journal(tmp_path / "j.db", shared=True).recover("drf/best-fit")
        assert (state.snapshot(), events) == (before, last - newest)
        cut = f"UPDATE snapshot_parts SET data = substr(data, 1, 50) WHERE seq = {newest}"
        change(tmp_path / "j.db", cut)


def test_usage_adds_up_by_month_and_user(writer: Writer) -> None:
    for request in (submit, join, end):
        writer.ask(request)
    (row,) = writer.journal.jobs.usage()
    (attempt,) = writer.journal.jobs.last_attempts_of(1, 9)
    hours = (attempt["ended"] - attempt["started"]) / 3600
    assert (row["user"], row["tasks"], row["cpu"]) == ("ana", 1, pytest.approx(hours))


def test_a_token_can_be_taken_back_but_the_last_of_an_admin(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    journal.tokens.add(Caller("boss", "admin", ""), "secret-boss")
    journal.tokens.add(Caller("ana", "user", "ana"), "secret")
    with pytest.raises(InputError, match="last token of an admin"):
        journal.tokens.remove("boss")
    journal.tokens.add(Caller("other", "admin", ""), "secret-other")
    journal.tokens.remove("boss")
    with pytest.raises(InputError, match="there is a token 'ana'"):
        journal.tokens.add(Caller("ana", "admin", ""), "other")
    with pytest.raises(InputError, match="names callers by account"):
        journal.tokens.add(Caller("uid 0", "user", "ana"), "other")
    assert [token.name for token in journal.tokens.all().values()] == ["ana", "other"]
    journal.tokens.remove("ana")
    assert [token.name for token in journal.tokens.all().values()] == ["other"]
    with pytest.raises(InputError, match="there is no token"):
        journal.tokens.remove("ana")
    journal.close()


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
        unknown = "the service did not send its command"  # a worker's message about an absent job
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
