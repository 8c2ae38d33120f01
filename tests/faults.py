"""The faults of unusable input, each of which is one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import polars as pl
import pytest

from fairlead.errors import InputError
from fairlead.traces.parquet_trace import METADATA_KEY

P = ParamSpec("P")


def fault_of(call: Callable[P, object], *args: P.args, **options: P.kwargs) -> str:
    """Return the fault that a call raises."""
    with pytest.raises(InputError) as caught:
        call(*args, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def fault_within(path: Path, call: Callable[P, object], *args: P.args, **options: P.kwargs) -> str:
    """Return the fault that a call raises about a file, without the name of the file."""
    message = fault_of(call, *args, **options)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
    return message.removeprefix(f"{path}: ")


def spoil(path: Path, old: str, new: str) -> None:
    """Replace the first occurrence of a text in a file, which must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def change_header(path: Path, **values: object) -> None:
    """Change values in the header of a trace in Parquet, as another program may."""
    header = json.loads(pl.read_parquet_metadata(path)[METADATA_KEY]) | values
    pl.read_parquet(path).write_parquet(path, metadata={METADATA_KEY: json.dumps(header)})
