"""Find the reproduced tables and figures by name, compute them, and keep results in a folder."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fairlead.errors import InputError
from fairlead.formats.atomic_files import write_text
from fairlead.formats.file_faults import did_you_mean
from fairlead.simulation.metrics.summary import plain
from fairlead.simulation.planned_runs import check_folder, open_folder
from fairlead.source_digest import digest_of_sources
from fairlead_papers import drfh, dynamic, pdrf, private_clouds, psdsf
from fairlead_papers.reproduction import ENTRIES, Entry, Reproduction
from fairlead_papers.setting import Setting

_LOGGER = logging.getLogger("fairlead")
_AGAIN = "fairlead reproduce "
# A kept file: the digest of the sources, and the result. NaN and infinity are kept, too.
_KEPT = TypeAdapter(tuple[str, Reproduction], config=ConfigDict(ser_json_inf_nan="constants"))


def _import_entries() -> dict[str, Entry]:
    """Import the modules that register tables and figures; return these in the papers' order."""
    papers = (drfh, psdsf, private_clouds, pdrf, dynamic)
    for paper in papers:
        for module in iter_modules(paper.__path__, f"{paper.__name__}."):
            import_module(module.name)
    keys = [paper.PAPER.key for paper in papers]
    in_order = sorted(ENTRIES.values(), key=lambda e: (keys.index(e.paper.key), e.sort_key))
    return {entry.key: entry for entry in in_order}


CATALOGUE: dict[str, Entry] = _import_entries()


def find_entries(names: Sequence[str]) -> list[Entry]:
    """Return the entries of the named tables (``drfh/figure-4``) and papers (``drfh``).

    Without names all are returned. They are in the order of the catalogue, each once. Raises
    InputError for an unknown name.
    """
    if not names:
        return list(CATALOGUE.values())
    wanted: set[str] = set()
    for name in names:
        found = [entry.key for entry in CATALOGUE.values() if name in (entry.key, entry.paper.key)]
        if not found:
            papers = {entry.paper.key: None for entry in CATALOGUE.values()}
            near = did_you_mean(name, (*papers, *CATALOGUE))
            hint = near or "; `fairlead reproduce --list` lists the names"
            raise InputError(f"there is no {name!r}{hint}", "what")
        wanted.update(found)
    return [entry for entry in CATALOGUE.values() if entry.key in wanted]


def parse_parameters(entries: Sequence[Entry], given: Sequence[str]) -> dict[str, int]:
    """Parse ``NAME=NUMBER`` texts; return the numbers by name.

    Raises InputError for another form, a parameter that no entry has, and a number out of range.
    """
    known: dict[str, int] = {}  # the largest value that any entry admits
    for entry in entries:
        for parameter in entry.parameters:
            known[parameter.name] = max(known.get(parameter.name, 0), parameter.most)
    found = {}
    for text in given:
        name, equals, number = text.partition("=")
        if not equals:
            raise InputError(f"must be NAME=NUMBER, not {text!r:.60}", "--set")
        if name not in known:
            has = f"known: {', '.join(known)}" if known else "these experiments have none"
            raise InputError(f"there is no parameter {name!r:.60}; {has}", "--set")
        is_number = number.isascii() and number.isdigit() and len(number) < 10
        if not is_number or not 1 <= int(number) <= known[name]:
            reason = f"{name} must be a whole number from 1 to {known[name]:,}, not {number!r:.60}"
            raise InputError(reason, "--set")
        found[name] = int(number)
    return found


def reproduce(entry: Entry, setting: Setting) -> Reproduction:
    """Compute a table or figure, or read it from the setting's folder; keep it there.

    If the result cannot be written, as on a full disk, a warning goes to the logger ``fairlead``.
    Raises InputError when the folder cannot be created or is not writable.
    """
    if setting.folder is not None:
        check_folder(setting.folder)
    kept = read_kept(entry, setting)
    if kept is not None:
        return kept
    reproduction = entry.compute(setting)
    options = "".join(f" --set {name}={number}" for name, number in setting.given.items())
    if setting.quick:
        options += " --quick"
    if options:
        reproduction = _with_options(reproduction, options)
    try:
        keep(entry, setting, reproduction)
    except InputError as error:
        _LOGGER.warning("%s is finished, but not kept: %s", entry.key, error)
    return reproduction


def _with_options(reproduction: Reproduction, options: str) -> Reproduction:
    """Add the options of this run to the commands that show findings."""
    findings = tuple(
        replace(f, command=f"{f.command}{options}" if f.command.startswith(_AGAIN) else f.command)
        for f in reproduction.findings
    )
    return replace(reproduction, findings=findings)


def read_kept(entry: Entry, setting: Setting) -> Reproduction | None:
    """Return the kept result of an entry; None without one, or if the sources have changed."""
    path = _path_of(entry, setting)
    if path is None or not path.is_file():
        return None
    try:
        stamp, reproduction = _KEPT.validate_json(path.read_bytes())
    except (ValidationError, OSError):
        return None  # of another version, or incomplete: it is computed again
    return reproduction if stamp == _stamp() else None


def keep(entry: Entry, setting: Setting, reproduction: Reproduction) -> None:
    """Write a result into the setting's folder, if any; raise InputError if it is not writable."""
    path = _path_of(entry, setting)
    if path is not None and setting.folder is not None:
        open_folder(setting.folder)
        as_values = replace(reproduction, data=plain(reproduction.data))
        write_text(path, _KEPT.dump_json((_stamp(), as_values)).decode())


def _stamp() -> str:
    return digest_of_sources("fairlead_papers")


def _path_of(entry: Entry, setting: Setting) -> Path | None:
    if setting.folder is None:
        return None
    quick = "-quick" if setting.quick else ""
    own = {parameter.name for parameter in entry.parameters}
    changed = "".join(
        f"-{name}-{number}" for name, number in sorted(setting.given.items()) if name in own
    )
    name = f"{entry.key.replace('/', '_')}{quick}{changed}-seed-{setting.seed}.json"
    return setting.folder / name
