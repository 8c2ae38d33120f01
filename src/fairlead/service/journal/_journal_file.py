"""The file of a journal and its tables: open and lock it, and check that it is complete.

The lock is on the file, not on its name, so it excludes a second service under any path.

SQLite silently ends its write-ahead log at the first damaged frame. The journal would then seem
sound, but lack its last events. So a small file, ``JOURNAL-acknowledged``, has the number of the
last acknowledged event. It is written after each commit, but not synced: after a power failure the
number may be too small, never too large.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sql

from fairlead.errors import InputError

BUSY = 5000  # milliseconds to wait for another process
WIDTH = 20  # digits of an event number, so that each write replaces the previous one

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
    sql.Column("digest", sql.Integer),  # of the events so far; null from versions without digests
)
snapshot_parts = sql.Table(
    "snapshot_parts",
    TABLES,
    sql.Column("seq", sql.Integer, primary_key=True),
    sql.Column("part", sql.Integer, primary_key=True),
    sql.Column("is_last", sql.Boolean, nullable=False),
    sql.Column("data", sql.LargeBinary, nullable=False),
    sql.Column("digest", sql.Integer),  # of all parts; only in the last part
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
    sql.Column("digest", sql.Integer),  # of id and spec
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
share_hours = sql.Table(  # of the whole cluster, by hour since 1970
    "share_hours",
    TABLES,
    sql.Column("hour", sql.Integer, primary_key=True),
    sql.Column("user", sql.Text, primary_key=True),
    sql.Column("active", sql.Float, nullable=False),  # hours with a held or fair share above 0
    sql.Column("held", sql.Float, nullable=False),
    sql.Column("fair", sql.Float, nullable=False),
)
cluster_samples = sql.Table(  # see `samples.py`
    "cluster_samples",
    TABLES,
    sql.Column("slot", sql.Integer, primary_key=True),  # five minutes: Unix time // 300
    sql.Column("figures", sql.LargeBinary, nullable=False),
)
share_samples = sql.Table(
    "share_samples",
    TABLES,
    sql.Column("slot", sql.Integer, primary_key=True),
    sql.Column("user", sql.Text, primary_key=True),
    sql.Column("held", sql.Float, nullable=False),
    sql.Column("fair", sql.Float, nullable=False),
)
notices = sql.Table(  # to be sent to a webhook
    "notices",
    TABLES,
    sql.Column("id", sql.Text, primary_key=True),
    sql.Column("user", sql.Text, nullable=False, index=True),  # the user concerned; else empty
    sql.Column("made", sql.Float, nullable=False, index=True),
    sql.Column("body", sql.LargeBinary, nullable=False),
)
LATER_TABLES = (share_hours, cluster_samples, share_samples, notices)  # earlier journals lack them
tokens = sql.Table(
    "tokens",
    TABLES,
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("role", sql.Text, nullable=False),
    sql.Column("subject", sql.Text, nullable=False),
    sql.Column("digest", sql.Text, nullable=False, unique=True),  # of the secret
    sql.Column("created", sql.Float, nullable=False),
)
answers = sql.Table(
    "answers",
    TABLES,
    sql.Column("key", sql.Text, primary_key=True),
    sql.Column("digest", sql.Text, nullable=False),  # of the request that has the key
    sql.Column("at", sql.Float, nullable=False),
    sql.Column("body", sql.LargeBinary, nullable=False),
)


class JournalError(Exception):
    """The journal could not be written; no part of the change is in it."""


@contextmanager
def journal_errors() -> Iterator[None]:
    """Raise `JournalError`, without paths, for an error of SQLite or of the disk."""
    try:
        yield
    except OSError as fault:
        raise JournalError(fault.strerror or type(fault).__name__) from None
    except sql.exc.DBAPIError as fault:  # other errors of SQLAlchemy are defects of the statement
        raise JournalError(str(fault.orig)) from None


def open_engine(path: Path, read_only: bool, survives_power_failure: bool) -> sql.Engine:
    """Return an SQLAlchemy engine for a journal; sync commits if `survives_power_failure`."""
    if read_only:
        name = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro"
        # A closed journal or a backup is a single file, and its folder may be read-only.
        is_whole = not path.with_name(f"{path.name}-wal").exists()
        if is_whole and not os.access(path.parent, os.W_OK):
            name += "&immutable=1"
        return sql.create_engine(
            "sqlite://", creator=lambda: sqlite3.connect(name, uri=True, check_same_thread=False)
        )
    # An absolute path is never one of SQLite's special names, such as `:memory:`.
    url = sql.URL.create("sqlite", database=str(path.absolute()))
    engine = sql.create_engine(url, connect_args={"check_same_thread": False})

    @sql.event.listens_for(engine, "connect")
    def _set_pragmas(connection: Any, _record: object) -> None:
        synced = "FULL" if survives_power_failure else "OFF"
        for pragma in ("journal_mode = WAL", f"synchronous = {synced}", f"busy_timeout = {BUSY}"):
            connection.execute(f"PRAGMA {pragma}")
        connection.create_function("casefold", 1, str.casefold, deterministic=True)

    return engine


def create(path: Path) -> None:
    """Create an empty file that only its owner may read."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    acknowledged_path(path).unlink(missing_ok=True)


