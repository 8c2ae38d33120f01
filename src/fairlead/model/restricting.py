"""The same problem with fewer users, groups or resources, or with its groups taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairlead.errors import ProblemError
from fairlead.model.cluster import Cluster, IntArray
from fairlead.model.problem import Problem

NOBODY_IS_DUE = "no user is due anything: all of them have 0 tasks or weight 0"


def keep(
    problem: Problem,
    *,
    users: Sequence[int] | None = None,
    groups: Sequence[int] | None = None,
    resources: Sequence[int] | None = None,
) -> Problem:
    """Return the problem with only these users, groups of servers and resources.

    Parameters
    ----------
    users, groups, resources : sequences of int, optional
        What stays, by index, in the order given; all of them when absent.

    Raises
    ------
    ProblemError
        When nothing is left, or a user demands nothing any more or fits no server.

    Notes
    -----
    Cost O(N G R).
    """
    n = np.arange(problem.n_users) if users is None else np.asarray(users, dtype=np.int64)
    g = np.arange(problem.n_groups) if groups is None else np.asarray(groups, dtype=np.int64)
    r = np.arange(problem.n_resources) if resources is None else np.asarray(resources, np.int64)
    cluster, members = problem.cluster, problem.users
    weight = members.weight[n]
    if members.resource_weight is not None:
        weight = members.resource_weight[np.ix_(n, r)]
    return Problem.from_arrays(
        cluster.capacity[np.ix_(g, r)],
        members.demand[np.ix_(n, r)],
        count=cluster.count[g],
        weight=weight,
        eligible=members.eligible[np.ix_(n, g)],
        task_limit=members.task_limit[n],
        rates=None if members.rates is None else members.rates[np.ix_(n, g)],
        resources=[cluster.resources[k] for k in r],
        units=[cluster.units[k] for k in r],
        groups=[cluster.groups[k] for k in g],
        users=[members.names[k] for k in n],
        labels=[cluster.labels[k] for k in g],
    )


def working_part(problem: Problem) -> tuple[Problem, IntArray, IntArray]:
    """Return the problem without users that are due nothing and groups without a server.

    Returns
    -------
    part : Problem
        The same object when nothing is left out.
    users, groups : (N',) and (G',) int
        Which users and groups of `problem` are left.

    Raises
    ------
    ProblemError
        When all users are due nothing.

    Notes
    -----
    Cost O(N G R) where something is left out.
    """
    users, groups = np.flatnonzero(~problem.due_nothing), np.flatnonzero(problem.count)
    if len(users) == problem.n_users and len(groups) == problem.n_groups:
        return problem, users, groups
    if not len(users):
        raise ProblemError(NOBODY_IS_DUE, "users")
    return keep(problem, users=users.tolist(), groups=groups.tolist()), users, groups


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
