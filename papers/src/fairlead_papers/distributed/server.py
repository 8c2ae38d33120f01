"""One server and its procedure: divide what it has, by what it knows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairlead.mechanisms.psdsf import entries_by_server, prepare_sweeps
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.solvers.water_filling import WaterFilling


@dataclass(eq=False)
class Server:
    """A server, or several identical ones taken as one."""

    users: IntArray  # (K,): who can run here
    rate: FloatArray  # (K,): phi gamma, tasks per unit of level
    # (R, K): what one task takes of each resource, relative to what the server has; under TDM of
    # its time alone.
    use: FloatArray
    limit: FloatArray  # (K,): tasks each user has in all
    believed: FloatArray  # (K,): what it takes users to run on other servers

    @cached_property
    def _filling(self) -> WaterFilling:
        return WaterFilling(self.rate.tolist(), self.use.tolist())

    def run(self, heard: FloatArray, active: BoolArray, damping: float) -> FloatArray:
        """Return (K,) tasks after the server procedure, on what is heard of users elsewhere.

        A part of what was believed before, `damping`, stays.
        """
        # Of those who are not there nothing is decided by which old beliefs would be kept.
        news = np.where(active, 1.0 - damping, 1.0)
        self.believed += news * (heard - self.believed)
        return self.divide(self.believed, active)

    def divide(self, elsewhere: FloatArray, active: BoolArray) -> FloatArray:
        """Return (K,) tasks of each user after the server procedure, run to its end.

        `elsewhere` (K,) is what users run on other servers, as far as known; the division is
        possible whatever it says. Khamse-Ashari et al. 2017, III-C and III-D. O(K R^2) times the
        few pieces that the search visits.
        """
        width = np.where(active, np.maximum(self.limit - elsewhere, 0.0) / self.rate, 0.0)
        start = elsewhere / self.rate
        return np.array(self._filling.divide(start.tolist(), width.tolist()))

    def overuse(self, tasks: FloatArray) -> float:
        """Return by what part (K,) tasks use more of a resource than there is; 0 if they do not."""
        return max(0.0, float((self.use @ tasks).max(initial=0.0)) - 1.0)


def servers_of(problem: Problem, mechanism: str) -> list[Server]:
    """Return the servers of a problem, one for each group, under either form of PS-DSF; O(N G R).

    Raises RefusalError where rates are given and servers are divided by more than one resource.
    """
    sweeps = prepare_sweeps(problem, mechanism)
    return [
        Server(
            users=entries.users,
            rate=entries.rate,
            use=entries.use,
            limit=problem.task_limit[entries.users],
            believed=np.zeros(len(entries.users)),
        )
        for entries in entries_by_server(problem, sweeps.use)
    ]
