"""Which format a trace has, by what is in it and not by its name."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from fairlead.errors import InputError
from fairlead.traces.lines import read_lines
from fairlead.traces.openb_tables import POD_TABLES, table_of
from fairlead.traces.stored import SUFFIXES
from fairlead.traces.swf import COMMENT
from fairlead.traces.tables import split_row

PARQUET = "Parquet trace"
CSV_FOLDER = "CSV trace"
METACENTRUM = "MetaCentrum log"
SWF = "SWF log"
OPENB = "openb tables"
GOOGLE = "Google tables"
JOURNAL = "journal of a service"

PARQUET_MAGIC, SQLITE_MAGIC = b"PAR1", b"SQLite format 3\0"
MARKER_OF_CSV_FOLDER = "trace.json"
GOOGLE_TABLES = ("task_events", "machine_events")
SWF_COLUMNS, METACENTRUM_COLUMNS = 18, 21

_WANTED = (
    "a Parquet or CSV trace of this project, a log in Standard Workload Format (18 columns, or 21 "
    "as MetaCentrum has them), openb's table of pods, a folder of Google's tables of 2011, the "
    "journal of fairlead serve"
)
_BY_COMMAS = {
    6: "looks like a table of Google's trace; name the folder that holds task_events",
    8: (
        "looks like Google's job events, which hold neither tasks nor demands; "
        "trace generate --job-events takes them"
    ),
    13: "looks like Google's task events; name the folder that holds task_events",
}


def detect_format(path: Path) -> str:
    """Return the format of a file or folder, one of the names above; read its first rows alone.

    Raises InputError when it is not there, empty, or in none of the formats; it says what was
    expected.
    """
    source = str(path)
    if source == "-":
        raise InputError("a trace is a file or a folder; standard input is none", "", source)
    if not path.exists():
        raise InputError("there is no such file", "", source)
    if path.is_dir():
        return _of_folder(path)
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
    return _of_text(path)


def is_csv_folder(path: Path) -> bool:
    """Return whether a folder holds a trace of this project as CSV files, compressed or plain."""
    return any((path / f"{MARKER_OF_CSV_FOLDER}{suffix}").exists() for suffix in SUFFIXES)


def _of_folder(path: Path) -> str:
    if is_csv_folder(path):
        return CSV_FOLDER
    if any((path / table).is_dir() for table in GOOGLE_TABLES):
        return GOOGLE
    if any(path.glob(POD_TABLES)):
        return OPENB
    if (path / "job_events").is_dir() or any(path.glob("part-*-of-*.csv*")):
        raise InputError(
            "has no folders task_events and machine_events of Google's trace; "
            "trace generate --job-events takes job events alone",
            "",
            str(path),
        )
    raise InputError(f"is a folder of no trace; wanted: {_WANTED}", "", str(path))


def _of_text(path: Path) -> str:
    source, comments = str(path), False
    with closing(read_lines(path, comment=COMMENT)) as lines:
        for row, line in lines:
            if not line:
                continue
            if line.startswith(COMMENT):
                comments = True
                continue
            blanks, commas = len(line.split()), line.count(",") + 1
            if blanks == METACENTRUM_COLUMNS and line.split()[18].startswith("{"):
                return METACENTRUM
            if blanks == SWF_COLUMNS or comments:
                return SWF
            table = table_of(split_row(line, row, source)) if commas > 1 else None
            if table == "pods":
                return OPENB
            if table == "nodes":
                fault = "is openb's table of nodes; name that of pods, and this with --machines"
                raise InputError(fault, f"row {row}", source)
            if is_csv_folder(path.parent):
                fault = "is a part of a CSV trace; name the folder that holds it"
                raise InputError(fault, "", source)
            fault = f"{blanks} columns separated by blanks, {commas} by commas: is no trace"
            fault = _BY_COMMAS.get(commas, f"{fault}; wanted: {_WANTED}")
            raise InputError(fault, f"row {row}", source)
    raise InputError("holds no job" if comments else "is empty", "", source)
