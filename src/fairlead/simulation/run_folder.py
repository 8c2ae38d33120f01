"""A folder of finished runs, one file each, so that no run is repeated."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from fairlead.errors import InputError
from fairlead.formats.atomic_files import writing_faults
from fairlead.formats.run_log_file import read_fingerprint, read_run_log, write_run_log
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.simulation.planned_run import PlannedRun

_PLAIN = re.compile(r"[\w.=+-]+", re.ASCII)


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made or written, before any work is done for it.

    Raises InputError when it is a file, the folder around it is missing, or it cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError("is a file, not a folder", "", str(folder))
    if not folder.exists() and not folder.parent.is_dir():
        fault = f"cannot be made: there is no folder {str(folder.parent)!r}"
        raise InputError(fault, "", str(folder))
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK | os.X_OK):
        raise InputError("cannot be written: permission denied", "", str(folder))


def open_folder(folder: Path) -> None:
    """Make the folder if it is not there; InputError as `check_folder`, or from the system."""
    check_folder(folder)
    with writing_faults(folder):
        folder.mkdir(exist_ok=True)


def path_of(folder: Path, run: PlannedRun) -> Path:
    """Return where a run is kept: ``drf_best-fit.parquet``, with a digest if names could clash."""
    plain = run.name.replace(", ", "_").replace("/", "_").replace(":", "_")
    if run.what_if or not _PLAIN.fullmatch(plain):
        readable = "".join(_PLAIN.findall(plain))[:60]
        digest = blake2b(run.name.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
        plain = f"{readable}_{digest}"
    return folder / f"{plain}.parquet"


def find_finished(
    folder: Path, run: PlannedRun, workload: Workload, fingerprint: str
) -> RunLog | None:
    """Return the log of a finished run with that fingerprint, None if there is none.

    Raises InputError when the file of that name is no run log, or damaged: it is not overwritten.
    """
    path = path_of(folder, run)
    if not path.exists() or read_fingerprint(path) != fingerprint:
        return None
    return read_run_log(path, workload)


def kept_runs(
    folder: Path, runs: Sequence[PlannedRun], fingerprints: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the names of the runs that are in the folder, with the fingerprints given by name."""
    return tuple(run.name for run in runs if _has(path_of(folder, run), fingerprints[run.name]))


def _has(path: Path, fingerprint: str) -> bool:
    try:
        return path.exists() and read_fingerprint(path) == fingerprint
    except InputError:  # some other file of that name
        return False


def keep_finished(
    folder: Path, run: PlannedRun, workload: Workload, log: RunLog, fingerprint: str
) -> None:
    """Write the log of a run, all of it or nothing; raises InputError when it cannot be written."""
    write_run_log(workload, log, path_of(folder, run), fingerprint=fingerprint)
