"""Settings that all tests share."""

from __future__ import annotations

import os

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
