"""What users hold of each server, stacked, as in Fig. 3 of Khamse-Ashari et al. 2017."""

from __future__ import annotations

import numpy as np

from fairlead.model.allocation import Allocation
from fairlead.papers.drawing import bars, layout
from fairlead.papers.reproduction import Picture, Table
from fairlead.report.figures import COLOURS
from fairlead.report.numbers import number, percent


def picture_of_servers(allocation: Allocation, title: str) -> Picture:
    """Draw, of each resource of each server, what each user holds; O(N G R)."""
    problem = allocation.problem
    labels = [
        f"{group}, {resource}"
        for g, group in enumerate(problem.cluster.groups)
        for r, resource in enumerate(problem.cluster.resources)
        if problem.group_capacity[g, r] > 0
    ]
    traces = []
    for n, name in enumerate(problem.users.names):
        held = allocation.tasks[n][:, None] * problem.demand[n]
        there = problem.group_capacity > 0
        share = (held / np.where(there, problem.group_capacity, 1.0))[there]
        hover = [
            f"<b>{name}</b><br>{label}: {percent(part)}"
            for label, part in zip(labels, share.tolist(), strict=True)
        ]
        traces.append(bars(name, labels, share, hover, COLOURS[n]))
    drawn = layout("", "held", height=320) | {"barmode": "stack"}
    drawn["yaxis"]["range"] = [0, 1.0]
    about = f"{title}: what each user holds of each server; tasks are in the table"
    return Picture(f"{title}.", {"data": traces, "layout": drawn}, about)


def table_of_tasks(allocation: Allocation, caption: str) -> Table:
    """Write the tasks of each user on each server, and in all."""
    groups = allocation.problem.cluster.groups
    rows = [
        [name, *(number(tasks) for tasks in mine.tolist()), number(float(mine.sum()))]
        for name, mine in zip(allocation.problem.users.names, allocation.tasks, strict=True)
    ]
    return Table(caption, ["tasks", *groups, "in all"], rows)
