"""The compiled scheduler: its sources, the record of its build, the switch to plain Python.

A build in a checkout records a checksum of the sources beside them. An installed wheel has no
record, so its import checks nothing. `setup.py` and the Makefile use this module, too. It imports
next to nothing, because every import of the scheduler imports it.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from zlib import crc32

SCHEDULER = os.path.join(os.path.dirname(__file__), "scheduler")
# The scheduler's methods refuse arguments of wrong types by errors of our own. Compiled ones would
# raise TypeError before their first line. Explanations are dataclasses that users compare and copy.
# The others use packages that are not there when the scheduler is built: NumPy and pydantic.
INTERPRETED = {
    "__init__.py",
    "explanation.py",
    "random_order.py",
    "scheduler.py",
    "shares.py",
    "snapshot_rows.py",
}
LIBRARY = "fairlead__mypyc"  # the extension beside the package that holds all compiled code
# Each Python builds separate extensions, so each has a separate record.
_SUFFIX = EXTENSION_SUFFIXES[0]
_RECORD = f"built{os.path.splitext(_SUFFIX)[0]}.checksum"


def plain_is_asked() -> bool:
    """Return whether ``FAIRLEAD_PLAIN`` asks for plain Python, at the build or at run time."""
    return os.environ.get("FAIRLEAD_PLAIN", "") not in {"", "0"}


def sources_to_compile(folder: str = SCHEDULER) -> list[str]:
    """List the modules to compile: all modules of the scheduler but `INTERPRETED`."""
    return sorted(
        os.path.join(below, name)
        for below, _, names in os.walk(folder)
        for name in names
        if name.endswith(".py") and name not in INTERPRETED
    )


def record_build(folder: str = SCHEDULER) -> None:
    """Record from which sources the extensions in a checkout were built."""
    with open(os.path.join(folder, _RECORD), "w", encoding="ascii") as record:
        record.write(_checksum(folder))


def remove_build(folder: str = SCHEDULER) -> None:
    """Remove this Python's extensions from a checkout, and the record of their build."""
    above = os.path.dirname(os.path.dirname(folder))
    built = [os.path.join(above, LIBRARY + _SUFFIX), os.path.join(folder, _RECORD)]
    for below, _, names in os.walk(folder):
        built += [os.path.join(below, name) for name in names if name.endswith(_SUFFIX)]
    for path in filter(os.path.exists, built):
        os.remove(path)


def is_current(folder: str = SCHEDULER) -> bool | None:
    """Return whether the build in a checkout has today's sources; None if there is no build."""
    try:
        with open(os.path.join(folder, _RECORD), encoding="ascii") as record:
            return record.read() == _checksum(folder)
    except FileNotFoundError:
        return None


def choose_how_it_runs() -> None:
    """Switch the scheduler to its sources if plain Python is asked; else warn of a stale build."""
    if plain_is_asked():
        sys.path_hooks.insert(0, _finder_of_sources)
    elif is_current() is False and sys.stderr is not None:
        checkout = os.path.dirname(os.path.dirname(os.path.dirname(SCHEDULER)))
        sys.stderr.write(
            f"fairlead: the compiled scheduler is older than its sources in {SCHEDULER}; "
            f"run: make -C {checkout} setup\n"
        )


def _checksum(folder: str) -> str:
    """Return a checksum of names and contents; file times change with every checkout of git."""
    checksum = 0
    for path in sources_to_compile(folder):
        with open(path, "rb") as source:
            checksum = crc32(source.read(), crc32(os.path.relpath(path, folder).encode(), checksum))
    return f"{checksum:08x}"


def _finder_of_sources(folder: str) -> FileFinder:
    """Path hook: find no extensions in the scheduler and its subpackages."""
    if not (folder + os.sep).startswith(SCHEDULER + os.sep):
        raise ImportError(f"{folder} is not a folder of the scheduler")
    return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))


if __name__ == "__main__":  # make: is the build in this checkout that of its sources?
    sys.exit(not (plain_is_asked() or is_current()))
