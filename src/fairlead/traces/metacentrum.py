"""Logs of MetaCentrum's PBS, as published with the Alea simulator.

The Standard Workload Format with three columns more: the host of every core in braces, the name of
the queue and the node specification. Requested memory is in bytes per node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fairlead.errors import InputError
from fairlead.traces.lines import ProgressReport, show
from fairlead.traces.node_spec import NodeSpec, parse_node_spec
from fairlead.traces.stored import uncompressed_name
from fairlead.traces.swf import UNKNOWN, SwfRow, read_swf

EXTRA_COLUMNS = ("hosts", "queue name", "node specification")
_HOSTS = re.compile(r"\{[0-9]{1,18}(?:,[0-9]{1,18})*\}")


@dataclass(slots=True)
class LoggedJob:
    """One job of a log, with all that a replay needs."""

    row: int  # row of the log, for messages
    job: int
    user: int
    queue: str
    submit: float  # time of submission, seconds
    # Seconds until the start, of the run, and of the limit requested for the run.
    wait: float
    run: float
    walltime: float
    cores: int  # cores of the whole job
    memory_per_node: float  # bytes requested on each node
    spec: NodeSpec  # nodes requested, which all start together (a gang)
    hosts: tuple[int, ...]  # host that each core ran on, a host as often as it gave cores

    @property
    def nodes(self) -> int:
        """Nodes that the job asked for."""
        return self.spec.nodes

    @property
    def cores_per_node(self) -> float:
        """Cores on each node; the mean where the job asked for nodes of several sizes."""
        return self.cores / self.spec.nodes


def machine_file_beside(log: Path) -> Path:
    """Return where a log's machine file lies by convention: ``x.swf.machines`` for ``x.swf.gz``."""
    plain = uncompressed_name(log)
    return plain.with_name(plain.name + ".machines")


def read_jobs(path: Path, progress: ProgressReport | None = None) -> Iterator[LoggedJob]:
    """Yield the jobs of a MetaCentrum log in its order, those that never ran included.

    Parameters
    ----------
    path : Path
        The log, compressed or plain.
    progress : callable, optional
        See `fairlead.traces.lines.read_lines`.

    Raises
    ------
    InputError
        For whatever `read_swf` refuses, a job without user, cores or memory, a malformed list of
        hosts or node specification. It names the file and the row.

    Notes
    -----
    Memory O(1) in the length of the log.
    """
    for row in read_swf(path, extra_columns=len(EXTRA_COLUMNS), progress=progress):
        try:
            yield _job(row)
        except InputError as error:
            raise InputError(error.fault, f"row {row.row}", str(path)) from None


def _job(row: SwfRow) -> LoggedJob:
    hosts, queue, spec = row.extra
    cores = row.cores_requested if row.cores_requested > 0 else row.cores_allocated
    for what, column, known in (
        ("submit time", 2, row.submit != UNKNOWN),
        ("user", 12, row.user >= 0),
        ("cores", 8, cores > 0),
        ("memory requested", 10, row.memory_requested >= 0),
    ):
        if not known:
            raise InputError(f"column {column} ({what}): unknown or none")
    return LoggedJob(
        row=row.row,
        job=row.job,
        user=row.user,
        queue=queue,
        submit=row.submit,
        wait=row.wait,
        run=row.run,
        walltime=row.walltime,
        cores=cores,
        memory_per_node=row.memory_requested,
        spec=parse_node_spec(spec),
        hosts=_hosts(hosts),
    )


def _hosts(text: str) -> tuple[int, ...]:
    """Parse ``{1241,1241}``."""
    if text == "{}":
        return ()
    if not _HOSTS.fullmatch(text):
        raise InputError(f"column 19 (hosts): {show(text)} is no list of hosts in braces")
    return tuple(map(int, text[1:-1].split(",")))
