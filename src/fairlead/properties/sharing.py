"""Is everybody at least as well off as with a slice of every server? Sharing incentive."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.model.ties import first_smallest
from fairlead.model.verdict import Verdict
from fairlead.properties.subject import Subject
from fairlead.properties.whole import round_down
from fairlead.properties.wording import NEGLIGIBLE, counted, of_tasks, say, say_change

NAME = "sharing-incentive"


def measure_slices(problem: Problem, *, whole_tasks: bool = False) -> FloatArray:
    """Return the tasks that each user could run with the uniform slice of every server.

    A slice is ``phi[n] / sum_m phi[m]`` of every resource of every server, whether the user may run
    there or not; what it may not use is lost to it. With weights per resource, of each resource by
    its own.

    Parameters
    ----------
    problem : Problem
    whole_tasks : bool
        Whether only whole tasks count, of which each is on one server.

    Returns
    -------
    (N,) float
        No more than each user has tasks.

    Notes
    -----
    Khamse-Ashari et al. 2017, III-B; per resource, Parkes et al. 2012. Cost O(N G R).
    """
    weight = problem.users.resource_weight
    if weight is None:
        part = problem.weight / problem.weight.sum()
        could = part[:, None] * problem.gamma
    else:
        part_of = weight / weight.sum(axis=0)
        could = np.full((problem.n_users, problem.n_groups), np.inf)
        for r in range(problem.n_resources):
            asks = problem.demand[:, r] > 0
            per_unit = np.where(asks, part_of[:, r] / np.where(asks, problem.demand[:, r], 1), 0)
            ratio = per_unit[:, None] * problem.group_capacity[None, :, r]
            np.minimum(could, np.where(asks[:, None], ratio, np.inf), out=could)
        could = np.where(problem.runnable, could, 0.0)
    if whole_tasks:
        could = problem.count * round_down(could / problem.count)
    limited: FloatArray = np.minimum(could.sum(axis=1), problem.task_limit)
    return round_down(limited) if whole_tasks else limited


def slices_of(subject: Subject) -> FloatArray:
    """Return (N,) the tasks that each user could run with its slice, whole ones if tasks are."""
    return measure_slices(subject.problem, whole_tasks=subject.holdings.whole_tasks)


def check_sharing_incentive(subject: Subject) -> Verdict:
    """Check that every user runs at least the tasks of its uniform slice.

    Returns
    -------
    Verdict
        "fails" with the user that falls short most, its tasks and those of its slice, and all that
        fall short. Where tasks are whole, a slice of a server counts the whole tasks in it.

    Notes
    -----
    Cost O(N G R).
    """
    problem = subject.problem
    slices = slices_of(subject)
    has = subject.holdings.user_tasks
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = np.where(slices > 0, has / slices - 1.0, np.inf)
    n = first_smallest(1 + margin)
    short = np.flatnonzero(margin < -NEGLIGIBLE)
    names = problem.users.names
    if short.size:
        less, more = say_change(float(has[n]), float(slices[n]))
        witness = {
            "user": names[n],
            "tasks": float(has[n]),
            "slice": float(slices[n]),
            "margin": float(margin[n]),
            "short": [names[k] for k in short],
        }
        others = f"; {counted(short.size - 1, 'other user')} too" if short.size > 1 else ""
        sentence = (
            f"{names[n]} runs {of_tasks(less)}; a slice of every server would run {more}{others}"
        )
        return Verdict(
            NAME,
            "fails",
            witness,
            problem.n_users,
            sentence=sentence,
            severity=-float(margin[n]),
        )
    if np.isfinite(margin[n]):
        runs = of_tasks(say(float(has[n])))
        least = f"least margin: {names[n]}, {runs} for {say(float(slices[n]))}"
    else:
        least = "no slice holds a whole task"
    sentence = f"everybody runs at least what a slice of every server would ({least})"
    return Verdict(NAME, "holds", {}, problem.n_users, sentence=sentence)
