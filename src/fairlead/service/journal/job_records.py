"""What people ask for later: jobs as submitted, each start of a task, and hours by month."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any
from zlib import crc32

import sqlalchemy as sql
from pydantic_core import from_json, to_json
from sqlalchemy.dialects import sqlite

from fairlead.service.jobs import Job, Past
from fairlead.service.journal._ended_jobs import ENDED_BYTES, short_request, short_view
from fairlead.service.journal.journal_tables import attempts, jobs, past_usage
from fairlead.service.service_state import RESOURCES

LOG = logging.getLogger("fairlead.service")
CACHED_SPEC_BYTES = 64 * 2**20  # of jobs as submitted, in memory
LISTED_BYTES = 2 * 2**20  # of the views of jobs that ended in one list
DAMAGED = "its command in the journal is damaged"
FORGOTTEN_AT_ONCE = 500  # jobs deleted in one transaction, which takes some 20 ms
ROWS_AT_ONCE = 5000
_NO_HOURS = {"tasks": 0, "cpu": 0.0, "memory": 0.0, "gpu": 0.0}


class JobRecords:
    """Jobs and starts of tasks in a journal; any thread may read.

    Parameters
    ----------
    engine : sqlalchemy.Engine
        Of the journal's file.
    """

    def __init__(self, engine: sql.Engine) -> None:
        self._engine = engine
        self._select_specs = sql.select(jobs.c.id, jobs.c.spec, jobs.c.digest)
        self._specs: OrderedDict[int, bytes] = OrderedDict()  # a cache, the latest used last
        self._spec_bytes = 0
        self._lock = Lock()

    # Written by the journal, within its transaction

    def insert(
        self, connection: sql.Connection, specs: Mapping[int, tuple[str, float, bytes]]
    ) -> None:
        """Write jobs as submitted: user, moment and spec by id."""
        if specs:
            connection.exec_driver_sql(
                "INSERT INTO jobs (id, user, submitted, spec, digest) VALUES (?, ?, ?, ?, ?)",
                [
                    (job, user, at, spec, digest_of_spec(job, spec))
                    for job, (user, at, spec) in specs.items()
                ],
            )

    def insert_attempts(
        self, connection: sql.Connection, past: Sequence[Past], behind: float
    ) -> None:
        """Write starts that are over, moved by seconds."""
        if past:
            connection.exec_driver_sql(
                "INSERT OR REPLACE INTO attempts VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
                [
                    (
                        *(*p.key, p.user, p.server, p.started + behind, p.ended + behind),
                        *(p.status, p.reason),
                        *(p.demand.get(r, 0.0) for r in RESOURCES),
                    )
                    for p in past
                ],
            )

    def note_ended(self, connection: sql.Connection, ended: Sequence[Job], at: float) -> None:
        """Write how jobs ended; of the large ones keep the beginning of the command."""
        if not ended:
            return
        connection.exec_driver_sql(
            "UPDATE jobs SET ended = ?, outcome = ? WHERE id = ?",
            [(at, to_json(short_view(job_view(job))), job.id) for job in ended],
        )
        for job in ended:
            if job.size > ENDED_BYTES:
                its_row = jobs.c.id == job.id
                row = connection.execute(self._select_specs.where(its_row)).first()
                if row is not None and (whole := _checked(*row)) is not None:
                    spec = short_request(whole)
                    digest = digest_of_spec(job.id, spec)
                    short = sql.update(jobs).where(its_row).values(spec=spec, digest=digest)
                    connection.execute(short)

    def cache(self, specs: Mapping[int, tuple[str, float, bytes]], ended: Sequence[Job]) -> None:
        """Keep new jobs in memory, as workers will ask for them, and drop ended ones."""
        with self._lock:
            for job, (_, _, spec) in specs.items():
                self._remember(job, spec)
            for over in ended:
                self._drop(over.id)

    # Read

    def specs(self, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Return jobs as they were submitted, by id; missing and damaged ones are left out."""
        wanted = list(ids)
        found = self.cached_specs(wanted)
        missing = [job for job in wanted if job not in found]
        if missing:
            read = {}
            with self._engine.connect() as connection:
                for at in range(0, len(missing), ROWS_AT_ONCE):
                    part = missing[at : at + ROWS_AT_ONCE]
                    for row in connection.execute(self._select_specs.where(jobs.c.id.in_(part))):
                        if (whole := _checked(*row)) is None:
                            _log_damaged(row.id, "command")
                        else:
                            found[row.id], read[row.id] = whole, row.spec
            with self._lock:
                for job, spec in read.items():
                    self._remember(job, spec)
        return found

    def cached_specs(self, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Return those jobs as they were submitted that take no reading."""
        with self._lock:
            found = {job: self._specs[job] for job in ids if job in self._specs}
            for job in found:
                self._specs.move_to_end(job)
        return {job: from_json(spec) for job, spec in found.items()}

    def check_specs(self) -> None:
        """Log the waiting and running jobs whose specs are damaged. It reads all of them."""
        with self._engine.connect() as connection:
            for row in connection.execute(self._select_specs.where(jobs.c.ended.is_(None))):
                if _checked(*row) is None:
                    _log_damaged(row.id, "command")

    def ended_jobs(
        self, user: str | None = None, ids: Sequence[int] | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Return jobs that are over, the latest first: at most 2 MiB of them, but one at least."""
        chosen = sql.select(jobs.c.id, jobs.c.ended, jobs.c.outcome).where(
            jobs.c.ended.is_not(None)
        )
        if user is not None:
            chosen = chosen.where(jobs.c.user == user)
        if ids is not None:
            chosen = chosen.where(jobs.c.id.in_(ids))
        views: list[dict[str, Any]] = []
        size = 0
        with self._engine.connect() as connection:
            for row in connection.execute(chosen.order_by(jobs.c.id.desc()).limit(limit)):
                if (view := _outcome(row.id, row.outcome)) is None:
                    continue
                if len(row.outcome) > ENDED_BYTES:  # earlier versions kept all of it
                    view = short_view(view)
                size += min(len(row.outcome), ENDED_BYTES)
                if views and size > LISTED_BYTES:
                    break
                views.append(view | {"ended": row.ended})
        return views

    def outcomes(self, ids: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Return user and final state of those jobs that ended."""
        wanted, found = list(ids), {}
        with self._engine.connect() as connection:
            for at in range(0, len(wanted), ROWS_AT_ONCE):
                chosen = sql.select(jobs.c.id, jobs.c.user, jobs.c.outcome).where(
                    jobs.c.id.in_(wanted[at : at + ROWS_AT_ONCE]), jobs.c.ended.is_not(None)
                )
                for row in connection.execute(chosen):
                    if (view := _outcome(row.id, row.outcome)) is not None:
                        found[row.id] = row.user, str(view["state"])
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
            kept = connection.execute(sql.select(past_usage))
            for row in (*kept, *connection.execute(_usage())):
                entry = row._mapping
                total = hours.setdefault((row.month, row.user), dict(entry) | _NO_HOURS)
                for name in _NO_HOURS:
                    total[name] += entry[name]
        return [hours[key] for key in sorted(hours)]

    # Deleted

    def forget(self, before: float) -> int:
        """Delete jobs that ended before a moment, with their starts; return how many.

        Their hours stay in `usage`.
        """
        deleted = 0
        while part := self._forget_some(before):
            deleted += part
        return deleted

    def _forget_some(self, before: float) -> int:
        old = sql.select(jobs.c.id).where(jobs.c.ended < before).limit(FORGOTTEN_AT_ONCE)
        with self._engine.begin() as connection:
            ids = connection.scalars(old).all()
            for row in connection.execute(_usage(attempts.c.job.in_(ids))):
                values = dict(row._mapping)
                sums = {name: past_usage.c[name] + values[name] for name in _NO_HOURS}
                added = sqlite.insert(past_usage).values(**values)
                connection.execute(added.on_conflict_do_update(["month", "user"], set_=sums))
            connection.execute(sql.delete(attempts).where(attempts.c.job.in_(ids)))
            connection.execute(sql.delete(jobs).where(jobs.c.id.in_(ids)))
        return len(ids)

    # The cache; its lock is held

    def _remember(self, job: int, spec: bytes) -> None:
        self._drop(job)
        self._specs[job] = spec
        self._spec_bytes += len(spec)
        while self._spec_bytes > CACHED_SPEC_BYTES:
            self._drop(next(iter(self._specs)))

    def _drop(self, job: int) -> None:
        self._spec_bytes -= len(self._specs.pop(job, b""))


def _usage(chosen: sql.ColumnElement[bool] | None = None) -> sql.Select[Any]:
    """Select hours of each resource by month and user."""
    month = sql.func.strftime("%Y-%m", attempts.c.ended, "unixepoch").label("month")
    hours = (attempts.c.ended - attempts.c.started) / 3600.0
    sums = (sql.func.sum(attempts.c[r] * hours).label(r) for r in RESOURCES)
    select = sql.select(month, attempts.c.user, sql.func.count().label("tasks"), *sums)
    if chosen is not None:
        select = select.where(chosen)
    return select.group_by("month", attempts.c.user)


def digest_of_spec(job: int, spec: bytes) -> int:
    """Return a checksum of a job's id and of its spec."""
    return crc32(spec, crc32(b"%d " % job))


def _checked(job: int, found: object, digest: int | None) -> dict[str, Any] | None:
    """Return a job as it was submitted, or None where that is damaged."""
    spec = found if isinstance(found, bytes) else str(found).encode()
    if digest != digest_of_spec(job, spec):
        return None
    try:
        whole = from_json(spec)
    except ValueError:
        return None
    return whole if isinstance(whole, dict) and isinstance(whole.get("command"), list) else None


def _outcome(job: int, written: bytes) -> dict[str, Any] | None:
    """Return the view of a job that ended, or None where it cannot be read."""
    try:
        view = from_json(written)
    except ValueError:
        view = None
    if not (isinstance(view, dict) and "state" in view):
        _log_damaged(job, "outcome")
        return None
    return view


def _log_damaged(job: int, what: str) -> None:
    LOG.error("job %d: its %s in the journal is damaged", job, what, extra={"job": str(job)})


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
        "shortened": [],
    }
