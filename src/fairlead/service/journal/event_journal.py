"""The journal: every event on disk before it is acknowledged, in one SQLite file.

A snapshot and the events after it give the state again, the same bytes. Each event carries a digest
of itself and of all before it, so that a changed or missing one is noticed. Jobs and attempts are
in other tables (`job_records.py`), as are tokens (`tokens.py`).
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import sqlalchemy as sql
from pydantic_core import from_json

from fairlead.errors import InputError
from fairlead.garbage_collection import garbage_collection_paused
from fairlead.service.jobs import Effects, TaskKey
from fairlead.service.journal import _journal_file as journal_file
from fairlead.service.journal._journal_file import Acknowledged
from fairlead.service.journal._journal_snapshots import Snapshots
from fairlead.service.journal.earlier_journal import earlier_state, running_in
from fairlead.service.journal.job_records import JobRecords
from fairlead.service.journal.journal_tables import (
    TABLES,
    answers,
    attempts,
    columns_of,
    events,
    meta,
    unreadable,
    unwritten,
)
from fairlead.service.journal.repeated_events import repeat_event
from fairlead.service.journal.tokens import Tokens
from fairlead.service.service_state import ServiceState

LOG = logging.getLogger("fairlead.service")
FORMAT, EARLIER_FORMAT = "2", "1"
PART_BYTES = 2**20  # of a snapshot, written at once
EARLIER = (
    "was written by an earlier version of fairlead, whose jobs this one cannot go on with: start "
    "that version once and stop it; then fairlead simulate and fairlead trace convert read what "
    "happened, and fairlead serve begins another journal (--db)"
)
ANSWERS_AGE = 86400.0  # seconds for which an idempotency key is known
EVENTS_AT_ONCE = 500  # few enough to stay in the processor's cache
FORGOTTEN_AT_ONCE = 10_000  # events deleted in one transaction, which takes some 20 ms


class Answer(NamedTuple):
    """The answer to a request with an idempotency key, and a digest of the request."""

    digest: str
    body: bytes


@dataclass
class Batch:
    """Rows that are written in one transaction: events, and what follows from them."""

    events: list[tuple[float, str, bytes]] = field(default_factory=list)
    specs: dict[int, tuple[str, float, bytes]] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)

    def note(self, now: float, kind: str, body: bytes) -> None:
        """Add an event, its body as JSON."""
        self.events.append((now, kind, body))


class Journal:
    """The journal's file. One process at a time writes; any thread may read.

    Parameters
    ----------
    path : Path
        The SQLite file; created, readable by its owner alone, where there is none.
    must_exist : bool
        Whether a missing file is an error.
    shared : bool
        Whether to leave the lock to the service that writes events: for tokens, and for reading.

    Attributes
    ----------
    is_earlier : bool
        Whether an earlier version wrote it, which placed tasks otherwise. It can only be read.

    Raises
    ------
    InputError
        When it is in use, damaged, lacks acknowledged events, has a second name, is no journal, or
        is of another version.
    """

    def __init__(
        self,
        path: Path,
        *,
        must_exist: bool = False,
        shared: bool = False,
        read_only: bool = False,
        outlives_machine: bool = True,
    ) -> None:
        self.path = path
        self.seq, self.last, self._digest = 0, 0.0, 0
        self._lock: int | None = None
        self._acknowledged: Acknowledged | None = None
        is_writer = not (shared or read_only)
        try:
            if (must_exist or read_only) and not path.exists():
                raise InputError("there is no such file", "", str(path))
            if not path.exists():
                journal_file.create(path)
            if is_writer:
                self._lock = journal_file.lock(path)
            self._engine = journal_file.open_engine(path, read_only, outlives_machine)
            if is_writer:
                journal_file.check_pages(self._engine, path)
            with self._engine.begin() as connection:
                self.is_earlier = self._check_format(connection, read_only)
            self.jobs = JobRecords(self._engine)
            read_state = earlier_state if self.is_earlier else ServiceState.restore
            self.snapshots = Snapshots(self._engine, path, read_state)
            self.tokens = Tokens(self._engine, path)
            self._read_last()
            if is_writer:
                journal_file.check_acknowledged(path, self.seq)
                self.jobs.check_specs()
                self._acknowledged = Acknowledged(path)
        except OSError as fault:
            self.close()
            raise InputError(fault.strerror or str(fault), "", str(path)) from None
        except sql.exc.DBAPIError as fault:
            self.close()
            raise unreadable(fault, path) from None
        except InputError:
            self.close()
            raise

    def close(self) -> None:
        """Release the file and its lock."""
        if hasattr(self, "_engine"):
            self._engine.dispose()
        if self._acknowledged is not None:
            self._acknowledged.close()
            self._acknowledged = None
        if self._lock is not None:
            os.close(self._lock)  # last: closing any descriptor of the file drops SQLite's locks
            self._lock = None

    def _check_format(self, connection: sql.Connection, read_only: bool) -> bool:
        """Create the tables of a new journal; return whether an earlier version wrote it."""
        found = None
        if read_only or columns_of(connection, "meta"):
            found = connection.scalar(sql.select(meta.c.value).where(meta.c.key == "format"))
        has_digests = "digest" in columns_of(connection, "events")  # the last earlier version's
        if found == EARLIER_FORMAT and not (read_only and has_digests):
            raise InputError(EARLIER, "", str(self.path))
        if found is None and not read_only:
            TABLES.create_all(connection)
            connection.execute(sql.insert(meta).values(key="format", value=FORMAT))
        elif found not in (FORMAT, EARLIER_FORMAT):
            raise InputError(f"is of format {found}, not {FORMAT}", "", str(self.path))
        return found == EARLIER_FORMAT

    # Events and snapshots

    def commit(self, batch: Batch, effects: Effects) -> None:
        """Write a batch; when this returns it is on disk.

        Raises
        ------
        JournalError
            When it is not; then nothing of it is there.
        """
        seq, last, digest = self.seq, self.last, self._digest
        rows = []
        for now, kind, body in batch.events:
            seq, last = seq + 1, now
            digest = digest_of_event(digest, seq, now, kind, body)
            rows.append((seq, now, kind, body, digest))
        try:
            with self._engine.begin() as connection:
                write = connection.exec_driver_sql
                if rows:
                    write(
                        "INSERT INTO events (seq, now, kind, body, digest) VALUES (?, ?, ?, ?, ?)",
                        rows,
                    )
                at = time.time()
                # By the wall clock, which may be behind the moments of events: see `Engine`.
                behind = min(at - last, 0.0) if rows else 0.0
                self.jobs.insert(connection, batch.specs)
                self.jobs.insert_attempts(connection, effects.past, behind)
                self.jobs.note_ended(connection, effects.ended, last)
                if batch.answers:
                    write(
                        "INSERT OR REPLACE INTO answers (key, digest, at, body, checksum) "
                        "VALUES (?, ?, ?, ?, ?)",
                        [
                            (key, a.digest, at, a.body, _checksum(key, a))
                            for key, a in batch.answers.items()
                        ],
                    )
        except (sql.exc.OperationalError, sql.exc.IntegrityError, OSError) as fault:
            raise unwritten(fault) from None
        self.seq, self.last, self._digest = seq, last, digest
        if self._acknowledged is not None and rows:
            self._acknowledged.write(seq)
        self.jobs.cache(batch.specs, effects.ended)

    def save(self, seq: int, parts: Iterable[bytes]) -> None:
        """Keep a snapshot of the state after an event, so that a restart is quick.

        Any thread may, one at a time. What `parts` raises leaves it unfinished, and so unread.
        """
        try:
            self.snapshots.save(seq, parts)
            with self._engine.begin() as connection:
                aged = answers.c.at < time.time() - ANSWERS_AGE
                connection.execute(sql.delete(answers).where(aged))
        except (sql.exc.SQLAlchemyError, OSError) as fault:
            raise unwritten(fault) from None

    def recover(self, policy: str) -> tuple[ServiceState, int]:
        """Return the state that the journal tells of, and how many events came after its snapshot.

        Parameters
        ----------
        policy : str
            For a journal without events.

        Raises
        ------
        InputError
            When an event cannot be carried out as it was, or placed otherwise: the file is damaged,
            or another version of the program wrote it.
        """
        try:
            with garbage_collection_paused():
                self._read_last()
                newest = self.snapshots.first_readable(self.snapshots.seqs()[::-1])
                since, state = newest or (0, ServiceState(policy))
                for seq, now, kind, body in self.events(since):
                    repeat_event(state, kind, body, now, self.path, seq)
                    state.take_effects()
        except sql.exc.DBAPIError as fault:
            raise unreadable(fault, self.path) from None
        return state, self.seq - since

    def events(self, since: int = 0) -> Iterator[tuple[int, float, str, dict[str, Any]]]:
        """Yield number, moment, kind and body of each event after one, in order.

        Raises
        ------
        InputError
            When an event is damaged or missing.
        """
        digest = self._digest_at(since)
        chosen = (
            "SELECT seq, now, kind, body, digest FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
        )
        rows: Sequence[Any] = [None] * EVENTS_AT_ONCE
        while len(rows) == EVENTS_AT_ONCE:
            with self._engine.connect() as connection:  # its rows take as long as the rest
                cursor = connection.connection.cursor()
                try:
                    rows = cursor.execute(chosen, (since, EVENTS_AT_ONCE)).fetchall()
                except sqlite3.DatabaseError as fault:
                    raise InputError(f"is damaged: {fault}", "", str(self.path)) from None
            for seq, now, kind, written, kept in rows:
                body = written if isinstance(written, bytes) else str(written).encode()
                place = f"{self.path}: event {seq}"
                if seq != since + 1:
                    why = f"does not follow event {since}"
                    if not since:
                        why = "is the first one: those before are deleted, and no snapshot is left"
                    raise InputError(why, "", place)
                expected = digest_of_event(digest, seq, now, kind, body)
                if kept is not None and (digest or not since) and kept != expected:
                    raise InputError("is damaged: its digest differs", "", place)
                try:
                    content = from_json(body)
                except ValueError as fault:
                    raise InputError(f"is damaged: {fault}", "", place) from None
                yield seq, now, kind, content
                since, digest = seq, kept or 0

    def beginning(self) -> tuple[int, float, ServiceState | None]:
        """Return after which event a replay begins, its moment, and the state then.

        Where no event is deleted these are 0, 0 and None.
        """
        first = self._first()
        following = [seq for seq in self.snapshots.seqs() if seq >= first > 1]
        found = self.snapshots.first_readable(following)
        return (0, 0.0, None) if found is None else (found[0], self._moment_of(found[0]), found[1])

    def recorded_starts(self) -> dict[float, dict[TaskKey, str]]:
        """Return the server of each start of a task, by its moment.

        Of starts that are not over, those in snapshots are known.
        """
        found: dict[float, dict[TaskKey, str]] = {}
        with self._engine.connect() as connection:
            for row in connection.execute(sql.select(attempts)):
                key = TaskKey(row.job, row.task, row.attempt)
                found.setdefault(row.started, {})[key] = row.server
        for data in self.snapshots.sound():
            for start in running_in(data):
                found.setdefault(start.since, {})[start.key] = start.server
        return found

    def forget(self, before: float) -> None:
        """Delete jobs that ended before a moment, and the events that no replay needs then.

        Events go as far as to the newest snapshot of before that moment, at which replays begin
        from then on. It has to be sound, and a newer sound one is kept beside it. All is deleted in
        small transactions, so that commits of the service wait for none of them for long.
        """
        try:
            self.jobs.forget(before)
            first, seqs = self._first(), self.snapshots.seqs()
            old = [seq for seq in seqs if seq > first and self._moment_of(seq) < before]
            if not old:
                return
            sound = [seq for seq in seqs if self.snapshots.is_sound(seq)]
            begin = max(set(old).intersection(sound[:-1]), default=first)
            for at in range(first, begin, FORGOTTEN_AT_ONCE):
                part = events.c.seq < min(at + FORGOTTEN_AT_ONCE, begin)
                with self._engine.begin() as connection:
                    connection.execute(sql.delete(events).where(part))
            if begin > first:
                self.snapshots.delete_before(begin)
        except sql.exc.SQLAlchemyError as fault:
            raise unwritten(fault) from None

    def _first(self) -> int:
        """Return the number of the first event; 0 where there is none."""
        with self._engine.connect() as connection:
            return connection.scalar(sql.select(sql.func.min(events.c.seq))) or 0

    def _moment_of(self, seq: int) -> float:
        """Return when an event was; that of one that is not there is 0."""
        with self._engine.connect() as connection:
            return connection.scalar(sql.select(events.c.now).where(events.c.seq == seq)) or 0.0

    # Answers to repeated requests

    def answer(self, key: str) -> Answer | None:
        """Return the answer to the request that came with an idempotency key.

        Raises
        ------
        InputError
            When it is damaged. The request was carried out, and must not be again.
        """
        with self._engine.connect() as connection:
            row = connection.execute(sql.select(answers).where(answers.c.key == key)).first()
        if row is None:
            return None
        found = Answer(row.digest, row.body)
        if row.checksum != _checksum(key, found):
            why = "its answer in the journal is damaged; list jobs to see what the request did"
            raise InputError(why, "Idempotency-Key")
        return found

    def _read_last(self) -> None:
        """Read number, moment and digest of the last event."""
        with self._engine.connect() as connection:
            chosen = sql.select(events.c.seq, events.c.now).order_by(events.c.seq.desc()).limit(1)
            last = connection.execute(chosen).first()
        self.seq = 0 if last is None else last.seq
        self.last = 0.0 if last is None else last.now
        self._digest = self._digest_at(self.seq)

    def _digest_at(self, seq: int) -> int:
        """Return the digest of all events up to one; 0 where it is not known."""
        with self._engine.connect() as connection:
            chosen = sql.select(events.c.digest).where(events.c.seq == seq)
            return connection.scalar(chosen) or 0


def digest_of_event(before: int, seq: int, now: float, kind: str, body: bytes) -> int:
    """Return a checksum of an event and of all events before it; never 0."""
    return crc32(body, crc32(f"{seq} {now!r} {kind} ".encode(), before)) or 1


def _checksum(key: str, answer: Answer) -> int:
    """Return a checksum of an answer and of the key and the request that it belongs to."""
    return crc32(answer.body, crc32(f"{key}\n{answer.digest}".encode()))


@contextmanager
def opened(path: Path, *, shared: bool = False) -> Iterator[Journal]:
    """Open a journal that is there, for the length of a block."""
    journal = Journal(path, must_exist=True, shared=shared)
    try:
        yield journal
    finally:
        journal.close()


@contextmanager
def reading(path: Path) -> Iterator[Journal]:
    """Open a journal for the length of a block, and write nothing; a service may have it."""
    journal = Journal(path, read_only=True)
    try:
        yield journal
    finally:
        journal.close()
