"""The order of placements as a table of comma-separated values."""

from __future__ import annotations

import csv
from io import StringIO

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.model.problem import Problem


def order_text(problem: Problem, order: IntArray) -> str:
    """Return who got a task where, one line a placement: step, user, group, server.

    `order` is (P, 2): user and server of each, with servers counted through all groups. Has a
    heading; servers of the group ``big`` are ``big-0``, ``big-1``, ...
    """
    first = np.cumsum(problem.count) - problem.count
    group = np.searchsorted(first, order[:, 1], side="right") - 1
    groups, users = problem.cluster.groups, problem.users.names
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("step", "user", "group", "server"))
    writer.writerows(
        (step, users[n], groups[g], f"{groups[g]}-{i}")
        for step, (n, g, i) in enumerate(
            zip(
                order[:, 0].tolist(),
                group.tolist(),
                (order[:, 1] - first[group]).tolist(),
                strict=True,
            ),
            start=1,
        )
    )
    return text.getvalue()
