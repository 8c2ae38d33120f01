"""Algorithm I of Khamse-Ashari et al. 2017 as it is printed, compiled.

A server looks for the users with the least share that have no bottleneck on it. It takes from the
users with the highest shares, one for each resource that is used up, what the former need to rise,
as far as that leaves the takers no higher than the givers. That is repeated until everybody has a
bottleneck; then it is the next server's turn. Shares this close, relative, are equal: floats need
that, the paper has none of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairlead.model.problem import Problem

EQUAL = 1e-12
USED_UP = 1e-12
# Updates of a server in one round, per user; what is left then is left to the next round.
MOST_UPDATES = 20


class ServerProcedure:
    """Rounds over all servers of a problem, from DRF on each server by itself.

    Parameters
    ----------
    problem : Problem
        Without limits on tasks.
    use : (R, N, G) float
        What a task takes of each group, relative to its capacity.
    start : (N, G) float
        Tasks by DRF on each server by itself, where the paper begins.
    """

    def __init__(
        self, problem: Problem, use: NDArray[np.float64], start: NDArray[np.float64]
    ) -> None:
        self.rate = problem.gamma * problem.weight[:, None]
        self.use = np.ascontiguousarray(use.transpose(2, 1, 0))
        self.tasks = start.copy()
        self.updates = 0

    def run(self, rounds: int) -> bool:
        """Go round so many times, and return whether nothing was left to update."""
        for _ in range(rounds):
            updates = _go_round(self.rate, self.use, self.tasks)
            self.updates += updates
            if updates == 0:
                return True
        return False


@njit(cache=True)
def _go_round(rate: Any, use: Any, tasks: Any) -> int:
    updates = 0
    total = tasks.sum(axis=1)
    for i in range(rate.shape[1]):
        updates += _serve(i, rate, use[i], tasks, total)
    return updates


@njit(cache=True)
def _serve(i: int, rate: Any, use: Any, tasks: Any, total: Any) -> int:
    """Run one server until all of its users have a bottleneck; return the updates that took."""
    n_users, n_resources = use.shape
    listed = rate[:, i] > 0.0
    giver = np.full(n_resources, -1)
    free, needed = np.empty(n_resources), np.empty(n_resources)
    updates = 0
    while listed.any() and updates < MOST_UPDATES * n_users:
        least = np.inf
        for n in range(n_users):
            if listed[n]:
                least = min(least, total[n] / rate[n, i])
        free[:] = 1.0
        needed[:] = 0.0
        for n in range(n_users):
            lowest = listed[n] and total[n] / rate[n, i] <= least * (1.0 + EQUAL)
            for r in range(n_resources):
                free[r] -= tasks[n, i] * use[n, r]
                if lowest:
                    needed[r] += rate[n, i] * use[n, r]
        bottleneck = -1
        for r in range(n_resources):
            giver[r] = -1
            if free[r] > USED_UP or needed[r] == 0.0:
                continue
            highest = -1.0
            for n in range(n_users):
                if listed[n] and tasks[n, i] * use[n, r] > 0.0 and total[n] / rate[n, i] > highest:
                    giver[r], highest = n, total[n] / rate[n, i]
            if highest <= least * (1.0 + EQUAL):
                bottleneck = r
        if bottleneck >= 0:
            for n in range(n_users):
                listed[n] = listed[n] and use[n, bottleneck] == 0.0
            continue
        _update(i, rate, use, tasks, total, listed, least, giver, free, needed)
        updates += 1
    return updates


@njit(cache=True)
def _update(
    i: int,
    rate: Any,
    use: Any,
    tasks: Any,
    total: Any,
    listed: Any,
    least: float,
    giver: Any,
    free: Any,
    needed: Any,
) -> None:
    """Take from the givers and let those with the least share rise: the paper's subroutine."""
    n_resources = use.shape[1]
    first = np.zeros(n_resources, dtype=np.bool_)
    for r in range(n_resources):
        first[r] = giver[r] >= 0 and not (giver[:r] == giver[r]).any()
        if first[r]:
            for q in range(n_resources):
                free[q] += tasks[giver[r], i] * use[giver[r], q]
    rise = np.inf
    for r in range(n_resources):
        if needed[r] > 0.0:
            rise = min(rise, max(free[r], 0.0) / needed[r])
    part = 1.0
    for r in range(n_resources):
        if first[r]:
            n = giver[r]
            above = total[n] / rate[n, i] - least
            part = min(part, above / (rise + tasks[n, i] / rate[n, i]))
    for n in range(total.size):
        if listed[n] and total[n] / rate[n, i] <= least * (1.0 + EQUAL):
            tasks[n, i] += part * rate[n, i] * rise
            total[n] += part * rate[n, i] * rise
    for r in range(n_resources):
        if first[r]:
            n = giver[r]
            total[n] -= part * tasks[n, i]
            tasks[n, i] -= part * tasks[n, i]
