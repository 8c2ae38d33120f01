"""Read and write Parquet files with a JSON header and a checksum in their metadata.

The key under which the metadata has the header identifies the kind of file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from fairlead.errors import InputError
from fairlead.formats.atomic_files import replaced_file

MAGIC = b"PAR1"
# The checksum is that of the file with zeros in place of the checksum. It detects damaged pages
# before the decoder, which prints many lines about them.
CHECKSUM_KEY = "fairlead_checksum"
_CHECKSUM = re.compile(rb"blake2b:([0-9a-f]{32})")
_NO_CHECKSUM = b"blake2b:" + b"0" * 32


class ParquetKind(NamedTuple):
    """A kind of file with a header."""

    name: str  # in error messages, such as ``run log``
    key: str  # key of the header in the metadata
    version: int


class ParquetContent(NamedTuple):
    """The content of a file."""

    header: Mapping[str, Any]
    frame: pl.DataFrame
    n_bytes: int  # size of the file


def write_parquet_file(
    frame: pl.DataFrame, header: Mapping[str, Any], kind: ParquetKind, path: Path
) -> None:
    """Write a table and its header of plain values, completely or not at all.

    The version is added to the header. Raises InputError when the file cannot be written.
    """
    text = json.dumps({"version": kind.version, **header}, allow_nan=False)
    metadata = {kind.key: text, CHECKSUM_KEY: _NO_CHECKSUM.decode()}
    content = BytesIO()
    frame.write_parquet(content, compression="zstd", metadata=metadata)
    with replaced_file(path) as draft:
        draft.write_bytes(_with_checksum(content.getvalue()))


def read_parquet_file(path: Path, kind: ParquetKind) -> ParquetContent:
    """Read a file that `write_parquet_file` or another program wrote; the checksum may be absent.

    Raises InputError for a file that cannot be read, is not a Parquet file, is damaged, or is of
    another kind or version. The error names the file.
    """
    source = str(path)
    content = _read_content(path)
    header = _read_header(content, kind, source)
    return ParquetContent(header, _read_frame(content, source), len(content))


def read_parquet_header(path: Path, kind: ParquetKind) -> Mapping[str, Any]:
    """Return the header of a file of a kind, without reading its table."""
    return _read_header(_read_content(path), kind, str(path))


def check_columns(
    frame: pl.DataFrame, kinds: Mapping[str, Any], may_be_empty: Mapping[str, pl.Expr]
) -> None:
    """Raise InputError for columns other than `kinds` (types by name), or for an empty field.

    A field of column `name` may be empty in the rows where `may_be_empty[name]` is true.
    """
    if dict(frame.schema) != kinds:
        found = ", ".join(f"{name} {kind}" for name, kind in frame.schema.items())
        raise InputError(f"the columns are {found}", "columns")
    for name in frame.columns:
        missing = pl.col(name).is_null() & ~may_be_empty.get(name, pl.lit(False))
        refuse_rows(frame.select(missing).to_series(), f"{name}: is empty")


def refuse_rows(wrong: pl.Series, fault: str) -> None:
    """Raise InputError for the first wrong row."""
    first = wrong.arg_max() if wrong.any() else None
    if first is not None:
        raise InputError(fault, f"row {first + 1}")


def _with_checksum(content: bytes) -> bytes:
    """Put the checksum in place of its zeros: the last such text, as a table may also hold it."""
    end = content.rindex(_NO_CHECKSUM) + len(_NO_CHECKSUM)
    digest = blake2b(content, digest_size=16).hexdigest().encode()
    return content[: end - len(digest)] + digest + content[end:]


def _check_checksum(content: bytes, source: str) -> None:
    """Raise InputError for a wrong checksum; files of other programs have none."""
    found = list(_CHECKSUM.finditer(content))
    if not found:
        return
    start, end = found[-1].span(1)
    digest = blake2b(content[:start], digest_size=16)
    digest.update(b"0" * (end - start))
    digest.update(content[end:])
    if digest.hexdigest().encode() != found[-1][1]:
        fault = "the Parquet file is damaged, or was rewritten: its checksum does not match"
        raise InputError(fault, "", source)


def _read_content(path: Path) -> bytes:
    source = str(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", "", source) from None
    if not content.startswith(MAGIC):
        raise InputError("is not a Parquet file", "", source)
    if not content.endswith(MAGIC) or len(content) <= 2 * len(MAGIC):
        raise InputError("the Parquet file ends before its data does (truncated?)", "", source)
    _check_checksum(content, source)
    return content


def _read_header(content: bytes, kind: ParquetKind, source: str) -> Mapping[str, Any]:
    try:
        metadata = pl.read_parquet_metadata(BytesIO(content))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _damaged(error, source) from None
    if kind.key not in metadata:
        fault = f"is a Parquet file but not a {kind.name}: its metadata has no {kind.key!r}"
        raise InputError(fault, "", source)
    try:
        header = json.loads(metadata[kind.key])
        version = header["version"]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"is not the JSON of a {kind.name}", kind.key, source) from None
    if version != kind.version:
        fault = f"is a {kind.name} of version {version!r}; only version {kind.version} can be read"
        raise InputError(fault, "", source)
    checked: Mapping[str, Any] = header
    return checked


def _read_frame(content: bytes, source: str) -> pl.DataFrame:
    try:
        return pl.read_parquet(BytesIO(content))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise _damaged(error, source) from None


def _damaged(error: BaseException, source: str) -> InputError:
    first_line = (str(error).splitlines() or [""])[0]
    return InputError(f"the Parquet file is damaged: {first_line}", "", source)
