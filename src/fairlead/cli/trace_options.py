"""Arguments that the verbs of ``fairlead trace`` share, and reading the trace they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.progress import progress_bar

if TYPE_CHECKING:
    from fairlead.model.workload import Workload

PerfectEstimates = Annotated[
    bool,
    typer.Option(
        "--perfect-estimates",
        help="Have easy go by the times that tasks take, not by what users said.",
    ),
]
MachineFile = Annotated[
    Path | None,
    typer.Option(
        "--machines",
        metavar="FILE",
        help=(
            "Machine file of a MetaCentrum log, by default x.swf.machines beside x.swf.gz; openb's "
            "table of nodes, by default the one beside the pods."
        ),
    ),
]
ServersOfLog = Annotated[
    int | None,
    typer.Option(
        "--servers", metavar="N", help="For a plain SWF log: servers; else one pool of MaxProcs."
    ),
]
CoresOfServer = Annotated[
    int | None,
    typer.Option("--cores", metavar="K", help="For a plain SWF log: cores of each server."),
]
MemoryOfServer = Annotated[
    float | None,
    typer.Option(
        "--memory", metavar="GIB", help="For a plain SWF log: GiB of each server; else no resource."
    ),
]


def read_any_trace(
    trace: Path,
    machines: Path | None,
    servers: int | None,
    cores: int | None,
    memory: float | None,
) -> tuple[Workload, str]:
    """Read a trace of any format under a progress bar; return it and the name of its format.

    Raises
    ------
    InputError
        As `fairlead.traces.reading.read_workload`.
    """
    from fairlead.traces.reading import MachinesGiven, read_workload

    given = MachinesGiven(machines, servers, cores, memory)
    with progress_bar(f"Reading {trace.name}") as report:
        return read_workload(trace, given, on_progress=report)
