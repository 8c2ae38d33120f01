"""The journal: every event on disk before anybody hears of it, in one SQLite file.

Events are what the state is made of; the latest snapshot and the events after it give it again, the
same bytes. Beside them are what a person asks for later: jobs as submitted, and each start of a
task with how it ended.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import quote

import sqlalchemy as sql
from pydantic_core import from_json, to_json

from fairlead.errors import InputError
from fairlead.formats.garbage import garbage_collection_paused
from fairlead.service.replaying import Retelling
from fairlead.service.state import RESOURCES, Effects, Job, ServiceState

LOG = logging.getLogger("fairlead.service")
FORMAT = "1"
KEPT_SNAPSHOTS = 2
PART_BYTES = 2**20  # of a snapshot, written at once
KEPT_SPECS = 4096  # jobs as submitted that are remembered
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
)
snapshots = sql.Table(  # in parts, so that none holds up a commit; whole when the last is there
    "snapshot_parts",
    TABLES,
    sql.Column("seq", sql.Integer, primary_key=True),
    sql.Column("part", sql.Integer, primary_key=True),
    sql.Column("is_last", sql.Boolean, nullable=False),
    sql.Column("data", sql.LargeBinary, nullable=False),
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
    """The disk did not take what had to be written; nothing of it is there."""


class Token(NamedTuple):
    """Who somebody is, by the secret they show.

    Attributes
    ----------
    name : str
    role : str
        ``admin``, ``user`` or ``worker``.
    subject : str
        The user, or the server; empty for an admin, and for a worker of any server.
    """

    name: str
    role: str
    subject: str


class Answer(NamedTuple):
    """What was answered to a request with an idempotency key, and a digest of the request."""

    digest: str
    body: bytes


@dataclass
class Batch:
    """What is written at once: events, and what follows from them."""

    events: list[tuple[float, str, bytes]] = field(default_factory=list)
    specs: dict[int, tuple[str, float, bytes]] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)

    def note(self, now: float, kind: str, body: Mapping[str, Any]) -> None:
        """Have an event in it."""
        self.events.append((now, kind, to_json(body)))


class Journal:
    """What is on disk. One process at a time writes; any thread may read.

    Parameters
    ----------
    path : Path
        The SQLite file; made, readable by its owner alone, where there is none.
    must_exist : bool
        Whether a missing file is an error.
    shared : bool
        Whether to leave the lock to the service that writes events: for tokens, and for reading.

    Raises
    ------
    InputError
        When it is in use, is not such a file, or is of another version.
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
        self._lock: int | None = None
        self._specs: OrderedDict[int, bytes] = OrderedDict()
        self._specs_lock = Lock()
        if (must_exist or read_only) and not path.exists():
            raise InputError("there is no such file", "", str(path))
        try:
            if not (shared or read_only):
                self._lock_file()
            if not path.exists():
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._engine = _engine(path, read_only, outlives_machine)
            with self._engine.begin() as connection:
                if not read_only:
                    TABLES.create_all(connection)
                found = connection.scalar(sql.select(meta.c.value).where(meta.c.key == "format"))
                if found is None:
                    connection.execute(sql.insert(meta).values(key="format", value=FORMAT))
                elif found != FORMAT:
                    raise InputError(f"is of format {found}, not {FORMAT}", "", str(path))
                last = connection.execute(
                    sql.select(events.c.seq, events.c.now).order_by(events.c.seq.desc()).limit(1)
                ).first()
        except OSError as fault:
            self.close()
            raise InputError(fault.strerror or str(fault), "", str(path)) from None
        except sql.exc.DBAPIError as fault:
            self.close()
            why = str(fault.orig)
            why = "is no journal of fairlead serve" if "no such table" in why else why
            raise InputError(why, "", str(path)) from None
        self.seq: int = 0 if last is None else last.seq
        self.last: float = 0.0 if last is None else last.now

    def close(self) -> None:
        """Let others have it."""
        if hasattr(self, "_engine"):
            self._engine.dispose()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # Events and snapshots

    def commit(self, batch: Batch, effects: Effects) -> None:
        """Write a batch; when this returns it is on disk.

        Raises
        ------
        JournalError
            When it is not; then nothing of it is there.
        """
        seq, last = self.seq, self.last
        rows = []
        for now, kind, body in batch.events:
            seq, last = seq + 1, now
            rows.append((seq, now, kind, body))
        try:
            with self._engine.begin() as connection:
                write = connection.exec_driver_sql
                if rows:
                    write("INSERT INTO events (seq, now, kind, body) VALUES (?, ?, ?, ?)", rows)
                if batch.specs:
                    write(
                        "INSERT INTO jobs (id, user, submitted, spec) VALUES (?, ?, ?, ?)",
                        [(job, *values) for job, values in batch.specs.items()],
                    )
                if effects.past:
                    write(
                        "INSERT OR REPLACE INTO attempts VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
                        [
                            (
                                *(*p.key, p.user, p.server, p.started, p.ended, p.status),
                                *(p.reason, *(p.demand.get(r, 0.0) for r in RESOURCES)),
                            )
                            for p in effects.past
                        ],
                    )
                if effects.ended:
                    write(
                        "UPDATE jobs SET ended = ?, outcome = ? WHERE id = ?",
                        [(last, to_json(job_view(job)), job.id) for job in effects.ended],
                    )
                if batch.answers:
                    at = time.time()
                    write(
                        "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)",
                        [(key, a.digest, at, a.body) for key, a in batch.answers.items()],
                    )
        except (sql.exc.SQLAlchemyError, OSError) as fault:
            raise JournalError(_said(fault)) from None
        self.seq, self.last = seq, last
        for job, (_, _, spec) in batch.specs.items():
            self._remember(job, spec)

    def save(self, seq: int, parts: Iterable[bytes]) -> None:
        """Keep a snapshot of the state after an event, so that a restart is quick.

        Any thread may, one at a time. What `parts` raises leaves it unfinished, and so unread.
        """
        try:
            part, data = 0, b""
            with self._engine.begin() as connection:
                connection.execute(sql.delete(snapshots).where(snapshots.c.seq == seq))
            for part, following in enumerate(parts):
                if part:
                    self._keep(seq, part - 1, data)
                data = following
            self._keep(seq, part, data, is_last=True)
            whole = sql.select(snapshots.c.seq).where(snapshots.c.is_last)
            kept = whole.order_by(snapshots.c.seq.desc()).limit(KEPT_SNAPSHOTS)
            with self._engine.begin() as connection:
                connection.execute(sql.delete(snapshots).where(snapshots.c.seq.not_in(kept)))
                aged = answers.c.at < time.time() - ANSWERS_AGE
                connection.execute(sql.delete(answers).where(aged))
        except (sql.exc.SQLAlchemyError, OSError) as fault:
            raise JournalError(_said(fault)) from None

    def _keep(self, seq: int, part: int, data: bytes, *, is_last: bool = False) -> None:
        row = {"seq": seq, "part": part, "is_last": is_last, "data": data}
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
        with garbage_collection_paused():
            since, state = self._newest_snapshot() or (0, ServiceState(policy))
            replay = Retelling(state, self.path, self.seq - since)
            for event in self.events(since):
                replay.tell(*event)
            replay.finish()
            state.take_effects()
        return state, self.seq - since

    def _newest_snapshot(self) -> tuple[int, ServiceState] | None:
        """Return the newest that can be read, and after which event it was taken."""
        with self._engine.connect() as connection:
            whole = sql.select(snapshots.c.seq).where(snapshots.c.is_last)
            for seq in connection.scalars(whole.order_by(snapshots.c.seq.desc())).all():
                parts = sql.select(snapshots.c.data).where(snapshots.c.seq == seq)
                data = b"".join(connection.scalars(parts.order_by(snapshots.c.part)))
                try:
                    return seq, ServiceState.restore(data)
                except InputError as fault:
                    said = {"path": str(self.path), "fault": str(fault)}
                    LOG.warning("a snapshot is left out; more events are read", extra=said)
        return None

    def events(self, since: int = 0) -> Iterator[tuple[int, float, str, dict[str, Any]]]:
        """Yield number, moment, kind and body of each event after one, in order."""
        chosen = "SELECT seq, now, kind, body FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
        rows: Sequence[Any] = [None] * EVENTS_AT_ONCE
        while len(rows) == EVENTS_AT_ONCE:
            with self._engine.connect() as connection:  # its rows take as long as the rest
                cursor = connection.connection.cursor()
                rows = cursor.execute(chosen, (since, EVENTS_AT_ONCE)).fetchall()
            for seq, now, kind, body in rows:
                yield seq, now, kind, from_json(body)
                since = seq

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

    def attempts_of(self, job: int) -> list[dict[str, Any]]:
        """Return starts of a job's tasks that are over, in order."""
        chosen = sql.select(attempts).where(attempts.c.job == job)
        with self._engine.connect() as connection:
            rows = connection.execute(chosen.order_by(attempts.c.task, attempts.c.attempt))
            return [dict(row._mapping) for row in rows]

    def usage(self) -> list[dict[str, Any]]:
        """Return hours of each resource by month and user, of tasks that are over."""
        month = sql.func.strftime("%Y-%m", attempts.c.ended, "unixepoch")
        hours = (attempts.c.ended - attempts.c.started) / 3600.0
        chosen = sql.select(
            month.label("month"),
            attempts.c.user,
            sql.func.count().label("tasks"),
            *(sql.func.sum(attempts.c[r] * hours).label(r) for r in ("cpu", "memory", "gpu")),
        )
        with self._engine.connect() as connection:
            rows = connection.execute(chosen.group_by("month", attempts.c.user).order_by("month"))
            return [dict(row._mapping) for row in rows]

    # Tokens

    def add_token(self, token: Token, secret: str) -> None:
        """Let whoever shows a secret be somebody. Only its digest is kept."""
        row = dict(token._asdict(), digest=digest_of(secret), created=time.time())
        try:
            with self._engine.begin() as connection:
                connection.execute(sql.insert(tokens).values(**row))
        except sql.exc.IntegrityError:
            raise InputError(f"there is a token {token.name!r:.60}", "name") from None
        except sql.exc.DBAPIError as fault:
            raise InputError(str(fault.orig), "", str(self.path)) from None

    def remove_token(self, name: str) -> None:
        """Let a token be worth nothing from now on."""
        with self._engine.begin() as connection:
            if not connection.execute(sql.delete(tokens).where(tokens.c.name == name)).rowcount:
                raise InputError(f"there is no token {name!r:.60}", "name")

    def tokens(self) -> dict[str, Token]:
        """Return who is let in, by the digests of their secrets."""
        with self._engine.connect() as connection:
            rows = connection.execute(sql.select(tokens).order_by(tokens.c.created))
            return {row.digest: Token(row.name, row.role, row.subject) for row in rows}

    # How it is done

    def _lock_file(self) -> None:
        self._lock = os.open(f"{self.path}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise InputError("is in use by another fairlead serve", "", str(self.path)) from None

    def _remember(self, job: int, spec: bytes) -> None:
        with self._specs_lock:
            self._specs[job] = spec
            while len(self._specs) > KEPT_SPECS:
                self._specs.popitem(last=False)


def digest_of(secret: str) -> str:
    """Return what is kept of a token's secret, which is long and random, so no salt is needed."""
    return sha256(secret.encode()).hexdigest()


def job_view(job: Job) -> dict[str, Any]:
    """Return what there is to say of a job, as people and programs get it."""
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


def _said(fault: Exception) -> str:
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
