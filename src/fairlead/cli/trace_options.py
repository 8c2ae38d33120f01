"""Arguments that the verbs of ``fairlead trace`` share; reading and writing what they name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fairlead.cli.parameters import Option
from fairlead.cli.progress import progress_bar
from fairlead.errors import InputError

if TYPE_CHECKING:
    from fairlead.model.workload import Workload


StrictFifo = Annotated[
    bool, Option("--strict-fifo", help="Start each user's tasks in the order they came.")
]
SeedOfPolicy = Annotated[
    int, Option(metavar="N", min=0, help="Seed of what is random in a policy.")
]
PerfectEstimates = Annotated[
    bool,
    Option(
        "--perfect-estimates",
        help="Have easy go by the times that tasks take, not by what users said.",
    ),
]
MachineFile = Annotated[
    Path | None,
    Option(
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
    Option(
        "--servers", metavar="N", help="For a plain SWF log: servers; else one pool of MaxProcs."
    ),
]
CoresOfServer = Annotated[
    int | None,
    Option("--cores", metavar="K", help="For a plain SWF log: cores of each server."),
]
MemoryOfServer = Annotated[
    float | None,
    Option(
        "--memory", metavar="GIB", help="For a plain SWF log: GiB of each server; else no resource."
    ),
]
PARQUET_SUFFIX = ".parquet"
PROBLEM_SUFFIXES = (".yaml", ".yml", ".json")
WAYS_TO_WRITE_A_TRACE = (
    "a trace is written as OUT.parquet, or as a folder of CSV files (without a suffix, or one that "
    "is there)"
)


def read_any_trace(
    trace: Path,
    machines: Path | None,
    servers: int | None,
    cores: int | None,
    memory: float | None,
) -> tuple[Workload, str]:
    """Read a trace of any format under a progress bar; return it and the name of its format.

    Raises InputError as `fairlead.traces.readers.read_workload`.
    """
    from fairlead.traces.readers import MachineOptions, read_workload

    given = MachineOptions(machines, servers, cores, memory)
    with progress_bar(f"Reading {trace.name}") as report:
        return read_workload(trace, given, on_progress=report)


def is_problem(output: Path) -> bool:
    """Return whether a path is that of a problem file: ``-``, ``x.yaml`` or ``x.json``."""
    return str(output) == "-" or output.suffix in PROBLEM_SUFFIXES


def is_trace(output: Path) -> bool:
    """Return whether a path is that of a trace: ``x.parquet``, or a folder."""
    return output.suffix == PARQUET_SUFFIX or (
        not is_problem(output) and (not output.suffix or output.is_dir())
    )


def check_trace_output(output: Path, inputs: Sequence[Path]) -> None:
    """Refuse what cannot be written, before hours go into reading.

    Raises InputError when the folder around it is missing, it is of the other kind, or it is an
    input.
    """
    if not is_trace(output):
        raise InputError(WAYS_TO_WRITE_A_TRACE, "", str(output))
    check_place(output, inputs, may_be_folder=output.suffix != PARQUET_SUFFIX)
    if output.suffix != PARQUET_SUFFIX and output.exists():
        from fairlead.traces.csv_folder import MARKER

        if not output.is_dir():
            raise InputError("is a file, not a folder", "", str(output))
        if any(output.iterdir()) and not (output / MARKER).exists():
            fault = f"is a folder of something else (it has no {MARKER})"
            raise InputError(fault, "", str(output))


def check_place(output: Path, inputs: Sequence[Path], *, may_be_folder: bool = False) -> None:
    """Refuse a place without a folder around it, one that is a folder, and an input."""
    if not output.parent.is_dir():
        raise InputError(f"there is no directory {str(output.parent)!r}", "", str(output))
    if output.is_dir() and not may_be_folder:
        raise InputError("is a directory", "", str(output))
    if any(output.exists() and read.exists() and output.samefile(read) for read in inputs):
        raise InputError("is the input; it would be overwritten", "", str(output))


def write_trace(workload: Workload, output: Path) -> None:
    """Write a trace, all of it or nothing.

    Raises InputError when it cannot be written.
    """
    if output.suffix == PARQUET_SUFFIX:
        from fairlead.traces.parquet_trace import write_parquet

        write_parquet(workload, output)
    else:
        from fairlead.traces.csv_folder import write_folder

        write_folder(workload, output)
