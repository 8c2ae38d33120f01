"""The tables and figures that are reproduced, by name."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from fairlead.errors import InputError
from fairlead.formats.schema import did_you_mean
from fairlead.papers import drfh, dynamic, pdrf, private_clouds, psdsf
from fairlead.papers.kept import find_kept, keep
from fairlead.papers.reproduction import ENTRIES, Entry, Reproduction
from fairlead.papers.setting import Setting
from fairlead.simulation.run_folder import check_folder

_LOGGER = logging.getLogger("fairlead")
_AGAIN = "fairlead reproduce "


def _registered() -> dict[str, Entry]:
    """Import what computes tables and figures, which registers them; order them as papers do."""
    papers = (drfh, psdsf, private_clouds, pdrf, dynamic)
    for paper in papers:
        for module in iter_modules(paper.__path__, f"{paper.__name__}."):
            import_module(module.name)
    keys = [paper.PAPER.key for paper in papers]
    in_order = sorted(ENTRIES.values(), key=lambda e: (keys.index(e.paper.key), e.place))
    return {entry.key: entry for entry in in_order}


CATALOGUE: dict[str, Entry] = _registered()


def find_entries(names: Sequence[str]) -> list[Entry]:
    """Return the entries of tables (``drfh/figure-4``) and papers (``drfh``), all if none is named.

    They are in the order of the catalogue, each once. Raises InputError for an unknown name.
    """
    if not names:
        return list(CATALOGUE.values())
    wanted: set[str] = set()
    for name in names:
        found = [entry.key for entry in CATALOGUE.values() if name in (entry.key, entry.paper.key)]
        if not found:
            papers = {entry.paper.key: None for entry in CATALOGUE.values()}
            near = did_you_mean(name, (*papers, *CATALOGUE))
            said = near or "; `fairlead reproduce --list` says what there is"
            raise InputError(f"there is no {name!r}{said}", "what")
        wanted.update(found)
    return [entry for entry in CATALOGUE.values() if entry.key in wanted]


def reproduce(entry: Entry, setting: Setting) -> Reproduction:
    """Compute a table or figure, or read what was kept of it.

    Parameters
    ----------
    entry : Entry
    setting : Setting
        Shared by several, which then share their runs; with a folder what is found is kept there.
        Where that fails in the end, as on a full disk, a warning goes to the logger ``fairlead``.

    Raises
    ------
    InputError
        When the folder cannot be made or written.
    """
    if setting.folder is not None:
        check_folder(setting.folder)
    kept = find_kept(entry, setting)
    if kept is not None:
        return kept
    reproduction = entry.compute(setting)
    if setting.quick:
        reproduction = _with_quick_commands(reproduction)
    try:
        keep(entry, setting, reproduction)
    except InputError as fault:
        _LOGGER.warning("%s is finished, but not kept: %s", entry.key, fault)
    return reproduction


def _with_quick_commands(reproduction: Reproduction) -> Reproduction:
    """Have commands show the numbers that were found in few trials."""
    findings = tuple(
        replace(f, command=f"{f.command} --quick" if f.command.startswith(_AGAIN) else f.command)
        for f in reproduction.findings
    )
    return replace(reproduction, findings=findings)
