"""The compiled core: its sources, the record of a build in a checkout, the switch to plain Python.

A build in a checkout records a checksum of the sources beside them. An installed wheel has no
record, so its import checks nothing. `setup.py` and the Makefile use this module, too. It imports
next to nothing, because every import of the core imports it.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from zlib import crc32

CORE = os.path.join(os.path.dirname(__file__), "core")
# The scheduler's methods refuse arguments of wrong types by errors of our own. Compiled ones would
# raise TypeError before their first line. Explanations are dataclasses that users compare and copy.
# The others use packages that are not there when the core is built: NumPy and pydantic.
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


def core_sources(core: str = CORE) -> list[str]:
    """List the modules to compile: all modules of the core but `INTERPRETED`."""
    return sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(core)
        for name in names
        if name.endswith(".py") and name not in INTERPRETED
    )


def record_build(core: str = CORE) -> None:
    """Record from which sources the extensions in a checkout were built."""
    with open(os.path.join(core, _RECORD), "w", encoding="ascii") as record:
        record.write(_checksum(core))


def remove_build(core: str = CORE) -> None:
    """Remove this Python's extensions from a checkout, and the record of their build."""
    above = os.path.dirname(os.path.dirname(core))
    built = [os.path.join(above, LIBRARY + _SUFFIX), os.path.join(core, _RECORD)]
    for folder, _, names in os.walk(core):
        built += [os.path.join(folder, name) for name in names if name.endswith(_SUFFIX)]
    for path in filter(os.path.exists, built):
        os.remove(path)


def is_current(core: str = CORE) -> bool | None:
    """Return whether the build in a checkout has today's sources; None if there is no build."""
    try:
        with open(os.path.join(core, _RECORD), encoding="ascii") as record:
            return record.read() == _checksum(core)
    except FileNotFoundError:
        return None


def choose_how_core_runs() -> None:
    """Switch the core to its sources if plain Python is asked; else warn of a stale build."""
    if plain_is_asked():
        sys.path_hooks.insert(0, _finder_of_sources)
    elif is_current() is False and sys.stderr is not None:
        checkout = os.path.dirname(os.path.dirname(os.path.dirname(CORE)))
        sys.stderr.write(
            f"fairlead: the compiled core is older than its sources in {CORE}; "
            f"run: make -C {checkout} setup\n"
        )


def _checksum(core: str) -> str:
    """Return a checksum of names and contents; file times change with every checkout of git."""
    checksum = 0
    for path in core_sources(core):
        with open(path, "rb") as source:
            checksum = crc32(source.read(), crc32(os.path.relpath(path, core).encode(), checksum))
    return f"{checksum:08x}"


def _finder_of_sources(folder: str) -> FileFinder:
    """Path hook: find no extensions in the core and its subpackages."""
    if not (folder + os.sep).startswith(CORE + os.sep):
        raise ImportError(f"{folder} is not a folder of the core")
    return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))


if __name__ == "__main__":  # make: is the build in this checkout that of its sources?
    sys.exit(not (plain_is_asked() or is_current()))
