"""Read a trace of any format."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from fairlead.errors import InputError, how_to_install
from fairlead.model.workload import Workload
from fairlead.traces import detect
from fairlead.traces.lines import ProgressReport


@dataclass(frozen=True, slots=True)
class MachinesGiven:
    """What was said about the machines, for formats that leave them open; `READERS` says which."""

    machines: Path | None = None  # a file beside the log that lists them
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
    reader = READERS[found]
    _refuse_ignored(found, reader, machines)
    given = {name: getattr(machines, name) for name in reader.takes}
    try:
        read = getattr(import_module(f"fairlead.traces.{reader.module}"), reader.function)
        return read(path, **given, on_progress=on_progress), found
    except ModuleNotFoundError as fault:
        needs = f"was read as {found}, and needs {fault.name}: {how_to_install('serve')}"
        raise InputError(needs, "", str(path)) from None


def _refuse_ignored(found: str, row: Reader, machines: MachinesGiven) -> None:
    if machines.machines is not None and "machines" not in row.takes:
        raise InputError(f"this was read as {found}, which has no machine file", "--machines")
    for name in ("servers", "cores", "memory"):
        if getattr(machines, name) is not None and name not in row.takes:
            known = (other.called for other in READERS.values() if name in other.takes)
            fault = f"is for {' or '.join(known)}, and this was read as {found}"
            raise InputError(fault, f"--{name}")


@dataclass(frozen=True)
class Reader:
    """The function of this package that reads a format; its module is imported when it is used."""

    module: str
    function: str
    takes: tuple[str, ...] = ()  # the fields of `MachinesGiven` that it heeds; others are refused
    # The format, as the fault of a refused option names it; needed by who takes `servers`, `cores`
    # or `memory`.
    called: str = ""


READERS = {
    detect.PARQUET: Reader("own_format", "read_parquet"),
    detect.CSV_FOLDER: Reader("csv_folder", "read_folder"),
    detect.METACENTRUM: Reader("metacentrum_workload", "read_metacentrum", ("machines",)),
    detect.SWF: Reader(
        "swf_workload", "read_swf_workload", ("servers", "cores", "memory"), "a plain SWF log"
    ),
    detect.OPENB: Reader("openb", "read_openb_beside", ("machines",)),
    detect.GOOGLE: Reader("google", "read_google"),
    detect.JOURNAL: Reader("journal", "read_journal"),
}
