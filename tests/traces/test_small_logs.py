"""The small logs are what their generator writes."""

from __future__ import annotations

import gzip
from pathlib import Path

import small_logs


def content(path: Path) -> bytes:
    """The content of a file; the size of its gzip file differs between machines."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def test_examples_equal_the_generator(tmp_path: Path) -> None:
    small_logs.write_all(tmp_path)
    written = {path.relative_to(tmp_path): content(path) for path in tmp_path.rglob("*.*")}
    kept = {
        path.relative_to(small_logs.FOLDER): content(path)
        for path in small_logs.FOLDER.rglob("*.*")
    }
    assert written == kept
    assert len(kept) == 15
