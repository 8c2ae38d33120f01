"""Read logs as published with the Alea simulator: MetaCentrum's PBS, and workflows named FIT.

MetaCentrum's format is the Standard Workload Format with three more columns: the host of every core
in braces, the name of the queue, and the node specification. Requested memory is in bytes per node.
Each node of a job is a task, and the nodes of a job are a gang. Nodes of different sizes are
several sets of tasks of the gang. Such a log can also be turned into a problem.

FIT's logs are in github.com/aleasimulator/alea, ``data-set/FIT``. A heading is followed by a row
for each job with 20 columns separated by tabs: those of the Standard Workload Format, the workflow,
and the task in the workflow. The column of the preceding job may list several jobs, such as
``1&2&3``, which must all end first. A job is one task on one server. Its memory is read as KiB of
the whole job. (Alea reads it per node; if it were per core, the largest jobs would exceed every
server.) Preceding jobs are counted and not used. The log states a wait of 0 even for jobs that
waited for others, so starts are unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf, nan
from pathlib import Path
from statistics import median_low
from typing import Any, NamedTuple

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster
from fairlead.model.problem import Problem
from fairlead.model.workload import Workload
from fairlead.traces._stored_files import (
    ProgressReport,
    error_source,
    read_lines,
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
    FIELDS,
    KIB_PER_GIB,
    NEVER_RAN,
    NO_MEMORY,
    NO_PROCESSORS,
    NO_START,
    NO_SUBMISSION,
    UNKNOWN,
    SwfRow,
    is_left_out,
    note_excerpt,
    note_unused_columns,
    number_in_name,
    read_header,
    read_swf,
    swf_row,
)

RESOURCES = ("cpu", "memory")
UNITS = ("cores", "GiB")
GIB = 2**30

EXTRA_COLUMNS = ("hosts", "queue name", "node specification")

NODE_NAMED = "jobs that name single nodes, read as the group of those nodes"
NODE_EXCLUDED = "jobs that exclude single nodes; the exclusion is ignored"
WHOLE_NODES = "jobs with exclusive nodes, read as requests for whole nodes"
NOT_WHOLE_NODES = "jobs with exclusive nodes of several kinds, whose exclusiveness is ignored"
CORES_OF_SPEC = "jobs whose cores differ from their node specification, spread over their nodes"

# The names of the last two columns differ among the logs.
FIT_HEADING = (
    "id submit wait runtime cpus cputimeused usedmem cpusreq walltime memreq status user group "
    "application queue partition precjob thinktime"
)
FIT_COLUMNS = len(FIELDS) + 2
PRECEDING = FIELDS.index("preceding job")


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
    machine_list = machines_of(path, machines)
    cluster = cluster_of(machine_list)
    collected = JobCollector()
    # A log has few different specifications.
    interpret = lru_cache(maxsize=65536)(lambda spec: _interpret_spec(spec, machine_list, cluster))
    first, jobs = inf, 0
    with error_source(str(path), lambda: f"row {job.row.row}"):
        for job in read_jobs(path, on_progress):
            first = min(first, job.row.submit)
            jobs += 1
            if job.row.run > 0:
                _add_job(job, interpret(job.spec), collected)
            else:
                collected.notes[NEVER_RAN] += 1
    note_excerpt(read_header(path), jobs, collected.notes)
    return collected.workload(
        path, cluster, "MetaCentrum log", user_order=number_in_name, first=first
    )


def cluster_of(machines: Machines) -> Cluster:
    """Return the cluster of a machine file, with cores and GiB."""
    groups = machines.groups
    return Cluster(
        groups=tuple(group.name for group in groups),
        resources=RESOURCES,
        capacity=np.array([(group.cores, group.memory / GIB) for group in groups]),
        count=np.array([group.nodes for group in groups]),
        units=UNITS,
        labels=({},) * len(groups),
    )


def _add_job(job: LoggedJob, tasks: _TasksOfSpec, collected: JobCollector) -> None:
    """Add a job that ran, one set of tasks for each chunk of its node specification."""
    notes, row, chunks = collected.notes, job.row, job.spec.chunks
    collected.check_task_count(job.spec.nodes, f"node specification '{job.spec.text}': nodes")
    notes.update(tasks.notes)
    notes[NO_START] += row.wait < 0
    start = row.submit + row.wait if row.wait >= 0 else nan
    gang = job.spec.nodes > 1
    collected.add_job(str(row.job), row.user_name, row.submit, gang=gang, limit=row.walltime)
    differ = sum(chunk.nodes * chunk.cores for chunk in chunks) != job.cores
    notes[CORES_OF_SPEC] += len(chunks) > 1 and differ
    for chunk, place, whole_node in zip(chunks, tasks.places, tasks.whole_nodes, strict=True):
        cores = job.cores_per_node if differ else chunk.cores
        shape = whole_node or (float(cores), row.memory_requested / GIB)
        collected.add_tasks(shape, place, [row.run] * chunk.nodes, start=start)


class _TasksOfSpec(NamedTuple):
    """Where the tasks of each chunk of a node specification may run."""

    places: list[Place]
    whole_nodes: list[Shape | None]  # the capacity of a node, if the chunk takes whole nodes
    notes: set[str]


def _interpret_spec(spec: NodeSpec, machines: Machines, cluster: Cluster) -> _TasksOfSpec:
    """Find where the tasks of a specification may run; raise InputError for unknown names."""
    found = _TasksOfSpec([], [], set())
    for chunk in spec.chunks:
        allowed = machines.groups_allowed_to(chunk, spec)
        place = tuple(name in allowed for name in cluster.groups)
        for names, note in ((chunk.required, NODE_NAMED), (chunk.excluded, NODE_EXCLUDED)):
            if any(map(machines.is_node_name, names)):
                found.notes.add(note)
        kinds = {tuple(amounts) for amounts in cluster.capacity[np.array(place)].tolist()}
        alike = spec.exclusive and len(kinds) == 1
        found.places.append(place)
        found.whole_nodes.append(kinds.pop() if alike else None)
        if spec.exclusive:
            found.notes.add(WHOLE_NODES if alike else NOT_WHOLE_NODES)
    return found


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


@dataclass(frozen=True)
class ConvertedLog:
    """A problem, and counts of the conversion."""

    problem: Problem  # users ``user-<id>`` by ascending id; cores and GiB
    jobs: int  # jobs that ran
    dropped: int  # jobs left out because they never ran (run time <= 0)
    # For each user with a placement constraint: the groups that it may use.
    restricted: Mapping[str, tuple[str, ...]]
    # For some users: the groups that the user may use although one task exceeds a server there, so
    # that only a part of a task fits.
    larger_than_a_server: Mapping[str, tuple[str, ...]]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures of the conversion as plain values, for JSON."""
        cluster = self.problem.cluster
        return {
            "users": self.problem.n_users,
            "groups": dict(zip(cluster.groups, cluster.count.tolist(), strict=True)),
            "servers": int(cluster.count.sum()),
            "jobs": self.jobs,
            "dropped": self.dropped,
            "restricted": {user: list(groups) for user, groups in self.restricted.items()},
            "larger_than_a_server": {
                user: list(groups) for user, groups in self.larger_than_a_server.items()
            },
        }


