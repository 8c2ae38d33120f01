"""Cut a window out of a trace: the jobs submitted between two times."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from math import inf

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import IntArray
from fairlead.model.workload import JOIN, Workload, excerpt, first_seconds

NO_STARTS = "recorded starts left out, as earlier jobs ran or waited at the beginning (--from)"
NO_STARTS_AT_LOAD = "recorded starts left out, as jobs arrive at another speed (--load)"


def why_no_starts(workload: Workload) -> str:
    """Return, as a clause, the reason why a workload has no recorded starts."""
    if NO_STARTS in workload.notes:
        return "the recorded starts are left out, as earlier jobs ran or waited at --from"
    if NO_STARTS_AT_LOAD in workload.notes:
        return "the recorded starts are left out, as jobs arrive at another speed under --load"
    return "the trace does not record when its tasks started"


def last_time(workload: Workload) -> float:
    """Return the last time of a trace, in seconds. O(tasks).

    It is the time at which the trace was cut, or else that of the last submission, server event,
    recorded end or withdrawal.
    """
    if workload.recorded_until is not None:
        return workload.recorded_until
    end = np.where(
        np.isfinite(workload.task_start),
        workload.task_start + workload.task_duration,
        workload.job_cancel[_job_of_task(workload)],
    )
    return max(workload.span, float(end[np.isfinite(end)].max(initial=0.0)))


def has_unfinished_jobs_at(workload: Workload, begin: float) -> bool:
    """Return whether jobs submitted before a time may have waited or run at that time."""
    job = _job_of_task(workload)
    never_started = workload.task_start == inf
    ended = workload.task_start + workload.task_duration
    end = np.where(never_started, workload.job_cancel[job], ended)
    return bool(((workload.job_submit[job] < begin) & ~(end <= begin)).any())


def _job_of_task(workload: Workload) -> IntArray:
    """Return (T,) the job of each task."""
    return np.repeat(workload.set_job, workload.set_tasks)


def seconds_since_start(workload: Workload, time: float | datetime, place: str) -> float:
    """Return a time as seconds since the start of a trace, negative before it.

    Dates are by the log's own clock. Raises InputError for a date if the trace has no dates.
    """
    if not isinstance(time, datetime):
        return time
    if workload.start_date is None:
        fault = "is a date, and the trace has none; give the time since its start, such as 36h"
        raise InputError(fault, place)
    return time.replace(tzinfo=UTC).timestamp() - workload.start_date


def time_window(workload: Workload, begin: float = 0.0, end: float = inf) -> Workload:
    """Return the jobs submitted from `begin` up to `end`, exclusive, with times from `begin`.

    - Earlier jobs are left out, even if they still ran at `begin`. If any of them waited or ran
      then, all recorded starts are left out, too: without these jobs the servers would be less full
      than they were.
    - Servers start in their state at `begin`: a server that is absent at `begin` leaves at time 0.
    - Servers that first join at `end` or later are removed, but for the first one of a group
      without other servers.

    O(jobs + sets + tasks + servers + their events).

    Parameters
    ----------
    workload : Workload
    begin, end : float
        Seconds since the start of the trace.

    Raises
    ------
    InputError
        When `begin` is not before `end`, `end` is not positive, or no job is submitted between
        them.

    Examples
    --------
    >>> from fairlead.traces.generator import generate_day
    >>> day = generate_day(servers=20, users=5, jobs=200, hours=24)
    >>> morning = time_window(day, 6 * 3600, 12 * 3600)
    >>> morning.n_jobs < day.n_jobs, bool(morning.job_submit.max() < 6 * 3600)
    (True, True)
    """
    since = workload.time_text(begin)
    until = workload.time_text(end) if end < inf else ""
    if end <= 0:
        raise InputError(f"must be after the trace begins, not {until}", "--to")
    if begin >= end:
        raise InputError(f"must be before --to ({until}), not {since}", "--from")
    if not ((workload.job_submit >= begin) & (workload.job_submit < end)).any():
        first, last = map(workload.time_text, workload.job_submit[[0, -1]].tolist())
        fault = f"no job is submitted from {since} on{f' and before {until}' if until else ''}"
        place = "--from" if begin else "--to"
        raise InputError(f"{fault}; the trace has jobs from {first} to {last}", place)
    part = workload if end == inf else first_seconds(workload, end)
    earlier = int((workload.job_submit < begin).sum())
    later = workload.n_jobs - part.n_jobs
    jobs = part.job_submit >= begin
    events = part.server_time >= begin
    # Of the earlier events keep the last one of each server, unless it was a join. Events are in
    # order of time, so later ones overwrite earlier ones.
    last_event = np.full(part.n_servers, -1)
    last_event[part.server[~events]] = np.flatnonzero(~events)
    last_events = last_event[last_event >= 0]
    events[last_events[part.server_event[last_events] != JOIN]] = True
    everywhere = np.ones(part.n_servers, dtype=bool)
    notes = [
        (f"jobs left out, as they were submitted before {since} (--from)", earlier),
        (f"jobs left out, as they were submitted from {until} on (--to)", later),
    ]
    if part.has_starts and has_unfinished_jobs_at(workload, begin):
        known = ~np.isnan(part.task_start[jobs[np.repeat(part.set_job, part.set_tasks)]])
        notes.append((NO_STARTS, int(known.sum())))
        part = replace(
            part,
            task_start=np.full_like(part.task_start, np.nan),
            task_server=np.full_like(part.task_server, -1),
        )
    cut = excerpt(part, jobs[part.set_job], everywhere, events).workload
    origin = f"from {since}" + (f" to {until}" if until else "")
    return replace(
        cut,
        job_submit=cut.job_submit - begin,
        job_cancel=cut.job_cancel - begin,
        task_start=cut.task_start - begin,
        server_time=np.maximum(cut.server_time - begin, 0.0),
        origin=f"{cut.origin}, {origin}" if cut.origin else origin,
        start_date=None if cut.start_date is None else cut.start_date + begin,
        recorded_until=None if cut.recorded_until is None else cut.recorded_until - begin,
        notes={**cut.notes, **{what: n for what, n in notes if n}},
    )
