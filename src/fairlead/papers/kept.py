"""What was reproduced, kept in a folder, so that an interrupted command goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fairlead.formats.text_file import write_text
from fairlead.metrics.plain_values import plain
from fairlead.papers.reproduction import Entry, Reproduction
from fairlead.papers.setting import Setting
from fairlead.simulation.run_folder import open_folder
from fairlead.sources import digest_of_sources

# Numbers that are none are kept too.
_KEPT = TypeAdapter(tuple[str, Reproduction], config=ConfigDict(ser_json_inf_nan="constants"))


def find_kept(entry: Entry, setting: Setting) -> Reproduction | None:
    """Return what was kept of an entry, or None if nothing was or the program has changed since."""
    path = _path_of(entry, setting)
    if path is None or not path.is_file():
        return None
    try:
        stamp, reproduction = _KEPT.validate_json(path.read_bytes())
    except (ValidationError, OSError):
        return None  # of another version, or not whole: it is computed again
    return reproduction if stamp == digest_of_sources() else None


def keep(entry: Entry, setting: Setting, reproduction: Reproduction) -> None:
    """Keep what came of an entry, if the setting has a folder; InputError if it is unwritable."""
    path = _path_of(entry, setting)
    if path is not None and setting.folder is not None:
        open_folder(setting.folder)
        pictures = tuple(replace(p, figure=plain(p.figure)) for p in reproduction.pictures)
        as_values = replace(reproduction, pictures=pictures, data=plain(reproduction.data))
        write_text(path, _KEPT.dump_json((digest_of_sources(), as_values)).decode())


def _path_of(entry: Entry, setting: Setting) -> Path | None:
    if setting.folder is None:
        return None
    quick = "-quick" if setting.quick else ""
    return setting.folder / f"{entry.key.replace('/', '_')}{quick}-seed-{setting.seed}.json"
