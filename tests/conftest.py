"""Settings that all tests share."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fairlead",
    max_examples=40,
    deadline=None,
    # What decides whether a change lands draws the same examples each time; people draw others.
    derandomize=bool(os.environ.get("CI")),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fairlead")

# Tests that replay traces. What is compiled for them takes minutes: one process does it.
REPLAYING = (
    "tests/simulation/test_re",
    "tests/simulation/test_runs",
    "tests/scheduler/test_jobs",
    "tests/docs/",
    "tests/papers/",
    "tests/cli/test_simulate",
    "tests/cli/test_reproduce",
    "tests/report/test_simulation",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests together that compile the same."""
    for item in items:
        if item.nodeid.startswith(REPLAYING):
            item.add_marker(pytest.mark.xdist_group("replaying"))
