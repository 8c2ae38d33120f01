"""Envy: who would rather have what another has.

A user looks at another's bundle server by server and counts the tasks it could run with it, only
where it may run; weights scale what each is entitled to (Wang et al. 2015, III-C; Khamse-Ashari et
al. 2017, II-C).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.division import use_per_task
from fairlead.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Envy:
    """How much each user would gain with the bundle of the user that it envies most.

    Attributes
    ----------
    gain : (N,) float
        The relative gain, 0 for who envies nobody, infinite for who has nothing and envies.
    envied : (N,) int
        Whose bundle that is; the user itself for who envies nobody.
    """

    gain: FloatArray
    envied: IntArray

    def count(self, tolerance: float) -> int:
        """Return how many users would gain more than so much, relative to what they have."""
        return int((self.gain > tolerance).sum())


def measure_envy(problem: Problem, tasks: FloatArray, *, time_shared: bool = False) -> Envy:
    """Measure by how much each user prefers another's bundle to its own.

    User n could run, with the bundle of m scaled by ``phi[n] / phi[m]``, on each group where it may
    run, ``min over r with d[n,r] > 0 of x[m,g] d[m,r] / d[n,r]`` tasks under RDM, and
    ``x[m,g] gamma[n,g] / gamma[m,g]`` under TDM; no more than its task limit in all.

    Parameters
    ----------
    problem : Problem
    tasks : (N, G) float
        Tasks of each user on each whole group.
    time_shared : bool
        Whether a bundle is time of servers (TDM) instead of their resources (RDM).

    Returns
    -------
    Envy

    Notes
    -----
    O(N^2 G R).
    """
    held = use_per_task(problem, time_shared) * tasks  # (R, N, G)
    needs = use_per_task(problem, time_shared)
    own = tasks.sum(axis=1)
    n_users = problem.n_users
    gain, envied = np.zeros(n_users), np.arange(n_users)
    with np.errstate(divide="ignore", invalid="ignore"):
        for n in range(n_users):
            groups = np.flatnonzero(problem.runnable[n])
            could = np.full((n_users, len(groups)), np.inf)
            for bundle, need in zip(held, needs[:, n, groups], strict=True):
                asks = need > 0
                ratio = bundle[:, groups] / np.where(asks, need, 1.0)
                np.minimum(could, np.where(asks, ratio, np.inf), out=could)
            total = could.sum(axis=1) * (problem.weight[n] / problem.weight)
            total = np.minimum(total, problem.task_limit[n])
            total[n] = own[n]
            most = int(total.argmax())
            if total[most] > own[n]:
                gain[n], envied[n] = total[most] / own[n] - 1.0, most
    return Envy(gain, envied)
