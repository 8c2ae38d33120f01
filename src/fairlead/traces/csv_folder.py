"""The project's own trace as a folder of CSV files, for people who write or edit one by hand.

docs/traces.md shows the files. Everything that one Parquet file holds, exactly.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fairlead.errors import InputError, ProblemError
from fairlead.formats.replacing import replaced_folder
from fairlead.model.cluster import Cluster
from fairlead.model.workload import EVENT_NAMES, Workload
from fairlead.traces.csv_rows import Row, read_rows, truth
from fairlead.traces.lines import ProgressReport, faults_of_reading, open_stored

MARKER = "trace.json"
SERVERS, USERS, JOBS = "servers.csv", "users.csv", "jobs.csv"
TASKS, EVENTS = "tasks.csv", "server_events.csv"
FORMAT_VERSION = 1
BETWEEN_GROUPS = "|"
USER_COLUMNS = ("user", "weight")
JOB_COLUMNS = ("job", "user", "submit", "gang", "cancel")
# Columns of jobs that are there when somebody said so of any.
LIMIT_COLUMNS = ("limit",)
EVENT_COLUMNS = ("time", "event", "server")
# Columns of tasks that are there when something is known of them.
RECORDED_COLUMNS = ("start", "server")
NEVER = "never"

# Which file the entries of a workload come from; the header is its first row.
_FILE_OF_ENTRY = {
    "groups": SERVERS,
    "users": USERS,
    "jobs": JOBS,
    "tasks": TASKS,
    "server events": EVENTS,
}
Value = TypeVar("Value")


def write_folder(workload: Workload, path: Path) -> None:
    """Write a workload as a folder of CSV files, all of it or nothing, in O(T): 3 us a task.

    An older trace there is replaced at the end. Raises InputError for any other folder that is not
    empty, and for names with a blank at the end, a line end, or (groups) a ``|``.
    """
    cluster = workload.cluster
    _check_names(workload, str(path))
    with replaced_folder(path, MARKER) as draft:
        _write(draft / SERVERS, ("group", "count", *cluster.resources, "labels"), _servers(cluster))
        users = zip(workload.users, workload.weight.tolist(), strict=True)
        _write(draft / USERS, USER_COLUMNS, users)
        limits = LIMIT_COLUMNS * bool(np.isfinite(workload.job_limit).any())
        _write(draft / JOBS, (*JOB_COLUMNS, *limits), _jobs(workload, len(limits)))
        recorded = _recorded_columns(workload)
        _write(draft / TASKS, (*_task_columns(cluster), *recorded), _tasks(workload, len(recorded)))
        _write(draft / EVENTS, EVENT_COLUMNS, _events(workload))
        about = {
            MARKER.replace(".json", ""): FORMAT_VERSION,
            "resources": dict(zip(cluster.resources, cluster.units, strict=True)),
            "origin": workload.origin,
            "notes": dict(workload.notes),
        }
        (draft / MARKER).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def _check_names(workload: Workload, source: str) -> None:
    for names in (workload.cluster.groups, workload.users, workload.job_names.tolist()):
        for name in names:
            if not name.isprintable() or name != name.strip():
                fault = "has a blank at its end or a line end in it, which CSV would lose"
                raise InputError(f"the name {name!r} {fault}", "", source)
    for name in workload.cluster.groups:
        if BETWEEN_GROUPS in name:
            raise InputError(f"group {name!r}: its name holds a {BETWEEN_GROUPS!r}", "", source)


def _write(path: Path, header: Sequence[str], rows: Any) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _task_columns(cluster: Cluster) -> tuple[str, ...]:
    return ("job", "place", *cluster.resources, "duration")


def _servers(cluster: Cluster) -> Iterator[list[Any]]:
    for name, count, capacity, labels in zip(
        cluster.groups, cluster.count.tolist(), cluster.capacity.tolist(), cluster.labels,
        strict=True,
    ):  # fmt: skip
        yield [name, count, *capacity, json.dumps(dict(labels)) if labels else ""]


def _jobs(workload: Workload, n_limits: int) -> Iterator[list[Any]]:
    for name, user, submit, gang, cancel, limit in zip(
        workload.job_names.tolist(),
        workload.job_user.tolist(),
        workload.job_submit.tolist(),
        workload.job_gang.tolist(),
        workload.job_cancel.tolist(),
        workload.job_limit.tolist(),
        strict=True,
    ):
        ends, most = ("" if math.isinf(time) else time for time in (cancel, limit))
        row = [name, workload.users[user], submit, "true" if gang else "false", ends]
        yield row + [most] * n_limits


def _recorded_columns(workload: Workload) -> tuple[str, ...]:
    """Return the columns that say when and where tasks ran, as far as anything is known."""
    if (workload.task_server >= 0).any():
        return RECORDED_COLUMNS
    return RECORDED_COLUMNS[: int(workload.has_starts)]


def _tasks(workload: Workload, n_recorded: int) -> Iterator[list[Any]]:
    places = [
        "" if place.all() else BETWEEN_GROUPS.join(np.array(workload.cluster.groups)[place])
        for place in workload.places
    ]
    shapes = workload.shapes.tolist()
    for k in range(workload.n_sets):
        job = workload.job_names[workload.set_job[k]]
        place, shape = places[workload.set_place[k]], shapes[workload.set_shape[k]]
        first, last = workload.first_task[k : k + 2]
        durations = workload.task_duration[first:last].tolist()
        if not n_recorded:
            yield from ([job, place, *shape, duration] for duration in durations)
            continue
        starts = map(_start_text, workload.task_start[first:last].tolist())
        servers = (
            _server_name(workload, server) if server >= 0 else ""
            for server in workload.task_server[first:last].tolist()
        )
        for duration, *recorded in zip(durations, starts, servers, strict=True):
            yield [job, place, *shape, duration, *recorded[:n_recorded]]


def _start_text(start: float) -> str | float:
    return "" if math.isnan(start) else NEVER if math.isinf(start) else start


def _server_name(workload: Workload, server: int) -> str:
    """Return the name of a server: its group's, and its number there."""
    group = int(np.searchsorted(workload.first_server, server, side="right")) - 1
    return f"{workload.cluster.groups[group]}-{server - workload.first_server[group]}"


