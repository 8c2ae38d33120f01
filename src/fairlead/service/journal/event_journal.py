"""The journal: one SQLite file, with every event on disk before it is acknowledged.

A snapshot and the events after it restore the same state. Each event has a digest of itself and all
earlier events, which detects changed or missing ones. Jobs and attempts (`job_records.py`) and
tokens (`tokens.py`) are in other tables.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import sqlalchemy as sql
from pydantic_core import from_json
from sqlalchemy.dialects import sqlite

from fairlead.errors import InputError
from fairlead.garbage_collection import garbage_collection_paused
from fairlead.service.alerts import Alert
from fairlead.service.jobs import Effects, Running, TaskKey
from fairlead.service.journal import _journal_file as journal_file
from fairlead.service.journal._journal_file import (
    LATER_TABLES,
    TABLES,
    answers,
    attempts,
    events,
    journal_errors,
    meta,
    snapshot_parts,
)
from fairlead.service.journal.earlier_journal import earlier_state, starts_of_running
from fairlead.service.journal.job_records import JobRecords
from fairlead.service.journal.notices import Notices
from fairlead.service.journal.samples import Samples, ShareRecords
from fairlead.service.journal.tokens import Tokens
from fairlead.service.service_state import ServiceState

LOG = logging.getLogger("fairlead.service")
JournalError = journal_file.JournalError
FORMAT, EARLIER_FORMAT = "2", "1"
PART_BYTES = 2**20  # of a snapshot in one row
EARLIER = (
    "was written by an earlier version of fairlead, whose jobs this version cannot continue: start "
    "that version once and stop it; then fairlead simulate and fairlead trace convert can read "
    "this journal, and fairlead serve needs a new one (--db)"
)
ALERTS = "alerts"  # the key of the present alerts
ANSWERS_AGE = 86400.0  # seconds for which idempotency keys are kept
EVENTS_AT_ONCE = 500  # in one query; few enough to stay in the processor's cache
NEWEST_SNAPSHOTS = 2  # kept for recovery
OLDEST_SNAPSHOTS = 2  # kept, because replays start there, now or once older events are deleted
DELETED_AT_ONCE = 10_000  # events in one transaction, which takes some 20 ms


class Answer(NamedTuple):
    """The answer to a request with an idempotency key."""

    digest: str  # of the request
    body: bytes  # JSON


@dataclass
class Batch:
    """The rows of one transaction."""

    events: list[tuple[float, str, bytes]] = field(default_factory=list)  # time, kind, body
    # By id of a new job: its user, the time of its submission, its spec.
    specs: dict[int, tuple[str, float, bytes]] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)  # by idempotency key

    def add(self, now: float, kind: str, body: bytes) -> None:
        self.events.append((now, kind, body))


class Snapshots:
    """The snapshots of a journal: each has the state after an event.

    Snapshots are written in parts, so that commits need not wait long. A snapshot is complete when
    its last part is written.
    """

    def __init__(
        self, engine: sql.Engine, path: Path, read_state: Callable[[bytes], ServiceState]
    ) -> None:
        self._engine, self._path, self._read_state = engine, path, read_state

    def save(self, seq: int, parts: Iterable[bytes]) -> None:
        """Save the state after an event; keep only the two oldest and two newest snapshots."""
        part, data, digest = 0, b"", 0
        self._delete(snapshot_parts.c.seq == seq)
        # A part is written once the next one is known: the last part also holds the digest.
        for part, next_data in enumerate(parts):
            if part:
                self._insert(seq, part - 1, data)
            data = next_data
            digest = crc32(data, digest)
        self._insert(seq, part, data, digest)
        kept = self.seqs()
        kept = kept[:OLDEST_SNAPSHOTS] + kept[OLDEST_SNAPSHOTS:][-NEWEST_SNAPSHOTS:]
        self._delete(snapshot_parts.c.seq.not_in(kept))

    def seqs(self) -> list[int]:
        """Return the numbers of the events with a complete snapshot, in ascending order."""
        whole = sql.select(snapshot_parts.c.seq).where(snapshot_parts.c.is_last)
        with self._engine.connect() as connection:
            return list(connection.scalars(whole.order_by(snapshot_parts.c.seq)))

    def first_readable(self, seqs: Sequence[int]) -> tuple[int, ServiceState] | None:
        """Return the first readable snapshot among `seqs`, after its number; None without one."""
        for seq in seqs:
            try:
                data, digest = self._parts(seq)
                if digest not in (None, crc32(data)):
                    raise InputError("is damaged: its digest differs", "snapshot")
                return seq, self._read_state(data)
            except (InputError, KeyError, TypeError, ValueError, IndexError) as fault:
                extra = {"path": str(self._path), "fault": str(fault)}
                LOG.warning("a damaged snapshot is skipped; more events are read", extra=extra)
        return None

    def sound(self) -> Iterator[tuple[int, bytes]]:
        """Yield the snapshots that match their digests, each after the number of its event."""
        for seq in self.seqs():
            data, digest = self._parts(seq)
            if digest == crc32(data):
                yield seq, data

    def delete_before(self, seq: int) -> None:
        self._delete(snapshot_parts.c.seq < seq)

    def _insert(self, seq: int, part: int, data: bytes, digest: int | None = None) -> None:
        row = {"seq": seq, "part": part, "is_last": digest is not None, "data": data}
        with self._engine.begin() as connection:
            connection.execute(sql.insert(snapshot_parts).values(**row, digest=digest))

    def _parts(self, seq: int) -> tuple[bytes, int | None]:
        parts = sql.select(snapshot_parts).where(snapshot_parts.c.seq == seq)
        with self._engine.connect() as connection:
            rows = connection.execute(parts.order_by(snapshot_parts.c.part)).all()
        return b"".join(row.data for row in rows), rows[-1].digest

    def _delete(self, chosen: sql.ColumnElement[bool]) -> None:
        with self._engine.begin() as connection:
            connection.execute(sql.delete(snapshot_parts).where(chosen))


class Journal:
    """The journal's file. One process at a time writes; any thread may read.

    A missing file is created, readable only by its owner, unless it `must_exist`. A `shared`
    journal is opened without the service's lock, to read it or to change tokens; a `read_only`
    journal is never written. With `survives_power_failure`, commits are synced. Raises `InputError`
    if the file is in use, is damaged, lacks acknowledged events, has a second name, is no journal,
    or is of another version.
    """

    def __init__(
        self,
        path: Path,
        *,
        must_exist: bool = False,
        shared: bool = False,
        read_only: bool = False,
        survives_power_failure: bool = True,
    ) -> None:
        self.path = path
        self.seq, self.last, self._digest = 0, 0.0, 0  # of the last event: number, time, digest
        self._lock: int | None = None
        self._acknowledged: int | None = None
        is_writer = not (shared or read_only)
        try:
            if not path.exists():
                if must_exist or read_only:
                    raise InputError("there is no such file", "", str(path))
                journal_file.create(path)
            if is_writer:
                self._lock = journal_file.lock(path)
            self._engine = journal_file.open_engine(path, read_only, survives_power_failure)
            if is_writer:
                journal_file.check_pages(self._engine, path)
            with self._engine.begin() as connection:
                # The earlier version placed tasks differently, so its journals can only be read.
                self.is_earlier = self._check_format(connection, read_only)
            self.jobs = JobRecords(self._engine)
            self.shares = ShareRecords(self._engine)
            self.samples, self.notices = Samples(self._engine), Notices(self._engine)
            read_state = earlier_state if self.is_earlier else ServiceState.restore
            self.snapshots = Snapshots(self._engine, path, read_state)
            self.tokens = Tokens(self._engine, path)
            self._read_last()
            if is_writer:
                journal_file.check_acknowledged(path, self.seq)
                self.jobs.check_specs()
                self._acknowledged = journal_file.open_acknowledged(path)
        except OSError as fault:
            self.close()
            raise InputError(fault.strerror or str(fault), "", str(path)) from None
        except sql.exc.DBAPIError as fault:
            self.close()
            raise _unreadable(fault, path) from None
        except InputError:
            self.close()
            raise

    def close(self) -> None:
        if hasattr(self, "_engine"):
            self._engine.dispose()
        if self._acknowledged is not None:
            os.close(self._acknowledged)
            self._acknowledged = None
        if self._lock is not None:
            os.close(self._lock)  # last: closing any descriptor of the file drops SQLite's locks
            self._lock = None

    def _check_format(self, connection: sql.Connection, read_only: bool) -> bool:
        """Create the tables of a new journal; return whether an earlier version wrote it."""
        found = None
        inspector = sql.inspect(connection)
        if read_only or inspector.has_table("meta"):
            found = connection.scalar(sql.select(meta.c.value).where(meta.c.key == "format"))
        columns = inspector.get_columns("events") if inspector.has_table("events") else []
        # Of the earlier versions, only the last one wrote digests.
        has_digests = any(column["name"] == "digest" for column in columns)
        if found == EARLIER_FORMAT and not (read_only and has_digests):
            raise InputError(EARLIER, "", str(self.path))
        if found is None and not read_only:
            TABLES.create_all(connection)
            connection.execute(sql.insert(meta).values(key="format", value=FORMAT))
        elif found not in (FORMAT, EARLIER_FORMAT):
            raise InputError(f"is of format {found}, not {FORMAT}", "", str(self.path))
        elif not read_only:
            for table in LATER_TABLES:
                table.create(connection, checkfirst=True)
        return found == EARLIER_FORMAT

    # Writing

    def commit(self, batch: Batch, effects: Effects) -> None:
        """Write a batch and its effects to disk; raise `JournalError` if that fails."""
        seq, last, digest = self.seq, self.last, self._digest
        rows = []
        for now, kind, body in batch.events:
            seq, last = seq + 1, now
            digest = digest_of_event(digest, seq, now, kind, body)
            rows.append((seq, now, kind, body, digest))
        at = time.time()
        answer_rows = [
            (key, answer.digest, at, answer.body) for key, answer in batch.answers.items()
        ]
        with journal_errors(), self._engine.begin() as connection:
            write = connection.exec_driver_sql
            if rows:
                columns = "(seq, now, kind, body, digest)"
                write(f"INSERT INTO events {columns} VALUES (?, ?, ?, ?, ?)", rows)
            # The wall clock may be behind the times of events; see `StateThread._next_time`.
            correction = min(at - last, 0.0) if rows else 0.0
            self.jobs.insert(connection, batch.specs)
            self.jobs.insert_attempts(connection, effects.attempts, correction)
            self.jobs.record_ended(connection, effects.ended, last)
            self.notices.insert_ends(connection, effects.ended, at)
            if answer_rows:
                columns = "(key, digest, at, body)"
                write(f"INSERT OR REPLACE INTO answers {columns} VALUES (?, ?, ?, ?)", answer_rows)
        self.seq, self.last, self._digest = seq, last, digest
        if self._acknowledged is not None and rows:
            journal_file.acknowledge(self._acknowledged, seq)
        self.jobs.cache({job: spec for job, (*_, spec) in batch.specs.items()}, effects.ended)

    @journal_errors()
    def save(self, seq: int, parts: Iterable[bytes]) -> None:
        """Save a snapshot of the state after an event, so that restarts are quick."""
        self.snapshots.save(seq, parts)
        with self._engine.begin() as connection:
            aged = answers.c.at < time.time() - ANSWERS_AGE
            connection.execute(sql.delete(answers).where(aged))

    @journal_errors()
    def add_alerts(self, changes: Iterable[tuple[str, Alert, float]], present: bytes) -> None:
        """Write changes of alerts, with their times, as notices; store the present alerts."""
        with self._engine.begin() as connection:
            for change, alert, now in changes:
                content = {"type": change, "alert": alert._asdict()}
                self.notices.insert_alert(connection, alert.user, content, now)
            row = sqlite.insert(meta).values(key=ALERTS, value=present.decode())
            new = {"value": row.excluded.value}
            connection.execute(row.on_conflict_do_update(["key"], set_=new))

    def stored_text(self, key: str) -> str:
        """Return the text that is stored under a key; empty if there is none."""
        with self._engine.connect() as connection:
            return connection.scalar(sql.select(meta.c.value).where(meta.c.key == key)) or ""

    def size(self) -> int:
        """Return the bytes of the journal's file and of its write-ahead log."""
        real = self.path.resolve()
        files = (real, real.with_name(f"{real.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    @journal_errors()
    def delete_old(self, before: float) -> None:
        """Delete jobs that ended before a time, and the events that replays no longer need.

        Events are deleted up to the newest snapshot that is older than `before`, where replays then
        start. This snapshot and a newer one must be sound. Transactions are small, because commits
        wait for them.
        """
        self.jobs.delete_old(before)
        self.shares.delete_before(before)
        first, seqs = self._first(), self.snapshots.seqs()
        old = [seq for seq in seqs if seq > first and self._time_of(seq) < before]
        if not old:
            return
        sound = [seq for seq, _ in self.snapshots.sound()]
        start = max(set(old).intersection(sound[:-1]), default=first)
        for at in range(first, start, DELETED_AT_ONCE):
            part = events.c.seq < min(at + DELETED_AT_ONCE, start)
            with self._engine.begin() as connection:
                connection.execute(sql.delete(events).where(part))
        if start > first:
            self.snapshots.delete_before(start)

    # Reading

    def recover(self, policy: str) -> tuple[ServiceState, int]:
        """Return the state of the journal, and the number of events after its snapshot."""
        try:
            with garbage_collection_paused():
                self._read_last()
                newest = self.snapshots.first_readable(self.snapshots.seqs()[::-1])
                since, state = newest or (0, ServiceState(policy))
                for seq, now, kind, body in self.events(since):
                    repeat_event(state, kind, body, now, self.path, seq)
                    state.take_effects()
        except sql.exc.DBAPIError as fault:
            raise _unreadable(fault, self.path) from None
        return state, self.seq - since

    def events(self, since: int = 0) -> Iterator[tuple[int, float, str, dict[str, Any]]]:
        """Yield number, time, kind and body of each event after event `since`, in order."""
        digest = self._digest_at(since)
        chosen = (
            "SELECT seq, now, kind, body, digest FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
        )
        rows: Sequence[Any] = [None] * EVENTS_AT_ONCE
        while len(rows) == EVENTS_AT_ONCE:
            with self._engine.connect() as connection:  # rows of SQLAlchemy would double the time
                cursor = connection.connection.cursor()
                try:
                    rows = cursor.execute(chosen, (since, EVENTS_AT_ONCE)).fetchall()
                except sqlite3.DatabaseError as fault:
                    raise InputError(f"is damaged: {fault}", "", str(self.path)) from None
            for seq, now, kind, written, recorded in rows:
                body = written if isinstance(written, bytes) else str(written).encode()
                place = f"{self.path}: event {seq}"
                if seq != since + 1:
                    why = f"does not follow event {since}"
                    if not since:
                        why = "is the first event: older ones were deleted, and no snapshot is left"
                    raise InputError(why, "", place)
                expected = digest_of_event(digest, seq, now, kind, body)
                # Without the digest of the event before it, a digest cannot be checked.
                is_checkable = recorded is not None and (digest or not since)
                if is_checkable and recorded != expected:
                    raise InputError("is damaged: its digest differs", "", place)
                try:
                    content = from_json(body)
                except ValueError as fault:
                    raise InputError(f"is damaged: {fault}", "", place) from None
                yield seq, now, kind, content
                since, digest = seq, recorded or 0

    def replay_start(self) -> tuple[int, float, ServiceState | None]:
        """Return the event after which replays start (0: the first), its time, and the state."""
        first = self._first()
        # While no event is deleted, so that `first` is at most 1, replays start without a snapshot.
        later = [seq for seq in self.snapshots.seqs() if seq >= first > 1]
        found = self.snapshots.first_readable(later)
        return (0, 0.0, None) if found is None else (found[0], self._time_of(found[0]), found[1])

    def recorded_starts(self) -> dict[float, dict[TaskKey, str]]:
        """Return the servers of attempts, by start time and task.

        These are the ended attempts, and attempts that were running at the time of a snapshot.
        """
        found: dict[float, dict[TaskKey, str]] = {}
        with self._engine.connect() as connection:
            for row in connection.execute(sql.select(attempts)):
                key = TaskKey(row.job, row.task, row.attempt)
                found.setdefault(row.started, {})[key] = row.server
        for _, data in self.snapshots.sound():
            for key, server, since in starts_of_running(data):
                found.setdefault(since, {})[key] = server
        return found

    def answer(self, key: str) -> Answer | None:
        """Return the answer to the request with an idempotency key."""
        with self._engine.connect() as connection:
            row = connection.execute(sql.select(answers).where(answers.c.key == key)).first()
        return None if row is None else Answer(row.digest, row.body)

    def _first(self) -> int:
        """Return the number of the first event that was not deleted."""
        return self._scalar(sql.select(sql.func.min(events.c.seq)))

    def _time_of(self, seq: int) -> float:
        return float(self._scalar(sql.select(events.c.now).where(events.c.seq == seq)))

    def _digest_at(self, seq: int) -> int:
        """Return the digest of all events up to event `seq`; 0 if it is unknown."""
        return self._scalar(sql.select(events.c.digest).where(events.c.seq == seq))

    def _scalar(self, chosen: sql.Select[Any]) -> int:
        with self._engine.connect() as connection:
            return connection.scalar(chosen) or 0

    def _read_last(self) -> None:
        self.seq = self._scalar(sql.select(sql.func.max(events.c.seq)))
        self.last, self._digest = self._time_of(self.seq), self._digest_at(self.seq)


def repeat_event(
    state: ServiceState, kind: str, body: dict[str, Any], now: float, path: Path, seq: int
) -> Any:
    """Carry out an event of a journal again; return its outcome."""
    digest = body.pop("placed", None)
    try:
        outcome = state.apply(kind, body, now)
    except (InputError, AttributeError, TypeError, KeyError, ValueError) as fault:
        why = f"cannot be carried out again: {fault}"
        raise InputError(why, "", f"{path}: event {seq}") from None
    if digest is not None and digest != digest_of_placements(outcome):
        why = "gives other placements than the recorded ones; another version may have written it"
        raise InputError(why, "", f"{path}: event {seq}")
    return outcome


def digest_of_placements(runs: Sequence[Running]) -> int:
    """Return a checksum of started tasks and their servers."""
    return crc32(" ".join([f"{run.key} {run.server}" for run in runs]).encode())


def digest_of_event(previous: int, seq: int, now: float, kind: str, body: bytes) -> int:
    """Return a checksum of an event and, by the `previous` digest, of all before it; never 0."""
    return crc32(body, crc32(f"{seq} {now!r} {kind} ".encode(), previous)) or 1


def _unreadable(fault: sql.exc.DBAPIError, path: Path) -> InputError:
    """Return the error for a file that SQLite cannot read."""
    why = str(fault.orig)
    if "no such table" in why:
        why = "is no journal of fairlead serve"
    elif "malformed" in why or "disk image" in why:
        why = f"is damaged: {why}"
    return InputError(why, "", str(path))


def reading(path: Path) -> closing[Journal]:
    """Open a journal read-only for a block; a service may have it open."""
    return closing(Journal(path, read_only=True))
