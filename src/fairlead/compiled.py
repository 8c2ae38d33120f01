"""The compiled modules: their sources, the record of their build, the switch to plain Python.

A build in a checkout records a checksum of the compiled sources in the package's folder. An
installed wheel has no record, so nothing is checked at its import. `setup.py` and the Makefile also
use this module. It imports few modules, because each package with compiled modules imports it.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    FileFinder,
    PathFinder,
    SourceFileLoader,
)
from zlib import crc32

PACKAGE = os.path.dirname(__file__)
# Loops of solvers, certificates and metrics that NumPy cannot express; the scheduler is compiled,
# too.
LOOPS = (
    "certificates/_arrival_replay.py",
    "certificates/_turn_faults.py",
    "simulation/metrics/_share_integrals.py",
    "solvers/stair_stack.py",
    "solvers/tree_filling.py",
    "solvers/turn_heap.py",
    "solvers/water_filling.py",
)
# Modules of the scheduler that are not compiled:
# - scheduler.py raises InputError for arguments of wrong types. Compiled methods would raise
#   TypeError before their first line.
# - explanation.py has dataclasses that users compare and copy.
# - own_rules.py keeps the docstrings that `help` shows; mypyc drops those of classes.
# - The others, except __init__.py, use NumPy and pydantic, which are not installed at the build.
INTERPRETED = {
    "__init__.py",
    "random_order.py",
    "_snapshot.py",
    "explanation.py",
    "live_shares.py",
    "own_rules.py",
    "scheduler.py",
}
LIBRARY = "fairlead__mypyc"  # the extension with all compiled code, in the package's parent folder
# Extensions of different Pythons have different suffixes, so each Python has its own record.
_SUFFIX = EXTENSION_SUFFIXES[0]
_RECORD = f"built{os.path.splitext(_SUFFIX)[0]}.checksum"


def plain_is_selected() -> bool:
    """Return whether ``FAIRLEAD_PLAIN`` selects plain Python."""
    return os.environ.get("FAIRLEAD_PLAIN", "") not in {"", "0"}


def sources_to_compile(package: str = PACKAGE) -> list[str]:
    """List the modules to compile: `LOOPS`, and the scheduler's except `INTERPRETED`."""
    scheduler = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(os.path.join(package, "scheduler"))
        for name in names
        if name.endswith(".py") and name not in INTERPRETED
    ]
    return sorted([*scheduler, *(os.path.join(package, loop) for loop in LOOPS)])


def record_build(checksum: str, package: str = PACKAGE) -> None:
    """Record, for a checkout's extensions, the `checksum_of_sources` from before their build."""
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
    """Return whether a checkout's build is of the present sources; None if there is no build."""
    try:
        with open(os.path.join(package, _RECORD), encoding="ascii") as record:
            return record.read() == checksum_of_sources(package)
    except FileNotFoundError:
        return None


@cache
def choose_how_it_runs() -> None:
    """Import sources instead of extensions if plain Python is selected; warn of a stale build.

    Every package with compiled modules calls it at its import.
    """
    if plain_is_selected():
        sys.path_hooks.insert(0, _finder_of_sources)
    elif is_current() is False and sys.stderr is not None:
        checkout = os.path.dirname(os.path.dirname(PACKAGE))
        sys.stderr.write(
            f"fairlead: the compiled modules are older than their sources in {PACKAGE}; "
            f"run: make -C {checkout} built\n"
        )


def how_it_runs() -> str:
    """Return whether the compiled modules run as ``compiled`` or as ``plain Python``."""
    choose_how_it_runs()
    found = PathFinder.find_spec("_state", [os.path.join(PACKAGE, "scheduler")])
    is_plain = found is None or str(found.origin).endswith(".py")
    return "plain Python" if is_plain else "compiled"


def checksum_of_sources(package: str = PACKAGE) -> str:
    """Return a checksum of names and contents; file times would change with each checkout."""
    checksum = 0
    for path in sources_to_compile(package):
        with open(path, "rb") as source:
            name = os.path.relpath(path, package).encode()
            checksum = crc32(source.read(), crc32(name, checksum))
    return f"{checksum:08x}"


def _finder_of_sources(folder: str) -> FileFinder:
    """Path hook: return a finder of sources without extensions for folders of this package."""
    if not (folder + os.sep).startswith(PACKAGE + os.sep):
        raise ImportError(f"{folder} is not a folder of the package")
    return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))


if __name__ == "__main__":  # for make: exit status 0 if the build is current, or not needed
    sys.exit(not (plain_is_selected() or is_current()))
