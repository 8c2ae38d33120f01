"""Jobs gathered one by one from a trace, then made into a workload."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from math import inf, nan
from typing import Any

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload

Shape = tuple[float, ...]
Place = tuple[bool, ...]


class JobCollector:
    """Gathers jobs as a reader meets them; keeps numbers, not text.

    Attributes
    ----------
    notes : Counter of str
        What the reader dropped, repaired or simplified; a reader adds to it.
    """

    def __init__(self) -> None:
        self.notes: Counter[str] = Counter()
        self._names: dict[str, None] = {}
        self._users: dict[str, int] = {}
        self._shapes: dict[Shape, int] = {}
        self._places: dict[Place, int] = {}
        self._job_user, self._job_submit = array("i"), array("d")
        self._job_gang, self._sets_of_job = array("b"), array("i")
        self._job_limit = array("d")
        self._set_shape, self._set_place, self._set_tasks = array("i"), array("i"), array("i")
        self._duration, self._start, self._server = array("d"), array("d"), array("q")

    def add_job(
        self, name: str, user: str, submit: float, *, gang: bool = False, limit: float = inf
    ) -> None:
        """Begin a job; its sets of tasks follow.

        Parameters
        ----------
        name, user : str
            The job and whose it is.
        submit : float
            Seconds from the start of the trace.
        gang : bool
            Whether all of its tasks start together.
        limit : float
            Seconds for which each task runs at the most, if anybody said; not positive if not.

        Raises
        ------
        InputError
            When there is a job of that name; it names no place, which the reader knows.
        """
        if name in self._names:
            raise InputError(f"duplicate job {name!r}")
        self._names[name] = None
        self._job_user.append(self._users.setdefault(user, len(self._users)))
        self._job_submit.append(submit)
        self._job_gang.append(gang)
        self._job_limit.append(limit if limit > 0 else inf)
        self._sets_of_job.append(0)

    def add_tasks(
        self,
        shape: Shape,
        place: Place,
        durations: Iterable[float],
        *,
        start: float = nan,
        servers: Sequence[int] | None = None,
    ) -> None:
        """Add a set of equal tasks to the job that was begun last.

        Parameters
        ----------
        shape : tuple of R floats
            What each takes.
        place : tuple of G bools
            Groups where they may run.
        durations : iterable of float
            Seconds, one for each task.
        start : float
            When they started, on the clock of the submissions; not a number where the log does not
            say.
        servers : sequence of int, optional
            Where each ran, by the log's own numbers, from 0; -1 where it does not say.
        """
        before = len(self._duration)
        self._duration.extend(durations)
        n_tasks = len(self._duration) - before
        self._start.extend(repeat(start, n_tasks))
        self._server.extend(repeat(-1, n_tasks) if servers is None else servers)
        self._sets_of_job[-1] += 1
        self._set_shape.append(self._shapes.setdefault(shape, len(self._shapes)))
        self._set_place.append(self._places.setdefault(place, len(self._places)))
        self._set_tasks.append(n_tasks)

    def __len__(self) -> int:
        return len(self._job_submit)

    def workload(
        self,
        cluster: Cluster,
        origin: str,
        *,
        user_order: Callable[[str], Any] | None = None,
        from_first: bool = False,
        first: float = 0.0,
        server_numbers: Mapping[int, int] | None = None,
        server_events: tuple[Any, Any, Any] = ((), (), ()),
    ) -> Workload:
        """Return the workload; jobs of one instant stay in the order they were added in.

        Parameters
        ----------
        cluster : Cluster
            All servers.
        origin : str
            Where the trace comes from.
        user_order : callable, optional
            Sort key of users by name; the order of their first jobs when absent.
        from_first : bool
            Whether the times given count from a moment before the first submission.
        first : float
            What the log's own clock says at the first submission, where that has been taken off.
        server_numbers : mapping of int to int, optional
            The servers of the cluster by the log's own numbers; one that is not there is not known.
        server_events : (time, event, server) arrays
            See `Workload`.

        Raises
        ------
        InputError
            When there is no job, or a number has no meaning.

        Notes
        -----
        Cost that of `Workload.from_arrays`.
        """
        if not len(self):
            raise InputError("holds no job that ever ran")
        submit, start = np.frombuffer(self._job_submit), np.frombuffer(self._start)
        if from_first:
            first = float(submit.min())
            submit, start = submit - first, start - first
        order = np.argsort(submit, kind="stable")
        sets_of_job = np.frombuffer(self._sets_of_job, dtype=np.int32)
        sets = _rows_in_order(sets_of_job, order)
        set_tasks = np.frombuffer(self._set_tasks, dtype=np.int32)
        names = sorted(self._users, key=user_order) if user_order else list(self._users)
        position = np.empty(len(names), dtype=np.int32)
        position[[self._users[name] for name in names]] = np.arange(len(names))
        tasks = _rows_in_order(set_tasks, sets)
        times, events, servers = server_events
        return Workload.from_arrays(
            cluster,
            names,
            job_names=np.array(list(self._names))[order],
            job_user=position[np.frombuffer(self._job_user, dtype=np.int32)[order]],
            job_submit=submit[order],
            job_gang=np.frombuffer(self._job_gang, dtype=np.int8)[order].astype(bool),
            job_limit=np.frombuffer(self._job_limit)[order],
            set_job=np.repeat(np.arange(len(order), dtype=np.int32), sets_of_job[order]),
            set_shape=np.frombuffer(self._set_shape, dtype=np.int32)[sets],
            set_place=np.frombuffer(self._set_place, dtype=np.int32)[sets],
            set_tasks=set_tasks[sets],
            shapes=list(self._shapes),
            places=list(self._places),
            task_duration=np.frombuffer(self._duration)[tasks],
            task_start=start[tasks],
            task_server=_renumbered(self._server, server_numbers or {})[tasks],
            server_time=times,
            server_event=events,
            server=servers,
            origin=f"{origin}, time from second {first:.15g} of its clock" if first else origin,
            notes={what: count for what, count in sorted(self.notes.items()) if count},
        )


def _renumbered(found: array[int], numbers: Mapping[int, int]) -> Any:
    """Return the servers of the cluster that these numbers of the log mean, -1 for unknown ones."""
    known, of_task = np.unique(np.frombuffer(found, dtype=np.int64), return_inverse=True)
    return np.array([numbers.get(number, -1) for number in known.tolist()], dtype=np.int32)[of_task]


def _rows_in_order(counts: Any, order: Any) -> Any:
    """Return the indices of rows, `counts` of which belong to each owner, by the owners' order."""
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    sizes = counts[order]
    offsets = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(first[order], sizes) + offsets
