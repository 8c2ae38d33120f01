"""Progressive filling, proved by replaying the order of its placements."""

from __future__ import annotations

from fairlead.model.allocation import Certificate
from fairlead.model.cluster import IntArray
from fairlead.model.problem import Problem


def certify_filling(
    problem: Problem, criterion: str, select: str, residual: bool, order: IntArray
) -> Certificate:
    raise NotImplementedError
