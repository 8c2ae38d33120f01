"""Read logs of MetaCentrum's PBS, as published with the Alea simulator.

The format is the Standard Workload Format with three more columns: the host of every core in
braces, the name of the queue, and the node specification. Requested memory is in bytes per node.

Each node of a job is a task, and the nodes of a job are a gang. Nodes of different sizes are
several sets of tasks of the gang.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import inf, nan
from pathlib import Path

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload
from fairlead.traces._stored_files import (
    ProgressReport,
    error_source,
    uncompressed_name,
)
from fairlead.traces.logs.job_collector import JobCollector, Place, Shape
from fairlead.traces.logs.metacentrum_machines import (
    Machines,
    NodeSpec,
    parse_node_spec,
    read_machines,
)
from fairlead.traces.logs.swf import (
    UNKNOWN,
    SwfRow,
    note_excerpt,
    number_in_name,
    read_header,
    read_swf,
)

RESOURCES = ("cpu", "memory")
UNITS = ("cores", "GiB")
GIB = 2**30

EXTRA_COLUMNS = ("hosts", "queue name", "node specification")

NEVER_RAN = "jobs left out, as they never ran"
NODE_NAMED = "jobs that name single nodes, read as the group of those nodes"
NODE_EXCLUDED = "jobs that exclude single nodes; the exclusion is ignored"
WHOLE_NODES = "jobs with exclusive nodes, read as requests for whole nodes"
NOT_WHOLE_NODES = "jobs with exclusive nodes of several kinds, whose exclusiveness is ignored"
NO_START = "jobs whose start is not in the log"
CORES_OF_SPEC = "jobs whose cores differ from their node specification, spread over their nodes"


@dataclass(slots=True)
class LoggedJob:
    """A job of a log."""

    row: SwfRow  # here `memory_requested` is in bytes per node
    cores: int  # of the whole job
    spec: NodeSpec  # the requested nodes, whose tasks start together

    @property
    def cores_per_node(self) -> float:
        """Cores on each node; the mean for a job with nodes of several sizes."""
        return self.cores / self.spec.nodes


def machine_file_beside(log: Path) -> Path:
    """Return the conventional machine file of a log: ``x.swf.machines`` for ``x.swf.gz``."""
    plain = uncompressed_name(log)
    return plain.with_name(plain.name + ".machines")


def machines_of(log: Path, machines: Path | None) -> Machines:
    """Read the given machine file, else the conventional one; raise InputError if it is absent."""
    machine_file = machine_file_beside(log) if machines is None else machines
    if not machine_file.exists():
        fault = "there is no such machine file; name one with --machines"
        raise InputError(fault, "", str(machine_file))
    return read_machines(machine_file)


def read_metacentrum(
    path: Path, *, machines: Path | None = None, on_progress: ProgressReport | None = None
) -> Workload:
    """Read a MetaCentrum log and its machine file, O(rows), about 35 us each.

    - The machine file of ``x.swf.gz`` is ``x.swf.machines`` in the same folder, unless `machines`
      is given.
    - Times are seconds from the first submission. A task starts at the end of its job's wait, and
      lasts for the job's run time.
    - Recorded servers are unknown, as the machine file does not tell the groups of the log's hosts.
    - Tasks with exclusive nodes (``#excl``) request whole nodes if all nodes open to them are
      equal, otherwise the stated cores and memory.
    - Users are ``user-<id>`` by ascending id.
    """
    park = machines_of(path, machines)
    cluster = cluster_of(park)
    reader = _Reader(park)
    first, jobs = inf, 0
    with error_source(str(path), lambda: f"row {job.row.row}"):
        for job in read_jobs(path, on_progress):
            first = min(first, job.row.submit)
            reader.add(job)
            jobs += 1
    note_excerpt(read_header(path), jobs, reader.collected.notes)
    return reader.collected.workload(
        path, cluster, "MetaCentrum log", user_order=number_in_name, first=first
    )


def cluster_of(park: Machines) -> Cluster:
    """Return the cluster of a machine file, with cores and GiB."""
    groups = park.groups
    return Cluster(
        groups=tuple(group.name for group in groups),
        resources=RESOURCES,
        capacity=np.array([(group.cores, group.memory / GIB) for group in groups]),
        count=np.array([group.nodes for group in groups]),
        units=UNITS,
        labels=({},) * len(groups),
    )


class _Reader:
    """Adds jobs, one by one, as sets of tasks."""

    def __init__(self, park: Machines) -> None:
        self.collected = JobCollector()
        self._park = park
        self._groups = [group.name for group in park.groups]
        self._capacity = {
            group.name: (float(group.cores), group.memory / GIB) for group in park.groups
        }
        # A log has few different specifications.
        self._interpret = lru_cache(maxsize=65536)(self._interpret_spec)

    def add(self, job: LoggedJob) -> None:
        """Add a job if it ran."""
        notes, row = self.collected.notes, job.row
        if row.run <= 0:
            notes[NEVER_RAN] += 1
            return
        places, whole_nodes, remarks = self._interpret(job.spec)
        self.collected.refuse_beyond(job.spec.nodes, f"node specification '{job.spec.text}': nodes")
        notes.update(remarks)
        notes[NO_START] += row.wait < 0
        start = row.submit + row.wait if row.wait >= 0 else nan
        is_gang = job.spec.nodes > 1
        self.collected.add_job(
            str(row.job), row.user_name, row.submit, gang=is_gang, limit=row.walltime
        )
        chunks = job.spec.chunks
        cores = [chunk.cores for chunk in chunks]
        differ = sum(chunk.nodes * chunk.cores for chunk in chunks) != job.cores
        if len(chunks) == 1 or differ:
            cores = [job.cores_per_node] * len(chunks)
        notes[CORES_OF_SPEC] += len(chunks) > 1 and differ
        for chunk, chunk_cores, place, whole_node in zip(
            chunks, cores, places, whole_nodes, strict=True
        ):
            shape = whole_node or (float(chunk_cores), row.memory_requested / GIB)
            self.collected.add_tasks(shape, place, [row.run] * chunk.nodes, start=start)

    def _interpret_spec(self, spec: NodeSpec) -> tuple[list[Place], list[Shape | None], set[str]]:
        """Return each chunk's place, its capacity of a node if it takes whole nodes, and notes."""
        places: list[Place] = []
        whole_nodes: list[Shape | None] = []
        remarks: set[str] = set()
        for chunk in spec.chunks:
            allowed = self._park.groups_allowed_to(chunk, spec)
            places.append(tuple(name in allowed for name in self._groups))
            for names, remark in ((chunk.required, NODE_NAMED), (chunk.excluded, NODE_EXCLUDED)):
                for name in names:
                    if self._park.groups_named(name) and not self._park.is_group_name(name):
                        remarks.add(remark)
            kinds = {self._capacity[name] for name in allowed}
            alike = spec.exclusive and len(kinds) == 1
            whole_nodes.append(kinds.pop() if alike else None)
            if spec.exclusive:
                remarks.add(WHOLE_NODES if alike else NOT_WHOLE_NODES)
        return places, whole_nodes, remarks


def read_jobs(path: Path, progress: ProgressReport | None = None) -> Iterator[LoggedJob]:
    """Yield the jobs of a MetaCentrum log in its order, including jobs that never ran.

    Raises InputError like `read_swf`, and for a job without user, cores or memory, or with a
    malformed node specification. Memory does not grow with the log.
    """
    with error_source(str(path), lambda: f"row {row.row}"):
        for row in read_swf(path, extra_columns=len(EXTRA_COLUMNS), progress=progress):
            yield _parse_job(row)


def _parse_job(row: SwfRow) -> LoggedJob:
    """Parse the additional columns of a row; raise InputError for an unknown required value."""
    _, _, spec = row.extra
    cores = row.cores_requested if row.cores_requested > 0 else row.cores_allocated
    for what, column, known in (
        ("submit", 2, row.submit != UNKNOWN),
        ("user", 12, row.user >= 0),
        ("cores", 8, cores > 0),
        ("memory requested", 10, row.memory_requested >= 0),
    ):
        if not known:
            raise InputError(f"column {column} ({what}): unknown or none")
    return LoggedJob(row, cores, parse_node_spec(spec))
