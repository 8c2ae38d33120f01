"""The compiled modules: their sources, the record of their build, the switch to plain Python.

A build in a checkout records a checksum of the sources beside them. An installed wheel has no
record, so its import checks nothing. `setup.py` and the Makefile use this module, too. It imports
next to nothing, because every import of a compiled module imports it.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from zlib import crc32

PACKAGE = os.path.dirname(__file__)
# Loops of the mathematics that NumPy cannot express. The whole scheduler is compiled beside them.
LOOPS = (
    "certificates/_arrival_replay.py",
    "certificates/_turn_faults.py",
    "simulation/metrics/_share_integrals.py",
    "solvers/stair_stack.py",
    "solvers/tree_filling.py",
    "solvers/turn_heap.py",
    "solvers/water_filling.py",
)
# The scheduler's methods refuse arguments of wrong types by errors of our own. Compiled ones would
# raise TypeError before their first line. Explanations are dataclasses that users compare and copy.
# The views of own rules keep the docstrings that `help` shows; mypyc drops those of classes.
# The others use packages that are not there when the scheduler is built: NumPy and pydantic.
INTERPRETED = {
    "__init__.py",
    "random_order.py",
    "_snapshot.py",
    "explanation.py",
    "live_shares.py",
    "own_rules.py",
    "scheduler.py",
}
LIBRARY = "fairlead__mypyc"  # the extension beside the package that holds all compiled code
# Each Python builds separate extensions, so each has a separate record.
_SUFFIX = EXTENSION_SUFFIXES[0]
_RECORD = f"built{os.path.splitext(_SUFFIX)[0]}.checksum"


def plain_is_asked() -> bool:
    """Return whether ``FAIRLEAD_PLAIN`` asks for plain Python, at the build or at run time."""
    return os.environ.get("FAIRLEAD_PLAIN", "") not in {"", "0"}


def sources_to_compile(package: str = PACKAGE) -> list[str]:
    """List the modules to compile: `LOOPS`, and the scheduler's modules but `INTERPRETED`."""
    scheduler = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(os.path.join(package, "scheduler"))
        for name in names
        if name.endswith(".py") and name not in INTERPRETED
    ]
    return sorted([*scheduler, *(os.path.join(package, loop) for loop in LOOPS)])


def record_build(checksum: str, package: str = PACKAGE) -> None:
    """Record the `checksum_of_sources`, before the build, of the extensions in a checkout."""
    with open(os.path.join(package, _RECORD), "w", encoding="ascii") as record:
        record.write(checksum)


def remove_build(package: str = PACKAGE) -> None:
    """Remove this Python's extensions from a checkout, and the record of their build."""
    built = [os.path.join(os.path.dirname(package), LIBRARY + _SUFFIX)]
    built.append(os.path.join(package, _RECORD))
    for folder, _, names in os.walk(package):
        built += [os.path.join(folder, name) for name in names if name.endswith(_SUFFIX)]
    for path in filter(os.path.exists, built):
        os.remove(path)


def is_current(package: str = PACKAGE) -> bool | None:
    """Return whether the build in a checkout has today's sources; None if there is no build."""
    try:
        with open(os.path.join(package, _RECORD), encoding="ascii") as record:
            return record.read() == checksum_of_sources(package)
    except FileNotFoundError:
        return None


@cache
def choose_how_it_runs() -> None:
    """Switch to the sources if plain Python is asked; else warn of a stale build.

    Every package with compiled modules calls it at its import.
    """
    if plain_is_asked():
        sys.path_hooks.insert(0, _finder_of_sources)
    elif is_current() is False and sys.stderr is not None:
        checkout = os.path.dirname(os.path.dirname(PACKAGE))
        sys.stderr.write(
            f"fairlead: the compiled modules are older than their sources in {PACKAGE}; "
            f"run: make -C {checkout} setup\n"
        )


def checksum_of_sources(package: str = PACKAGE) -> str:
    """Return a checksum of names and contents; file times change with every checkout of git."""
    checksum = 0
    for path in sources_to_compile(package):
        with open(path, "rb") as source:
            name = os.path.relpath(path, package).encode()
            checksum = crc32(source.read(), crc32(name, checksum))
    return f"{checksum:08x}"


def _finder_of_sources(folder: str) -> FileFinder:
    """Path hook: find no extensions in the subpackages."""
    if not (folder + os.sep).startswith(PACKAGE + os.sep):
        raise ImportError(f"{folder} is not a folder of the package")
    return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))


if __name__ == "__main__":  # make: is the build in this checkout that of its sources?
    sys.exit(not (plain_is_asked() or is_current()))
