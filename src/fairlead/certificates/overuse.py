"""Measure whether an allocation is feasible: overuse of servers, and misplaced tasks.

No certificate holds for an infeasible allocation.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem

TOLERANCE = 1e-6


def certify_with_feasibility(
    condition: str,
    faults: dict[str, float],
    problem: Problem,
    tasks: FloatArray,
    *,
    time_shared: bool = False,
) -> Certificate:
    """Return a certificate of tasks (N, G) that also measures feasibility.

    Its violation is the largest of `faults`, the overuse of a resource (or of time), and the
    fraction of misplaced tasks.
    """
    overuse = (measure_time_overuse if time_shared else measure_resource_overuse)(problem, tasks)
    detail = faults | {"overuse": overuse, "misplaced": measure_misplacement(problem, tasks)}
    return Certificate(condition, max(detail["misplaced"], *detail.values()), TOLERANCE, detail)


def measure_resource_overuse(problem: Problem, tasks: FloatArray) -> float:
    """Return the largest relative overuse of any resource of any group by tasks (N, G) (RDM).

    ``max((usage - capacity) / capacity)``, 0 when nothing is overused, infinite if users hold a
    resource that their group lacks. Khamse-Ashari et al. 2017, eq. 9. O(N G R).
    """
    usage, capacity = tasks.T @ problem.demand, problem.group_capacity
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(usage > capacity, (usage - capacity) / capacity, 0.0)
    return max(float(excess.max(initial=0.0)), 0.0)


def measure_time_overuse(problem: Problem, tasks: FloatArray) -> float:
    """Return the largest overuse of any group's time (TDM): ``max(sum_n x/gamma - 1)``.

    Khamse-Ashari et al. 2017, eq. 10. O(N G).
    """
    gamma = problem.gamma
    time = np.divide(tasks, gamma, out=np.zeros_like(tasks), where=gamma > 0).sum(axis=0)
    return max(float((time - 1.0).max(initial=0.0)), 0.0)


def measure_misplacement(problem: Problem, tasks: FloatArray) -> float:
    """Return the largest fraction of a user's tasks that is negative or misplaced.

    A task is misplaced if the user is not eligible there, or the group lacks a demanded resource.
    The excess over the task limit, relative to the limit, is returned instead if it is larger.
    Infinite if a number of tasks is not finite, or if a user with limit 0 has tasks.
    """
    if not np.isfinite(tasks).all():
        return np.inf
    total = np.maximum(np.abs(tasks).sum(axis=1), 1e-300)
    negative = np.where(tasks < 0, -tasks, 0.0).sum(axis=1)
    misplaced = np.where(problem.runnable, 0.0, np.abs(tasks)).sum(axis=1)
    worst = float(((negative + misplaced) / total).max(initial=0.0))
    finite = np.isfinite(problem.task_limit)
    held, limit = tasks.sum(axis=1)[finite], problem.task_limit[finite]
    beyond = np.where(held > limit, np.inf, 0.0)  # of users without tasks
    np.divide(held - limit, limit, out=beyond, where=limit > 0)
    return max(worst, float(beyond.max(initial=0.0)))
