"""Google's traces of 2019: the cells of Borg, each with events of collections and machines.

1. An instance of a collection is a task, and a collection is a job, of tasks or of alloc instances.
   An alloc instance reserves amounts on a machine. Tasks that run inside one are left out, as they
   take nothing of the machine themselves. There are no gangs.
2. A task may run everywhere: its constraints are ignored and counted.
3. Left out are tasks that never ran, request nothing or took no time, and earlier attempts. A task
   still running at the end of the trace is cut there, as is the part before its first moment.
4. The servers are those of the machine events. A machine whose capacity changes is another server.

`fairlead.traces.google_2019_tables` describes the files. Their rows have no order, so a few files
of a cell hold parts of all tasks: read all of a cell, or a query's result for some collections.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fairlead.errors import InputError
from fairlead.model.workload import Workload
from fairlead.traces._google_machines import GoogleMachines, MachineHistory, group_machines
from fairlead.traces._stored_files import ProgressReport, faults_within
from fairlead.traces.google import (
    EARLIER_ATTEMPTS,
    LAST_ATTEMPT,
    NEVER_RAN,
    NO_REQUEST,
    NO_TIME,
    RAN_BEFORE,
    STILL_RUNNING,
)
from fairlead.traces.google_2019_tables import (
    ADD,
    COLLECTION_COLUMNS,
    COLLECTIONS,
    ENDINGS,
    FINISH,
    INSTANCE_COLUMNS,
    INSTANCES,
    MACHINE_COLUMNS,
    MACHINES,
    SCHEDULE,
    TABLES,
    is_google_2019,
    parts_of,
    read_rows,
)
from fairlead.traces.google_tables import AFTER_TRACE, MICROSECONDS, TRACE_START, Progress

if TYPE_CHECKING:
    import polars as pl

__all__ = ["is_google_2019", "read_google_2019"]

TASK = ("collection", "index")
FIRST = TRACE_START * MICROSECONDS
IN_ALLOC = "tasks left out, as they ran inside an alloc instance, which is a task"
CONSTRAINED = "tasks with constraints, which are ignored"
NO_SERVER = "tasks whose machine is not known"
NO_USER = "jobs whose user is not known; they are one user"
AFTER_END = "events of machines after the trace, left out"
SPREAD = "jobs with a limit of tasks on a machine or switch, which is ignored"
AFTER_OTHERS = "jobs that start after others, which is ignored"


class Collections(NamedTuple):
    """Users and limits of collections, by number."""

    users: dict[int, str]
    spread: set[int]  # with a limit of instances on a machine or switch
    after_others: set[int]


def read_google_2019(path: Path, *, on_progress: ProgressReport | None = None) -> Workload:
    """Read a cell of Google's traces of 2019 with recorded starts and servers. O(rows), 15 us each.

    `path` has the files of ``collection_events``, ``instance_events`` and ``machine_events``, all
    in it or in a folder for each table.

    A job arrives with the first event of its tasks that ran. A task counts once: its duration is
    that of its last attempt, from scheduling to any end. It takes the last amounts that are not
    all 0. Amounts are shares of the largest machine; time counts from the trace's first moment.
    """
    parts = {table: parts_of(path, table) for table in TABLES}
    for table, files in parts.items():
        if not files:
            raise InputError(f"has no {table}-000000000000.json.gz or the like", "", str(path))
    progress = Progress(on_progress, [part for files in parts.values() for part in files])
    notes: Counter[str] = Counter()
    machines = _read_machines(parts[MACHINES], notes, progress)
    collections = _read_collections(parts[COLLECTIONS], progress)
    tasks = _tasks(_read_events(parts[INSTANCES], progress), notes)
    if not len(tasks):
        left = [f"{what}: {count:,}" for what, count in sorted(notes.items()) if count]
        why = f" ({'; '.join(left)})" if left else ""
        raise InputError(f"holds no task that ran{why}", "", str(path))
    tasks = _with_servers(tasks, machines)
    notes[NO_SERVER] += int((tasks["server"] < 0).sum())
    with faults_within(str(path)):
        return _workload(tasks, machines, collections, notes, path.name)


def _read_machines(
    parts: Sequence[Path], notes: Counter[str], progress: Progress
) -> GoogleMachines:
    rows = sorted(read_rows(parts, MACHINE_COLUMNS, progress), key=lambda row: row[0])  # type: ignore[arg-type, return-value]
    history = MachineHistory(notes)
    for time, machine, event, cpu, memory in rows:
        assert isinstance(time, int)
        assert isinstance(machine, int)
        assert isinstance(event, int)
        assert cpu is None or isinstance(cpu, float)
        assert memory is None or isinstance(memory, float)
        if time == AFTER_TRACE:
            notes[AFTER_END] += 1
        else:
            at = max(0.0, time / MICROSECONDS - TRACE_START)
            history.add(at, machine, event - ADD, cpu, memory)
    if not history.servers:
        raise InputError("holds no machine of known capacity", "", str(parts[0]))
    return group_machines(history, {}, ())


def _read_collections(parts: Sequence[Path], progress: Progress) -> Collections:
    found = Collections({}, set(), set())
    for collection, user, on_machine, on_switch, after in read_rows(
        parts, COLLECTION_COLUMNS, progress
    ):
        assert isinstance(collection, int)
        if user is not None:
            found.users.setdefault(collection, str(user))
        if any(isinstance(most, int) and most > 0 for most in (on_machine, on_switch)):
            found.spread.add(collection)
        if after:
            found.after_others.add(collection)
    return found


def _read_events(parts: Sequence[Path], progress: Progress) -> pl.DataFrame:
    """Return the events of instances by time; amounts are 0 where the event has none."""
    import polars as pl

    names = ("time", "type", "collection", "index", "machine", "alloc", "cpu", "memory")
    numbers = [array(code) for code in "qbqiqqdd"]
    constrained = array("b")
    for *values, constraint in read_rows(parts, INSTANCE_COLUMNS, progress):
        for column, value in zip(numbers, values, strict=True):
            column.append(value or 0)  # type: ignore[arg-type]
        constrained.append(bool(constraint))
    if not constrained:
        raise InputError("holds no event", "", str(parts[0]))
    frame = pl.DataFrame(
        {
            name: np.frombuffer(column, dtype=column.typecode)
            for name, column in zip((*names, "constrained"), (*numbers, constrained), strict=True)
        }
    )
    return frame.sort("time", maintain_order=True).with_row_index("order")


def _tasks(events: pl.DataFrame, notes: Counter[str]) -> pl.DataFrame:
    """Return the tasks that can run again; times are microseconds."""
    import polars as pl

    kind, asks = pl.col("type"), pl.col("cpu") + pl.col("memory") > 0
    requests = events.group_by(TASK, maintain_order=True).agg(
        pl.col("time").first().alias("seen"),
        pl.col("cpu", "memory").filter(asks).last().fill_null(0.0),
        (pl.col("alloc") > 0).any().alias("inside"),
        (pl.col("constrained") > 0).any(),
    )
    begins = (
        events.filter((kind == SCHEDULE) & (pl.col("time") < AFTER_TRACE))
        .group_by(TASK)
        .agg(
            pl.col("time").last().alias("begin"),
            pl.col("machine").last(),
            pl.len().alias("attempts"),
        )
    )
    # An end at the moment of the last begin belongs to the attempt before it, if there is one.
    after = pl.col("time") > pl.col("begin")
    at_once = (pl.col("time") == pl.col("begin")) & (pl.col("attempts") == 1)
    ends = (
        events.filter(kind.is_in(list(ENDINGS)))
        .join(begins, on=TASK)
        .filter(after | at_once)
        .sort("order")
        .group_by(TASK)
        .agg(pl.col("time").first().alias("end"), kind.first().alias("ending"))
    )
    inside = events["time"].filter(events["time"] < AFTER_TRACE)
    last = max(int(inside[-1]) if len(inside) else 0, FIRST)
    cut = pl.col("end").is_null() | (pl.col("end") == AFTER_TRACE)
    tasks = (
        requests.join(begins, on=TASK, how="left", maintain_order="left")
        .join(ends, on=TASK, how="left", maintain_order="left")
        .with_columns(
            cut.alias("cut"),
            (pl.col("begin") < FIRST).alias("before"),
            pl.when(cut).then(last).otherwise("end").alias("end"),
            pl.max_horizontal("begin", pl.lit(FIRST)).alias("start"),
        )
    )
    for reason, usable in (
        (IN_ALLOC, ~pl.col("inside")),
        (NEVER_RAN, pl.col("begin").is_not_null()),
        (NO_REQUEST, pl.col("cpu") + pl.col("memory") > 0),
        (NO_TIME, pl.col("end") > pl.col("start")),
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
    notes[CONSTRAINED] += int(tasks["constrained"].sum())
    ended = tasks.filter(~tasks["cut"])["ending"]
    for ending, word in ENDINGS.items():
        if ending != FINISH:
            notes[LAST_ATTEMPT.format(word)] += int((ended == ending).sum())


def _with_servers(tasks: pl.DataFrame, machines: GoogleMachines) -> pl.DataFrame:
    """Add the server that each task's machine was at its start; -1 where it is not known."""
    import polars as pl

    since, machine, server = machines.joined
    joined = pl.DataFrame(
        {"machine": machine, "since": since, "server": server},
        schema={"machine": pl.Int64, "since": pl.Float64, "server": pl.Int32},
    ).sort("since", maintain_order=True)
    seconds = (pl.col("start") / MICROSECONDS - TRACE_START).alias("seconds")
    found = tasks.with_columns(seconds).sort("seconds", maintain_order=True)
    found = found.join_asof(
        joined, left_on="seconds", right_on="since", by="machine", check_sortedness=False
    )
    return found.with_columns(pl.col("server").fill_null(-1))


