"""Take groups of identical servers apart, for those who look at one server at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairlead.model.cluster import Cluster, IntArray
from fairlead.model.problem import Problem


def split_groups(problem: Problem) -> tuple[Problem, IntArray]:
    """Return the problem with every server as a group of its own.

    Returns
    -------
    split : Problem
        With S groups of one server each, in order; those of a group of several are named
        ``name-0``, ``name-1``, ...
    group_of : (S,) int
        The group that each server belongs to in `problem`.

    Notes
    -----
    Cost O(S (N + R)).
    """
    cluster, users = problem.cluster, problem.users
    group_of = np.repeat(np.arange(problem.n_groups), cluster.count)
    servers = Cluster(
        groups=tuple(
            f"{name}-{k}" if count > 1 else name
            for name, count in zip(cluster.groups, cluster.count.tolist(), strict=True)
            for k in range(count)
        ),
        resources=cluster.resources,
        capacity=cluster.capacity[group_of],
        count=np.ones(len(group_of), dtype=np.int64),
        units=cluster.units,
        labels=tuple(cluster.labels[g] for g in group_of),
    )
    members = replace(
        users,
        eligible=users.eligible[:, group_of],
        rates=None if users.rates is None else users.rates[:, group_of],
    )
    return Problem(servers, members), group_of
