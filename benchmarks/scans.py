"""Progressive filling by scanning all users and servers for every task, in NumPy.

References for benchmarks. Scores are floats; random demands have no ties that rounding could break.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem
from fairlead.model.quanta import to_quanta

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]


def scan(problem: Problem, select: str) -> Whole:
    """Return all P placements, users and servers in order, (P, 2).

    ``first-fit`` and ``best-fit`` use global dominant shares (drf), ``joint`` uses ps-dsf.
    """
    quanta = to_quanta(problem)
    capacity = np.repeat(quanta.capacity, problem.count, axis=0).T
    placements = {
        "first-fit": lambda: _scan_users(quanta.demand, problem.weight, capacity, first_server),
        "best-fit": lambda: _scan_users(quanta.demand, problem.weight, capacity, best_server),
        "joint": lambda: _scan_pairs(quanta.demand, problem.weight, capacity),
    }[select]()
    return np.array(list(placements))


def first_server(demand: Whole, free: Whole, _: Whole) -> int | None:
    """Return the first server on which a task fits; None without any."""
    fits = (free >= demand[:, None]).all(axis=0)
    first = int(fits.argmax())
    return first if fits[first] else None


def best_server(demand: Whole, free: Whole, total: Whole) -> int | None:
    """Return the server with the least H on which a task fits, of ties the first; None without any.

    `demand` (R,), `free` (R, S) and the pool's `total` (R,) are whole quanta. H is computed as
    docs/filling.md defines it, so ties are the same as in the scheduler.
    """
    fits = np.flatnonzero((free >= demand[:, None]).all(axis=0))
    if not fits.size:
        return None
    lead = int((demand > 0).argmax())
    misfit = np.zeros(fits.size)
    for r in range(len(demand)):
        off = abs(demand[r] / demand[lead] - free[r, fits] / free[lead, fits])
        misfit += off * (total[lead] / total[r])
    return int(fits[misfit.argmin()])


def _scan_users(
    demand: Whole,
    weight: Floats,
    capacity: Whole,
    choose: Callable[[Whole, Whole, Whole], int | None],
) -> Iterator[tuple[int, int]]:
    """Serve the user with the least dominant share until no task fits; yield user and server."""
    free, total = capacity.copy(), capacity.sum(axis=1)
    share = (demand / total).max(axis=1) / weight
    placed, score = np.zeros(len(demand)), np.zeros(len(demand))
    while (score < np.inf).any():
        user = int(score.argmin())
        server = choose(demand[user], free, total)
        if server is None:
            score[user] = np.inf
            continue
        free[:, server] -= demand[user]
        placed[user] += 1
        score[user] = placed[user] * share[user]
        yield user, server


def _scan_pairs(demand: Whole, weight: Floats, capacity: Whole) -> Iterator[tuple[int, int]]:
    """Serve the user and server with the least virtual dominant share until no task fits."""
    free, placed = capacity.copy(), np.zeros(len(demand))
    while True:
        fits = np.ones((len(demand), capacity.shape[1]), dtype=bool)
        share = np.zeros(fits.shape)
        # The 1 avoids a division by 0, where no task fits anyway.
        for needed, left, total in zip(demand.T, free, capacity, strict=True):
            fits &= left >= needed[:, None]
            share = np.maximum(share, needed[:, None] / np.maximum(total, 1))
        if not fits.any():
            return
        score = np.where(fits, placed[:, None] * share / weight[:, None], np.inf)
        user, server = divmod(int(score.argmin()), score.shape[1])
        free[:, server] -= demand[user]
        placed[user] += 1
        yield user, server
