"""Dynamic DRF from its definition, in fractions; and Algorithm 1 as it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Row = Sequence[Fraction]


def exact_levels(
    demand: Sequence[Sequence[float]], weight: Sequence[float]
) -> list[list[Fraction]]:
    """Return everybody's level after each step: water-filling, nothing rounded."""
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


def printed_algorithm_1(demand: Sequence[Sequence[float]]) -> list[list[Fraction]]:
    """Return everybody's share after each step by Algorithm 1 of Li et al. 2019, to the letter."""
    d = [[Fraction(v) for v in row] for row in demand]
    n, resources = len(d), range(len(d[0]))
    x = [Fraction(1, n)]
    history = [x]
    for k in range(2, n + 1):
        x, budget = [*x, Fraction(0)], Fraction(k, n)

        def total(first: int, last: int, r: int, x: list[Fraction] | None) -> Fraction:
            """Sum over the agents first..last, counted from 1; of the demands alone without x."""
            agents = range(first - 1, last)
            return sum((d[i][r] * (x[i] if x else 1) for i in agents), Fraction(0))

        if all(total(1, k, r, x) <= budget for r in resources):
            alpha = [Fraction(0) for _ in resources]
            beta = [total(1, k, r, None) for r in resources]
        else:
            low, high = 1, k
            tau = -(-(low + high) // 2)
            alpha = [total(1, tau - 1, r, x) for r in resources]
            beta = [total(tau, k, r, None) for r in resources]
            while high - low > 1:
                if all(alpha[r] + beta[r] * x[tau - 1] <= budget for r in resources):
                    high = tau
                else:
                    low = tau
                tau = -(-(low + high) // 2)
                alpha = [total(1, tau - 1, r, x) for r in resources]
                beta = [total(tau, k, r, None) for r in resources]
        level = min((budget - alpha[r]) / beta[r] for r in resources)
        x = [max(level, share) for share in x]
        history.append(x)
    return history
