"""Feasibility: servers have the held amounts, and users hold them only where they may run.

Whole tasks that take parts of devices, such as GPUs, are packed on the devices.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, choose_devices, device_columns
from fairlead.model.holdings import Holdings
from fairlead.model.ties import first_largest
from fairlead.model.verdict import Verdict
from fairlead.properties.subject import Subject
from fairlead.properties.verdict_text import (
    NEARLY_ZERO,
    NEGLIGIBLE,
    counted,
    format_change,
    format_number,
    format_tasks,
    is_nearly_zero,
)

NAME = "feasibility"
SHARING_UNKNOWN = "which devices tasks share is not known"
MAX_TASKS = 10_000  # on a group, for packing
UNIT = 2**40  # integer amount of one device


def check_feasibility(subject: Subject) -> Verdict:
    """Check that no server is overused, no task misplaced, and no user beyond its task limit.

    The witness's ``kind`` is "not-a-number", "negative", "misplaced", "beyond-limit", "overuse",
    "time" or "devices". The verdict is "unknown" if it depends on how tasks share devices.
    RDM and TDM: Khamse-Ashari et al. 2017, eq. 9 and 10. O(N G R).
    """
    problem, tasks = subject.problem, subject.tasks
    groups, users = problem.cluster.groups, problem.users.names
    # Rounding errors are relative to the user's tasks, but at least to one task, or to all that the
    # user could run if that is less.
    scale = np.maximum(np.abs(tasks).sum(axis=1), np.minimum(problem.gamma.sum(axis=1), 1.0))
    # If tasks have several shapes, some may run where the average task cannot.
    may_run = problem.runnable if subject.holdings.of_one_shape else problem.users.eligible
    missing = ~np.isfinite(tasks)
    if subject.holdings.amounts is not None:
        missing |= ~np.isfinite(subject.holdings.amounts).all(axis=2)
    for kind, wrong in (
        ("not-a-number", missing),
        ("negative", tasks < -NEGLIGIBLE * scale[:, None]),
        ("misplaced", ~may_run & (tasks > NEGLIGIBLE * tasks.sum(axis=1)[:, None])),
    ):
        if wrong.any():
            n, g = (int(k) for k in np.argwhere(wrong)[0])
            amount = float(tasks[n, g])
            witness: dict[str, Any] = {"kind": kind, "user": users[n], "group": groups[g]}
            witness["tasks"] = amount if np.isfinite(amount) else str(amount)
            sentence = f"{users[n]} has {format_tasks(format_number(amount))} on {groups[g]}"
            if kind == "not-a-number":
                sentence = f"the amount that {users[n]} has on {groups[g]} is not a finite number"
            elif kind == "misplaced":
                sentence += ", where it may not or cannot run"
            return Verdict(NAME, "fails", witness, sentence=sentence, severity=np.inf)
    running, limits = tasks.sum(axis=1), problem.task_limit
    beyond = np.where(running > 0, np.inf, 0.0)  # of users without tasks
    np.divide(running, limits, out=beyond, where=limits > 0)
    n = first_largest(beyond)
    if beyond[n] > 1 + NEGLIGIBLE:
        has, limit = float(running[n]), float(limits[n])
        witness = {"kind": "beyond-limit", "user": users[n], "tasks": has, "limit": limit}
        now, in_all = format_change(has, limit)
        sentence = f"{users[n]} has {format_tasks(now)} running, of {in_all} that it has in all"
        severity = float(beyond[n]) - 1.0
        return Verdict(NAME, "fails", witness, sentence=sentence, severity=severity)
    return _check_time(subject) if subject.time_shared else _check_resources(subject)


def used_time(subject: Subject) -> FloatArray:
    """Return (G,) the fraction of each group's time that is given to users."""
    gamma = subject.problem.gamma
    time: FloatArray = np.divide(
        subject.tasks, gamma, out=np.zeros_like(subject.tasks), where=gamma > 0
    ).sum(axis=0)
    return time


def rounding_of(holdings: Holdings) -> FloatArray:
    """Return (G, R) the largest amount of each group's resource that counts as rounding."""
    capacity = holdings.problem.group_capacity
    if holdings.grain is None:
        rounding: FloatArray = NEGLIGIBLE * capacity
    else:
        rounding = np.broadcast_to(holdings.grain / 2, capacity.shape)
    return rounding


def _check_time(subject: Subject) -> Verdict:
    time = used_time(subject)
    g = first_largest(time)
    group = subject.problem.cluster.groups[g]
    if time[g] > 1 + NEGLIGIBLE:
        witness = {"kind": "time", "group": group, "used": float(time[g]), "capacity": 1.0}
        percent, _ = format_change(100 * float(time[g]), 100.0)
        sentence = f"{percent} % of the time of {group} is given to users"
        severity = float(time[g]) - 1.0
        return Verdict(NAME, "fails", witness, sentence=sentence, severity=severity)
    most = f"(most used: {_format_use(time[g])})"
    sentence = f"no {_checked_unit(subject)} is used for more than its time {most}"
    return Verdict(NAME, "holds", sentence=sentence)


