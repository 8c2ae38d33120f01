"""A cluster of processes, or a folder of attempts, for each test that wants one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from live_cluster import Cluster, end_tasks


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with TemporaryDirectory() as folder:  # where root runs tests, tasks' accounts can go there
        made = Cluster(Path(folder))
        try:
            yield made
        finally:
            made.close()
            for log in sorted(made.folder.glob("*.log")):  # shown where the test fails
                print(log.name, log.read_text(), sep="\n")


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder of attempts; what still runs in it is ended."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)
        yield Path(folder)
        end_tasks(Path(folder))
