"""How many random cases the tests try: a few for each change, ten times as many for a release."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EFFORT = float(os.environ.get("EFFORT", "1"))


def cases(number: int) -> int:
    """Return the number of random cases, given the one that suffices for each change."""
    return max(1, round(number * EFFORT))


def load_profile() -> None:
    """Load the settings of Hypothesis that all tests share."""
    settings.register_profile(
        "fairlead",
        max_examples=cases(10),
        deadline=None,
        # What decides whether a change lands draws the same examples each time; people draw others.
        derandomize=bool(os.environ.get("CI")),
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("fairlead")
