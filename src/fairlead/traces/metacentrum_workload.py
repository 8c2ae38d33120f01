"""MetaCentrum's log and machines as a workload that can be run again.

A node of a job is a task, and the nodes of one job start together: a gang. Nodes of different
sizes are several sets of tasks of one gang.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from math import nan
from pathlib import Path

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload
from fairlead.traces.collecting import JobCollector, Place, Shape
from fairlead.traces.lines import ProgressReport
from fairlead.traces.logged_hosts import LoggedHosts
from fairlead.traces.machines import Machines, read_machines
from fairlead.traces.metacentrum import LoggedJob, machine_file_beside, read_jobs
from fairlead.traces.node_spec import Chunk, NodeSpec
from fairlead.traces.problem_from_log import GIB, RESOURCES, UNITS
from fairlead.traces.swf import note_excerpt, read_header

NEVER_RAN = "jobs left out, as they never ran"
NODE_NAMED = "jobs that name single nodes, read as the group of those nodes"
NODE_EXCLUDED = "jobs that exclude single nodes, which is ignored"
WHOLE_NODES = "jobs that want nodes for themselves, read as asking for all of a node"
NOT_WHOLE_NODES = "jobs that want nodes of several kinds for themselves, which is ignored"
NO_START = "jobs whose start the log does not say"
CORES_OF_SPEC = "jobs whose cores differ from their node specification, spread evenly"


def read_metacentrum(
    path: Path, *, machines: Path | None = None, on_progress: ProgressReport | None = None
) -> Workload:
    """Read a MetaCentrum log and its machine file.

    Times count from the log's first submission; a task lasts as long as its job ran, and started
    when its job's wait was over, on the hosts that the log names. Their groups are not named;
    `fairlead.traces.logged_hosts` says how they are told from what ran there. A job that
    wants its nodes for itself (``#excl``) asks for all of a node where all nodes it may use are
    alike, and for what it names otherwise.

    Parameters
    ----------
    path : Path
        The log, compressed or plain.
    machines : Path, optional
        The machine file; ``x.swf.machines`` beside ``x.swf.gz`` when absent.
    on_progress : callable, optional
        See `fairlead.traces.lines.read_lines`.

    Returns
    -------
    Workload
        Users ``user-<id>`` by ascending id, the groups of the machine file, cpu in cores and
        memory in GiB. Notes count what was left out or simplified.

    Raises
    ------
    InputError
        For whatever `read_jobs` and `read_machines` refuse, a missing machine file, a submission
        before that of the row above, or a job number that occurs twice. It names file and row.

    Notes
    -----
    Cost O(rows), about 35 us each; memory grows with jobs and tasks, not with the text.
    """
    machine_file = machine_file_beside(path) if machines is None else machines
    if not machine_file.exists():
        fault = "there is no such machine file; name one with --machines"
        raise InputError(fault, "", str(machine_file))
    park = read_machines(machine_file)
    cluster = _cluster(park)
    reader = _Reader(park, cluster)
    start = latest = None
    jobs = 0
    for job in read_jobs(path, on_progress):
        if start is None or latest is None:
            start = latest = job.submit
        try:
            if job.submit < latest:
                fault = f"column 2 (submit time): {job.submit:.15g} is before the row above"
                raise InputError(fault)
            reader.add(job, job.submit - start)
        except InputError as error:
            raise InputError(error.fault, f"row {job.row}", str(path)) from None
        latest = job.submit
        jobs += 1
    note_excerpt(read_header(path), jobs, reader.collected.notes)
    try:
        return reader.collected.workload(
            cluster,
            f"MetaCentrum log {path.name}",
            user_order=_number_in_name,
            first=start or 0.0,
            server_numbers=reader.hosts.server_numbers(),
        )
    except InputError as error:
        raise InputError(error.fault, error.place, str(path)) from None


def _number_in_name(user: str) -> int:
    return int(user.removeprefix("user-"))


def _cluster(park: Machines) -> Cluster:
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
    """Turns one job after the other into sets of tasks."""

    def __init__(self, park: Machines, cluster: Cluster) -> None:
        self.collected = JobCollector()
        self.hosts = LoggedHosts(cluster)
        self._park = park
        self._groups = [group.name for group in park.groups]
        self._capacity = {
            group.name: (float(group.cores), group.memory / GIB) for group in park.groups
        }
        # A log repeats few specifications many times over.
        self._meaning = lru_cache(maxsize=65536)(self._means)

    def add(self, job: LoggedJob, submit: float) -> None:
        notes = self.collected.notes
        if job.run <= 0:
            notes[NEVER_RAN] += 1
            return
        places, whole_nodes, remarks = self._meaning(job.spec)
        self.collected.refuse_beyond(job.spec.nodes, f"node specification '{job.spec}': nodes")
        notes.update(remarks)
        notes[NO_START] += job.wait < 0
        start = submit + job.wait if job.wait >= 0 else nan
        is_gang = job.spec.nodes > 1
        self.collected.add_job(
            str(job.job), f"user-{job.user}", submit, gang=is_gang, limit=job.walltime
        )
        cores = _cores_of_chunks(job)
        if cores is None:
            notes[CORES_OF_SPEC] += 1
            cores = [job.cores_per_node] * len(job.spec.chunks)
        of_nodes = [
            k for k, chunk in zip(cores, job.spec.chunks, strict=True) for _ in range(chunk.nodes)
        ]
        hosts = iter(self.hosts.of_nodes(job.hosts, of_nodes))
        for chunk, chunk_cores, place, node in zip(
            job.spec.chunks, cores, places, whole_nodes, strict=True
        ):
            shape = node or (float(chunk_cores), job.memory_per_node / GIB)
            ran_on = list(islice(hosts, chunk.nodes))
            self.hosts.note(ran_on, shape, place)
            self.collected.add_tasks(
                shape,
                place,
                [job.run] * chunk.nodes,
                start=start,
                servers=ran_on,
            )

    def _means(self, spec: NodeSpec) -> tuple[list[Place], list[Shape | None], dict[str, int]]:
        """Return the place of each chunk, the whole node it takes if it does, and remarks."""
        places: list[Place] = []
        nodes: list[Shape | None] = []
        remarks: set[str] = set()
        for chunk in spec.chunks:
            allowed = self._park.groups_allowed_to(chunk)
            if not allowed:
                raise InputError(f"node specification '{spec}' leaves no group open")
            places.append(tuple(name in allowed for name in self._groups))
            remarks |= self._remarks(chunk)
            kinds = {self._capacity[name] for name in allowed}
            alike = spec.exclusive and len(kinds) == 1
            nodes.append(kinds.pop() if alike else None)
            if spec.exclusive:
                remarks.add(WHOLE_NODES if alike else NOT_WHOLE_NODES)
        return places, nodes, dict.fromkeys(remarks, 1)

    def _remarks(self, chunk: Chunk) -> set[str]:
        found = set()
        for names, remark in ((chunk.required, NODE_NAMED), (chunk.excluded, NODE_EXCLUDED)):
            for name in names:
                if self._park.groups_named(name) and not self._park.is_group_name(name):
                    found.add(remark)
        return found


def _cores_of_chunks(job: LoggedJob) -> list[float] | None:
    """Return the cores of a node of each chunk, or None where the log contradicts them."""
    chunks = job.spec.chunks
    if len(chunks) == 1:
        return [job.cores_per_node]
    asked = [chunk.cores for chunk in chunks]
    total = sum(chunk.nodes * chunk.cores for chunk in chunks)
    return asked if total == job.cores else None
