"""Format the order of placements as comma-separated values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from fairlead.model.cluster import IntArray
from fairlead.model.problem import Problem


def order_text(
    problem: Problem, order: IntArray, devices: Mapping[str, Sequence[Sequence[int]]]
) -> str:
    """Return a CSV of placements with the columns step, user, group and server.

    `order` is (P, 2): user and server of each placement, with servers counted through all groups.
    Servers of the group ``big`` are ``big-0``, ``big-1``, ... Each resource in `devices` adds a
    column such as ``gpu_devices``, with the numbers of the task's devices, separated by blanks.
    """
    first = np.cumsum(problem.count) - problem.count
    group = np.searchsorted(first, order[:, 1], side="right") - 1
    frame = pl.DataFrame(
        {
            "step": np.arange(1, len(order) + 1),
            "user": pl.Series(problem.users.names)[order[:, 0]],
            "group": pl.Series(problem.cluster.groups)[group],
            "number": order[:, 1] - first[group],
        }
    )
    server = pl.format("{}-{}", "group", "number").alias("server")
    columns = [
        pl.Series(f"{name}_devices", [" ".join(map(str, numbers)) for numbers in tasks], pl.String)
        for name, tasks in devices.items()
    ]
    return frame.select("step", "user", "group", server, *columns).write_csv()
