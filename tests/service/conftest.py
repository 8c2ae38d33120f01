"""A cluster of processes for each test that wants one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from live_cluster import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with TemporaryDirectory() as folder:  # where root runs tests, tasks' accounts can go there
        made = Cluster(Path(folder))
        try:
            yield made
        finally:
            made.close()
