"""Read Google's trace of 2011: all tables as a workload, or the arrivals in its job events.

Each table of `google_tables` is a folder. Only the last attempt of a task counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from fairlead.errors import InputError
from fairlead.model.workload import Workload
from fairlead.traces._csv_tables import keep_usable
from fairlead.traces._stored_files import ProgressReport, error_source
from fairlead.traces.generator import Arrivals
from fairlead.traces.logs.google_tables import (
    AFTER_TRACE,
    ENDINGS,
    FINISH,
    JOB_EVENTS,
    MICROSECONDS,
    SCHEDULE,
    SUBMIT,
    TASK_CONSTRAINTS,
    TASK_EVENTS,
    TRACE_START,
    Condition,
    GoogleMachines,
    Progress,
    parts_of,
    read_machines,
    read_parts,
)
from fairlead.traces.logs.job_collector import without_zeros

TASK = ("job", "index")
START = TRACE_START * MICROSECONDS  # of the trace, on its own clock
NEVER_RAN = "tasks left out, as they never ran"
NO_REQUEST = "tasks left out, as they request nothing"
NO_TIME = "tasks left out, as they took no time"
EARLIER_ATTEMPTS = "earlier attempts of tasks, left out; only the last attempt counts"
STILL_RUNNING = "tasks still running at the end of the trace, cut there"
RAN_BEFORE = "tasks that already ran when the trace began, cut there"
LAST_ATTEMPT = "tasks whose last attempt was {}; its duration counts"
DIFFERENT_MACHINES = "tasks that must be on different machines; this constraint is ignored"
NO_ATTRIBUTES = "tasks with constraints, ignored, as there is no table of machine attributes"
MET_BY_NONE = "tasks whose constraints no machine meets; these constraints are ignored"
BEFORE = "jobs of the job events left out, as they came before the trace began"
AGAIN = "further submissions of a job, which is counted once"
NO_USER = "submissions whose user is not known; they are one user"
OUT_OF_ORDER = "submissions earlier than one in a previous row or part; they are sorted by time"


def read_google(path: Path, *, on_progress: ProgressReport | None = None) -> Workload:
    """Read the tables of Google's trace of 2011, in O(rows), about 3 us each.

    `path` has the folders ``task_events`` and ``machine_events``, optionally ``task_constraints``
    and ``machine_attributes``, each with files such as ``part-00000-of-00500.csv.gz``. Job events
    are not read.

    Every task counts once, with the duration of its last attempt, from the time when it was
    scheduled until it ended for any reason. A job arrives with the first of its tasks. Tasks of a
    job with equal requests and constraints are a set. Constraints are compared with the first
    stated value of each attribute of a machine. Amounts are shares of the largest machine; times
    are seconds from the start of the trace.

    Raises InputError with file, row and column for tables that are missing or malformed, or if no
    task ran.
    """
    tables = {
        table: parts_of(path, table)
        for table in ("task_constraints", "machine_events", "machine_attributes", "task_events")
    }
    for table in ("machine_events", "task_events"):
        if not tables[table]:
            fault = "has no part such as part-00000-of-00500.csv.gz"
            raise InputError(fault, "", str(path / table))
    progress = Progress(on_progress, [part for parts in tables.values() for part in parts])
    notes: Counter[str] = Counter()
    wanted = _read_constraints(tables["task_constraints"], progress)
    conditions = list(dict.fromkeys(c for several in wanted.values() for c in several))
    machines = read_machines(
        tables["machine_events"], tables["machine_attributes"], conditions, notes, progress
    )
    tasks = _last_attempts(*_read_task_events(tables["task_events"], progress), notes)
    if not len(tasks):
        raise InputError("holds no task that ran", "", str(path / "task_events"))
    has_attributes = bool(tables["machine_attributes"])
    places, place = _find_places(tasks, wanted, conditions, machines, has_attributes, notes)
    tasks = tasks.with_columns(place=np.array(place, dtype=np.int32))
    with error_source(str(path)):
        origin = f"Google's trace of 2011, {path.name}"
        return workload_of_tasks(tasks, machines, origin, notes, places=places)


def _read_constraints(
    parts: Sequence[Path], progress: Progress
) -> dict[tuple[int, int], tuple[Condition, ...]]:
    """Return the last stated constraints of each task, by job and index."""
    stated: dict[tuple[int, int], tuple[int, list[Condition]]] = {}
    for block in read_parts(parts, TASK_CONSTRAINTS, progress):
        # Rows ascend in time; only the constraints of a task's latest time count.
        for time, job, task, operator, attribute, value in block.frame.select(
            "time",
            "job ID",
            "task index",
            "comparison operator",
            "attribute name",
            "attribute value",
        ).iter_rows():
            stated_at, conditions = stated.get((job, task), (-1, []))
            if time != stated_at:
                conditions = []
                stated[job, task] = (time, conditions)
            conditions.append(Condition(operator, attribute, value or ""))
    return {task: tuple(sorted(set(conditions))) for task, (_, conditions) in stated.items()}


def _read_task_events(
    parts: Sequence[Path], progress: Progress
) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Read the tables of task events.

    Returns a row of requests for each task, a row for each start and end of an attempt, and the
    last time of the trace in microseconds.
    """
    requests: list[pl.DataFrame] = []
    attempts: list[pl.DataFrame] = []
    order, end = 0, 0
    for block in read_parts(parts, TASK_EVENTS, progress):
        frame = block.frame.select(
            "time",
            "user",
            job="job ID",
            index="task index",
            kind="event type",
            cpu="CPU request",
            memory="memory request",
            apart="different machines restriction",
        ).with_row_index("order", offset=order)
        order += len(frame)
        inside = frame["time"].filter(frame["time"] < AFTER_TRACE)
        end = max(end, int(inside[-1]) if len(inside) else 0)
        requests.append(_merge_requests(frame))
        attempts.append(
            frame.filter(pl.col("kind").is_in([SCHEDULE, *ENDINGS])).select(
                *TASK, "order", "time", pl.col("kind").cast(pl.Int8)
            )
        )
    if not requests:
        raise InputError("holds no task event", "", str(parts[0]))
    merged = _merge_requests(pl.concat(requests)).rename({"time": "first_event"})
    return merged.with_columns(pl.col("cpu", "memory").fill_null(0.0)), pl.concat(attempts), end


