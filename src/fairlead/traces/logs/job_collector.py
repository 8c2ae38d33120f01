"""Collect the jobs of a log one by one into a workload; check options about servers."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from math import inf, nan
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload
from fairlead.model.workload_checks import MOST_SERVERS
from fairlead.traces._stored_files import error_source

Shape = tuple[float, ...]
Place = tuple[bool, ...]
Kind = TypeVar("Kind")
Name = TypeVar("Name")
# A task takes some 90 bytes while a workload is built: 4.5 GB at this limit.
MOST_TASKS = 50_000_000
LARGEST_GIVEN = 10**9  # largest number of cores, GiB, GPUs or nodes in an option or a field
UNITS = {"cpu": "cores", "memory": "GiB", "gpu": "GPUs"}
NO_LABELS: Mapping[str, str] = {}
EARLIEST_DATE = 1e8  # 1973; smaller times are seconds from the start of a log
HALF_SECOND = 0.5  # duration of a run within one second, in a log with whole seconds
OUT_OF_ORDER = "jobs submitted before the job of an earlier row; jobs are sorted by submission"
# Notes of several formats.
ROUNDED_UP = "jobs that ended in the second of their start, taken as half a second"
EARLY_START = "jobs that started before their submission, taken as submitted at their start"
NO_USER = "jobs whose user is not known; they are one user"


def group_equal(kind_of: Mapping[Name, Kind]) -> tuple[dict[Kind, list[Name]], dict[Name, int]]:
    """Group machines of equal kind.

    Returns the machines of each kind, and the number of each machine counted through the groups.
    """
    groups: dict[Kind, list[Name]] = {}
    for name, kind in kind_of.items():
        groups.setdefault(kind, []).append(name)
    return groups, {name: k for k, name in enumerate(chain.from_iterable(groups.values()))}


class JobCollector:
    """Collects the jobs of a log as numbers, not text.

    A reader counts dropped, repaired and simplified records in `notes`.
    """

    def __init__(self) -> None:
        self.notes: Counter[str] = Counter()
        self._names: dict[str, None] = {}
        self._users: dict[str, int] = {}
        self._shapes: dict[Shape, int] = {}
        self._places: dict[Place | None, int] = {}  # None: everywhere
        self._job_user, self._job_submit = array("i"), array("d")
        self._job_gang, self._sets_of_job = array("b"), array("i")
        self._job_limit, self._job_cancel = array("d"), array("d")
        self._set_shape, self._set_place, self._set_tasks = array("i"), array("i"), array("i")
        self._duration, self._start, self._server = array("d"), array("d"), array("q")

    def add_job(
        self,
        name: str,
        user: str,
        submit: float,
        *,
        gang: bool = False,
        limit: float = inf,
        cancel: float = inf,
    ) -> None:
        """Begin a job; calls of `add_tasks` follow. Raises InputError for a repeated name.

        `submit`, and `cancel` (when its user withdraws it), are seconds on the log's clock. `limit`
        is the time limit of a task in seconds; 0 or less is none.
        """
        if name in self._names:
            raise InputError(f"duplicate job {name!r}")
        self._names[name] = None
        self._job_user.append(self._users.setdefault(user, len(self._users)))
        self._job_submit.append(submit)
        self._job_gang.append(gang)
        self._job_limit.append(limit if limit > 0 else inf)
        self._job_cancel.append(cancel)
        self._sets_of_job.append(0)

    def check_task_count(self, tasks: int, column: str) -> None:
        """Raise InputError if the workload would get more than `MOST_TASKS` tasks.

        `tasks` is the number to be added, from `column`. Call this before the tasks are listed: a
        number with a digit too many would fill memory.
        """
        if len(self._duration) + tasks > MOST_TASKS:
            raise InputError(f"{column}: {tasks:,} make more than {MOST_TASKS:,} tasks in all")

    def add_tasks(
        self,
        shape: Shape,
        place: Place | None,
        durations: Iterable[float],
        *,
        start: float = nan,
        servers: Sequence[int] | None = None,
    ) -> None:
        """Add a set of equal tasks to the last job.

        - `shape` (R,): amounts of a task;
        - `place` (G,): whether a group is allowed; None if all are;
        - `durations`: seconds of each task;
        - `start`: of all tasks, on the clock of `submit`; NaN if unknown;
        - `servers`: the number of each task's server, -1 if unknown.
        """
        before = len(self._duration)
        self._duration.extend(durations)
        n_tasks = len(self._duration) - before
        self._start.extend(repeat(start, n_tasks))
        self._server.extend(repeat(-1, n_tasks) if servers is None else servers)
        self._sets_of_job[-1] += 1
        self._set_shape.append(self._shapes.setdefault(shape, len(self._shapes)))
        allowed = None if place is None or all(place) else place
        self._set_place.append(self._places.setdefault(allowed, len(self._places)))
        self._set_tasks.append(n_tasks)

    def workload(
        self,
        path: Path,
        cluster: Cluster,
        origin: str,
        *,
        user_order: Callable[[str], Any] | None = None,
        first: float | None = None,
        start_date: float | None = None,
    ) -> Workload:
        """Return the workload, with jobs in order of submission and then of the log.

        - `origin` is the kind of log, to which the name of the path is added;
        - `user_order` is the sort key of users; by default they are in order of their first job;
        - `first` is the time of the log's clock that becomes second 0, by default the first
          submission of the jobs. From `EARLIEST_DATE` on it is in seconds since 1970;
        - `start_date` is the date of second 0, if the log's clock does not show it.
        """
        if not self._names:
            fault = f"holds no job that ever ran{in_brackets(self.notes)}"
            raise InputError(fault, "", str(path))
        submit, start = np.frombuffer(self._job_submit), np.frombuffer(self._start)
        cancel = np.frombuffer(self._job_cancel)
        first = float(submit.min()) if first is None else first
        submit, start, cancel = submit - first, start - first, cancel - first
        if first >= EARLIEST_DATE:
            start_date = first
        self.notes[OUT_OF_ORDER] += int((submit < np.maximum.accumulate(submit)).sum())
        origin = f"{origin} {path.name}"
        if first and start_date is None:
            origin = f"{origin}, time from second {first:.15g} of its clock"
        order = np.argsort(submit, kind="stable")
        sets_of_job = np.frombuffer(self._sets_of_job, dtype=np.int32)
        sets = rows_in_order(sets_of_job, order)
        set_tasks = np.frombuffer(self._set_tasks, dtype=np.int32)
        names = sorted(self._users, key=user_order) if user_order else list(self._users)
        position = np.empty(len(names), dtype=np.int32)
        position[[self._users[name] for name in names]] = np.arange(len(names))
        tasks = rows_in_order(set_tasks, sets)
        with error_source(str(path)):
            return Workload.from_arrays(
                cluster,
                names,
                job_names=np.array(list(self._names))[order],
                job_user=position[np.frombuffer(self._job_user, dtype=np.int32)[order]],
                job_submit=submit[order],
                job_gang=np.frombuffer(self._job_gang, dtype=np.int8)[order].astype(bool),
                job_limit=np.frombuffer(self._job_limit)[order],
                job_cancel=cancel[order],
                set_job=np.repeat(np.arange(len(order), dtype=np.int32), sets_of_job[order]),
                set_shape=np.frombuffer(self._set_shape, dtype=np.int32)[sets],
                set_place=np.frombuffer(self._set_place, dtype=np.int32)[sets],
                set_tasks=set_tasks[sets],
                shapes=list(self._shapes),
                places=[(True,) * len(cluster.groups) if p is None else p for p in self._places],
                task_duration=np.frombuffer(self._duration)[tasks],
                task_start=start[tasks],
                task_server=np.frombuffer(self._server, dtype=np.int64)[tasks],
                origin=origin,
                start_date=start_date,
                notes=without_zeros(self.notes),
            )


def without_zeros(notes: Mapping[str, int]) -> dict[str, int]:
    """Return the notes whose count is above 0, in alphabetical order."""
    return {what: count for what, count in sorted(notes.items()) if count}


def in_brackets(notes: Mapping[str, int]) -> str:
    """Return the notes as text such as `` (jobs left out: 2)``; empty without notes."""
    listed = "; ".join(f"{what}: {count:,}" for what, count in without_zeros(notes).items())
    return f" ({listed})" if listed else ""


def divide_amounts(totals: Mapping[str, float], tasks: int) -> list[tuple[Shape, int]]:
    """Divide the amounts of a job among its tasks; return each shape with its number of tasks.

    Whole numbers are divided in whole numbers, larger shares first; memory is divided evenly.
    """
    shapes: Counter[Shape] = Counter()
    for task in range(tasks):
        amounts = []
        for resource, total in totals.items():
            if resource == "memory" or not float(total).is_integer():
                amounts.append(total / tasks)
            else:
                each, more = divmod(int(total), tasks)
                amounts.append(float(each + (task < more)))
        shapes[tuple(amounts)] += 1
    return list(shapes.items())


def rows_in_order(counts: Any, order: Any) -> Any:
    """Return the indices that sort rows by a new order of their owners.

    Rows are stored owner by owner, `counts[k]` rows for owner k. `order` has the owners in the new
    order.
    """
    position = np.argsort(order)
    return np.argsort(np.repeat(position, counts), kind="stable")


def check_server_options(
    servers: int | None, cores: int | None, memory: float | None = None
) -> None:
    """Raise InputError if a number is out of range, or only one of the first two is given."""
    if (servers is None) != (cores is None):
        given, missing = ("--servers", "--cores") if cores is None else ("--cores", "--servers")
        raise InputError(f"needs {missing} as well", given)
    for name, number, largest in (
        ("--servers", servers, MOST_SERVERS),
        ("--cores", cores, LARGEST_GIVEN),
        ("--memory", memory, LARGEST_GIVEN),
    ):
        if number is not None and not 0 < number <= largest:
            raise InputError(f"must be a positive number, at most {largest:,}, not {number}", name)


def check_user_from(user_from: str | None, known: Sequence[str]) -> None:
    """Raise InputError for a ``--user-from`` that is not a known column."""
    if user_from is not None and user_from not in known:
        raise InputError(f"must be one of {', '.join(known)}, not {user_from!r:.60}", "--user-from")


def equal_servers(
    group: str, count: int, capacity: Mapping[str, float], labels: Mapping[str, str] = NO_LABELS
) -> Cluster:
    """Return a cluster of one group of equal servers."""
    return Cluster(
        groups=(group,),
        resources=tuple(capacity),
        capacity=np.array([list(capacity.values())], dtype=np.float64),
        count=np.array([count], dtype=np.int64),
        units=tuple(UNITS[resource] for resource in capacity),
        labels=(labels,),
    )
