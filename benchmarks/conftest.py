"""Run benchmarks in one process: side by side they would measure each other."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Turn the distribution of tests off."""
    config.option.dist = "no"