def lock(path: Path) -> int:
    """Lock a file, and return the descriptor that holds the lock.

    Close it last: closing any descriptor of the file, this one too, drops SQLite's locks on it.
    Raises `InputError` if another service has locked the file, or the file has a second name.
    """
    held = os.open(path, os.O_RDWR)
    try:
        if os.fstat(held).st_nlink > 1:
            why = (
                "has a second name (a hard link), under which recent events would be missing; "
                "remove one of the names"
            )
            raise InputError(why, "", str(path))
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException as fault:
        os.close(held)
        if isinstance(fault, BlockingIOError):
            raise InputError("is in use by another fairlead serve", "", str(path)) from None
        raise
    return held


def check_pages(engine: sql.Engine, path: Path) -> None:
    """Refuse a file with damaged pages. SQLite reads all of it, about 1 s a GiB."""
    with engine.connect() as connection:
        found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    if found != "ok":
        raise InputError(f"is damaged: {'; '.join(str(found).splitlines())}", "", str(path))


def open_acknowledged(path: Path) -> int:
    """Open the file with the number of the last acknowledged event of a journal."""
    return os.open(acknowledged_path(path), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)


def acknowledge(file: int, seq: int) -> None:
    """Record the number of the last acknowledged event; ignore a full disk."""
    with suppress(OSError):
        os.pwrite(file, f"{seq:0{WIDTH}d}\n".encode(), 0)


def acknowledged_path(journal: Path) -> Path:
    """Return the path of the file with the number of the last acknowledged event."""
    real = journal.resolve()  # SQLite names its write-ahead log by the real path, too
    return real.with_name(f"{real.name}-acknowledged")


def check_acknowledged(path: Path, seq: int) -> None:
    """Refuse a journal that ends before the last acknowledged event."""
    try:
        last = int(acknowledged_path(path).read_bytes()[:WIDTH])
    except (OSError, ValueError):
        return
    if last <= seq:
        return
    real = path.resolve()
    log = real.with_name(f"{real.name}-wal")
    kept = ""
    if log.exists():  # closing the file would cut the log to its readable part
        copy = log.with_name(f"{log.name}.damaged")
        shutil.copyfile(log, copy)
        copy.chmod(0o600)
        kept = f" ({copy.name} is a copy of the damaged log)"
    why = (
        f"lacks events {seq + 1:,} to {last:,}, which were acknowledged: it is damaged, "
        f"or an older copy{kept}; to continue without them, remove {acknowledged_path(path)}"
    )
    raise InputError(why, "", str(path))
