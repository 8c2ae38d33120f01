"""Compare whole tasks by progressive filling with divisible shares, by the size of tasks.

    python benchmarks/fillings_beside_shares.py [PROBLEMS]

Prints the table of docs/filling.md.
"""

from __future__ import annotations

import sys

import numpy as np

import fairlead

FILLINGS = (("ps-dsf", "joint", True, "ps-dsf"), ("drf", "best-fit", False, "drfh"))


def draw_problem(rng: np.random.Generator, per_server: float) -> fairlead.Problem:
    """Draw 6 users on about 16 servers; at most `per_server` tasks of a user fit on a server."""
    capacity = np.exp(rng.uniform(0, 1.5, (4, 2))).round(2)
    count = rng.integers(2, 6, 4)
    demand = np.exp(rng.uniform(-1, 1, (6, 2)))
    eligible = rng.random((6, 4)) < 0.8
    eligible[~eligible.any(axis=1), 0] = True
    fitting = (capacity[None] / demand[:, None]).min(axis=2)
    demand *= 0.9999 * (np.where(eligible, fitting, 0).max(axis=1) / per_server)[:, None]
    return fairlead.Problem.from_arrays(
        capacity, demand, count=count, eligible=eligible, weight=rng.choice([1.0, 1.0, 2.0], 6)
    )


def table_row(per_server: float, filling: tuple[str, str, bool, str], problems: int = 40) -> str:
    """Return one row of the table, in Markdown."""
    criterion, select, residual, mechanism = filling
    apart, totals = [], []
    for seed in range(problems):
        problem = draw_problem(np.random.default_rng(seed), per_server)
        filled = fairlead.fill(problem, criterion, select, residual=residual)
        fair = fairlead.solve(problem, mechanism).user_tasks
        apart.append(np.abs(filled.user_tasks / fair - 1) * 100)
        totals.append((filled.user_tasks.sum() / fair.sum() - 1) * 100)
    worst = np.max(apart, axis=1)
    cells = (
        f"{per_server:g}",
        f"`{filled.policy.name}`, `{mechanism}`",
        f"{np.median(apart):.0f} %",
        f"{np.median(worst):.0f} %, {worst.max():.0f} %",
        f"{np.median(totals):+.0f} %, {min(totals):+.0f} to {max(totals):+.0f} %",
    )
    return f"| {' | '.join(cells)} |".replace("-0 %", "+0 %")


if __name__ == "__main__":
    for tasks_per_server in (100, 10, 3, 1):
        for filling_and_mechanism in FILLINGS:
            print(
                table_row(tasks_per_server, filling_and_mechanism, *map(int, sys.argv[1:])),
                flush=True,
            )
