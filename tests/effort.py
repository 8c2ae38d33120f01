"""How many random cases the tests try: a few for each change, ten times as many for a release."""

from __future__ import annotations

import os

EFFORT = float(os.environ.get("EFFORT", "1"))


def cases(number: int) -> int:
    """Return the number of random cases, given the one that suffices for each change."""
    return max(1, round(number * EFFORT))