def _events(workload: Workload) -> Iterator[list[Any]]:
    for time, event, server in zip(
        workload.server_time.tolist(), workload.server_event, workload.server.tolist(), strict=True
    ):
        yield [time, EVENT_NAMES[event], _server_name(workload, server)]


def read_folder(path: Path, *, on_progress: ProgressReport | None = None) -> Workload:
    """Read a folder that `write_folder` or a person wrote.

    Parameters
    ----------
    path : Path
        The folder; its files are plain, or gzipped and named ``jobs.csv.gz`` and the like.
    on_progress : callable, optional
        Called with the bytes read of the tasks' file and the bytes in it.

    Raises
    ------
    InputError
        For a file that is missing, or there both plain and gzipped, a wrong header, a row with a
        wrong number of columns, a value without meaning, an unknown name, or tasks not in the order
        of their jobs. It names file and row.

    Notes
    -----
    Cost O(J + T), 5 us a task; memory grows with the arrays, not with the text.
    """
    about = _about(_stored(path, MARKER))
    resources: tuple[str, ...] = tuple(about["resources"])
    cluster = _read_servers(_stored(path, SERVERS), resources, tuple(about["resources"].values()))
    users: dict[str, float] = {}
    users_file = _stored(path, USERS)
    for row in read_rows(users_file, USER_COLUMNS):
        _add(users, row, 0, "user", row.number(1, least=0.0))
    if not users:
        raise InputError("holds no user", "", str(users_file))
    jobs = _read_jobs(_stored(path, JOBS), {name: n for n, name in enumerate(users)})
    tasks = _read_tasks(_stored(path, TASKS), cluster, jobs["job_names"], on_progress)
    try:
        return Workload.from_arrays(
            cluster,
            list(users),
            weight=list(users.values()),
            **jobs,
            **tasks,
            **_read_events(_stored(path, EVENTS), cluster),
            origin=about["origin"],
            notes=about["notes"],
        )
    except ProblemError as error:
        raise _at_its_row(error, path) from None


def _stored(folder: Path, name: str) -> Path:
    """Return where a file of the folder is: gzipped if that is there, else plain."""
    plain, gzipped = folder / name, folder / f"{name}.gz"
    if plain.exists() and gzipped.exists():
        raise InputError("is there twice, plain and gzipped", "", str(gzipped))
    return gzipped if gzipped.exists() else plain


