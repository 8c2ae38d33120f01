"""Sweeps of the server procedure over all servers: the paper's own way to PS-DSF.

Khamse-Ashari et al. 2017, III-C, Algorithm I: each server in turn divides what it has, knowing only
each user's total, until every user has a bottleneck everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.optimize.server_filling import sweep_servers

# Violations below this are rounding errors.
GOOD = 1e-11
SWEEPS_BETWEEN_LOOKS = 20
# No entry moved by more than this, relative to its user's tasks, in a whole sweep.
STILL = 1e-15

Certify = Callable[[Problem, FloatArray], Certificate]


@dataclass(eq=False)
class Sweeps:
    """Sweeps over the servers of one problem."""

    problem: Problem
    use: FloatArray
    certify: Certify
    first_entry: IntArray
    group: IntArray
    user: IntArray
    rate: FloatArray
    entry_use: FloatArray
    level: FloatArray
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
            first_entry=np.searchsorted(group, np.arange(problem.n_groups + 1)),
            group=group,
            user=user,
            rate=problem.weight[user] * problem.gamma[user, group],
            entry_use=np.ascontiguousarray(use[:, user, group].T),
            level=np.full((problem.n_groups, len(use)), np.inf),
            best=nothing,
            last=nothing,
            certificate=certify(problem, nothing),
        )

    def run(self, start: FloatArray, visits: int, enough: float = GOOD) -> bool:
        """Sweep from `start` (N, G) and return whether the violation is small enough.

        Looks at the violation every 20 sweeps, and ends after about `visits` visits of an entry (a
        user on a server, once), or when nothing moves any more.
        """
        entries = start[self.user, self.group]
        self._look(start)
        looks = -(-visits // (max(self.user.size, 1) * SWEEPS_BETWEEN_LOOKS))
        worse = 0
        for _ in range(looks):
            if self.certificate.violation <= enough:
                return True
            before = self.certificate.violation
            change = sweep_servers(
                self.first_entry,
                self.user,
                self.rate,
                self.entry_use,
                self.problem.task_limit.copy(),
                self.level,
                entries,
                SWEEPS_BETWEEN_LOOKS,
            )
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
