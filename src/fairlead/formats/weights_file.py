"""Read files of weights: ``{ana: 2, bo: 0.5}`` in YAML or JSON."""

from __future__ import annotations

from pathlib import Path

from fairlead.errors import InputError
from fairlead.formats.documents import read_document, source_name
from fairlead.formats.file_faults import keyed_by_text, number_at


def read_weights(path: Path) -> dict[str, float]:
    """Read the weights of users by name; raise InputError for an unusable file."""
    try:
        found = read_document(path)
        if not isinstance(found, dict):
            raise InputError("must be a mapping of users to weights, such as {ana: 2}")
        named = keyed_by_text(found, "weights")
        return {name: number_at(value, name) for name, value in named.items()}
    except InputError as error:
        raise error.within(source_name(path)) from None
