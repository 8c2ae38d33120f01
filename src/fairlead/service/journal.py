"""The journal: every event on disk before it is acknowledged, in one SQLite file.

The latest snapshot and the events after it give the state again, the same bytes. Other tables hold
what people ask for later: jobs as submitted, each start of a task with how it ended, and usage.

Three things guard acknowledged events. Each event carries a digest of itself and of all before it.
A small file beside the journal (`acknowledged.py`) holds the number of the last acknowledged event:
SQLite silently ignores the rest of a damaged write-ahead log. And a lock on the file itself, not on
its name, keeps a second service out, whatever path leads to it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import quote
from zlib import crc32

import sqlalchemy as sql
from pydantic_core import from_json, to_json
from sqlalchemy.dialects import sqlite

from fairlead.errors import InputError
from fairlead.formats.garbage import garbage_collection_paused
from fairlead.service import acknowledged
from fairlead.service.replaying import Retelling
from fairlead.service.state import RESOURCES, Effects, Job, ServiceState

LOG = logging.getLogger("fairlead.service")
FORMAT = "1"
KEPT_SNAPSHOTS = 2
PART_BYTES = 2**20  # of a snapshot, written at once
CACHED_SPEC_BYTES = 64 * 2**20  # of jobs as submitted, in memory
ENDED_SPEC_BYTES = 4096  # of a job as submitted that is kept once it has ended
FORGOTTEN_AT_ONCE = 500  # jobs deleted in one transaction, which takes some 20 ms
ANSWERS_AGE = 86400.0  # seconds for which an idempotency key is known
ROWS_AT_ONCE = 5000
EVENTS_AT_ONCE = 500  # few enough to stay in the processor's cache
BUSY = 5000  # milliseconds to wait for a reader

TABLES = sql.MetaData()
meta = sql.Table(
    "meta",
    TABLES,
    sql.Column("key", sql.Text, primary_key=True),
    sql.Column("value", sql.Text, nullable=False),
)
events = sql.Table(
    "events",
    TABLES,
    sql.Column("seq", sql.Integer, primary_key=True),
    sql.Column("now", sql.Float, nullable=False),
    sql.Column("kind", sql.Text, nullable=False),
    sql.Column("body", sql.LargeBinary, nullable=False),
    sql.Column("digest", sql.Integer),  # null in events written before digests
)
snapshots = sql.Table(  # in parts, so that none holds up a commit; whole when the last is there
    "snapshot_parts",
    TABLES,
    sql.Column("seq", sql.Integer, primary_key=True),
    sql.Column("part", sql.Integer, primary_key=True),
    sql.Column("is_last", sql.Boolean, nullable=False),
    sql.Column("data", sql.LargeBinary, nullable=False),
    sql.Column("digest", sql.Integer),  # of all parts, in the last one
)
jobs = sql.Table(
    "jobs",
    TABLES,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("user", sql.Text, nullable=False),
    sql.Column("submitted", sql.Float, nullable=False),
    sql.Column("spec", sql.LargeBinary, nullable=False),
    sql.Column("ended", sql.Float, index=True),
    sql.Column("outcome", sql.LargeBinary),
)
attempts = sql.Table(
    "attempts",
    TABLES,
    sql.Column("job", sql.Integer, primary_key=True),
    sql.Column("task", sql.Integer, primary_key=True),
    sql.Column("attempt", sql.Integer, primary_key=True),
    sql.Column("user", sql.Text, nullable=False),
    sql.Column("server", sql.Text, nullable=False),
    sql.Column("started", sql.Float, nullable=False),
    sql.Column("ended", sql.Float, nullable=False),
    sql.Column("status", sql.Integer),
    sql.Column("reason", sql.Text, nullable=False),
    sql.Column("cpu", sql.Float, nullable=False),
    sql.Column("memory", sql.Float, nullable=False),
    sql.Column("gpu", sql.Float, nullable=False),
)
past_usage = sql.Table(  # hours of tasks whose rows in `attempts` were deleted
    "past_usage",
    TABLES,
    sql.Column("month", sql.Text, primary_key=True),
    sql.Column("user", sql.Text, primary_key=True),
    sql.Column("tasks", sql.Integer, nullable=False),
    sql.Column("cpu", sql.Float, nullable=False),
    sql.Column("memory", sql.Float, nullable=False),
    sql.Column("gpu", sql.Float, nullable=False),
)
tokens = sql.Table(
    "tokens",
    TABLES,
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("role", sql.Text, nullable=False),
    sql.Column("subject", sql.Text, nullable=False),
    sql.Column("digest", sql.Text, nullable=False, unique=True),
    sql.Column("created", sql.Float, nullable=False),
)
answers = sql.Table(
    "answers",
    TABLES,
    sql.Column("key", sql.Text, primary_key=True),
    sql.Column("digest", sql.Text, nullable=False),
    sql.Column("at", sql.Float, nullable=False),
    sql.Column("body", sql.LargeBinary, nullable=False),
)


class JournalError(Exception):
    """A batch could not be written; nothing of it is in the journal."""


class Token(NamedTuple):
    """A caller and what it may do.

    Attributes
    ----------
    name : str
        Of the token, or of the Unix account that asks without one.
    role : str
        ``admin``, ``user`` or ``worker``.
    subject : str
        The user, or the server; empty for an admin, and for a worker of any server.
    """

    name: str
    role: str
    subject: str


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
        self._acknowledged: acknowledged.Acknowledged | None = None
        self._specs: OrderedDict[int, bytes] = OrderedDict()
        self._spec_bytes = 0
        self._specs_lock = Lock()
        if (must_exist or read_only) and not path.exists():
            raise InputError("there is no such file", "", str(path))
        is_writer = not (shared or read_only)
        try:
            if not path.exists():
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
                acknowledged.remove(path)
            if is_writer:
                self._lock_file()
            self._engine = _engine(path, read_only, outlives_machine)
            if is_writer:
                self._check_file()
            with self._engine.begin() as connection:
                if not read_only:
                    TABLES.create_all(connection)
                    _add_columns(connection)
                found = connection.scalar(sql.select(meta.c.value).where(meta.c.key == "format"))
                if found is None:
                    connection.execute(sql.insert(meta).values(key="format", value=FORMAT))
                elif found != FORMAT:
                    raise InputError(f"is of format {found}, not {FORMAT}", "", str(path))
                self._has_digests = "digest" in _columns(connection, "events")
            self._read_last()
            if is_writer:
                self._check_acknowledged()
                self._acknowledged = acknowledged.Acknowledged(path)
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
        """Release the file and its lock."""
        if hasattr(self, "_engine"):
            self._engine.dispose()
        if self._acknowledged is not None:
            self._acknowledged.close()
            self._acknowledged = None
        if self._lock is not None:
            os.close(self._lock)  # last: closing any descriptor of the file drops SQLite's locks
            self._lock = None

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
                if batch.specs:
                    write(
                        "INSERT INTO jobs (id, user, submitted, spec) VALUES (?, ?, ?, ?)",
                        [(job, *values) for job, values in batch.specs.items()],
                    )
                at = time.time()
                if effects.past:
                    # By the wall clock, which may be behind the moments of events: see `Engine`.
                    behind = min(at - last, 0.0) if rows else 0.0
                    write(
                        "INSERT OR REPLACE INTO attempts VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
                        [
                            (
                                *(*p.key, p.user, p.server, p.started + behind, p.ended + behind),
                                *(p.status, p.reason),
                                *(p.demand.get(r, 0.0) for r in RESOURCES),
                            )
                            for p in effects.past
                        ],
                    )
                if effects.ended:
                    write(
                        "UPDATE jobs SET ended = ?, outcome = ? WHERE id = ?",
                        [(last, to_json(job_view(job)), job.id) for job in effects.ended],
                    )
                    large = [job.id for job in effects.ended if job.size > ENDED_SPEC_BYTES]
                    self._shorten_specs(connection, large)
                if batch.answers:
                    write(
                        "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)",
                        [(key, a.digest, at, a.body) for key, a in batch.answers.items()],
                    )
        except (sql.exc.OperationalError, sql.exc.IntegrityError, OSError) as fault:
            raise JournalError(_reason(fault)) from None
        self.seq, self.last, self._digest = seq, last, digest
        if self._acknowledged is not None and rows:
            self._acknowledged.write(seq)
        with self._specs_lock:
            for job in effects.ended:
                self._drop(job.id)
        for job_id, (_, _, spec) in batch.specs.items():
            self._remember(job_id, spec)

    def _shorten_specs(self, connection: sql.Connection, ended: Sequence[int]) -> None:
        """Keep the beginning of the command of large jobs that ended, and no environment."""
        for job in ended:
            spec = connection.scalar(sql.select(jobs.c.spec).where(jobs.c.id == job))
            if spec is not None:
                short = sql.update(jobs).where(jobs.c.id == job).values(spec=_shortened(spec))
                connection.execute(short)

    def save(self, seq: int, parts: Iterable[bytes]) -> None:
        """Keep a snapshot of the state after an event, so that a restart is quick.

        Any thread may, one at a time. What `parts` raises leaves it unfinished, and so unread.
        """
        try:
            part, data, digest = 0, b"", 0
            with self._engine.begin() as connection:
                connection.execute(sql.delete(snapshots).where(snapshots.c.seq == seq))
            for part, following in enumerate(parts):
                if part:
                    self._keep(seq, part - 1, data)
                data = following
                digest = crc32(data, digest)
            self._keep(seq, part, data, digest)
            whole = sql.select(snapshots.c.seq).where(snapshots.c.is_last)
            kept = whole.order_by(snapshots.c.seq.desc()).limit(KEPT_SNAPSHOTS)
            with self._engine.begin() as connection:
                connection.execute(sql.delete(snapshots).where(snapshots.c.seq.not_in(kept)))
                aged = answers.c.at < time.time() - ANSWERS_AGE
                connection.execute(sql.delete(answers).where(aged))
        except (sql.exc.SQLAlchemyError, OSError) as fault:
            raise JournalError(_reason(fault)) from None

    def _keep(self, seq: int, part: int, data: bytes, digest: int | None = None) -> None:
        row = {"seq": seq, "part": part, "is_last": digest is not None, "data": data}
        row["digest"] = digest
        with self._engine.begin() as connection:
            connection.execute(sql.insert(snapshots).values(**row))

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
                since, state = self._newest_snapshot() or (0, ServiceState(policy))
                replay = Retelling(state, self.path, self.seq - since)
                for event in self.events(since):
                    replay.tell(*event)
                replay.finish()
                state.take_effects()
        except sql.exc.DBAPIError as fault:
            raise _unreadable(fault, self.path) from None
        return state, self.seq - since

    def _newest_snapshot(self) -> tuple[int, ServiceState] | None:
        """Return the newest that can be read, and after which event it was taken."""
        with self._engine.connect() as connection:
            whole = sql.select(snapshots.c.seq).where(snapshots.c.is_last)
            for seq in connection.scalars(whole.order_by(snapshots.c.seq.desc())).all():
                chosen = snapshots.c.data, snapshots.c.digest
                parts = sql.select(*chosen).where(snapshots.c.seq == seq)
                rows = connection.execute(parts.order_by(snapshots.c.part)).all()
                data, digest = b"".join(row.data for row in rows), rows[-1].digest
                try:
                    if digest not in (None, crc32(data)):
                        raise InputError("is damaged: its digest differs", "snapshot")
                    return seq, ServiceState.restore(data)
                except (InputError, KeyError, TypeError, ValueError, IndexError) as fault:
                    said = {"path": str(self.path), "fault": str(fault)}
                    LOG.warning("a snapshot is left out; more events are read", extra=said)
        return None

    def events(self, since: int = 0) -> Iterator[tuple[int, float, str, dict[str, Any]]]:
        """Yield number, moment, kind and body of each event after one, in order.

        Raises
        ------
        InputError
            When an event is damaged or missing.
        """
        digest = self._digest_at(since)
        column = "digest" if self._has_digests else "NULL"
        chosen = (
            f"SELECT seq, now, kind, body, {column} FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
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
                if since and seq != since + 1:
                    raise InputError(f"does not follow event {since}", "", place)
                expected = digest_of_event(digest, seq, now, kind, body)
                if kept is not None and (digest or not since) and kept != expected:
                    raise InputError("is damaged: its digest differs", "", place)
                try:
                    content = from_json(body)
                except ValueError as fault:
                    raise InputError(f"is damaged: {fault}", "", place) from None
                yield seq, now, kind, content
                since, digest = seq, kept or 0

    # What is asked later

    def answer(self, key: str) -> Answer | None:
        """Return what was answered under an idempotency key."""
        with self._engine.connect() as connection:
            chosen = sql.select(answers.c.digest, answers.c.body).where(answers.c.key == key)
            row = connection.execute(chosen).first()
        return None if row is None else Answer(row.digest, row.body)

    def specs(self, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Return jobs as they were submitted, by id; those that are not there are left out."""
        wanted, found = list(ids), {}
        with self._specs_lock:
            for job in wanted:
                if job in self._specs:
                    found[job] = self._specs[job]
                    self._specs.move_to_end(job)
        missing = [job for job in wanted if job not in found]
        if missing:
            with self._engine.connect() as connection:
                for at in range(0, len(missing), ROWS_AT_ONCE):
                    part = missing[at : at + ROWS_AT_ONCE]
                    chosen = sql.select(jobs.c.id, jobs.c.spec).where(jobs.c.id.in_(part))
                    for row in connection.execute(chosen):
                        found[row.id] = row.spec
                        self._remember(row.id, row.spec)
        return {job: from_json(spec) for job, spec in found.items()}

    def remembered(self, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Return those jobs as they were submitted that take no reading."""
        with self._specs_lock:
            found = {job: self._specs[job] for job in ids if job in self._specs}
        return {job: from_json(spec) for job, spec in found.items()}

    def ended_jobs(
        self, user: str | None = None, ids: Sequence[int] | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Return jobs that are over, the latest first."""
        chosen = sql.select(jobs.c.ended, jobs.c.outcome).where(jobs.c.ended.is_not(None))
        if user is not None:
            chosen = chosen.where(jobs.c.user == user)
        if ids is not None:
            chosen = chosen.where(jobs.c.id.in_(ids))
        with self._engine.connect() as connection:
            rows = connection.execute(chosen.order_by(jobs.c.id.desc()).limit(limit)).all()
        return [from_json(row.outcome) | {"ended": row.ended} for row in rows]

    def outcomes(self, ids: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Return user and final state of those jobs that ended."""
        wanted, found = list(ids), {}
        with self._engine.connect() as connection:
            for at in range(0, len(wanted), ROWS_AT_ONCE):
                chosen = sql.select(jobs.c.id, jobs.c.user, jobs.c.outcome).where(
                    jobs.c.id.in_(wanted[at : at + ROWS_AT_ONCE]), jobs.c.ended.is_not(None)
                )
                for row in connection.execute(chosen):
                    found[row.id] = row.user, str(from_json(row.outcome)["state"])
        return found

    def attempts_of(self, job: int) -> list[dict[str, Any]]:
        """Return starts of a job's tasks that are over, in order."""
        chosen = sql.select(attempts).where(attempts.c.job == job)
        with self._engine.connect() as connection:
            rows = connection.execute(chosen.order_by(attempts.c.task, attempts.c.attempt))
            return [dict(row._mapping) for row in rows]

    def usage(self) -> list[dict[str, Any]]:
        """Return hours of each resource by month and user, of tasks that ended."""
        hours: dict[tuple[str, str], dict[str, Any]] = {}
        with self._engine.connect() as connection:
            kept = connection.execute(sql.select(past_usage)) if self._has_digests else ()
            for row in (*kept, *connection.execute(_usage())):
                entry = row._mapping
                total = hours.setdefault((row.month, row.user), dict(entry) | _ZEROS)
                for name in _ZEROS:
                    total[name] += entry[name]
        return [hours[key] for key in sorted(hours)]

    def forget(self, before: float) -> int:
        """Delete jobs that ended before a moment, with their starts; return how many.

        Their hours stay in `usage`. Jobs are deleted in small transactions, so that commits of the
        service wait for none of them for long.
        """
        deleted = 0
        try:
            while part := self._forget_some(before):
                deleted += part
        except sql.exc.SQLAlchemyError as fault:
            raise JournalError(_reason(fault)) from None
        return deleted

    def _forget_some(self, before: float) -> int:
        old = sql.select(jobs.c.id).where(jobs.c.ended < before).limit(FORGOTTEN_AT_ONCE)
        with self._engine.begin() as connection:
            ids = connection.scalars(old).all()
            for row in connection.execute(_usage(attempts.c.job.in_(ids))):
                values = dict(row._mapping)
                sums = {name: past_usage.c[name] + values[name] for name in _ZEROS}
                added = sqlite.insert(past_usage).values(**values)
                connection.execute(added.on_conflict_do_update(["month", "user"], set_=sums))
            connection.execute(sql.delete(attempts).where(attempts.c.job.in_(ids)))
            connection.execute(sql.delete(jobs).where(jobs.c.id.in_(ids)))
        return len(ids)

    # Tokens

    def add_token(self, token: Token, secret: str) -> None:
        """Admit callers that show a secret. Only its digest is kept."""
        row = dict(token._asdict(), digest=digest_of(secret), created=time.time())
        try:
            with self._engine.begin() as connection:
                connection.execute(sql.insert(tokens).values(**row))
                _set_closed(connection)
        except sql.exc.IntegrityError:
            raise InputError(f"there is a token {token.name!r:.60}", "name") from None
        except sql.exc.DBAPIError as fault:
            raise InputError(str(fault.orig), "", str(self.path)) from None

    def remove_token(self, name: str) -> None:
        """Revoke a token.

        Raises
        ------
        InputError
            When there is no such token, or it is the last one of an admin.
        """
        with self._engine.begin() as connection:
            rows = connection.execute(sql.select(tokens.c.name, tokens.c.role))
            roles = {row.name: row.role for row in rows}
            if name not in roles:
                raise InputError(f"there is no token {name!r:.60}", "name")
            if roles[name] == "admin" and list(roles.values()).count("admin") == 1:
                raise InputError(
                    f"{name!r:.60} is the last token of an admin; add another one first", "name"
                )
            connection.execute(sql.delete(tokens).where(tokens.c.name == name))
            _set_closed(connection)

    def tokens(self) -> dict[str, Token]:
        """Return the admitted callers by the digests of their secrets."""
        with self._engine.connect() as connection:
            rows = connection.execute(sql.select(tokens).order_by(tokens.c.created))
            return {row.digest: Token(row.name, row.role, row.subject) for row in rows}

    def is_closed(self) -> bool:
        """Return whether there ever was a token: from then on TCP admits no caller without one."""
        with self._engine.connect() as connection:
            return bool(
                connection.scalar(sql.select(meta.c.value).where(meta.c.key == CLOSED))
                or connection.scalar(sql.select(tokens.c.name).limit(1))
            )

    def secret(self, key: str, make: Callable[[], str]) -> str:
        """Return a secret of the service that is kept here, and make it the first time."""
        with self._engine.begin() as connection:
            found = connection.scalar(sql.select(meta.c.value).where(meta.c.key == key))
            if found is None:
                found = make()
                connection.execute(sql.insert(meta).values(key=key, value=found))
        return found

    # The file

    def _lock_file(self) -> None:
        """Lock the file itself, so that neither a link nor another mount leads around the lock."""
        self._lock = os.open(self.path, os.O_RDWR)
        if os.fstat(self._lock).st_nlink > 1:
            raise InputError(
                "has a second name (a hard link), under which recent events would be missed; "
                "remove one of the names",
                "",
                str(self.path),
            )
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError("is in use by another fairlead serve", "", str(self.path)) from None

    def _check_file(self) -> None:
        """Refuse a file whose pages are damaged. SQLite reads all of it, about 1 s a GiB."""
        with self._engine.connect() as connection:
            found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if found != "ok":
            raise InputError(
                f"is damaged: {'; '.join(str(found).splitlines())}", "", str(self.path)
            )

    def _check_acknowledged(self) -> None:
        """Refuse a file that lacks events which were acknowledged."""
        most = acknowledged.read(self.path)
        if most <= self.seq:
            return
        real = self.path.resolve()
        log = real.with_name(f"{real.name}-wal")
        kept = ""
        if log.exists():  # closing the file would shorten it to its readable part
            copy = log.with_name(f"{log.name}.damaged")
            shutil.copyfile(log, copy)
            copy.chmod(0o600)
            kept = f" ({copy.name} is a copy of the damaged log)"
        raise InputError(
            f"lacks events {self.seq + 1:,} to {most:,}, which were acknowledged: it is damaged, "
            f"or an older copy{kept}; to go on without them remove "
            f"{acknowledged.name_of(self.path)}",
            "",
            str(self.path),
        )

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
        if not self._has_digests:
            return 0
        with self._engine.connect() as connection:
            chosen = sql.select(events.c.digest).where(events.c.seq == seq)
            return connection.scalar(chosen) or 0

    # Jobs in memory

    def _remember(self, job: int, spec: bytes) -> None:
        """Cache a job as submitted, within a number of bytes."""
        with self._specs_lock:
            self._drop(job)
            self._specs[job] = spec
            self._spec_bytes += len(spec)
            while self._spec_bytes > CACHED_SPEC_BYTES:
                self._drop(next(iter(self._specs)))

    def _drop(self, job: int) -> None:
        self._spec_bytes -= len(self._specs.pop(job, b""))


CLOSED = "closed"  # in `meta`: there was a token
_ZEROS = {"tasks": 0, "cpu": 0.0, "memory": 0.0, "gpu": 0.0}


def digest_of_event(before: int, seq: int, now: float, kind: str, body: bytes) -> int:
    """Return a checksum of an event and of all events before it; never 0."""
    return crc32(body, crc32(f"{seq} {now!r} {kind} ".encode(), before)) or 1


def _usage(chosen: sql.ColumnElement[bool] | None = None) -> sql.Select[Any]:
    """Select hours of each resource by month and user."""
    month = sql.func.strftime("%Y-%m", attempts.c.ended, "unixepoch").label("month")
    hours = (attempts.c.ended - attempts.c.started) / 3600.0
    sums = (sql.func.sum(attempts.c[r] * hours).label(r) for r in RESOURCES)
    select = sql.select(month, attempts.c.user, sql.func.count().label("tasks"), *sums)
    if chosen is not None:
        select = select.where(chosen)
    return select.group_by("month", attempts.c.user)


def _set_closed(connection: sql.Connection) -> None:
    found = connection.scalar(sql.select(meta.c.value).where(meta.c.key == CLOSED))
    if found is None:
        connection.execute(sql.insert(meta).values(key=CLOSED, value="1"))


def _columns(connection: sql.Connection, table: str) -> list[str]:
    rows = connection.exec_driver_sql(f"PRAGMA table_info({table})")
    return [row[1] for row in rows]


def _add_columns(connection: sql.Connection) -> None:
    """Add the columns that journals of earlier versions lack."""
    for table in ("events", "snapshot_parts"):
        if "digest" not in _columns(connection, table):
            connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN digest INTEGER")


def _shortened(spec: bytes) -> bytes:
    """Return the beginning of a job as submitted, for people who look at it later."""
    whole = from_json(spec)
    words, room = [], ENDED_SPEC_BYTES // 2
    for word in whole["command"]:
        if room <= 0:
            words.append("...")
            break
        words.append(word if len(word) <= room else f"{word[:room]}...")
        room -= len(word) + 1
    kept = {name: whole.get(name) for name in ("user", "name", "tasks", "submitted")}
    return to_json(kept | {"command": words, "environment": {}, "directory": None})


def _unreadable(fault: sql.exc.DBAPIError, path: Path) -> InputError:
    why = str(fault.orig)
    if "no such table" in why:
        why = "is no journal of fairlead serve"
    elif "malformed" in why or "disk image" in why:
        why = f"is damaged: {why}"
    return InputError(why, "", str(path))


def digest_of(secret: str) -> str:
    """Return the digest of a token's secret, which is long and random, so it needs no salt."""
    return sha256(secret.encode()).hexdigest()


def job_view(job: Job) -> dict[str, Any]:
    """Describe a job as the API shows it."""
    return {
        "id": str(job.id),
        "user": job.user,
        "name": job.name,
        "state": job.state,
        "tasks": job.tasks,
        "attempts": job.attempts,
        "server": job.server,
        "exit_status": job.exit_status if job.state in ("finished", "failed") else None,
        "reason": job.cancelled or job.reason,
        "running": len(job.running),
        "ended_tasks": job.ended,
        "demand": job.demand,
        "gang": job.gang,
        "where": job.where,
        "priority": job.priority,
        "time_limit": job.time_limit,
        "after": [str(other) for other in job.after],
        "submitted": job.submitted,
        "started": job.started,
        "ended": None,
    }


def _reason(fault: Exception) -> str:
    """Return why a write failed, without paths."""
    if isinstance(fault, OSError):
        return fault.strerror or type(fault).__name__
    return str(getattr(fault, "orig", None) or fault)


def _engine(path: Path, read_only: bool, outlives_machine: bool) -> sql.Engine:
    if read_only:
        name = f"file:{quote(str(path.absolute()))}?mode=ro"
        # A journal that was closed, or a backup, is one file, and may stand where none can be made.
        is_whole = not path.with_name(f"{path.name}-wal").exists()
        if is_whole and not os.access(path.parent, os.W_OK):
            name += "&immutable=1"
        return sql.create_engine(
            "sqlite://", creator=lambda: sqlite3.connect(name, uri=True, check_same_thread=False)
        )
    engine = sql.create_engine(
        sql.URL.create("sqlite", database=str(path)), connect_args={"check_same_thread": False}
    )

    @sql.event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: object) -> None:
        synced = "FULL" if outlives_machine else "OFF"
        for what in ("journal_mode = WAL", f"synchronous = {synced}", f"busy_timeout = {BUSY}"):
            connection.execute(f"PRAGMA {what}")

    return engine


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