def _workload(
    tasks: pl.DataFrame,
    machines: GoogleMachines,
    collections: Collections,
    notes: Counter[str],
    name: str,
) -> Workload:
    import polars as pl

    arrives = pl.max_horizontal("seen", pl.lit(FIRST)).min().over("collection")
    tasks = tasks.with_columns(arrives=arrives).sort(
        "arrives", "collection", "cpu", "memory", "index"
    )
    opens = (tasks["collection"] != tasks["collection"].shift(1)).fill_null(True)
    jobs = tasks.filter(opens)
    numbers = jobs["collection"].to_list()
    notes[NO_USER] += sum(number not in collections.users for number in numbers)
    notes[SPREAD] += len(collections.spread.intersection(numbers))
    notes[AFTER_OTHERS] += len(collections.after_others.intersection(numbers))
    users: dict[str, int] = {}
    job_user = [
        users.setdefault(collections.users.get(number, "unknown"), len(users)) for number in numbers
    ]
    times, events, servers = machines.events
    return Workload.from_arrays(
        machines.cluster,
        list(users),
        job_names=np.array([str(number) for number in numbers]),
        job_user=job_user,
        job_submit=(jobs["arrives"].to_numpy() - FIRST) / MICROSECONDS,
        set_job=np.cumsum(opens.to_numpy()) - 1,
        set_tasks=np.ones(len(tasks), dtype=np.int32),
        shapes=tasks.select("cpu", "memory").to_numpy(),
        task_duration=(tasks["end"] - tasks["start"]).to_numpy() / MICROSECONDS,
        task_start=(tasks["start"].to_numpy() - FIRST) / MICROSECONDS,
        task_server=tasks["server"].to_numpy(),
        server_time=times,
        server_event=events,
        server=servers,
        origin=f"Google's trace of 2019, {name}",
        notes={what: count for what, count in sorted(notes.items()) if count},
    )