def _merge_requests(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each task: the first time, the first user, the last request."""
    return frame.group_by(TASK, maintain_order=True).agg(
        pl.col("time").first(),
        pl.col("user").drop_nulls().first(),
        pl.col("cpu", "memory", "apart").drop_nulls().last(),
    )


def _last_attempts(
    requests: pl.DataFrame, attempts: pl.DataFrame, end: int, notes: Counter[str]
) -> pl.DataFrame:
    """Return the tasks that ran, with the start and end of their last attempt."""
    begins = (
        attempts.filter(pl.col("kind") == SCHEDULE)
        .group_by(TASK)
        .agg(last_start=pl.col("order").last(), begin=pl.col("time").last(), attempts=pl.len())
    )
    ends = (
        attempts.filter(pl.col("kind") != SCHEDULE)
        .join(begins.select(*TASK, "last_start"), on=TASK)
        .filter(pl.col("order") > pl.col("last_start"))
    )
    tasks = tasks_that_ran(requests, begins, ends, end, ENDINGS, notes)
    notes[DIFFERENT_MACHINES] += int(tasks["apart"].is_in(["1", "true", "TRUE"]).sum())
    return tasks


def tasks_that_ran(
    requests: pl.DataFrame,
    begins: pl.DataFrame,
    ends: pl.DataFrame,
    trace_end: int,
    endings: Mapping[int, str],
    notes: Counter[str],
    requirements: Mapping[str, pl.Expr] = MappingProxyType({}),
) -> pl.DataFrame:
    """Return the tasks that ran, with the `start` and `end` of their last attempt in microseconds.

    Both are cut to the time of the trace, which ends at `trace_end`. Leaves out tasks that never
    ran, request nothing or took no time, and counts them in `notes`.

    - `requests`: a row for each task, with the columns `cpu` and `memory`;
    - `begins`: a row for each scheduled task: its last start `begin`, the number of `attempts`;
    - `ends`: the ends of tasks after `begin`, numbered by `order`; the first one of a task counts;
    - `endings`: a word for each kind of end;
    - `requirements`: further conditions, checked first; keys are the notes of tasks left out.
    """
    first_ends = (
        ends.sort("order").group_by(TASK).agg(pl.col("time", "kind").first().name.prefix("end_"))
    )
    joined = requests.join(begins, on=TASK, how="left", maintain_order="left").join(
        first_ends, on=TASK, how="left", maintain_order="left"
    )
    cut = pl.col("end_time").is_null() | (pl.col("end_time") == AFTER_TRACE)
    usable = {
        **requirements,
        NEVER_RAN: pl.col("begin").is_not_null(),
        NO_REQUEST: pl.col("cpu") + pl.col("memory") > 0,
        NO_TIME: pl.col("end") > pl.col("start"),
    }
    tasks = joined.with_columns(
        cut=cut,
        start=pl.max_horizontal("begin", pl.lit(START)),
        end=pl.when(cut).then(max(trace_end, START)).otherwise("end_time"),
    )
    tasks = keep_usable(tasks, notes, usable)
    notes[EARLIER_ATTEMPTS] += int(tasks["attempts"].sum()) - len(tasks)
    notes[STILL_RUNNING] += int(tasks["cut"].sum())
    notes[RAN_BEFORE] += int((tasks["begin"] < START).sum())
    ended = tasks.filter(~pl.col("cut"))["end_kind"]
    for ending, word in endings.items():  # numbered differently in the traces of 2011 and 2019
        if word != ENDINGS[FINISH]:
            notes[LAST_ATTEMPT.format(word)] += int((ended == ending).sum())
    return tasks


def _find_places(
    tasks: pl.DataFrame,
    wanted: dict[tuple[int, int], tuple[Condition, ...]],
    conditions: list[Condition],
    machines: GoogleMachines,
    has_attributes: bool,
    notes: Counter[str],
) -> tuple[list[list[bool]], list[int]]:
    """Return where tasks may run.

    Returns the distinct places, each as (G,) whether a group is allowed, with the place of all
    groups first; and the index of each task's place.
    """
    column = {condition: c for c, condition in enumerate(conditions)}  # in `machines.meets`
    everywhere = [True] * len(machines.cluster.groups)
    places = [everywhere]
    place_of: dict[tuple[Condition, ...], int] = {(): 0}
    place_of_task: list[int] = []
    for task in tasks.select(TASK).iter_rows():
        asked = wanted.get(task, ())
        if asked not in place_of:
            columns = [column[c] for c in asked]
            allowed = [bool(np.all(met[columns])) for met in machines.meets]
            place_of[asked] = len(places) if has_attributes and any(allowed) else 0
            if place_of[asked]:
                places.append(allowed)
        place = place_of[asked]
        if asked and not place:
            notes[MET_BY_NONE if has_attributes else NO_ATTRIBUTES] += 1
        place_of_task.append(place)
    return places, place_of_task


def workload_of_tasks(
    tasks: pl.DataFrame,
    machines: GoogleMachines,
    origin: str,
    notes: Counter[str],
    **more: Any,
) -> Workload:
    """Make a workload from a table of tasks.

    Its columns are those of `TASK`, `first_event` (the time of the task's first event), `user`,
    `cpu`, `memory`, `place`, `start` and `end`. With a column `server`, starts and servers are
    recorded. `more` are further arguments of `Workload.from_arrays`.
    """
    tasks = tasks.with_columns(
        arrives=pl.max_horizontal("first_event", pl.lit(START)).min().over("job")
    ).sort("arrives", "job", "cpu", "memory", "place", "index")
    is_first_of_job = (tasks["job"] != tasks["job"].shift(1)).fill_null(True)
    jobs = tasks.filter(is_first_of_job)
    users: dict[str, int] = {}
    job_user = [users.setdefault(user or "unknown", len(users)) for user in jobs["user"].to_list()]
    if "server" in tasks.columns:
        more["task_start"] = (tasks["start"].to_numpy() - START) / MICROSECONDS
        more["task_server"] = tasks["server"].to_numpy()
    return Workload.from_arrays(
        machines.cluster,
        list(users),
        job_names=jobs["job"].cast(pl.String).to_numpy().astype(np.str_),
        job_user=job_user,
        job_submit=(jobs["arrives"].to_numpy() - START) / MICROSECONDS,
        set_job=np.cumsum(is_first_of_job.to_numpy()) - 1,
        set_tasks=np.ones(len(tasks), dtype=np.int32),  # equal neighbours are merged
        shapes=tasks.select("cpu", "memory").to_numpy(),
        set_place=tasks["place"].to_numpy(),
        task_duration=(tasks["end"] - tasks["start"]).to_numpy() / MICROSECONDS,
        server_time=[time for time, _, _ in machines.events],
        server_event=[event for _, event, _ in machines.events],
        server=[server for _, _, server in machines.events],
        origin=origin,
        notes=without_zeros(notes),
        **more,
    )


def read_job_arrivals(
    paths: Sequence[Path], *, on_progress: ProgressReport | None = None
) -> Arrivals:
    """Read the submissions of jobs and their users, in O(rows), about 3 us each.

    Times are seconds from the start of the trace (600 s on its own clock), ascending; users are the
    hashes of the trace. Parts may be in any order, but times must ascend within each part. Jobs
    submitted before the trace are left out, a repeated submission counts once, and all jobs of
    unknown users are of one user. `Arrivals.notes` counts these jobs, and rows that had to be
    sorted.

    Raises InputError with file, row and column for malformed files, or without a submission.
    """
    if not paths:
        raise InputError("there is no part of the job events to read", "job events")
    progress = Progress(on_progress, paths)
    parts: list[pl.DataFrame] = []
    notes: Counter[str] = Counter()
    for path in paths:
        for block in read_parts([path], JOB_EVENTS, progress):
            submitted = block.frame.filter(pl.col("event type") == SUBMIT)
            notes[NO_USER] += submitted["user"].null_count()
            submitted = submitted.with_columns(user=pl.col("user").fill_null("unknown"))
            parts.append(submitted.select("time", "job ID", "user"))
    if not parts:
        raise InputError("holds no job event", "", str(paths[0]))
    every = pl.concat(parts)
    notes[OUT_OF_ORDER] += int((every["time"] < every["time"].cum_max()).sum())
    jobs = every.sort("time", maintain_order=True)
    jobs = jobs.unique("job ID", keep="first", maintain_order=True)
    notes[AGAIN] += len(every) - len(jobs)
    events = jobs.filter(pl.col("time") >= START)
    notes[BEFORE] += len(jobs) - len(events)
    if not len(events):
        raise InputError(
            "holds no submission of a job after the start of the trace", "", str(paths[0])
        )
    times = events["time"].to_numpy() / MICROSECONDS - TRACE_START
    return Arrivals(times, np.array(events["user"].to_list(), dtype=np.str_), without_zeros(notes))