@dataclass
class _UserJobs:
    """Counts of a user's jobs."""

    shapes: list[Shape] = field(default_factory=list)  # of a node of each job
    excluded: Counter[str] = field(default_factory=Counter)  # jobs by group that they exclude


def problem_from_jobs(jobs: Iterable[LoggedJob], machines: Machines) -> ConvertedLog:
    """Turn the jobs of a log into a problem.

    - A user's demand is that of a node of its median job: the lower median, with jobs ordered by
      cores per node and then by memory per node.
    - A group is closed to a user when at least half of the user's jobs exclude the group. A job
      excludes a group by naming another group, by naming a node of another group, or by naming the
      group as excluded. If every group would be closed, the user has no constraint.
    - Weights are 1. Jobs that never ran are left out.

    Raises InputError when a job names an unknown group or node, or no job ever ran. Cost O(J (G +
    log J)) for J jobs and G groups.
    """
    cluster = cluster_of(machines)
    groups = list(cluster.groups)
    of_users: dict[int, _UserJobs] = {}
    excluded: dict[NodeSpec, tuple[str, ...]] = {}
    kept = dropped = 0
    for job in jobs:
        if job.row.run <= 0:
            dropped += 1
            continue
        kept += 1
        if job.spec not in excluded:
            excluded[job.spec] = _excluded_groups(job, machines)
        user = of_users.setdefault(job.row.user, _UserJobs())
        user.shapes.append((job.cores_per_node, job.row.memory_requested))
        user.excluded.update(excluded[job.spec])
    if not of_users:
        raise InputError("no job of the log ever ran")
    order = sorted(of_users)
    names = [f"user-{user}" for user in order]
    demand = np.array([median_low(of_users[user].shapes) for user in order]) / (1, GIB)
    eligible = np.array([_open_groups(of_users[user], groups) for user in order])
    problem = Problem.from_arrays(
        cluster.capacity,
        demand,
        count=cluster.count,
        eligible=eligible,
        resources=cluster.resources,
        units=cluster.units,
        groups=groups,
        users=names,
    )
    too_large = eligible & (demand[:, None, :] > cluster.capacity[None, :, :]).any(axis=2)
    return ConvertedLog(
        problem=problem,
        jobs=kept,
        dropped=dropped,
        restricted=_by_user(names, groups, eligible & ~eligible.all(axis=1, keepdims=True)),
        larger_than_a_server=_by_user(names, groups, too_large),
    )


