"""Dynamic DRF by its definition, in fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Row = Sequence[Fraction]


def exact_levels(
    demand: Sequence[Sequence[float]], weight: Sequence[float]
) -> list[list[Fraction]]:
    """Return the levels of the arrived agents after each arrival, by exact water-filling."""
    rows = [[Fraction(d) for d in row] for row in demand]
    weights = [Fraction(w) for w in weight]
    levels: list[Fraction] = []
    history = []
    for k in range(1, len(rows) + 1):
        use = [[w * d for d in row] for w, row in zip(weights[:k], rows[:k], strict=True)]
        levels = _fill(use, [*levels, Fraction(0)], sum(weights[:k]) / sum(weights))
        history.append(levels)
    return history


def _fill(use: Sequence[Row], levels: list[Fraction], budget: Fraction) -> list[Fraction]:
    levels = list(levels)
    agents, resources = range(len(use)), range(len(use[0]))
    while True:
        used = [sum(use[i][r] * levels[i] for i in agents) for r in resources]
        able = [i for i in agents if all(not use[i][r] or used[r] < budget for r in resources)]
        if not able:
            return levels
        lowest = min(levels[i] for i in able)
        front = [i for i in able if levels[i] == lowest]
        ends = [levels[i] for i in able if levels[i] > lowest]
        for r in resources:
            rate = sum(use[i][r] for i in front)
            if rate:
                ends.append(lowest + (budget - used[r]) / rate)
        for i in front:
            levels[i] = min(ends)
