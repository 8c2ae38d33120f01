"""Jain's index of fairness."""

from __future__ import annotations

from fairlead.model.cluster import FloatArray


def jain_index(x: FloatArray) -> float:
    """Return ``(sum x)^2 / (n sum x^2)``: 1 when all have the same, 1/n when one has all.

    It is not a number where nobody has anything. Source: Jain, Chiu and Hawe 1984, DEC-TR-301.
    """
    squares = float((x**2).sum())
    return float(x.sum()) ** 2 / (len(x) * squares) if squares > 0 else float("nan")
