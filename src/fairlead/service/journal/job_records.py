"""Jobs in the journal, ended attempts, and usage by month; search for live and ended jobs.

The spec of a job is the part of its request that workers need. Long fields of ended jobs are
shortened or dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any
from zlib import crc32

import sqlalchemy as sql
from pydantic_core import from_json, to_json
from sqlalchemy.dialects import sqlite

from fairlead.service.jobs import EndedAttempt, Job, TaskKey
from fairlead.service.journal._journal_file import attempts, jobs, past_usage
from fairlead.service.messages import JobQuery
from fairlead.service.run_times import command_name
from fairlead.service.service_state import RESOURCES

LOG = logging.getLogger("fairlead.service")
SEARCHED = 100_000  # latest ended jobs, which a search reads
NEVER = 1e300  # sorts jobs that never started after all others
CACHED_SPEC_BYTES = 64 * 2**20  # of specs in memory
LISTED_BYTES = 2 * 2**20  # largest size of a list of live or of ended jobs
ENDED_BYTES = 4096  # largest size of an ended job's spec, and of its view
KEPT_WORDS, WORD_LENGTH = 3, 100  # of a long command: words, and characters of each
MARK = "..."  # follows a shortened command
DAMAGED = "its command in the journal is damaged"
DELETED_AT_ONCE = 500  # jobs in one transaction, which takes some 20 ms
ROWS_AT_ONCE = 5000
ENDED_STATES = ("ended", "finished", "failed", "cancelled")  # "ended" is any of the others
SORT_KEYS: dict[str, Callable[[Job], Any]] = {
    "id": lambda job: job.id,
    "user": lambda job: job.user,
    "name": lambda job: job.name or "",
    "state": lambda job: job.state,
    "tasks": lambda job: job.tasks,
    "running": lambda job: len(job.running),
    "priority": lambda job: job.priority,
    "submitted": lambda job: job.submitted,
    "started": lambda job: job.started or float("inf"),
}
_NO_HOURS = {"tasks": 0, "cpu": 0.0, "memory": 0.0, "gpu": 0.0}


class JobRecords:
    """Jobs and attempts of tasks in a journal's file; any thread may read."""

    def __init__(self, engine: sql.Engine) -> None:
        self._engine = engine
        self._select_specs = sql.select(jobs.c.id, jobs.c.spec, jobs.c.digest)
        # Specs by job; emptied when they exceed `CACHED_SPEC_BYTES`.
        self._cached: dict[int, bytes] = {}
        self._cached_bytes = 0
        self._lock = Lock()

    # Written by the journal, within its transaction

    def insert(
        self, connection: sql.Connection, specs: Mapping[int, tuple[str, float, bytes]]
    ) -> None:
        """Write submitted jobs; `specs` has the user, the time and the spec of each, by id."""
        if specs:
            connection.exec_driver_sql(
                "INSERT INTO jobs (id, user, submitted, spec, digest) VALUES (?, ?, ?, ?, ?)",
                [(job, *values, digest_of_spec(job, values[-1])) for job, values in specs.items()],
            )

    def insert_attempts(
        self, connection: sql.Connection, ended: Sequence[EndedAttempt], correction: float
    ) -> None:
        """Write ended attempts; add `correction` seconds to their times."""
        if ended:
            rows = [
                (
                    *(*a.key, a.user, a.server, a.started + correction, a.ended + correction),
                    *(a.status, a.reason),
                    *(a.demand.get(r, 0.0) for r in RESOURCES),
                )
                for a in ended
            ]
            values = "VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
            connection.exec_driver_sql(f"INSERT OR REPLACE INTO attempts {values}", rows)

    def record_ended(self, connection: sql.Connection, ended: Sequence[Job], at: float) -> None:
        """Write how jobs ended, and shorten their long specs."""
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

    def cache(self, specs: Mapping[int, bytes], ended: Iterable[Job] = ()) -> None:
        """Keep new specs in memory for the workers' requests; drop those of ended jobs."""
        with self._lock:
            for job in ended:
                self._cached_bytes -= len(self._cached.pop(job.id, b""))
            self._cached.update(specs)
            self._cached_bytes += sum(map(len, specs.values()))
            if self._cached_bytes > CACHED_SPEC_BYTES:
                self._cached, self._cached_bytes = {}, 0

    # Reading

    def specs(self, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Return the specs of jobs by id, except missing and damaged specs."""
        wanted = list(ids)
        found = self.cached_specs(wanted)
        read = {}
        for row in self._rows(self._select_specs, [job for job in wanted if job not in found]):
            if (whole := _checked(row.id, row.spec, row.digest)) is None:
                _log_damaged(row.id, "command")
            else:
                found[row.id], read[row.id] = whole, row.spec
        self.cache(read)
        return found

    def cached_specs(self, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Return the cached specs of some jobs by id."""
        cached = self._cached
        return {job: from_json(cached[job]) for job in ids if job in cached}

    def check_specs(self) -> None:
        """Read the specs of all live jobs, and log the damaged ones."""
        with self._engine.connect() as connection:
            for row in connection.execute(self._select_specs.where(jobs.c.ended.is_(None))):
                if _checked(*row) is None:
                    _log_damaged(row.id, "command")

    def ended_jobs(
        self, user: str | None = None, ids: Sequence[int] | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Return ended jobs, the newest first: at most `limit` and 2 MiB, but at least one."""
        chosen = sql.select(jobs.c.id, jobs.c.ended, jobs.c.outcome)
        chosen = chosen.where(jobs.c.ended.is_not(None))
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
                size += len(row.outcome)
                if views and size > LISTED_BYTES:
                    break
                views.append(view | {"ended": row.ended})
        return views

    def search_ended(self, wanted: JobQuery) -> tuple[list[dict[str, Any]], int]:
        """Return a page of the wanted jobs of the latest 100,000, and the number on all pages."""
        view = sql.cast(jobs.c.outcome, sql.Text)
        columns = (jobs.c.id, jobs.c.user, jobs.c.submitted, jobs.c.ended, view.label("view"))
        latest = sql.select(*columns).where(jobs.c.ended.is_not(None))
        if wanted.user is not None:
            latest = latest.where(jobs.c.user == wanted.user)
        rows = latest.order_by(jobs.c.id.desc()).limit(SEARCHED).subquery()

        def field(name: str) -> sql.ColumnElement[Any]:
            return sql.func.json_extract(rows.c.view, f"$.{name}")

        chosen = sql.select(rows.c.id, rows.c.ended, rows.c.view, sql.func.count().over())
        is_sound = sql.case((sql.func.json_valid(rows.c.view), sql.func.json_type(rows.c.view)))
        chosen = chosen.where(is_sound == "object")
        if wanted.state != "ended":
            chosen = chosen.where(field("state") == wanted.state)
        if text := wanted.text:
            has_text = [
                sql.func.instr(sql.func.casefold(column), text.casefold()) > 0
                for column in (rows.c.user, sql.func.coalesce(field("name"), ""))
            ]
            chosen = chosen.where(sql.or_(*has_text, sql.cast(rows.c.id, sql.Text) == text))
        sort = wanted.sort
        key = rows.c[sort] if sort in ("id", "user", "submitted", "ended") else field(sort)
        if sort == "started":
            key = sql.func.coalesce(key, NEVER)
        order = [key.desc(), rows.c.id.desc()] if wanted.descending else [key, rows.c.id]
        with self._engine.connect() as connection:
            page = chosen.order_by(*order).offset(wanted.offset).limit(wanted.limit)
            found = connection.execute(page).all()
            number = found[0][3] if found else 0
            if wanted.offset and not found:
                every = chosen.with_only_columns(sql.func.count())
                number = int(connection.scalar(every) or 0)
        views = []
        for row in found:
            if (outcome := _outcome(row.id, row.view)) is not None:
                views.append(outcome | {"ended": row.ended})
        return views, number

    def outcomes(self, ids: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Return the user and the final state of the ended jobs among some, by id."""
        chosen = sql.select(jobs.c.id, jobs.c.user, jobs.c.outcome)
        found = {}
        for row in self._rows(chosen.where(jobs.c.ended.is_not(None)), list(ids)):
            if (view := _outcome(row.id, row.outcome)) is not None:
                found[row.id] = row.user, str(view["state"])
        return found

    def _rows(self, chosen: sql.Select[Any], ids: Sequence[int]) -> list[sql.Row[Any]]:
        rows: list[sql.Row[Any]] = []
        for at in range(0, len(ids), ROWS_AT_ONCE):
            part = ids[at : at + ROWS_AT_ONCE]
            with self._engine.connect() as connection:
                rows += connection.execute(chosen.where(jobs.c.id.in_(part)))
        return rows

    def last_attempt(self, job: int, task: int, attempt: int | None) -> tuple[int, str] | None:
        """Return the number and server of a task's ended attempt: the given one, or the last."""
        chosen = sql.select(attempts.c.attempt, attempts.c.server)
        chosen = chosen.where(attempts.c.job == job, attempts.c.task == task)
        if attempt is not None:
            chosen = chosen.where(attempts.c.attempt == attempt)
        with self._engine.connect() as connection:
            row = connection.execute(chosen.order_by(attempts.c.attempt.desc())).first()
        return None if row is None else (row.attempt, row.server)

    def last_attempts_of(self, job: int, most: int) -> list[dict[str, Any]]:
        """Return the latest ended attempts of a job, newest first."""
        names = ("task", "attempt", "server", "started", "ended", "status", "reason")
        chosen = sql.select(*(attempts.c[name] for name in names)).where(attempts.c.job == job)
        with self._engine.connect() as connection:
            rows = connection.execute(chosen.order_by(attempts.c.ended.desc()).limit(most))
            return [dict(row._mapping) for row in rows]

    def latest_attempts(self, most: int) -> list[EndedAttempt]:
        """Return the last attempts that were written, at most `most`, oldest first."""
        columns = [attempts.c[name] for name in RESOURCES]
        chosen = sql.select(attempts).order_by(sql.literal_column("rowid").desc()).limit(most)
        with self._engine.connect() as connection:
            rows = connection.execute(chosen).all()
        programs = self._programs({row.job for row in rows})
        return [
            EndedAttempt(
                TaskKey(row.job, row.task, row.attempt),
                row.user,
                row.server,
                {column.name: row._mapping[column] for column in columns},
                row.started,
                row.ended,
                row.status,
                row.reason,
                programs.get(row.job, ""),
            )
            for row in reversed(rows)
        ]

    def _programs(self, ids: Collection[int]) -> dict[int, str]:
        """Return the names of the commands of ended jobs; commands of live jobs may be long."""
        ended = self._select_specs.where(jobs.c.ended.is_not(None))
        return {
            row.id: command_name([str(word) for word in whole["command"]])
            for row in self._rows(ended, list(ids))
            if (whole := _checked(row.id, row.spec, row.digest)) is not None
        }

    def usage(self) -> list[dict[str, Any]]:
        """Return core, GiB and GPU hours of ended attempts by month and user."""
        hours: dict[tuple[str, str], dict[str, Any]] = {}
        with self._engine.connect() as connection:
            kept = connection.execute(sql.select(past_usage))
            for row in (*kept, *connection.execute(_usage())):
                entry = row._mapping
                total = hours.setdefault((row.month, row.user), dict(entry) | _NO_HOURS)
                for name in _NO_HOURS:
                    total[name] += entry[name]
        return [hours[key] for key in sorted(hours)]

    def delete_old(self, before: float) -> None:
        """Delete jobs that ended before a time, and their attempts."""
        while self._delete_some(before):
            pass

    def _delete_some(self, before: float) -> int:
        old = sql.select(jobs.c.id).where(jobs.c.ended < before).limit(DELETED_AT_ONCE)
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


def _usage(chosen: sql.ColumnElement[bool] | None = None) -> sql.Select[Any]:
    """Select core, GiB and GPU hours of attempts by month and user."""
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
    """Return the spec of a job, or None if it is damaged."""
    spec = found if isinstance(found, bytes) else str(found).encode()
    if digest != digest_of_spec(job, spec):
        return None
    try:
        whole = from_json(spec)
    except ValueError:
        return None
    return whole if isinstance(whole, dict) and isinstance(whole.get("command"), list) else None


def _outcome(job: int, written: bytes | str) -> dict[str, Any] | None:
    """Return the view of an ended job, or None if it cannot be read."""
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


def find_live(jobs: Sequence[Job], wanted: JobQuery) -> list[int]:
    """Return the ids of the wanted jobs in order; ties go to the smaller id."""
    text = wanted.text.casefold()
    found = [
        job
        for job in jobs
        if (wanted.user is None or job.user == wanted.user)
        and (wanted.state in ("live", job.state) or (wanted.state == "held" and job.held))
        and (
            not text
            or text in (job.name or "").casefold()
            or text in job.user.casefold()
            or text == str(job.id)
        )
    ]
    found.sort(key=SORT_KEYS[wanted.sort], reverse=wanted.descending)
    return [job.id for job in found]


def job_view(job: Job) -> dict[str, Any]:
    """Describe a live job as a `JobView`."""
    return {
        "id": str(job.id),
        "user": job.user,
        "name": job.name,
        "state": job.state,
        "held": job.held,
        "tasks": job.tasks,
        "attempts": job.attempts,
        "server": job.server,
        "servers": len({run.server for run in job.running.values()}),
        "devices": [number for run in job.running.values() for number in run.devices]
        if len(job.running) == 1
        else [],
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


def short_request(request: Mapping[str, Any]) -> bytes:
    """Return a spec without environment and folder, and with a long command shortened."""
    kept = to_json({**request, "environment": {}, "directory": None})
    if len(kept) <= ENDED_BYTES:
        return kept
    words = [word[:WORD_LENGTH] for word in request["command"][:KEPT_WORDS]]
    return to_json({**request, "command": [*words, MARK], "environment": {}, "directory": None})


def short_view(view: Mapping[str, Any]) -> dict[str, Any]:
    """Return the view of an ended job; if it is long, without the `shortened` fields."""
    if len(to_json(view)) <= ENDED_BYTES:
        return dict(view)
    long = [name for name in ("where", "after") if view[name]]
    return {**view, "where": None, "after": [], "shortened": long}
