"""Who submitted jobs when, from the job events of Google's trace of 2011."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairlead.errors import InputError
from fairlead.traces.generator import Arrivals
from fairlead.traces.google_tables import JOB_EVENTS, MICROSECONDS, SUBMIT, TRACE_START
from fairlead.traces.lines import ProgressReport
from fairlead.traces.tables import read_blocks

BEFORE = "jobs of the job events left out, as they came before the trace began"
AGAIN = "submissions of a job again, which is counted once"
NO_USER = "submissions whose user is not known; they are one user"
OUT_OF_ORDER = "submissions before one of an earlier row or part; they are sorted by time"


def read_job_arrivals(
    paths: Sequence[Path], *, on_progress: ProgressReport | None = None
) -> Arrivals:
    """Read when jobs were submitted, and by what user.

    Parameters
    ----------
    paths : sequence of Path
        Parts of the table of job events, in any order; times may not run backwards once they are
        in the order of their first events.
    on_progress : callable, optional
        Called with (bytes read, bytes in all) of all parts.

    Returns
    -------
    Arrivals
        Seconds from the trace's first moment (600 s in its own time), ascending, and the users'
        hashes. Jobs that were there before are left out, as nobody knows when they came; a job
        that is submitted again counts once. Notes count both.

    Raises
    ------
    InputError
        For whatever `read_blocks` refuses, times that run backwards, or parts without any
        submission. It names file and row.

    Notes
    -----
    Cost O(rows), about 3 us each.
    """
    import polars as pl

    if not paths:
        raise InputError("there is no part of the job events to read", "job events")
    total = sum(path.stat().st_size for path in paths if path.exists())
    before = 0
    parts: list[pl.DataFrame] = []
    notes: Counter[str] = Counter()
    for path in paths:
        report = None
        if on_progress is not None:
            report = _offset(on_progress, before, total)
        latest = 0
        found = []
        for block in read_blocks(path, JOB_EVENTS, on_progress=report):
            time = block.frame["time"]
            earlier = time.shift(1, fill_value=latest)
            block.refuse(time < earlier, "is before the row above", "time")
            latest = int(time[-1])
            submitted = block.frame.filter(pl.col("event type") == SUBMIT)
            notes[NO_USER] += submitted["user"].null_count()
            submitted = submitted.with_columns(user=pl.col("user").fill_null("unknown"))
            found.append(submitted.select("time", "job ID", "user"))
        if found:
            parts.append(pl.concat(found))
        before += path.stat().st_size
    if not parts:
        raise InputError("holds no job event", "", str(paths[0]))
    every = pl.concat(parts)
    notes[OUT_OF_ORDER] += int((every["time"] < every["time"].cum_max()).sum())
    jobs = every.sort("time", maintain_order=True)
    jobs = jobs.unique("job ID", keep="first", maintain_order=True)
    notes[AGAIN] += len(every) - len(jobs)
    events = jobs.filter(pl.col("time") >= TRACE_START * MICROSECONDS)
    notes[BEFORE] += len(jobs) - len(events)
    if not len(events):
        raise InputError("holds no submission of a job", "", str(paths[0]))
    times = events["time"].to_numpy() / MICROSECONDS - TRACE_START
    counted = {what: count for what, count in sorted(notes.items()) if count}
    return Arrivals(times, np.array(events["user"].to_list(), dtype=np.str_), counted)


def _offset(report: ProgressReport, before: int, total: int) -> ProgressReport:
    return lambda done, _: report(before + done, total)
