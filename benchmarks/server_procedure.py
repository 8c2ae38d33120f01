"""Algorithm I of Khamse-Ashari et al. 2017 as it is printed, in NumPy.

A server looks for the users with the least share that have no bottleneck on it. It takes from the
users with the highest shares, one for each resource that is used up, what the former need to rise,
as far as that leaves the takers no higher than the givers. That is repeated until each user has a
bottleneck; then it is the next server's turn. Shares this close, relative, are equal: floats need
that, the paper has none of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.model.problem import Problem

EQUAL = 1e-12
USED_UP = 1e-12
# Updates of a server in one round, per user; the next round continues.
MOST_UPDATES = 20

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class ServerProcedure:
    """Rounds over all servers of a problem, from DRF on each server by itself.

    Parameters
    ----------
    problem : Problem
        Without limits on tasks.
    use : (R, N, G) float
        The demand of a task on each group, relative to its capacity.
    start : (N, G) float
        Tasks by DRF on each server by itself, where the paper begins.
    """

    def __init__(self, problem: Problem, use: Floats, start: Floats) -> None:
        self.rate = problem.gamma * problem.weight[:, None]
        self.use = np.ascontiguousarray(use.transpose(2, 1, 0))
        self.tasks = start.copy()
        self.updates = 0

    def run(self, rounds: int) -> bool:
        """Make a number of rounds, and return whether the last one changed nothing."""
        for _ in range(rounds):
            total = self.tasks.sum(axis=1)
            updates = sum(self._serve(i, total) for i in range(len(self.use)))
            self.updates += updates
            if updates == 0:
                return True
        return False

    def _serve(self, i: int, total: Floats) -> int:
        """Run one server until all of its users have a bottleneck; return the updates that took."""
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
    """The knowledge of a server: its K users, their tasks on it, and their tasks on all servers."""

    rate: Floats  # (K,) tasks for a share of 1, by weight
    use: Floats  # (K, R)
    tasks: Floats  # (K,)
    total: Floats  # (K,)

    def run(self, most: int) -> int:
        """Update until all users have a bottleneck, up to a number of times; return the number."""
        listed = np.ones(len(self.rate), dtype=bool)
        updates = 0
        while listed.any() and updates < most:
            share = self.total / self.rate
            least = share[listed].min()
            lowest = listed & (share <= least * (1.0 + EQUAL))
            needed = self.rate[lowest] @ self.use[lowest]
            used_up = (self.tasks @ self.use >= 1.0 - USED_UP) & (needed > 0.0)
            can_give = listed & (self.tasks > 0.0)
            # Of each resource that is used up, the user with the highest share that has any of it.
            giver = {}
            for r in np.flatnonzero(used_up).tolist():
                of_givers = np.where(can_give & (self.use[:, r] > 0.0), share, -1.0)
                giver[r] = int(of_givers.argmax())
                if of_givers[giver[r]] <= least * (1.0 + EQUAL):
                    listed &= self.use[:, r] == 0.0  # r is the bottleneck
                    break
            else:
                self._update(share, lowest, needed, sorted(set(giver.values())))
                updates += 1
        return updates

    def _update(self, share: Floats, lowest: Mask, needed: Floats, givers: list[int]) -> None:
        """Take from the givers and let the users with the least share rise: the subroutine."""
        kept = self.tasks.copy()
        kept[givers] = 0.0
        free = np.maximum(1.0 - kept @ self.use, 0.0)
        rise = (free[needed > 0.0] / needed[needed > 0.0]).min()
        above = share[givers] - share[lowest].min()
        given = self.tasks[givers] / self.rate[givers]
        part = (above / (rise + given)).min(initial=1.0)
        change = np.zeros(len(self.tasks))
        change[lowest] = part * rise * self.rate[lowest]
        change[givers] -= part * self.tasks[givers]
        self.tasks += change
        self.total += change
