"""Jobs collected one by one from a log and made into a workload, and servers given by options."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from math import inf, nan
from typing import Any

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster, IntArray
from fairlead.model.workload import Workload
from fairlead.model.workload_checks import MOST_SERVERS

Shape = tuple[float, ...]
Place = tuple[bool, ...]
# A task takes some 90 bytes while a workload is made, which is 4.5 GB for these.
MOST_TASKS = 50_000_000
LARGEST_POOL = 10**9
EARLIEST_DATE = 1e8  # 1973; smaller times count from the start of a log
HALF_SECOND = 0.5  # of a run that ends in the second of its start, where times are whole seconds
OUT_OF_ORDER = "jobs submitted before the job of an earlier row; jobs are sorted by submission"
# Notes of several formats.
ROUNDED_UP = "jobs that ended in the second of their start, taken as half a second"
EARLY_START = "jobs that started before their submission, taken as submitted at their start"
NO_USER = "jobs whose user is not known; they are one user"


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
        """Begin a job, its sets of tasks follow; raises InputError, placeless, for a name in use.

        `submit`, and `cancel` when its user withdraws it, are seconds from the start of the trace;
        a `limit`, seconds of a task, counts if positive.
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

    def refuse_beyond(self, tasks: int, what: str) -> None:
        """Raise InputError if these further tasks are more than a workload may have.

        `what` names the number in the log. Call this before listing the tasks: one digit too many
        would take all memory.
        """
        if len(self._duration) + tasks > MOST_TASKS:
            raise InputError(f"{what}: {tasks:,} make more than {MOST_TASKS:,} tasks in all")

    def add_tasks(
        self,
        shape: Shape,
        place: Place | None,
        durations: Iterable[float],
        *,
        start: float = nan,
        servers: Sequence[int] | None = None,
    ) -> None:
        """Add equal tasks to the last job: (R,) amounts each, (G,) place, durations in seconds.

        Without a place they may run everywhere. `start` is on the clock of submissions, NaN if
        unknown; `servers` are numbers of servers, -1 if unknown (of the log, see `workload`).
        """
        before = len(self._duration)
        self._duration.extend(durations)
        n_tasks = len(self._duration) - before
        self._start.extend(repeat(start, n_tasks))
        self._server.extend(repeat(-1, n_tasks) if servers is None else servers)
        self._sets_of_job[-1] += 1
        self._set_shape.append(self._shapes.setdefault(shape, len(self._shapes)))
        where = None if place is None or all(place) else place
        self._set_place.append(self._places.setdefault(where, len(self._places)))
        self._set_tasks.append(n_tasks)

    def workload(
        self,
        cluster: Cluster,
        origin: str,
        *,
        user_order: Callable[[str], Any] | None = None,
        from_first: bool = False,
        first: float = 0.0,
        start_date: float | None = None,
        has_dates: bool = False,
        server_numbers: Mapping[int, int] | None = None,
    ) -> Workload:
        """Return the workload; jobs of one instant keep the order of the log.

        `from_first` subtracts the first submission from all times; `first` is its time on the log's
        clock where the reader subtracted it. With `has_dates` that clock is seconds since 1970,
        unless its times are small; else `start_date` is the date of the first submission.
        `server_numbers` maps the log's own numbers of servers to the cluster's, where they differ;
        others are unknown. Without `user_order` users come by first job.
        """
        if not self._names:
            raise InputError(f"holds no job that ever ran{in_brackets(self.notes)}")
        submit, start = np.frombuffer(self._job_submit), np.frombuffer(self._start)
        cancel = np.frombuffer(self._job_cancel)
        if from_first:
            first = float(submit.min())
            submit, start, cancel = submit - first, start - first, cancel - first
        if has_dates and first >= EARLIEST_DATE:
            start_date = first
        self.notes[OUT_OF_ORDER] += int((submit < np.maximum.accumulate(submit)).sum())
        if first and start_date is None:
            origin = f"{origin}, time from second {first:.15g} of its clock"
        order = np.argsort(submit, kind="stable")
        sets_of_job = np.frombuffer(self._sets_of_job, dtype=np.int32)
        sets = _rows_in_order(sets_of_job, order)
        set_tasks = np.frombuffer(self._set_tasks, dtype=np.int32)
        names = sorted(self._users, key=user_order) if user_order else list(self._users)
        position = np.empty(len(names), dtype=np.int32)
        position[[self._users[name] for name in names]] = np.arange(len(names))
        tasks = _rows_in_order(set_tasks, sets)
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
            task_server=self._servers(server_numbers)[tasks],
            origin=origin,
            start_date=start_date,
            notes=counted(self.notes),
        )

    def _servers(self, numbers: Mapping[int, int] | None) -> IntArray:
        """Return the cluster's server of each task, -1 for unknown ones."""
        found = np.frombuffer(self._server, dtype=np.int64)
        if numbers is None:
            return found
        known, of_task = np.unique(found, return_inverse=True)
        servers: IntArray = np.array([numbers.get(number, -1) for number in known.tolist()])[
            of_task
        ]
        return servers


def counted(notes: Mapping[str, int]) -> dict[str, int]:
    """Return the notes that apply, in alphabetical order."""
    return {what: count for what, count in sorted(notes.items()) if count}


def in_brackets(notes: Mapping[str, int]) -> str:
    """Return the notes that apply as a text such as `` (jobs left out: 2)``; empty without any."""
    listed = "; ".join(f"{what}: {count:,}" for what, count in counted(notes).items())
    return f" ({listed})" if listed else ""


def _rows_in_order(counts: Any, order: Any) -> Any:
    """Return the indices of rows in their owners' order; owner k has the next `counts[k]` rows."""
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    sizes = counts[order]
    offsets = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(first[order], sizes) + offsets


def check_given(servers: int | None, cores: int | None, memory: float | None = None) -> None:
    """Refuse ``--servers`` without ``--cores``, the reverse, and numbers out of range."""
    if (servers is None) != (cores is None):
        given, missing = ("--servers", "--cores") if cores is None else ("--cores", "--servers")
        raise InputError(f"needs {missing} as well", given)
    for name, number, most in (
        ("--servers", servers, MOST_SERVERS),
        ("--cores", cores, LARGEST_POOL),
        ("--memory", memory, LARGEST_POOL),
    ):
        if number is not None and not 0 < number <= most:
            raise InputError(f"must be a positive number, at most {most:,}, not {number}", name)


def check_user_from(user_from: str | None, known: Sequence[str]) -> None:
    """Refuse ``--user-from`` for a column that names no users."""
    if user_from is not None and user_from not in known:
        raise InputError(f"must be one of {', '.join(known)}, not {user_from!r:.60}", "--user-from")


def equal_servers(group: str, count: int, cores: float, memory: float | None = None) -> Cluster:
    """Return one group of equal servers; without memory (GiB of each) it is no resource."""
    capacity = [float(cores)] if memory is None else [float(cores), memory]
    return Cluster(
        groups=(group,),
        resources=("cpu", "memory")[: len(capacity)],
        capacity=np.array([capacity]),
        count=np.array([count]),
        units=("cores", "GiB")[: len(capacity)],
        labels=({},),
    )