def _about(path: Path) -> dict[str, Any]:
    source = str(path)
    try:
        with faults_of_reading(source, lambda: 1), open_stored(path) as (stream, _, _):
            about = json.loads(stream.read().decode("utf-8-sig"))
    except ValueError as error:
        raise InputError(f"is not JSON: {error}", "", source) from None
    key = MARKER.replace(".json", "")
    if not isinstance(about, dict) or key not in about:
        raise InputError(f"has no key {key!r}", "", source)
    if about[key] != FORMAT_VERSION:
        fault = f"is a trace of version {about[key]!r}; version {FORMAT_VERSION} can be read"
        raise InputError(fault, key, source)
    resources = about.get("resources")
    if (
        not isinstance(resources, dict)
        or not resources
        or not all(isinstance(unit, str) for unit in resources.values())
    ):
        raise InputError("must name each resource with its unit", "resources", source)
    notes = about.get("notes", {})
    if not isinstance(notes, dict) or not all(type(count) is int for count in notes.values()):
        raise InputError("must be whole numbers by name", "notes", source)
    return {"resources": resources, "origin": str(about.get("origin", "")), "notes": notes}


def _read_servers(path: Path, resources: tuple[str, ...], units: tuple[str, ...]) -> Cluster:
    groups: dict[str, tuple[int, list[float], dict[str, str]]] = {}
    for row in read_rows(path, ("group", "count", *resources, "labels")):
        capacity = [row.number(2 + r, least=0.0) for r in range(len(resources))]
        group = (row.whole(1), capacity, _labels(row, 2 + len(resources)))
        _add(groups, row, 0, "group", group)
    if not groups:
        raise InputError("holds no group of servers", "", str(path))
    return Cluster(
        groups=tuple(groups),
        resources=resources,
        capacity=np.array([capacity for _, capacity, _ in groups.values()]),
        count=np.array([count for count, _, _ in groups.values()]),
        units=units,
        labels=tuple(labels for _, _, labels in groups.values()),
    )


def _labels(row: Row, column: int) -> dict[str, str]:
    text = row.fields[column]
    try:
        labels = json.loads(text) if text else {}
    except ValueError:
        labels = None
    if not isinstance(labels, dict) or not all(isinstance(v, str) for v in labels.values()):
        raise row.fault(column, "is no JSON object of texts")
    return labels


def _add(known: dict[str, Value], row: Row, column: int, what: str, value: Value) -> None:
    name = row.fields[column]
    if name in known:
        raise row.fault(column, f"is a {what} twice")
    if not name:
        raise row.fault(column, "is empty")
    known[name] = value


def _read_jobs(path: Path, users: dict[str, int]) -> dict[str, Any]:
    names: dict[str, None] = {}
    columns: dict[str, list[Any]] = {
        "job_user": [],
        "job_submit": [],
        "job_gang": [],
        "job_cancel": [],
        "job_limit": [],
    }
    for row in read_rows(path, JOB_COLUMNS, optional=LIMIT_COLUMNS):
        _add(names, row, 0, "job", None)
        if row.fields[1] not in users:
            raise row.fault(1, f"is no user of {USERS}")
        submit = row.number(2, least=0.0)
        if columns["job_submit"] and submit < columns["job_submit"][-1]:
            raise row.fault(2, "is before the row above")
        columns["job_user"].append(users[row.fields[1]])
        columns["job_submit"].append(submit)
        columns["job_gang"].append(truth(row, 3))
        columns["job_cancel"].append(row.number(4, least=submit) if row.fields[4] else math.inf)
        has_limit = len(row.fields) > len(JOB_COLUMNS) and row.fields[5]
        columns["job_limit"].append(row.number(5, least=0.0) if has_limit else math.inf)
    if not names:
        raise InputError("holds no job", "", str(path))
    return {"job_names": list(names), **columns}


def _read_tasks(
    path: Path, cluster: Cluster, jobs: list[str], on_progress: ProgressReport | None
) -> dict[str, Any]:
    collected = _TaskColumns(cluster, jobs)
    for row in read_rows(path, _task_columns(cluster), on_progress, RECORDED_COLUMNS):
        collected.add(row)
    missing = collected.job + 1
    if missing < len(jobs):
        raise InputError(f"has no task of job {jobs[missing]!r}", "", str(path))
    return collected.arrays()


