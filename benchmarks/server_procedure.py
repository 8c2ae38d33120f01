"""Algorithm I of Khamse-Ashari et al. 2017 as printed, in NumPy, as a reference for benchmarks.

A server finds the users with the least share that have no bottleneck on it. For each used-up
resource the user with the highest share gives up tasks so that these users can rise, at most until
shares are equal. The server repeats this until each user has a bottleneck; then the next server has
its turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem

# Tolerances, which floats need and the paper does not have: relative difference of equal shares,
# and free fraction of a used-up resource.
EQUAL = 1e-12
USED_UP = 1e-12
# Largest number of updates of a server in one round, per user; the next round continues.
MOST_UPDATES = 20

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class ServerProcedure:
    """Run rounds over all servers of a problem, starting from DRF on each server.

    Parameters
    ----------
    problem : Problem
        Without limits on tasks.
    use : (R, N, G) float
        Demand of a task, relative to the capacity of each group.
    start : (N, G) float
        Tasks by DRF on each server by itself, the paper's initial allocation.
    """

    def __init__(self, problem: Problem, use: Floats, start: Floats) -> None:
        self.rate = problem.gamma * problem.weight[:, None]
        self.use = np.ascontiguousarray(use.transpose(2, 1, 0))
        self.tasks = start.copy()
        self.updates = 0

    def run(self, rounds: int) -> bool:
        """Run at most `rounds` rounds; return whether the last one changed nothing."""
        for _ in range(rounds):
            total = self.tasks.sum(axis=1)
            updates = sum(self._serve(i, total) for i in range(len(self.use)))
            self.updates += updates
            if updates == 0:
                return True
        return False

    def _serve(self, i: int, total: Floats) -> int:
        """Run one server until all its users have a bottleneck; return the number of updates."""
        users = np.flatnonzero(self.rate[:, i])
        server = _Server(
            rate=self.rate[users, i],
            use=self.use[i, users],
            tasks=self.tasks[users, i],
            total=total[users],
        )
        updates = server.run(MOST_UPDATES * len(total))
        self.tasks[users, i], total[users] = server.tasks, server.total
        return updates


@dataclass
class _Server:
    """The knowledge of a server about its K users."""

    rate: Floats  # (K,) tasks at a virtual dominant share of 1 per unit of weight
    use: Floats  # (K, R) demand of a task, relative to capacity
    tasks: Floats  # (K,) on this server
    total: Floats  # (K,) on all servers

    def run(self, most: int) -> int:
        """Update until all users have a bottleneck, at most `most` times; return the updates."""
        listed = np.ones(len(self.rate), dtype=bool)
        updates = 0
        while listed.any() and updates < most:
            share = self.total / self.rate
            least = share[listed].min()
            lowest = listed & (share <= least * (1.0 + EQUAL))
            needed = self.rate[lowest] @ self.use[lowest]
            used_up = (self.tasks @ self.use >= 1.0 - USED_UP) & (needed > 0.0)
            can_give = listed & (self.tasks > 0.0)
            # For each used-up resource, the user with the highest share that uses it.
            giver = {}
            for r in np.flatnonzero(used_up).tolist():
                giver_share = np.where(can_give & (self.use[:, r] > 0.0), share, -1.0)
                giver[r] = int(giver_share.argmax())
                if giver_share[giver[r]] <= least * (1.0 + EQUAL):
                    listed &= self.use[:, r] == 0.0  # r is the bottleneck
                    break
            else:
                self._update(share, lowest, needed, sorted(set(giver.values())))
                updates += 1
        return updates

    def _update(self, share: Floats, lowest: Mask, needed: Floats, givers: list[int]) -> None:
        """Take tasks from the givers, and raise the users with the least share (the subroutine)."""
        kept = self.tasks.copy()
        kept[givers] = 0.0
        free = np.maximum(1.0 - kept @ self.use, 0.0)
        rise = (free[needed > 0.0] / needed[needed > 0.0]).min()
        above = share[givers] - share[lowest].min()
        given = self.tasks[givers] / self.rate[givers]
        fraction = (above / (rise + given)).min(initial=1.0)
        change = np.zeros(len(self.tasks))
        change[lowest] = fraction * rise * self.rate[lowest]
        change[givers] -= fraction * self.tasks[givers]
        self.tasks += change
        self.total += change
