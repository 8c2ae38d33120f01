"""Is every server's time used up, and by those with the lowest shares? Theorem 2."""

from __future__ import annotations

from fairlead.certificates.bottleneck import (
    below_limit,
    certificate_of_bottlenecks,
    measure_missing_bottleneck,
)
from fairlead.certificates.feasibility import measure_misplacement, measure_time_overuse
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray
from fairlead.model.division import use_per_task
from fairlead.model.problem import Problem


def certify_time_sharing(problem: Problem, tasks: FloatArray) -> Certificate:
    """Certify a PS-DSF allocation under time division (TDM).

    Time is a server's only resource, and a task of user n takes 1 / gamma[n,i] of it: on every
    server that could run a user below its task limit it must be used up, and nobody who is served
    there may have a higher share than such a user.

    Parameters
    ----------
    tasks : (N, G) float
        Tasks of each user on each whole group.

    Notes
    -----
    Khamse-Ashari et al. 2017, Theorem 2. Cost O(N G).
    """
    (time,) = use_per_task(problem, time_shared=True)
    share = tasks.sum(axis=1, keepdims=True) * time / problem.weight[:, None]
    counted = problem.runnable & below_limit(problem, tasks)[:, None]
    return certificate_of_bottlenecks(
        "every server's time is used up, by the users with the lowest shares there (Theorem 2)",
        measure_missing_bottleneck(share, tasks, [time], counted),
        measure_time_overuse(problem, tasks),
        measure_misplacement(problem, tasks),
    )
