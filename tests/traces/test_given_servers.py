"""Servers that options name: both numbers or neither, and of usable size."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.errors import InputError
from fairlead.traces._job_collector import check_given


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
