"""Run benchmarks in one process, because parallel ones would slow each other down."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Disable the distribution of tests over processes."""
    config.option.dist = "no"
