"""``fairlead trace info``: what is in a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairlead.cli.options import AsJson
from fairlead.cli.streams import show
from fairlead.cli.trace_options import (
    CoresOfServer,
    MachineFile,
    MemoryOfServer,
    ServersOfLog,
    read_any_trace,
)


def info(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="Trace of any known format.")],
    machines: MachineFile = None,
    servers: ServersOfLog = None,
    cores: CoresOfServer = None,
    memory: MemoryOfServer = None,
    as_json: AsJson = False,
) -> None:
    """Say what is in a trace: machines by class, users, jobs, tasks, what they ask for, how long.

    The format is told by the content: a trace of this project (Parquet, or a folder of CSV files),
    a MetaCentrum log with its machine file, any log in Standard Workload Format, openb's table of
    pods beside its table of nodes, or a folder of Google's tables of 2011.

    \b
    Example:
      fairlead trace info examples/logs/metacentrum.swf.gz
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    workload, found = read_any_trace(trace, machines, servers, cores, memory)
    from fairlead.traces.summary import summarize

    figures = {"fairlead": 1, "trace": str(trace), "format": found, **summarize(workload)}
    from fairlead.report.trace import trace_document

    show(trace_document(figures), as_json)
