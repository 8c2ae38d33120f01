"""Servers that options name: both numbers or neither, and of usable size."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.errors import InputError
from fairlead.traces._job_collector import check_given, equal_servers


@pytest.mark.parametrize(
    "given", [(None, None), (None, None, 0.5), (1, 1), (3, 4, 16.0), (10**7, 10**9, 1e9)]
)
def test_usable(given: tuple[Any, ...]) -> None:
    check_given(*given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((3, None), "--servers: needs --cores as well"),
        ((None, 3), "--cores: needs --servers as well"),
        ((0, 3), "--servers: must be a positive number, at most 10,000,000, not 0"),
        ((3, -1), "--cores: must be a positive number, at most 1,000,000,000, not -1"),
        ((10**7 + 1, 3), "--servers: must be a positive number, at most 10,000,000, not 10000001"),
        (
            (3, 10**9 + 1),
            "--cores: must be a positive number, at most 1,000,000,000, not 1000000001",
        ),
        ((3, 4, 0.0), "--memory: must be a positive number, at most 1,000,000,000, not 0.0"),
        (
            (None, None, float("nan")),
            "--memory: must be a positive number, at most 1,000,000,000, not nan",
        ),
    ],
)
def test_unusable(given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(InputError) as caught:
        check_given(*given)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("memory", "resources", "units", "capacity"),
    [(None, ("cpu",), ("cores",), [[4]]), (16.0, ("cpu", "memory"), ("cores", "GiB"), [[4, 16]])],
)
def test_one_group(
    memory: float | None, resources: tuple[str, ...], units: tuple[str, ...], capacity: list[Any]
) -> None:
    cluster = equal_servers("server", 3, 4, memory)
    assert (cluster.groups, cluster.count.tolist()) == (("server",), [3])
    assert (cluster.resources, cluster.units) == (resources, units)
    assert cluster.capacity.tolist() == capacity
