"""How servers are divided: by resource (RDM) or by time (TDM)."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem


def use_per_task(problem: Problem, time_shared: bool = False) -> FloatArray:
    """Return what one task takes of each whole group, relative to what the group has.

    Parameters
    ----------
    time_shared : bool
        Whether a server is shared by time (TDM): a task of user n then takes ``1 / gamma[n,i]`` of
        it. Otherwise it is divided by resource (RDM), and a task takes ``d[n,r] / c[i,r]``.

    Returns
    -------
    (R, N, G) float
        With R = 1 under TDM; 0 where the user may not run or the group lacks the resource.

    Notes
    -----
    Khamse-Ashari et al. 2017, eq. 9 and 10. Cost O(N G R).
    """
    gamma = problem.gamma
    if time_shared:
        return np.divide(1.0, gamma, out=np.zeros_like(gamma), where=gamma > 0)[None]
    capacity = problem.group_capacity.T[:, None, :]
    use: FloatArray = problem.demand.T[:, :, None] / np.where(capacity > 0, capacity, 1.0)
    return np.where(gamma > 0, use, 0.0)
