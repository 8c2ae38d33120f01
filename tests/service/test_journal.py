"""The journal and the engine: an answer never comes before its event is on disk."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql

from asked_service import change
from fairlead.errors import InputError
from fairlead.scheduler.scheduler import Scheduler
from fairlead.service._state_thread import StateThread, Transaction
from fairlead.service.jobs import Effects, Running
from fairlead.service.journal.event_journal import Batch, Journal, JournalError, reading
from fairlead.service.journal.tokens import Token
from fairlead.service.messages import UnavailableError
from fairlead.service.service_state import ServiceState
from live_cluster import until
from service.test_state import a_job

A_JOB = a_job()
A_SERVER = {"name": "a", "capacity": {"cpu": 1.0}, "labels": {}, "identity": "1"}


def submit(tx: Transaction) -> list[int]:
    ids: list[int] = tx.apply("submit", jobs=[A_JOB])
    tx.batch.specs.update(dict.fromkeys(ids, ("ana", tx.now, b'{"command":["true"]}')))
    return ids


def join(tx: Transaction) -> None:
    tx.apply("server", **A_SERVER)


def end(tx: Transaction) -> None:
    tx.apply("end", tasks=[[1, 0, 1, 0, ""]])


class Writer:
    """A state thread on a journal, whose effects are kept."""

    def __init__(self, path: Path, policy: str | None = None, seed: int | None = None) -> None:
        self.effects: list[Effects] = []
        self.rebuilt = 0
        self.journal = Journal(path)
        self.state_thread = StateThread(self.journal, policy, seed, self.effects.append, self._note)
        self.state_thread.start()

    def _note(self, _state: object) -> None:
        self.rebuilt += 1

    def ask(self, request: Any, key: str = "", digest: str = "") -> Any:
        return self.state_thread.enqueue(request, key, digest).result(10)

    @property
    def starts(self) -> list[Running]:
        return [run for effects in self.effects for run in effects.starts]

    def close(self) -> None:
        self.state_thread.stop()
        self.journal.close()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    started = Writer(tmp_path / "j.db")
    yield started
    started.close()


def test_no_answer_comes_before_its_event_is_on_disk(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.ask(join)
    may_go_on, commit = threading.Event(), Journal.commit
    seen: list[int] = []

    def slow(self: Journal, batch: Batch, effects: Effects) -> None:
        may_go_on.wait(10)
        commit(self, batch, effects)
        with Journal(self.path, shared=True)._engine.connect() as other:
            seen.append(other.exec_driver_sql("SELECT count(*) FROM events").scalar() or 0)

    monkeypatch.setattr(Journal, "commit", slow)
    count = len(writer.effects)
    outcome: Future[Any] = writer.state_thread.enqueue(submit)
    read: Future[Any] = writer.state_thread.enqueue(lambda tx: list(tx.state.jobs))
    with pytest.raises(TimeoutError):
        outcome.result(0.3)
    assert len(writer.effects) == count
    may_go_on.set()
    assert outcome.result(10) == [1]
    assert read.result(10) == [1]
    assert seen[0] == writer.journal.seq
    assert writer.effects[count].starts


def test_a_commit_is_synced(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    with journal._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    journal.close()


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    journal.tokens.add(Token("ana", "user", "ana"), "secret")
    for path in tmp_path.iterdir():
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    journal.close()
    assert b"secret" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_a_full_disk_is_said_and_forgotten(writer: Writer) -> None:
    for n in range(100):  # so that no page that is there has room for a snapshot
        writer.ask(lambda tx, name=f"s{n}": tx.apply("server", **A_SERVER | {"name": name}))

    def limit(pages: int) -> None:
        @sql.event.listens_for(writer.journal._engine, "connect")
        def _narrow(connection: Any, _record: object) -> None:
            connection.execute(f"PRAGMA max_page_count = {pages}")

        writer.journal._engine.dispose()

    limit(1)
    before = writer.state_thread.state.snapshot()

    def large(tx: Transaction) -> None:
        for _ in range(500):
            submit(tx)

    with pytest.raises(
        UnavailableError, match="the journal cannot be written: database or disk is full"
    ):
        writer.ask(large)
    assert not writer.state_thread.ready
    with pytest.raises(UnavailableError):
        writer.ask(large)
    limit(2**30)
    until(lambda: writer.state_thread.ready, 10)
    assert writer.rebuilt == 1
    assert writer.state_thread.state.snapshot() == before
    assert writer.ask(submit) == [1]


def test_a_defect_in_a_request_restores_the_state_on_disk(writer: Writer) -> None:
    writer.ask(join)
    before = writer.state_thread.state.snapshot()

    def defect(tx: Transaction) -> None:
        submit(tx)
        raise ZeroDivisionError

    with pytest.raises(UnavailableError, match="internal error"):
        writer.ask(defect)
    until(lambda: writer.state_thread.ready, 10)
    assert writer.state_thread.state.snapshot() == before


def test_a_key_is_answered_once(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "j.db")
    assert writer.ask(submit, "ana/1", "x") == [1]
    assert writer.ask(submit, "ana/1", "x") == [1]
    with pytest.raises(InputError, match="another request"):
        writer.ask(submit, "ana/1", "y")
    writer.close()
    writer = Writer(tmp_path / "j.db")
    assert writer.ask(submit, "ana/1", "x") == [1]
    assert writer.ask(submit, "ana/2", "x") == [2]
    writer.close()


def test_another_seed_from_now_on(tmp_path: Path) -> None:
    found = []
    for policy, seed in (("drf/rrr", 2**62), (None, None), (None, 7), (None, 7), ("tsf/rrr", None)):
        engine = Writer(tmp_path / "j.db", policy, seed)
        engine.state_thread.stop()
        core = engine.state_thread.state.scheduler
        kinds = [kind for _, _, kind, _ in engine.journal.events()]
        found += [(core.policy.name, core.seed), kinds.count("policy")]
        engine.journal.close()
    first, second = ("drf/rrr", 2**62), ("drf/rrr", 7)
    assert found == [first, 1, first, 1, second, 2, second, 2, ("tsf/rrr", 7), 3]


@pytest.mark.parametrize("policy", ["drf/rrr/oblivious", "drf/best-fit"])
def test_while_nothing_can_start_nothing_is_written(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.service._state_thread.LEAST_WAIT", 0.01)
    writer = Writer(tmp_path / "j.db", policy)
    for request in (join, submit, submit):
        writer.ask(request)
    until(lambda: any(effects.starts for effects in writer.effects), 10)
    writer.ask(lambda _tx: None)
    before = writer.journal.seq
    time.sleep(0.2)
    for _ in range(3):
        writer.ask(lambda _tx: None)  # as a reader's question is
    assert any(writer.state_thread.state.pending.values())
    assert writer.journal.seq == before
    writer.close()


def test_a_declined_offer_is_repeated_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.service._state_thread.LEAST_WAIT", 0.01)
    core = partial(Scheduler, refuse_seconds=0.5)
    monkeypatch.setattr("fairlead.service.service_state.Scheduler", core)
    writer = Writer(tmp_path / "j.db", "drf/rrr/oblivious")
    writer.ask(lambda tx: tx.apply("server", **A_SERVER | {"capacity": {"cpu": 2.0}}))
    writer.ask(submit)
    writer.ask(lambda tx: tx.apply("submit", jobs=[A_JOB | {"demand": {"cpu": 2.0}}]))
    writer.ask(lambda _tx: None)
    writer.ask(end)  # the other core was declined just before
    starts = writer.starts
    assert len(starts) == 1
    until(lambda: len(writer.starts) == 2, 10)
    assert 0.25 < writer.starts[1].since - starts[0].since < 5
    writer.close()


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
    (attempt,) = writer.journal.jobs.attempts_of(1)
    hours = (attempt["ended"] - attempt["started"]) / 3600
    assert (row["user"], row["tasks"], row["cpu"]) == ("ana", 1, pytest.approx(hours))


def test_a_token_can_be_taken_back_but_the_last_of_an_admin(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    journal.tokens.add(Token("boss", "admin", ""), "secret-boss")
    journal.tokens.add(Token("ana", "user", "ana"), "secret")
    with pytest.raises(InputError, match="last token of an admin"):
        journal.tokens.remove("boss")
    journal.tokens.add(Token("other", "admin", ""), "secret-other")
    journal.tokens.remove("boss")
    with pytest.raises(InputError, match="there is a token 'ana'"):
        journal.tokens.add(Token("ana", "admin", ""), "other")
    with pytest.raises(InputError, match="names callers by account"):
        journal.tokens.add(Token("uid 0", "user", "ana"), "other")
    assert [token.name for token in journal.tokens.all().values()] == ["ana", "other"]
    journal.tokens.remove("ana")
    assert [token.name for token in journal.tokens.all().values()] == ["other"]
    with pytest.raises(InputError, match="there is no token"):
        journal.tokens.remove("ana")
    journal.close()


def test_a_commit_that_fails_writes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    batch = Batch()
    batch.add(1.0, "user", b'{"name":"ana","weight":1.0}')
    batch.specs[1] = ("ana", 1.0, b"{}")
    journal.commit(batch, Effects())
    again = Batch()
    again.add(2.0, "user", b'{"name":"bo","weight":1.0}')
    again.specs[1] = ("bo", 2.0, b"{}")  # the job is there
    with pytest.raises(JournalError):
        journal.commit(again, Effects())
    assert [kind for _, _, kind, _ in journal.events()] == ["user"]
    assert journal.seq == 1
    journal.close()
