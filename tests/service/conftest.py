"""Fixtures: a cluster of processes, a service for a whole file, and a folder of attempts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from live_cluster import Cluster, end_tasks, until


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with (
        TemporaryDirectory() as folder
    ):  # if root runs the tests, the accounts of tasks can enter it
        made = Cluster(Path(folder))
        try:
            yield made
        finally:
            made.close()
            for log in sorted(made.folder.glob("*.log")):  # pytest shows it if the test fails
                print(log.name, log.read_text(), sep="\n")


@pytest.fixture(scope="module")
def one() -> Iterator[Cluster]:
    """A service for all tests of a file, with one worker.

    The worker may run tasks of ana and bo. It ignores SIGINT and SIGHUP, as without a terminal.
    """
    with TemporaryDirectory() as folder, closing(Cluster(Path(folder))) as made:
        (made.folder / "accounts.json").write_text('{"ana": "nobody", "bo": "nobody"}')
        made.start_service()
        made.before = ["sh", "-c", "trap '' INT HUP; exec \"$@\"", "sh"]
        made.start_worker("a", "--label", "kind=small", "--gpu", "1")
        with made.client() as client:
            until(client.servers)
        yield made


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder of attempts; processes that still run at the end are killed."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)
        yield Path(folder)
        end_tasks(Path(folder))