def _check_resources(subject: Subject) -> Verdict:
    problem, usage = subject.problem, subject.holdings.usage
    capacity = problem.group_capacity
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(usage > 0, usage / capacity, 0.0)
    over = usage > capacity + rounding_of(subject.holdings)
    part = np.where(over, part, np.minimum(part, 1.0))
    g, r = (int(k) for k in np.unravel_index(first_largest(part), part.shape))
    group, resource = problem.cluster.groups[g], problem.cluster.resources[r]
    if over[g, r]:
        witness: dict[str, Any] = {"kind": "overuse", "group": group, "resource": resource}
        witness |= {"used": float(usage[g, r]), "capacity": float(capacity[g, r])}
        unit = f" {problem.cluster.units[r]}".rstrip()
        has, given = format_change(float(capacity[g, r]), float(usage[g, r]))
        n_others = int(over.any(axis=1).sum()) - 1
        others = f"; {counted(n_others, 'other group')} overused too" if n_others else ""
        sentence = f"{group} has {has}{unit} of {resource}, and {given} are in use{others}"
        severity = float(part[g, r]) - 1.0
        return Verdict(NAME, "fails", witness, sentence=sentence, severity=severity)
    if subject.holdings.shared is not None:
        return Verdict.undecided(NAME, SHARING_UNKNOWN)
    most = f"(most used: {_format_use(part[g, r])})"
    sentence = f"no {_checked_unit(subject)} is used beyond its capacity {most}"
    return _check_devices(subject) or Verdict(NAME, "holds", sentence=sentence)


def _checked_unit(subject: Subject) -> str:
    """Name the unit whose use is summed: a server if every group, or the pool, is one server."""
    count = subject.problem.count
    is_pool = count.sum() < subject.given.count.sum()
    return "server" if (count == 1).all() and not is_pool else "group of servers"


def _check_devices(subject: Subject) -> Verdict | None:
    """Check whole tasks that take parts of devices; None if they fit, or there are none."""
    holdings = subject.holdings
    found = {int(g): pack(holdings, int(g)) for g in np.flatnonzero(holds_parts(holdings))}
    for g, packing in found.items():
        if packing is Packing.IMPOSSIBLE:
            group = subject.problem.cluster.groups[g]
            devices = ", ".join(subject.problem.cluster.devices)
            sentence = f"the tasks on {group} need more devices ({devices}) than it has"
            return Verdict(NAME, "fails", {"kind": "devices", "group": group}, sentence=sentence)
    if Packing.UNKNOWN in found.values():
        return Verdict.undecided(NAME, SHARING_UNKNOWN)
    return None


def _format_use(part: float) -> str:
    return NEARLY_ZERO if is_nearly_zero(part) else f"{100 * min(float(part), 1.0):.4g} %"


class Packing(Enum):
    """Whether tasks fit on devices."""

    FITS = auto()
    UNKNOWN = auto()
    IMPOSSIBLE = auto()


def holds_parts(holdings: Holdings) -> BoolArray:
    """Return (G,) bool: groups on which whole tasks hold parts of devices."""
    problem = holdings.problem
    found: BoolArray = np.zeros(problem.n_groups, dtype=bool)
    if holdings.whole_tasks and holdings.of_one_shape:
        for r in device_columns(problem.cluster):
            part = (problem.demand[:, r] > 0) & (problem.demand[:, r] < 1)
            found |= (holdings.tasks[part] > 0).any(axis=0)
    return found


def pack(holdings: Holdings, group: int) -> Packing:
    """Return whether the tasks on a group fit on its devices, by first fit, largest tasks first.

    The result is `IMPOSSIBLE` if the tasks of more than half a device need more devices than there
    are. It is `UNKNOWN` on several servers, as other resources may be used up on the servers that
    have free devices; for more than `MAX_TASKS` tasks; and if first fit fails.
    """
    problem, known = holdings.problem, Packing.FITS
    tasks = np.rint(holdings.tasks[:, group]).astype(np.int64)
    for r in device_columns(problem.cluster):
        demand = problem.demand[:, r]
        devices = int(problem.cluster.capacity[group, r]) * int(problem.count[group])
        needed = np.where(demand > 0.5, np.ceil(demand), 0.0)
        if needed @ tasks > devices:
            return Packing.IMPOSSIBLE
        rows = [(demand[n], int(tasks[n])) for n in np.flatnonzero((demand > 0) & (tasks > 0))]
        if sum(count for _, count in rows) > MAX_TASKS or problem.count[group] > 1:
            known = Packing.UNKNOWN
            continue
        free = [UNIT] * devices
        for amount, count in sorted(rows, reverse=True):
            asked = int(amount * UNIT)
            for _ in range(count):
                taken = choose_devices(free, asked, UNIT)
                if len(taken) < np.ceil(amount):
                    known = Packing.UNKNOWN
                for number in taken:
                    free[number] -= min(asked, UNIT)
    return known
