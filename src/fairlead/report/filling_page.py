"""The page of a filling with whole tasks, or of the means of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairlead.model.ties import largest_first
from fairlead.report.chance import chance_figure
from fairlead.report.figures import user_styles
from fairlead.report.numbers import counted, resource_label
from fairlead.report.page import LONGEST_TABLE, render_page
from fairlead.scheduler.policies import Policy
from fairlead.scheduler.trials import Summary, Trials

_WANG = "Wang, Liang and Li 2015 (DRFH), V-B"
_KESIDIS = "Kesidis et al., max-min fairness and progressive filling"

_LEAST = {
    "drf": "the least dominant share of the whole cluster",
    "tsf": "the fewest tasks for what it could run alone, were there no constraints",
    "ps-dsf": "the least virtual dominant share",
}
_LEAST_SUM = "the least sum of virtual dominant shares over the servers it may use"
_WHERE = {
    "first-fit": "on the first server with room for it",
    "best-fit": "on the server with room whose shape is most like the task's",
    "best-fit-first": "on the server whose shape is most like the task's, or not at all",
    "rrr": "on the server whose turn it is; in each round the servers take turns in random order",
    "joint": "user and server chosen together",
}


def filling_page(trials: Trials, title: str, left_out: Sequence[str] = ()) -> str:
    """Show a filling like any other answer, and if it is random, how much of it is chance.

    The other arguments and what it returns are as in `fairlead.report.page.allocation_page`.
    """
    name = trials.policy.name
    return render_page(
        title,
        {name: trials.allocation},
        {},
        left_out,
        about={name: about(trials.policy)},
        chance=_chance(trials),
    )


def about(policy: Policy) -> tuple[str, str]:
    """Say in a line what a policy does, and where that is from."""
    least = _LEAST[policy.criterion]
    if policy.criterion == "ps-dsf" and policy.select not in ("rrr", "joint"):
        least = _LEAST_SUM
    free = ", measured against what is free" if policy.residual else ""
    idea = (
        f"whole tasks, one at a time: the next goes to the user with {least}"
        f"{free}, {_WHERE[policy.select]}"
    )
    is_wangs = policy.criterion == "drf" and policy.select.endswith("-fit") and not policy.residual
    return idea, _WANG if is_wangs else _KESIDIS


def _chance(trials: Trials) -> dict[str, Any] | None:
    """Collect what the page shows of how far the answer varies."""
    if not trials.policy.is_random:
        return None
    if not trials.varies:
        note = (
            f"This policy is random, and this is one trial of it, with seed {trials.seed}; another "
            "may differ. With several trials this page says by how much."
        )
        return {"note": note, "figure": None}
    note = (
        f"All numbers of tasks on this page are means of {counted(trials.trials, 'trial')} from "
        f"seed {trials.seed}. ±: so close is the mean, with 95 % confidence (Student's t). sd: "
        "standard deviation of one trial."
    )
    rows, omitted = _rows(trials)
    styles = user_styles([trials.allocation])
    return {
        "note": note,
        "figure": chance_figure(trials, styles),
        "n_users": trials.problem.n_users,
        "rows": rows,
        "omitted": omitted,
        "total": _varying(trials.total),
        "unused": _unused(trials),
    }


def _rows(trials: Trials) -> tuple[list[dict[str, Any]], str]:
    """List users on groups and in all; in all only, and the largest, where that is too much."""
    problem = trials.problem
    held = trials.tasks.mean > 0
    by_group = int(held.sum()) + problem.n_users <= LONGEST_TABLE
    largest = largest_first(trials.allocation.dominant_share)[:LONGEST_TABLE]
    rows = []
    for n in np.sort(largest).tolist():
        user = problem.users.names[n]
        groups = np.flatnonzero(held[n]).tolist() if by_group else []
        for g in groups:
            on = problem.cluster.groups[g]
            rows.append({"user": user, "on": on, **_varying(trials.tasks, n, g)})
        if len(groups) != 1:
            rows.append({"user": user, "on": "all", **_varying(trials.user_tasks, n)})
    if by_group:
        return rows, ""
    return rows, (
        f"{len(rows):,} of {counted(problem.n_users, 'user')}, in all; everybody, group by group, "
        "is in the output of --json."
    )


def _unused(trials: Trials) -> list[dict[str, Any]]:
    problem = trials.problem
    capacity = problem.group_capacity
    return [
        {
            "group": problem.cluster.groups[g],
            "resource": resource_label(problem.cluster, r),
            "capacity": float(capacity[g, r]),
            **_varying(trials.unused, g, r),
        }
        for g, r in np.argwhere(capacity > 0)[:LONGEST_TABLE].tolist()
    ]


def _varying(summary: Summary, *index: int) -> dict[str, float]:
    """Return one mean with its margin, its deviation, and that relative to the mean."""
    assert summary.margin is not None
    assert summary.sd is not None
    mean, sd = float(summary.mean[index]), float(summary.sd[index])
    relative = sd / mean if mean > 0 else 0.0
    return {"mean": mean, "margin": float(summary.margin[index]), "sd": sd, "relative": relative}
