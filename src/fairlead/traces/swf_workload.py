"""Any log in Standard Workload Format as a workload, on one pool of processors or on servers.

The format knows processors, not nodes: simulators of the field (those of the Parallel Workloads
Archive, Alea, Batsim) give a job p processors of one pool, all at once. So a job is here, too:
without further word, one task of p processors on one server that has all of them (the header's
``MaxProcs``, else ``MaxNodes``). With servers given, a job is a gang of p tasks of one core,
wherever they fit; what nodes a job really had, the format does not say.
"""

from __future__ import annotations

from itertools import repeat
from math import nan
from pathlib import Path

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload
from fairlead.traces.collecting import JobCollector
from fairlead.traces.given_servers import check_given, equal_servers
from fairlead.traces.lines import ProgressReport
from fairlead.traces.swf import (
    UNKNOWN,
    SwfHeader,
    SwfRow,
    note_excerpt,
    note_unused_columns,
    read_header,
    read_swf,
)

KIB_PER_GIB = 2**20
# Rows of status 2 to 4 are parts of a job whose row of status 0 or 1 sums them up.
PARTS_OF_JOBS = frozenset({2, 3, 4})
COMPLETED = 1
# The format rounds run times: 0 stands for less than half a second.
LESS_THAN_HALF = 0.5

NEVER_RAN = "jobs left out, as they never ran"
NO_SUBMISSION = "jobs left out, as their submission is not known"
PARTS = "rows left out, as they are parts of a job that another row sums up"
NO_PROCESSORS = "jobs left out, as their processors are not known"
ROUNDED_UP = "jobs of less than half a second, taken as half a second"
USED_MEMORY = "jobs whose requested memory is not known; what they used stands in"
NO_MEMORY = "jobs whose memory is not known, taken as none"
NO_START = "jobs whose start the log does not say"
NO_USER = "jobs whose user is not known; they are one user"


def read_swf_workload(
    path: Path,
    *,
    servers: int | None = None,
    cores: int | None = None,
    memory: float | None = None,
    on_progress: ProgressReport | None = None,
) -> Workload:
    """Read a log in Standard Workload Format.

    A job has the processors it requested, else those allocated to it; with `memory`, the memory it
    requested for each processor, else what it used, else none; it lasts as long as it ran, and its
    limit is the time it requested (column 9). It started when its wait (column 3) was over; on
    which servers, the format does not say.

    Parameters
    ----------
    path : Path
        The log, compressed or plain.
    servers, cores : int, optional
        Number of servers and cores of each; both or neither. One server with the processors of
        the header when absent.
    memory : float, optional
        GiB of one server; memory is no resource when absent.
    on_progress : callable, optional
        See `read_lines`.

    Returns
    -------
    Workload
        Users ``user-<id>`` by ascending id; one group ``pool`` or ``server``; times from the
        first submission. Notes count what was left out or filled in.

    Raises
    ------
    InputError
        For whatever `read_swf` refuses, a submission before that of the row above (the format sorts
        them), a job number that occurs twice, more than `MOST_TASKS` tasks in all, or a
        header that does not say how many processors there are. It names file and row.

    Notes
    -----
    Cost O(rows), 23 us each, and O(processors of all jobs) on servers.

    Source: D. Feitelson and others, "The standard workload format", version 2.2.
    """
    header = read_header(path)
    cluster = _cluster(header, servers, cores, memory)
    collected = JobCollector()
    start = latest = None
    jobs = 0
    for row in read_swf(path, progress=on_progress):
        jobs += row.status not in PARTS_OF_JOBS
        if row.submit == UNKNOWN:
            collected.notes[NO_SUBMISSION] += 1
            continue
        if start is None or latest is None:
            start = latest = row.submit
        try:
            if row.submit < latest:
                fault = f"column 2 (submit time): {row.submit:.15g} is before the row above"
                raise InputError(fault)
            _collect(row, row.submit - start, collected, servers is not None, memory is not None)
        except InputError as error:
            raise InputError(error.fault, f"row {row.row}", str(path)) from None
        latest = row.submit
    note_excerpt(header, jobs, collected.notes)
    try:
        return collected.workload(
            cluster, f"SWF log {path.name}", user_order=_number_in_name, first=start or 0.0
        )
    except InputError as error:
        raise InputError(error.fault, error.place, str(path)) from None


def _number_in_name(user: str) -> int:
    number = user.removeprefix("user-")
    return int(number) if number.isdigit() else -1


def _cluster(
    header: SwfHeader,
    servers: int | None,
    cores: int | None,
    memory: float | None,
) -> Cluster:
    check_given(servers, cores, memory)
    if servers is None or cores is None:
        return equal_servers("pool", 1, _processors(header), memory)
    return equal_servers("server", servers, cores, memory)


def _processors(header: SwfHeader) -> int:
    """Return how many processors the header of a log says there are."""
    for name in ("MaxProcs", "MaxNodes"):
        number = header.number(name)
        if number:
            return number
    fault = "its header names no MaxProcs or MaxNodes; say --servers and --cores"
    raise InputError(fault, "", header.source)


def _collect(
    row: SwfRow, submit: float, collected: JobCollector, on_servers: bool, with_memory: bool
) -> None:
    notes = collected.notes
    processors = row.cores_requested if row.cores_requested > 0 else row.cores_allocated
    rounded = row.run == 0 and row.status == COMPLETED
    for reason, wrong in (
        (PARTS, row.status in PARTS_OF_JOBS),
        (NEVER_RAN, row.run <= 0 and not rounded),
        (NO_PROCESSORS, processors <= 0),
    ):
        if wrong:
            notes[reason] += 1
            return
    note_unused_columns(row, notes)
    notes[ROUNDED_UP] += rounded
    notes[NO_USER] += row.user < 0
    user = f"user-{row.user}" if row.user >= 0 else "user-unknown"
    tasks, of_task = (processors, 1) if on_servers else (1, processors)
    column = "8 (cores requested)" if row.cores_requested > 0 else "5 (cores allocated)"
    collected.refuse_beyond(tasks, f"column {column}")
    shape: tuple[float, ...] = (float(of_task),)
    if with_memory:
        notes[USED_MEMORY] += row.memory_requested < 0 <= row.memory_used
        notes[NO_MEMORY] += row.memory_requested < 0 and row.memory_used < 0
        kib = row.memory_requested if row.memory_requested >= 0 else max(row.memory_used, 0.0)
        shape = (*shape, of_task * kib / KIB_PER_GIB)
    collected.add_job(str(row.job), user, submit, gang=tasks > 1, limit=row.walltime)
    notes[NO_START] += row.wait < 0
    collected.add_tasks(
        shape,
        (True,),
        repeat(LESS_THAN_HALF if rounded else row.run, tasks),
        start=submit + row.wait if row.wait >= 0 else nan,
    )
