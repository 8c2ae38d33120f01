"""Sweeps of the server procedure over all servers: the paper's own way to PS-DSF.

Khamse-Ashari et al. 2017, III-C, Algorithm I: each server in turn divides what it has, knowing only
each user's total, until every user has a bottleneck everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.solvers.water_filling import ServerSweeps, WaterFilling

# Violations below this are rounding errors.
GOOD = 1e-11
SWEEPS_BETWEEN_LOOKS = 20
# No entry moved by more than this, relative to its user's tasks, in a whole sweep.
STILL = 1e-15

Certify = Callable[[Problem, FloatArray], Certificate]


@dataclass(frozen=True, eq=False)
class ServerEntries:
    """The K users that can run on a server."""

    users: IntArray  # (K,) ascending
    rate: FloatArray  # (K,): phi gamma, tasks per unit of level
    use: FloatArray  # (R, K): what one task takes, relative to the server's capacity


def entries_by_server(problem: Problem, use: FloatArray) -> Iterator[ServerEntries]:
    """Yield the entries of each group; `use` is (R, N, G)."""
    for group in range(problem.n_groups):
        users = np.flatnonzero(problem.runnable[:, group])
        rate = problem.weight[users] * problem.gamma[users, group]
        yield ServerEntries(users, rate, use[:, users, group])


@dataclass(eq=False)
class Sweeps:
    """Sweeps over the servers of one problem."""

    problem: Problem
    use: FloatArray
    certify: Certify
    group: IntArray  # (E,): of each entry, a user on a server; ascending
    user: IntArray  # (E,)
    best: FloatArray  # (N, G): of the smallest violation that was looked at, with `certificate`
    last: FloatArray  # (N, G): after the last sweep
    certificate: Certificate

    @classmethod
    def over(cls, problem: Problem, use: FloatArray, certify: Certify) -> Sweeps:
        """Prepare sweeps; `use` is (R, N, G), relative to each group's capacity."""
        group, user = np.nonzero(problem.runnable.T)
        nothing = np.zeros((problem.n_users, problem.n_groups))
        return cls(
            problem=problem,
            use=use,
            certify=certify,
            group=group,
            user=user,
            best=nothing,
            last=nothing,
            certificate=certify(problem, nothing),
        )

    @cached_property
    def _procedure(self) -> ServerSweeps:
        servers = [
            WaterFilling(server.rate.tolist(), server.use.tolist())
            for server in entries_by_server(self.problem, self.use)
        ]
        return ServerSweeps(servers, self.user.tolist(), self.problem.task_limit.tolist())

    def run(self, start: FloatArray, visits: int, enough: float = GOOD) -> bool:
        """Sweep from `start` (N, G) and return whether the violation is small enough.

        Looks at the violation every 20 sweeps, and ends after about `visits` visits of an entry (a
        user on a server, once), or when nothing moves any more.
        """
        entries = start[self.user, self.group].tolist()
        self._look(start)
        looks = -(-visits // (max(self.user.size, 1) * SWEEPS_BETWEEN_LOOKS))
        worse = 0
        for _ in range(looks):
            if self.certificate.violation <= enough:
                return True
            before = self.certificate.violation
            entries, change = self._procedure.run(entries, SWEEPS_BETWEEN_LOOKS)
            self.last = np.zeros_like(start)
            self.last[self.user, self.group] = entries
            self._look(self.last)
            # Sweeps that no longer move anything have nothing more to give.
            worse = worse + 1 if self.certificate.violation >= before else 0
            if change < STILL and worse >= 2:
                break
        return self.certificate.violation <= enough

    def _look(self, tasks: FloatArray) -> None:
        certificate = self.certify(self.problem, tasks)
        if certificate.violation < self.certificate.violation:
            self.best, self.certificate = tasks, certificate
