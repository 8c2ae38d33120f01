"""Google's trace of 2011 as a workload: tasks by their last attempt, machines that come and go.

The tables are those of `fairlead.traces.google_tables`; a folder for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairlead.errors import InputError
from fairlead.model.workload import Workload
from fairlead.traces.google_machines import Condition, GoogleMachines, read_machines
from fairlead.traces.google_tables import (
    AFTER_TRACE,
    ENDINGS,
    FINISH,
    MICROSECONDS,
    SCHEDULE,
    TASK_CONSTRAINTS,
    TASK_EVENTS,
    TRACE_START,
    Progress,
    parts_of,
    read_parts,
)
from fairlead.traces.lines import ProgressReport

if TYPE_CHECKING:
    import polars as pl

TASK = ("job ID", "task index")
NEVER_RAN = "tasks left out, as they never ran"
NO_REQUEST = "tasks left out, as they request nothing"
NO_TIME = "tasks left out, as they took no time"
EARLIER_ATTEMPTS = "earlier attempts of tasks, not counted; the last one is the work"
STILL_RUNNING = "tasks still running at the end of the trace, cut there"
RAN_BEFORE = "tasks that ran before the trace began; that part is not known"
LAST_ATTEMPT = "tasks whose last attempt was {}; it is taken as the work"
DIFFERENT_MACHINES = "tasks that must be on different machines, which is ignored"
NO_ATTRIBUTES = "tasks with constraints, ignored, as there is no table of machine attributes"
MET_BY_NONE = "tasks with constraints that no machine meets, taken as none"


def read_google(path: Path, *, on_progress: ProgressReport | None = None) -> Workload:
    """Read the tables of Google's trace of 2011.

    Every task is counted once: its last attempt, from being scheduled to whatever ended it, is how
    long it takes; a job arrives with the first of its tasks, of the user that submitted it. Tasks
    of a job with equal requests and constraints are a set. Constraints are weighed against the
    machines' attributes as they are first stated.

    Parameters
    ----------
    path : Path
        A folder with the folders ``task_events`` and ``machine_events``, and, where they are,
        ``task_constraints`` and ``machine_attributes``, each with parts
        ``part-00000-of-00500.csv.gz``, plain or compressed. Job events add nothing and are not
        read.
    on_progress : callable, optional
        Called with (bytes read, bytes in all) of all parts.

    Returns
    -------
    Workload
        Amounts are shares of the largest machine; time counts from the trace's first moment.

    Raises
    ------
    InputError
        For a missing table, whatever `read_blocks` refuses, or times that run backwards within a
        table. It names file and row.

    Notes
    -----
    Cost O(rows), 3 us each; memory grows with tasks and attempts, not with the text.
    """
    tables = {
        table: parts_of(path, table)
        for table in ("task_constraints", "machine_events", "machine_attributes", "task_events")
    }
    for table in ("machine_events", "task_events"):
        if not tables[table]:
            fault = "has no part part-00000-of-00500.csv.gz or the like"
            raise InputError(fault, "", str(path / table))
    progress = Progress(on_progress, [part for parts in tables.values() for part in parts])
    notes: Counter[str] = Counter()
    wanted = _read_constraints(tables["task_constraints"], progress)
    conditions = list(dict.fromkeys(c for several in wanted.values() for c in several))
    machines = read_machines(
        tables["machine_events"], tables["machine_attributes"], conditions, notes, progress
    )
    tasks = _tasks(*_read_task_events(tables["task_events"], progress), notes)
    if not len(tasks):
        raise InputError("holds no task that ran", "", str(path / "task_events"))
    known = bool(tables["machine_attributes"])
    places, place = _places(tasks, wanted, conditions, machines, known, notes)
    try:
        return _workload(tasks, places, place, machines, notes, path)
    except InputError as error:
        raise InputError(error.fault, error.place, str(path)) from None


def _read_constraints(
    parts: Sequence[Path], progress: Progress
) -> dict[tuple[int, int], tuple[Condition, ...]]:
    """Return the constraints of each task, as they were stated last."""
    stated: dict[tuple[int, int], tuple[int, list[Condition]]] = {}
    for block in read_parts(parts, TASK_CONSTRAINTS, progress):
        for time, job, task, operator, attribute, value in block.frame.select(
            "time", *TASK, "comparison operator", "attribute name", "attribute value"
        ).iter_rows():
            at, conditions = stated.get((job, task), (-1, []))
            if time != at:
                conditions = []
                stated[job, task] = (time, conditions)
            conditions.append(Condition(operator, attribute, value or ""))
    return {task: tuple(sorted(set(conditions))) for task, (_, conditions) in stated.items()}


def _read_task_events(
    parts: Sequence[Path], progress: Progress
) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Return what each task requests, when attempts begin and end, and the trace's last moment."""
    import polars as pl

    requests: list[pl.DataFrame] = []
    attempts: list[pl.DataFrame] = []
    order, end = 0, 0
    for block in read_parts(parts, TASK_EVENTS, progress):
        frame = block.frame.with_row_index("order", offset=order)
        order += len(frame)
        inside = frame["time"].filter(frame["time"] < AFTER_TRACE)
        end = max(end, int(inside[-1]) if len(inside) else 0)
        requests.append(_requests(frame))
        attempts.append(
            frame.filter(pl.col("event type").is_in([SCHEDULE, *ENDINGS])).select(
                *TASK, "order", "time", pl.col("event type").cast(pl.Int8)
            )
        )
    if not requests:
        raise InputError("holds no task event", "", str(parts[0]))
    return _requests(pl.concat(requests)), pl.concat(attempts), end


