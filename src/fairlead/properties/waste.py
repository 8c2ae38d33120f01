"""Nothing lies idle that somebody could use.

Wang et al. 2015, Definition 1, asks that nobody holds what it cannot use; holdings counted in tasks
are so by nature. What is left to waste is what nobody holds: an answer is wasteful if somebody
could run more on what is free as it stands, nothing being moved. Pareto optimality asks for more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.holdings import Holdings, WaitingTask
from fairlead.model.ties import first_largest
from fairlead.model.verdict import Verdict
from fairlead.properties.feasibility import rounding_of, used_time
from fairlead.properties.subject import Subject
from fairlead.properties.wording import NEGLIGIBLE, of_tasks, say

NAME = "non-wastefulness"
HOLDS = "nobody could run more on what is free"


def check_non_wastefulness(subject: Subject) -> Verdict:
    """Check that no user with tasks left could run more on what is free of some server.

    Returns
    -------
    Verdict
        "fails" with the user, the group and the further tasks; whole tasks only where tasks are
        whole, and "unknown" where a group of several servers has room for one in sum and it is not
        known how that is spread. Where tasks are known to wait, only these are asked about. It is
        "unknown", too, where the only ones with room are under constraints that are not modelled,
        or where more may be used, or wait, than is counted.

    Notes
    -----
    Cost O(N G R).
    """
    holdings = subject.holdings
    if holdings.amounts is not None or holdings.waiting or holdings.doubts is not None:
        return _check_waiting(holdings)
    problem = subject.problem
    fits = fits_on_free(subject)
    extra = _limited(subject, fits)
    most = np.minimum(problem.gamma, problem.task_limit[:, None])
    if holdings.whole_tasks:
        wasted = np.floor(extra + NEGLIGIBLE)
        known = (wasted >= 1) & (problem.count == 1)[None, :]
    else:
        # What is free but for rounding is not free, however few tasks one has.
        known = (fits > NEGLIGIBLE * problem.gamma) & (extra > NEGLIGIBLE * most)
        wasted = np.where(known, extra, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(wasted > 0, wasted / most, 0.0)
    if known.any():
        part[~known] = 0.0
    n, g = (int(k) for k in np.unravel_index(first_largest(part), part.shape))
    if not part[n, g] > 0:
        return Verdict(NAME, "holds", sentence=HOLDS)
    user, group = problem.users.names[n], problem.cluster.groups[g]
    witness = {"user": user, "group": group, "tasks": float(wasted[n, g])}
    further = of_tasks(say(float(wasted[n, g]))).replace(" ", " more ")
    room = f"{group} has room for {further} of {user}"
    if not known.any():
        return Verdict(
            NAME, "unknown", sentence=f"{room} in sum; how it is spread is not known here"
        )
    severity = float(part[n, g])
    sentence = f"{room}, which nobody uses"
    return Verdict(NAME, "fails", witness, sentence=sentence, severity=severity)


def possible_extra(subject: Subject) -> FloatArray:
    """Return (N, G) tasks that each user could run on top, alone, on what is free of each group."""
    return _limited(subject, fits_on_free(subject))


def fits_on_free(subject: Subject) -> FloatArray:
    """Return (N, G) tasks of each user for which there is room, however many it has."""
    problem = subject.problem
    gamma = problem.gamma
    if subject.time_shared:
        extra = np.maximum(1.0 - used_time(subject), 0.0)[None, :] * gamma
    else:
        free = np.maximum(problem.group_capacity - subject.holdings.usage, 0.0)
        extra = np.full(gamma.shape, np.inf)
        for r in range(problem.n_resources):
            asks = problem.demand[:, r] > 0
            ratio = free[None, :, r] / np.where(asks, problem.demand[:, r], 1.0)[:, None]
            np.minimum(extra, np.where(asks[:, None], ratio, np.inf), out=extra)
        extra = np.where(gamma > 0, extra, 0.0)
    return extra


def _limited(subject: Subject, fits: FloatArray) -> FloatArray:
    """Return (N, G) tasks of those that fit that each user has left."""
    problem = subject.problem
    left = problem.task_limit - subject.tasks.sum(axis=1)
    done = left <= NEGLIGIBLE * np.where(np.isfinite(left), problem.task_limit, 1.0)
    left = np.where(done, 0.0, left)
    limited: FloatArray = np.minimum(fits, left[:, None])
    return limited


@dataclass(frozen=True, eq=False)
class _Room:
    """A waiting task and a group that has room for it."""

    task: WaitingTask
    group: int
    doubt: str  # why the task may not run there all the same; empty where it surely may


def _find_room(holdings: Holdings) -> _Room | None:
    """Return the first waiting task that surely fits into free capacity, else one that may fit."""
    doubts = holdings.doubts
    free = holdings.problem.group_capacity - holdings.usage + rounding_of(holdings)
    perhaps = None
    for task in holdings.waiting:
        takes = task.request > 0
        fits = task.allowed & ((task.request <= free) | ~takes).all(axis=1)
        if not fits.any():
            continue
        known, doubt = fits, f"{task.undecided} is not modelled" if task.undecided else ""
        if doubts is not None:
            known = fits & ~doubts.used[:, takes].any(axis=1)
            if not known.any() or doubts.repels:
                doubt = doubt or doubts.why
        if not doubt:
            return _Room(task, int(known.argmax()), "")
        perhaps = perhaps or _Room(task, int(fits.argmax()), doubt)
    return perhaps


def _check_waiting(holdings: Holdings) -> Verdict:
    """Check that no task that is known to wait would fit on what is free."""
    problem, doubts = holdings.problem, holdings.doubts
    n_waiting, why = len(holdings.waiting), ""
    room = _find_room(holdings)
    if room is not None:
        name, group = room.task.name, problem.cluster.groups[room.group]
        if not room.doubt:
            user = problem.users.names[room.task.user]
            witness = {"user": user, "group": group, "task": name, "tasks": 1.0}
            sentence = f"{name} waits, though {group} has room for it"
            return Verdict(NAME, "fails", witness, n_waiting, sentence=sentence, severity=1.0)
        why = f"{name} waits, and {group} may have room for it, but {room.doubt}"
    elif doubts is not None:
        wants = n_waiting or holdings.unrunnable
        why = doubts.why if doubts.waits or (doubts.servers and wants) else ""
    if why:
        return Verdict(NAME, "unknown", {}, n_waiting, sentence=f"not decided: {why}")
    sentence = "no task waits that would fit on what is free"
    return Verdict(NAME, "holds", {}, n_waiting, sentence=sentence)
