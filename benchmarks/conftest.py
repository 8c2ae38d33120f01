"""Shared by all benchmarks: state the machine and list the ratios at the end."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable

import pytest

_LINES: list[str] = []


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Run in this process: pytest-benchmark measures nothing where tests could be distributed."""
    config.option.dist = "no"


@pytest.fixture
def report() -> Callable[[str], None]:
    """Return a function that adds a line to the figures printed at the end of the run."""
    return _LINES.append


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or "unknown processor"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures after the benchmark tables."""
    if not _LINES:
        return
    terminalreporter.section("figures")
    terminalreporter.write_line(
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()}"
    )
    for line in _LINES:
        terminalreporter.write_line(line)
