"""What is held is there at all, and may be held by who holds it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.holdings import Holdings
from fairlead.model.ties import first_largest
from fairlead.model.verdict import Verdict
from fairlead.properties.subject import Subject
from fairlead.properties.wording import (
    NEGLIGIBLE,
    NEXT_TO_NOTHING,
    counted,
    next_to_nothing,
    of_tasks,
    say,
    say_change,
)

NAME = "feasibility"


def check_feasibility(subject: Subject) -> Verdict:
    """Check that no server is overused, nobody is misplaced, and nobody has more than its tasks.

    Returns
    -------
    Verdict
        "fails" with the worst fault: ``kind`` is ``"not-a-number"``, ``"negative"``,
        ``"misplaced"``, ``"beyond-limit"``, ``"overuse"`` or ``"time"``, with who, where, and how
        much there is; "unknown" where more may be used than is counted.

    Notes
    -----
    RDM and TDM: Khamse-Ashari et al. 2017, eq. 9 and 10. Cost O(N G R).
    """
    problem, tasks = subject.problem, subject.tasks
    groups, users = problem.cluster.groups, problem.users.names
    # Rounding is relative to what one has, or else to a task, or to all that one could run.
    scale = np.maximum(np.abs(tasks).sum(axis=1), np.minimum(problem.gamma.sum(axis=1), 1.0))
    # Of tasks of several shapes some may run where the average one cannot.
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
            what = {
                "not-a-number": f"what {users[n]} has on {groups[g]} is no number",
                "negative": f"{users[n]} has {of_tasks(say(amount))} on {groups[g]}",
                "misplaced": f"{users[n]} has {of_tasks(say(amount))} on {groups[g]}, "
                "where it may not or cannot run",
            }[kind]
            return Verdict(NAME, "fails", witness, sentence=what, severity=np.inf)
    running, limits = tasks.sum(axis=1), problem.task_limit
    beyond = np.where(running > 0, np.inf, 0.0)  # of users without tasks
    np.divide(running, limits, out=beyond, where=limits > 0)
    n = first_largest(beyond)
    if beyond[n] > 1 + NEGLIGIBLE:
        has, limit = float(tasks[n].sum()), float(problem.task_limit[n])
        witness = {"kind": "beyond-limit", "user": users[n], "tasks": has, "limit": limit}
        now, in_all = say_change(has, limit)
        sentence = f"{users[n]} has {of_tasks(now)} running, of {in_all} that it has in all"
        severity = float(beyond[n]) - 1.0
        return Verdict(NAME, "fails", witness, sentence=sentence, severity=severity)
    return _check_time(subject) if subject.time_shared else _check_resources(subject)


def used_time(subject: Subject) -> FloatArray:
    """Return (G,) the fraction of each group's time that is given away."""
    gamma = subject.problem.gamma
    time: FloatArray = np.divide(
        subject.tasks, gamma, out=np.zeros_like(subject.tasks), where=gamma > 0
    ).sum(axis=0)
    return time


def rounding_of(holdings: Holdings) -> FloatArray:
    """Return (G, R) the amounts that count as rounding, of each resource of each whole group."""
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
        percent, _ = say_change(100 * float(time[g]), 100.0)
        sentence = f"{percent} % of the time of {group} is given away"
        severity = float(time[g]) - 1.0
        return Verdict(NAME, "fails", witness, sentence=sentence, severity=severity)
    return Verdict(
        NAME, "holds", sentence=f"the users' times on a server never exceed it ({_most(time[g])})"
    )


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
        has, given = say_change(float(capacity[g, r]), float(usage[g, r]))
        others = int(over.any(axis=1).sum()) - 1
        too = f"; {counted(others, 'other group')} overused too" if others else ""
        sentence = f"{group} has {has}{unit} of {resource}, and {given} are given away{too}"
        severity = float(part[g, r]) - 1.0
        return Verdict(NAME, "fails", witness, sentence=sentence, severity=severity)
    doubts = subject.holdings.doubts
    # Pods of a node that was passed over are missing, too: only then may it be overused.
    if doubts is not None and (
        doubts.used.any() or (doubts.servers and (doubts.users or doubts.holds.any()))
    ):
        return Verdict(NAME, "unknown", sentence=f"not decided: {doubts.why}")
    sentence = f"no server is asked for more than it has (most used: {_most(part[g, r])})"
    return Verdict(NAME, "holds", sentence=sentence)


def _most(part: float) -> str:
    if next_to_nothing(part):
        return NEXT_TO_NOTHING
    return f"{100 * min(float(part), 1.0):.4g} %"
