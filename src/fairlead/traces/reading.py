"""Read a trace of any format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fairlead.errors import InputError
from fairlead.model.workload import Workload
from fairlead.traces import detect
from fairlead.traces.lines import ProgressReport


@dataclass(frozen=True, slots=True)
class MachinesGiven:
    """What was said about the machines, for formats that leave them open; `READERS` says which."""

    file: Path | None = None  # a file beside the log that lists the machines
    # Number of servers, and cores of each.
    servers: int | None = None
    cores: int | None = None
    memory: float | None = None  # GiB of each server


NOTHING_GIVEN = MachinesGiven()


def read_workload(
    path: Path,
    machines: MachinesGiven = NOTHING_GIVEN,
    *,
    on_progress: ProgressReport | None = None,
) -> tuple[Workload, str]:
    """Read a trace, whatever its format.

    Parameters
    ----------
    path : Path
        A file or folder.
    machines : MachinesGiven
        What the format leaves open.
    on_progress : callable, optional
        Called now and then with (bytes read, bytes in all).

    Returns
    -------
    workload : Workload
    format : str
        Of the names in `READERS`.

    Raises
    ------
    InputError
        For a file of no known format, what its reader refuses, or options that its format does not
        have. It names the file and the row.
    """
    found = detect.detect_format(path)
    row = READERS[found]
    _refuse_ignored(found, row, machines)
    return row.read(path, machines, on_progress), found


def _refuse_ignored(found: str, row: Reader, machines: MachinesGiven) -> None:
    if machines.file is not None and "file" not in row.takes:
        raise InputError(f"this was read as {found}, which has no machine file", "--machines")
    for name in ("servers", "cores", "memory"):
        if getattr(machines, name) is not None and name not in row.takes:
            known = (other.called for other in READERS.values() if name in other.takes)
            fault = f"is for {' or '.join(known)}, and this was read as {found}"
            raise InputError(fault, f"--{name}")


# Readers take long to import.
def _read_parquet(path: Path, _machines: MachinesGiven, report: ProgressReport | None) -> Workload:
    from fairlead.traces.own_format import read_parquet

    return read_parquet(path, on_progress=report)


def _read_folder(path: Path, _machines: MachinesGiven, report: ProgressReport | None) -> Workload:
    from fairlead.traces.csv_folder import read_folder

    return read_folder(path, on_progress=report)


def _read_metacentrum(
    path: Path, machines: MachinesGiven, report: ProgressReport | None
) -> Workload:
    from fairlead.traces.metacentrum_workload import read_metacentrum

    return read_metacentrum(path, machines=machines.file, on_progress=report)


def _read_swf(path: Path, machines: MachinesGiven, report: ProgressReport | None) -> Workload:
    from fairlead.traces.swf_workload import read_swf_workload

    servers, cores, memory = machines.servers, machines.cores, machines.memory
    return read_swf_workload(path, servers=servers, cores=cores, memory=memory, on_progress=report)


def _read_openb(path: Path, machines: MachinesGiven, report: ProgressReport | None) -> Workload:
    from fairlead.traces.openb import read_openb

    pods, nodes = _openb_tables(path, machines.file)
    return read_openb(pods, nodes, on_progress=report)


def _read_google(path: Path, _machines: MachinesGiven, report: ProgressReport | None) -> Workload:
    from fairlead.traces.google import read_google

    return read_google(path, on_progress=report)


def _read_journal(path: Path, _machines: MachinesGiven, report: ProgressReport | None) -> Workload:
    from fairlead.traces.journal import read_journal

    try:
        return read_journal(path, on_progress=report)
    except ModuleNotFoundError as fault:
        needs = f"is a service's journal, and needs {fault.name}: pip install 'fairlead[serve]'"
        raise InputError(needs, "", str(path)) from None


@dataclass(frozen=True)
class Reader:
    """What reads a format."""

    read: Callable[[Path, MachinesGiven, ProgressReport | None], Workload]
    takes: tuple[str, ...] = ()  # the fields of `MachinesGiven` that it heeds; others are refused
    # The format, as the fault of a refused option names it; needed by who takes `servers`, `cores`
    # or `memory`.
    called: str = ""


READERS = {
    detect.PARQUET: Reader(_read_parquet),
    detect.CSV_FOLDER: Reader(_read_folder),
    detect.METACENTRUM: Reader(_read_metacentrum, ("file",)),
    detect.SWF: Reader(_read_swf, ("servers", "cores", "memory"), "a plain SWF log"),
    detect.OPENB: Reader(_read_openb, ("file",)),
    detect.GOOGLE: Reader(_read_google),
    detect.JOURNAL: Reader(_read_journal),
}


def _openb_tables(path: Path, nodes: Path | None) -> tuple[Path, Path]:
    """Find the table of pods and that of nodes."""
    folder = path if path.is_dir() else path.parent
    pods = path if path.is_file() else _the_only(folder, detect.POD_TABLES, "pods")
    return pods, nodes or _the_only(folder, detect.NODE_TABLES, "nodes; name one with --machines")


def _the_only(folder: Path, pattern: str, what: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        listed = f" ({', '.join(path.name for path in found[:5])})" if found else ""
        raise InputError(f"has {len(found)} tables{listed} of {what}", "", str(folder))
    return found[0]
