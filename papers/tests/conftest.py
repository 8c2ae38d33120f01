"""Settings and problems that the tests of the papers share."""

from __future__ import annotations

from pathlib import Path

import pytest

from effort import load_profile
from small_problems import SMALL

load_profile()


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Wang et al., Fig. 1: two unlike servers and two unlike users."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path
