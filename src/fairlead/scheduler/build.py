"""Report how the scheduler runs: compiled by mypyc, or as plain Python."""

from __future__ import annotations

from typing import Final

COMPILED: Final = not __file__.endswith(".py")


def how_it_runs() -> str:
    """Return ``compiled`` or ``plain Python``."""
    return "compiled" if COMPILED else "plain Python"
