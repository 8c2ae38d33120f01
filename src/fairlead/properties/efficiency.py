"""Efficiency: non-wastefulness, and Pareto optimality by linear programme.

An answer is wasteful if a user could run more on the free capacity. Pareto optimality is stronger:
no other feasible answer is better for one user and worse for none. Wang et al. 2015, Definition 1,
also forbids holdings that their user cannot use; holdings counted in tasks have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import FloatArray, device_columns
from fairlead.model.fitting import use_per_task
from fairlead.model.holdings import Holdings, WaitingTask
from fairlead.model.problem import tasks_within
from fairlead.model.ties import first_largest
from fairlead.model.verdict import Verdict
from fairlead.properties.feasibility import (
    SHARING_UNKNOWN,
    check_feasibility,
    holds_parts,
    rounding_of,
    used_time,
)
from fairlead.properties.subject import Subject, round_down
from fairlead.properties.verdict_text import (
    NEGLIGIBLE,
    counted,
    format_change,
    format_number,
    format_tasks,
)
from fairlead.solvers.linear_programmes import improve, measure_progress

WASTE = "non-wastefulness"
PARETO = "pareto-optimality"
LARGEST_PROGRAMME = 400_000  # pairs of a user and a group; with more, the programme takes minutes
MOST_USERS_SHOWN = 50  # with more users, the witness omits the better answer


def check_non_wastefulness(subject: Subject) -> Verdict:
    """Check that no user with tasks left could run more on the free capacity; O(N G R).

    If tasks are whole, a user must have room for a whole one. The verdict is "unknown" if a task
    fits only into the sum of a group's servers. If waiting tasks are known, only these count. Then
    the verdict is "unknown" if the tasks that fit have constraints that are not modelled, or take
    devices that other tasks may share.
    """
    holdings = subject.holdings
    if holdings.amounts is not None or holdings.waiting or holdings.shared is not None:
        return _check_waiting(holdings)
    problem = subject.problem
    fits = _tasks_on_free(subject)
    extra = _limit_by_tasks_left(subject, fits)
    alone = np.minimum(problem.gamma, problem.task_limit[:, None])
    if holdings.whole_tasks:
        wasted = np.floor(extra + NEGLIGIBLE)
        certain = (wasted >= 1) & (problem.count == 1)[None, :]
        devices = problem.demand[:, device_columns(problem.cluster)].sum(axis=1)
        certain &= ~((devices > 0)[:, None] & holds_parts(holdings)[None, :])
    else:
        # Free capacity that is only rounding does not count, even for a user with few tasks.
        certain = (fits > NEGLIGIBLE * problem.gamma) & (extra > NEGLIGIBLE * alone)
        wasted = np.where(certain, extra, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(wasted > 0, wasted / alone, 0.0)
    if certain.any():
        part[~certain] = 0.0
    n, g = (int(k) for k in np.unravel_index(first_largest(part), part.shape))
    if not part[n, g] > 0:
        return Verdict(WASTE, "holds", sentence="no user could run more on the free capacity")
    user, group = problem.users.names[n], problem.cluster.groups[g]
    witness = {"user": user, "group": group, "tasks": float(wasted[n, g])}
    more = format_tasks(format_number(float(wasted[n, g]))).replace(" ", " more ")
    room = f"{group} has free capacity for {more} of {user}"
    if not certain.any():
        sentence = f"{room} in sum; how it is spread over servers and devices is not known"
        return Verdict(WASTE, "unknown", sentence=sentence)
    return Verdict(WASTE, "fails", witness, sentence=room, severity=float(part[n, g]))


def _tasks_on_free(subject: Subject) -> FloatArray:
    """Return (N, G) tasks of each user that fit on the free capacity, without its task limit."""
    problem = subject.problem
    if subject.time_shared:
        return np.maximum(1.0 - used_time(subject), 0.0)[None, :] * problem.gamma
    free = np.maximum(problem.group_capacity - subject.holdings.usage, 0.0)
    fits = np.where(problem.runnable, tasks_within(free, problem.demand), 0.0)
    return _limit_by_devices(subject.holdings, free, fits)


def _limit_by_devices(holdings: Holdings, free: FloatArray, fits: FloatArray) -> FloatArray:
    """Limit tasks (N, G) that fit to those on whole free devices, where no part is held."""
    if not holdings.whole_tasks:
        return fits
    problem, groups = holdings.problem, ~holds_parts(holdings)
    for r in device_columns(problem.cluster):
        asked = problem.demand[:, r]
        users = (asked > 0) & (asked < 1)
        most = np.outer(round_down(1.0 / asked[users]), round_down(free[groups, r]))
        fits[np.ix_(users, groups)] = np.minimum(fits[np.ix_(users, groups)], most)
    return fits


def _limit_by_tasks_left(subject: Subject, fits: FloatArray) -> FloatArray:
    """Limit tasks (N, G) that fit to those that each user has left."""
    problem = subject.problem
    left = problem.task_limit - subject.tasks.sum(axis=1)
    done = left <= NEGLIGIBLE * np.where(np.isfinite(left), problem.task_limit, 1.0)
    limited: FloatArray = np.minimum(fits, np.where(done, 0.0, left)[:, None])
    return limited


@dataclass(frozen=True, eq=False)
class _FreeGroup:
    """A waiting task and a group that has free capacity for it."""

    task: WaitingTask
    group: int
    doubt: str  # why the task may still not run there; empty if it certainly may


def _find_free_group(holdings: Holdings) -> _FreeGroup | None:
    """Return the first waiting task that certainly fits free capacity; else one that may fit."""
    free = holdings.problem.group_capacity - holdings.usage + rounding_of(holdings)
    perhaps = None
    for task in holdings.waiting:
        takes = task.request > 0
        fits = task.allowed & ((task.request <= free) | ~takes).all(axis=1)
        if not fits.any():
            continue
        doubt = f"{task.undecided} is not modelled" if task.undecided else ""
        shared = holdings.shared
        unshared = fits if shared is None else fits & ~shared[:, takes].any(axis=1)
        if not unshared.any():
            doubt = doubt or SHARING_UNKNOWN
        if not doubt:
            return _FreeGroup(task, int(unshared.argmax()), "")
        perhaps = perhaps or _FreeGroup(task, int(fits.argmax()), doubt)
    return perhaps


def _check_waiting(holdings: Holdings) -> Verdict:
    """Check that no known waiting task fits the free capacity."""
    problem, n_waiting = holdings.problem, len(holdings.waiting)
    room = _find_free_group(holdings)
    if room is not None:
        name, group = room.task.name, problem.cluster.groups[room.group]
        if not room.doubt:
            user = problem.users.names[room.task.user]
            witness = {"user": user, "group": group, "task": name, "tasks": 1.0}
            sentence = f"{name} waits, though {group} has room for it"
            return Verdict(WASTE, "fails", witness, n_waiting, sentence=sentence, severity=1.0)
        why = f"{name} waits, and {group} may have room for it, but {room.doubt}"
        return Verdict.undecided(WASTE, why, n_waiting)
    sentence = "no waiting task fits the free capacity"
    return Verdict(WASTE, "holds", {}, n_waiting, sentence=sentence)


def check_pareto_optimality(subject: Subject) -> Verdict:
    """Check by a linear programme of at most N G unknowns that no feasible answer is better.

    Gains are relative to the tasks that a user could run alone; a small sum counts as rounding.
    The witness is a better answer. Whole tasks that fit into free capacity prove a failure. The
    verdict is "unknown" if the holdings are infeasible, too large or of several shapes; or if they
    are whole tasks on several servers, and fractions of tasks could be placed better.
    """
    problem, tasks = subject.problem, subject.tasks
    feasible = check_feasibility(subject).verdict
    if feasible == "fails":
        return _unknown("the holdings are not feasible, so no answer compares with them")
    if subject.holdings.whole_tasks and feasible == "holds":
        waste = check_non_wastefulness(subject)
        if waste.verdict == "fails":
            return _fails_by_waste(subject, waste)
    if subject.holdings.shared is not None:
        return _unknown(SHARING_UNKNOWN)
    if subject.holdings.amounts is not None:
        return _unknown("a linear programme cannot compare tasks of several shapes")
    if subject.holdings.whole_tasks and problem.count.sum() == 1:
        return _check_whole_tasks_in_pool(subject)
    if problem.n_users * problem.n_groups > LARGEST_PROGRAMME:
        return _unknown("too many users and groups for a linear programme")
    alone = np.minimum(problem.gamma.sum(axis=1), problem.task_limit)
    programme = _programme(subject, alone)
    have = tasks.sum(axis=1) / alone
    try:
        found = improve(**programme, have=have)
    except NoConvergenceError as failure:
        return _unknown(str(failure))
    if found.bound <= _negligible_gain(subject, alone):
        detail = f"all together gain at most {max(found.bound, 0.0):.1e}"
        sentence = "no user could have more without another having less"
        return Verdict(PARETO, "holds", {}, 1, detail, sentence)
    gain = found.split.sum(axis=1) - have
    n = first_largest(1 + gain)
    if subject.holdings.whole_tasks:
        return _unknown(
            "fractions of tasks could be placed better "
            f"({problem.users.names[n]} {format_number(float(gain[n] * alone[n]))} more); "
            "whole ones may not"
        )
    if gain[n] <= NEGLIGIBLE / 10:
        return _unknown(f"the linear programme is uncertain by {max(found.bound, 0.0):.1e}")
    if not _is_confirmed(programme, tasks / alone[:, None]):
        return _unknown("the gains may come from rounding in the others' losses")
    better = found.split * alone[:, None]
    return _fails(subject, better, n, int((gain > NEGLIGIBLE / 10).sum()))


def _negligible_gain(subject: Subject, alone: FloatArray) -> float:
    """Return the largest negligible sum of gains: rounding, or less than a whole task."""
    if not subject.holdings.whole_tasks:
        return NEGLIGIBLE * max(1.0, subject.problem.n_users / 1000)
    left = round_down(subject.problem.task_limit - subject.holdings.user_tasks)
    least = np.where(left >= 1, 1.0 / alone, np.inf).min()
    return float(least) * (1.0 - NEGLIGIBLE)


def _programme(subject: Subject, alone: FloatArray) -> dict[str, Any]:
    """Return the arguments of `improve`; units are the tasks that each user could run alone."""
    problem, tasks = subject.problem, subject.tasks
    use = use_per_task(problem, subject.time_shared) * alone[None, :, None]
    used = np.einsum("rng,ng->rg", use, tasks / alone[:, None])
    capacity = np.maximum(1.0, used)  # overuse within the tolerance stays possible
    if not subject.time_shared:
        capacity = np.where(problem.group_capacity.T > 0, capacity, 0.0)
    limit = np.maximum(problem.task_limit / alone, tasks.sum(axis=1) / alone)
    return {"use": use, "allowed": problem.runnable, "limit": limit, "capacity": capacity}


def _is_confirmed(programme: dict[str, Any], split: FloatArray) -> bool:
    """Return whether users still gain in sum if losses are measured as exactly as gains."""
    try:
        return measure_progress(**programme, split=split) > 0.5  # it is about 1 or 0
    except NoConvergenceError:
        return False


def _fails(subject: Subject, better: FloatArray, n: int, gainers: int) -> Verdict:
    problem = subject.problem
    names, groups = problem.users.names, problem.cluster.groups
    before, after = float(subject.tasks[n].sum()), float(better[n].sum())
    witness: dict[str, Any] = {"user": names[n], "tasks": before, "could": after}
    if problem.n_users <= MOST_USERS_SHOWN:
        witness["better"] = {
            names[m]: {groups[g]: float(better[m, g]) for g in np.flatnonzero(better[m] > 0)}
            for m in range(problem.n_users)
        }
    less, more = format_change(before, after)
    sentence = f"{names[n]} could run {format_tasks(more)} instead of {less} and no user would lose"
    if gainers > 1:
        sentence += f", and {counted(gainers - 1, 'other user')} would gain too"
    severity = after / before - 1.0 if before > 0 else np.inf
    return Verdict(PARETO, "fails", witness, 1, sentence=sentence, severity=severity)


def _check_whole_tasks_in_pool(subject: Subject) -> Verdict:
    """Check whole tasks in one pool, where an answer improves only by a further task."""
    extra = np.floor(_limit_by_tasks_left(subject, _tasks_on_free(subject))[:, 0] + NEGLIGIBLE)
    if (extra >= 1).any():
        return _unknown("tasks that fit may wait for a reason that is not modelled")
    sentence = "no user has one more task that fits into the pool"
    return Verdict(PARETO, "holds", {}, 1, sentence=sentence)


def _fails_by_waste(subject: Subject, waste: Verdict) -> Verdict:
    """Return the verdict on whole tasks that fit into free capacity."""
    problem, tasks = subject.problem, subject.tasks
    user, group = waste.witness["user"], waste.witness["group"]
    n, g = problem.users.names.index(user), problem.cluster.groups.index(group)
    if subject.holdings.of_one_shape:
        better = tasks.copy()
        better[n, g] += waste.witness["tasks"]
        return _fails(subject, better, n, 1)
    name, has = waste.witness["task"], float(tasks[n].sum())
    witness = {"user": user, "group": group, "task": name}
    severity = 1.0 / has if has > 0 else np.inf
    sentence = f"{name} could run on {group} and no user would lose"
    return Verdict(PARETO, "fails", witness, 1, sentence=sentence, severity=severity)


def _unknown(why: str) -> Verdict:
    return Verdict.undecided(PARETO, why, detail=why)