def _excluded_groups(job: LoggedJob, machines: Machines) -> tuple[str, ...]:
    """Return the groups that a job excludes."""
    try:
        allowed = machines.groups_allowed(job.spec)
    except InputError as error:
        raise InputError(error.fault, f"row {job.row.row}") from None
    return tuple(group.name for group in machines.groups if group.name not in allowed)


def _open_groups(user: _UserJobs, groups: list[str]) -> list[bool]:
    """Return whether each group is open: fewer than half of the jobs exclude it; all if none is."""
    open_groups = [2 * user.excluded[group] < len(user.shapes) for group in groups]
    return open_groups if any(open_groups) else [True] * len(groups)


def _by_user(names: list[str], groups: list[str], chosen: Any) -> dict[str, tuple[str, ...]]:
    """Return the groups that `chosen` (N, G) has, for each user with any."""
    return {
        names[n]: tuple(groups[g] for g in np.flatnonzero(chosen[n]))
        for n in np.flatnonzero(chosen.any(axis=1))
    }


def is_fit_workflows(line: str) -> bool:
    """Return whether a line is the heading of a log of workflows."""
    return line.split("\t")[: len(FIELDS)] == FIT_HEADING.split()


def read_fit_workflows(
    path: Path, *, machines: Path | None = None, on_progress: ProgressReport | None = None
) -> Workload:
    """Read a log of workflows, and its machine file, which has MetaCentrum's format. O(rows)."""
    cluster = cluster_of(machines_of(path, machines))
    collected = JobCollector()
    for number, line in read_lines(path, on_progress):
        if not line or (number == 1 and is_fit_workflows(line)):
            continue
        fields = line.split("\t")
        with error_source(str(path), f"row {number}"):
            if len(fields) != FIT_COLUMNS:
                raise InputError(f"{len(fields)} columns separated by tabs, not {FIT_COLUMNS}")
            fields[PRECEDING] = fields[PRECEDING].partition("&")[0]
            row = swf_row(number, fields, str(path))
            left_out = {
                NO_SUBMISSION: row.submit == UNKNOWN,
                NEVER_RAN: row.run <= 0,
                NO_PROCESSORS: row.cores_allocated <= 0,
            }
            if is_left_out(left_out, collected.notes):
                continue
            note_unused_columns(row, collected.notes)
            collected.notes[NO_MEMORY] += row.memory_requested < 0
            collected.add_job(str(row.job), row.user_name, row.submit, limit=row.walltime)
            memory = max(row.memory_requested, 0.0) / KIB_PER_GIB
            collected.add_tasks((float(row.cores_allocated), memory), None, [row.run])
    return collected.workload(path, cluster, "FIT workflows", user_order=number_in_name)