def _requests(frame: pl.DataFrame) -> pl.DataFrame:
    """Return one row a task: when it is first heard of, whose it is, what it last requested."""
    import polars as pl

    return frame.group_by(TASK, maintain_order=True).agg(
        pl.col("time").first(),
        pl.col("user").drop_nulls().first(),
        pl.col("CPU request", "memory request").drop_nulls().last(),
        pl.col("different machines restriction").drop_nulls().last(),
    )


def _tasks(
    requests: pl.DataFrame, attempts: pl.DataFrame, end: int, notes: Counter[str]
) -> pl.DataFrame:
    """Return the tasks that can be run again, with their durations in seconds."""
    import polars as pl

    begins = (
        attempts.filter(pl.col("event type") == SCHEDULE)
        .group_by(TASK)
        .agg(
            pl.col("order").last().alias("last"),
            pl.col("time").last().alias("begin"),
            pl.len().alias("attempts"),
        )
    )
    ends = (
        attempts.filter(pl.col("event type") != SCHEDULE)
        .join(begins.select(*TASK, "last"), on=TASK)
        .filter(pl.col("order") > pl.col("last"))
        .sort("order")
        .group_by(TASK)
        .agg(pl.col("time").first().alias("end"), pl.col("event type").first().alias("ending"))
    )
    tasks = requests.join(begins, on=TASK, how="left", maintain_order="left").join(
        ends, on=TASK, how="left", maintain_order="left"
    )
    cut = (pl.col("end").is_null() | (pl.col("end") == AFTER_TRACE)).alias("cut")
    first = TRACE_START * MICROSECONDS
    tasks = tasks.with_columns(cut, (pl.col("begin") < first).alias("before")).with_columns(
        duration=(
            pl.when("cut").then(max(end, first)).otherwise("end")
            - pl.max_horizontal("begin", pl.lit(first))
        )
        / MICROSECONDS,
        cpu=pl.col("CPU request").fill_null(0.0),
        memory=pl.col("memory request").fill_null(0.0),
    )
    for reason, usable in (
        (NEVER_RAN, pl.col("begin").is_not_null()),
        (NO_REQUEST, pl.col("cpu") + pl.col("memory") > 0),
        (NO_TIME, pl.col("duration") > 0),
    ):
        kept = tasks.filter(usable)
        notes[reason] += len(tasks) - len(kept)
        tasks = kept
    _note(tasks, notes)
    return tasks


def _note(tasks: pl.DataFrame, notes: Counter[str]) -> None:
    notes[EARLIER_ATTEMPTS] += int(tasks["attempts"].sum()) - len(tasks)
    notes[STILL_RUNNING] += int(tasks["cut"].sum())
    notes[RAN_BEFORE] += int(tasks["before"].sum())
    notes[DIFFERENT_MACHINES] += int(
        tasks["different machines restriction"].is_in(["1", "true", "TRUE"]).sum()
    )
    ended = tasks.filter(~tasks["cut"])["ending"]
    for ending, word in ENDINGS.items():
        if ending != FINISH:
            notes[LAST_ATTEMPT.format(word)] += int((ended == ending).sum())


def _places(
    tasks: pl.DataFrame,
    wanted: dict[tuple[int, int], tuple[Condition, ...]],
    conditions: list[Condition],
    machines: GoogleMachines,
    known: bool,
    notes: Counter[str],
) -> tuple[list[list[bool]], list[int]]:
    """Return the distinct places, everywhere first, and that of each task."""
    number = {condition: c for c, condition in enumerate(conditions)}
    everywhere = [True] * len(machines.cluster.groups)
    places = [everywhere]
    of_conditions: dict[tuple[Condition, ...], int] = {(): 0}
    chosen: list[int] = []
    for task in tasks.select(TASK).iter_rows():
        asked = wanted.get(task, ())
        if asked not in of_conditions:
            columns = [number[c] for c in asked]
            allowed = [bool(np.all(row[columns])) for row in machines.meets]
            of_conditions[asked] = len(places) if known and any(allowed) else 0
            if of_conditions[asked]:
                places.append(allowed)
        place = of_conditions[asked]
        if asked and not place:
            notes[MET_BY_NONE if known else NO_ATTRIBUTES] += 1
        chosen.append(place)
    return places, chosen


def _workload(
    tasks: pl.DataFrame,
    places: list[list[bool]],
    place: list[int],
    machines: GoogleMachines,
    notes: Counter[str],
    path: Path,
) -> Workload:
    import polars as pl

    first = TRACE_START * MICROSECONDS
    tasks = tasks.with_columns(
        place=pl.Series(place, dtype=pl.Int32),
        arrives=pl.max_horizontal("time", pl.lit(first)).min().over("job ID"),
    ).sort("arrives", "job ID", "cpu", "memory", "place", "task index")
    opens = (tasks["job ID"] != tasks["job ID"].shift(1)).fill_null(True)
    jobs = tasks.filter(opens)
    users: dict[str, int] = {}
    whose: list[Any] = [
        users.setdefault(user or "unknown", len(users)) for user in jobs["user"].to_list()
    ]
    times, events, servers = machines.events
    return Workload.from_arrays(
        machines.cluster,
        list(users),
        job_names=jobs["job ID"].cast(pl.String).to_numpy().astype(np.str_),
        job_user=whose,
        job_submit=(jobs["arrives"].to_numpy() - first) / MICROSECONDS,
        set_job=np.cumsum(opens.to_numpy()) - 1,
        set_tasks=np.ones(len(tasks), dtype=np.int32),
        shapes=tasks.select("cpu", "memory").to_numpy(),
        places=places,
        set_place=tasks["place"].to_numpy(),
        task_duration=tasks["duration"].to_numpy(),
        server_time=times,
        server_event=events,
        server=servers,
        origin=f"Google's trace of 2011, {path.name}",
        notes={what: count for what, count in sorted(notes.items()) if count},
    )
