"""Detect the format of a trace by its content, and read the trace.

`READERS` names the module and function of each format; a module is imported on its first use.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

from fairlead.errors import InputError, how_to_install
from fairlead.model.workload import Workload
from fairlead.traces._stored_files import ProgressReport, quoted, read_lines, start_of_text
from fairlead.traces.logs.batsim import is_batsim
from fairlead.traces.logs.gavel import is_gavel
from fairlead.traces.logs.kubernetes_pods import is_kubernetes_dump
from fairlead.traces.logs.metacentrum import is_fit_workflows
from fairlead.traces.logs.philly import is_philly_log
from fairlead.traces.logs.slurm import is_sacct
from fairlead.traces.logs.swf import COMMENT

PARQUET = "Parquet trace"
METACENTRUM = "MetaCentrum log"
SWF = "SWF log"
OPENB = "openb tables"
GOOGLE = "Google tables"
JOURNAL = "journal of a service"
SLURM = "sacct table"
KUBERNETES = "Kubernetes dump"
BATSIM = "Batsim workload"
GAVEL = "Gavel trace"
DLRM = "DLRM table"
PAI = "PAI tables"
GOOGLE_2019 = "Google tables of 2019"
PHILLY = "Philly trace"
HELIOS = "Helios trace"
FIT_WORKFLOWS = "FIT workflows"

GROUP = "fairlead.traces"  # the group of entry points, each of which names a `TraceFormat`
PARQUET_MAGIC, SQLITE_MAGIC = b"PAR1", b"SQLite format 3\0"
SWF_COLUMNS, METACENTRUM_COLUMNS = 18, 21
_BYTES_FOR_DETECTION = 2**16

# Names of files by which a folder is recognised; the first match counts.
_FOLDERS = (
    ("collection_events*", GOOGLE_2019),
    ("instance_events*", GOOGLE_2019),
    ("task_events", GOOGLE),
    ("machine_events", GOOGLE),
    ("pai_*_table.*", PAI),
    ("cluster_job_log*", PHILLY),
    ("cluster_log*.csv*", HELIOS),
    ("*pod_list*.csv*", OPENB),
)
# Names of columns, in small letters, by which the heading of a table is recognised.
_HEADINGS = {
    DLRM: {"instance_sn", "app_name", "max_instance_per_node"},
    HELIOS: {"job_id", "vc", "gpu_num", "cpu_num", "node_num"},
    OPENB: {"name", "num_gpu", "gpu_milli"},
}
_BY_LINE = (
    (is_kubernetes_dump, KUBERNETES),
    (is_sacct, SLURM),
    (is_gavel, GAVEL),
    (is_fit_workflows, FIT_WORKFLOWS),
)


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """Options about machines and users, for formats that do not record these."""

    machines: Path | None = None  # a file that lists the machines of the log
    servers: int | None = None  # number of equal servers
    cores: int | None = None  # of each server; for Gavel its GPUs
    memory: float | None = None  # GiB of each server
    user_from: str | None = None  # the column that names users
    # Jobs without a recorded end run until this time, in seconds since 1970 by the log's clock, or
    # until the log's last time if that is later. None leaves them out.
    unended: float | None = None


NO_OPTIONS = MachineOptions()


@dataclass(frozen=True)
class TraceFormat:
    """A format of another package, named by an entry point of the group ``fairlead.traces``."""

    name: str
    # Returns whether a path has this format; the text is its first line, or empty for a folder.
    recognises: Callable[[Path, str], bool]
    # Reads a path, with options; the last argument is called with bytes read and the size.
    read: Callable[[Path, MachineOptions, ProgressReport | None], Workload]


@dataclass(frozen=True)
class Reader:
    """A function of this package that reads a format."""

    module: str  # in `fairlead.traces`
    function: str
    takes: tuple[str, ...] = ()  # the fields of `MachineOptions` that the function takes


READERS = {
    PARQUET: Reader("parquet_trace", "read_parquet"),
    METACENTRUM: Reader("logs.metacentrum", "read_metacentrum", ("machines",)),
    SWF: Reader("logs.swf", "read_swf_workload", ("servers", "cores", "memory")),
    OPENB: Reader("logs.openb", "read_openb", ("machines",)),
    GOOGLE: Reader("logs.google", "read_google"),
    JOURNAL: Reader("journal_trace", "read_journal"),
    KUBERNETES: Reader("logs.kubernetes_pods", "read_pods", ("user_from",)),
    BATSIM: Reader("logs.batsim", "read_batsim", ("servers", "cores")),
    GAVEL: Reader("logs.gavel", "read_gavel", ("machines", "servers", "cores")),
    DLRM: Reader("logs.openb", "read_dlrm", ("machines",)),
    PHILLY: Reader("logs.philly", "read_philly", ("machines", "user_from")),
    HELIOS: Reader("logs.helios", "read_helios", ("servers", "cores", "user_from")),
    PAI: Reader("logs.pai", "read_pai", ("machines",)),
    GOOGLE_2019: Reader("logs.google_2019", "read_google_2019"),
    FIT_WORKFLOWS: Reader("logs.metacentrum", "read_fit_workflows", ("machines",)),
    SLURM: Reader(
        "logs.slurm",
        "read_slurm",
        ("machines", "servers", "cores", "memory", "user_from", "unended"),
    ),
}


def read_workload(
    path: Path,
    machines: MachineOptions = NO_OPTIONS,
    *,
    on_progress: ProgressReport | None = None,
) -> tuple[Workload, str]:
    """Read a trace of any format; also return the format, by its name in `READERS`.

    Raises InputError with the file and the row, for a file of no known format, malformed content,
    or options that the format does not take.
    """
    try:
        name = detect_format(path)
    except InputError:
        added = _added_format(path)
        if added is None:
            raise
        return added.read(path, machines, on_progress), added.name
    reader = READERS[name]
    _refuse_options(name, reader, machines)
    options = {option: getattr(machines, option) for option in reader.takes}
    try:
        read = getattr(import_module(f"fairlead.traces.{reader.module}"), reader.function)
        return read(path, **options, on_progress=on_progress), name
    except ModuleNotFoundError as fault:
        needs = f"was read as {name}, and needs {fault.name}: {how_to_install('serve')}"
        raise InputError(needs, "", str(path)) from None


def _added_format(path: Path) -> TraceFormat | None:
    """Return the first format of another package that recognises a path; None if none does.

    Raises InputError if the code of a package fails.
    """
    if not path.exists():
        return None
    # Another package may read text in any encoding.
    lines = start_of_text(path, _BYTES_FOR_DETECTION).splitlines() if path.is_file() else []
    first = next((line.strip() for line in lines if line.strip()), "")
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            added = point.load()
            if added.recognises(path, first):
                return TraceFormat(str(added.name), added.recognises, added.read)
        except Exception as fault:
            why = f"cannot be used: {type(fault).__name__}: {fault}".replace("\n", " ")
            raise InputError(why, f"{GROUP}: {point.value}") from None
    return None


def _refuse_options(name: str, reader: Reader, machines: MachineOptions) -> None:
    """Raise InputError for an option that a format does not take; `unended` is ignored instead."""
    for option in ("machines", "servers", "cores", "memory", "user_from"):
        if getattr(machines, option) is not None and option not in reader.takes:
            formats = ", ".join(other for other in READERS if option in READERS[other].takes)
            fault = f"is for {formats}, and this was read as {name}"
            raise InputError(fault, f"--{option.replace('_', '-')}")


def detect_format(path: Path) -> str:
    """Return the format of a file or folder, a key of `READERS`, from its first rows.

    Raises InputError for a path that does not exist, is empty, or has no known format.
    """
    source = str(path)
    if source == "-":
        raise InputError("a trace must be a file or a folder, not standard input", "", source)
    if not path.exists():
        raise InputError("there is no such file", "", source)
    if path.is_dir():
        return _format_of_folder(path)
    try:
        with path.open("rb") as file:
            start = file.read(len(SQLITE_MAGIC))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", "", source) from None
    if start.startswith(PARQUET_MAGIC):
        return PARQUET
    if start == SQLITE_MAGIC:
        return JOURNAL
    if not start:
        raise InputError("is empty", "", source)
    # A Philly log may be one line of any length, so it is not read line by line.
    return PHILLY if is_philly_log(path) else _format_of_text(path)


def _format_of_folder(path: Path) -> str:
    """Return the format of a folder by its files; raise InputError for another folder."""
    for pattern, name in _FOLDERS:
        if any(path.glob(pattern)):
            return name
    raise InputError(f"is not the folder of a trace; wanted: {', '.join(READERS)}", "", str(path))


def _format_of_text(path: Path) -> str:
    """Return the format of a text file by its first lines; raise InputError for another file."""
    source, has_comments = str(path), False
    with closing(read_lines(path, comment=COMMENT)) as lines:
        for row, line in lines:
            if not line:
                continue
            if line.startswith("{") and is_batsim(path):
                return BATSIM
            for recognises, name in _BY_LINE:
                if recognises(line):
                    return name
            columns = {column.strip().lower() for column in line.split(",")}
            for name, marks in _HEADINGS.items():
                if marks <= columns:
                    return name
            if line.startswith(COMMENT):
                has_comments = True
                continue
            fields = line.split()
            if len(fields) == METACENTRUM_COLUMNS and fields[18].startswith("{"):
                return METACENTRUM
            if len(fields) == SWF_COLUMNS or has_comments:
                return SWF
            fault = f"{quoted(line)} does not begin a trace; wanted: {', '.join(READERS)}"
            raise InputError(fault, f"row {row}", source)
    raise InputError("holds no job" if has_comments else "is empty", "", source)