class _TaskColumns:
    """Gathers tasks; those that follow each other with one shape and place become a set."""

    def __init__(self, cluster: Cluster, jobs: list[str]) -> None:
        self.job = -1
        self._jobs = jobs
        self._groups = cluster.groups
        self._shapes: dict[tuple[str, ...], int] = {}
        self._amounts: list[list[float]] = []
        self._places: dict[str, int] = {}
        self._allowed: list[list[bool]] = []
        self._sets: list[tuple[int, int, int]] = []
        self._tasks: list[int] = []
        self._durations: list[float] = []
        self._starts: list[float] = []
        self._servers: list[int] = []
        self._after_amounts = len(_task_columns(cluster)) - 1
        self._server_of = _server_numbers(cluster)

    def add(self, row: Row) -> None:
        name, place, *amounts = row.fields[: self._after_amounts]
        if self.job < 0 or name != self._jobs[self.job]:
            following = self._jobs[self.job + 1] if self.job + 1 < len(self._jobs) else None
            if name != following:
                expected = f"; {following!r} comes next" if following is not None else ""
                raise row.fault(0, f"is not in the order of {JOBS}{expected}")
            self.job += 1
        shape = _number_of(self._shapes, tuple(amounts), self._amounts, lambda: self._shape(row))
        where = _number_of(self._places, place, self._allowed, lambda: self._place(row))
        key = (self.job, shape, where)
        if not self._sets or self._sets[-1] != key:
            self._sets.append(key)
            self._tasks.append(0)
        self._tasks[-1] += 1
        duration = row.number(self._after_amounts, least=0.0)
        if duration == 0:
            raise row.fault(self._after_amounts, "is not positive")
        self._durations.append(duration)
        self._add_recorded(row, self._after_amounts + 1)

    def _add_recorded(self, row: Row, column: int) -> None:
        """Take when and where a task ran, if there are such columns."""
        start, server = (*row.fields[column:], "", "")[:2]
        if start == NEVER:
            self._starts.append(math.inf)
        else:
            self._starts.append(row.number(column, least=0.0) if start else math.nan)
        self._servers.append(self._server_of(row, column + 1) if server else -1)

    def _shape(self, row: Row) -> list[float]:
        amounts = [row.number(c, least=0.0) for c in range(2, self._after_amounts)]
        if not any(amounts):
            raise row.fault(0, "takes nothing of any resource")
        return amounts

    def _place(self, row: Row) -> list[bool]:
        if not row.fields[1]:
            return [True] * len(self._groups)
        names = set(row.fields[1].split(BETWEEN_GROUPS))
        if not names <= set(self._groups):
            raise row.fault(1, f"names no groups of {SERVERS}")
        return [group in names for group in self._groups]

    def arrays(self) -> dict[str, Any]:
        """Return the arguments of `Workload.from_arrays`."""
        sets = np.array(self._sets, dtype=np.int32).reshape(-1, 3)
        return {
            "set_job": sets[:, 0],
            "set_shape": sets[:, 1],
            "set_place": sets[:, 2],
            "set_tasks": self._tasks,
            "shapes": self._amounts,
            "places": self._allowed,
            "task_duration": self._durations,
            "task_start": self._starts,
            "task_server": self._servers,
        }


def _number_of(known: dict[Any, int], key: Any, values: list[Any], make: Callable[[], Any]) -> int:
    """Return the number of a key, adding its value when it is new."""
    if key not in known:
        values.append(make())
        known[key] = len(known)
    return known[key]


def _server_numbers(cluster: Cluster) -> Callable[[Row, int], int]:
    """Return what finds the number of the server that a column names."""
    first = dict(zip(cluster.groups, np.cumsum(cluster.count) - cluster.count, strict=True))
    count = dict(zip(cluster.groups, cluster.count, strict=True))

    def number_of(row: Row, column: int) -> int:
        group, _, number = row.fields[column].rpartition("-")
        if not re.fullmatch(r"[0-9]{1,10}", number) or int(number) >= count.get(group, 0):
            raise row.fault(column, f"is no server of {SERVERS}, such as {cluster.groups[0]}-0")
        return int(first[group]) + int(number)

    return number_of


def _read_events(path: Path, cluster: Cluster) -> dict[str, Any]:
    server_of = _server_numbers(cluster)
    times: list[float] = []
    events: list[int] = []
    servers: list[int] = []
    if not path.exists():
        return {}
    for row in read_rows(path, EVENT_COLUMNS):
        server = server_of(row, 2)
        if row.fields[1] not in EVENT_NAMES:
            raise row.fault(1, f"is none of {', '.join(EVENT_NAMES)}")
        times.append(row.number(0, least=0.0))
        events.append(EVENT_NAMES.index(row.fields[1]))
        servers.append(server)
    return {"server_time": times, "server_event": events, "server": servers}


def _at_its_row(error: ProblemError, path: Path) -> InputError:
    """Say in which file and row the entry is that a workload refused."""
    match = re.fullmatch(r"([a-z ]+)\[([0-9]+)\](?:\.(\w+))?", error.place)
    if match is None or match[1] not in _FILE_OF_ENTRY:
        return InputError(error.fault, error.place, str(path))
    fault = f"{match[3]}: {error.fault}" if match[3] else error.fault
    file = _stored(path, _FILE_OF_ENTRY[match[1]])
    return InputError(fault, f"row {int(match[2]) + 2}", str(file))
