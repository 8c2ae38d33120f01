"""Restrict, split and merge the users and the groups of servers of a problem.

Merging is exact for divisible allocations: identical servers get the same tasks, and identical
users run the same number of tasks per unit of weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.errors import ProblemError
from fairlead.model.cluster import FloatArray, IntArray, common_labels, name_of_group
from fairlead.model.problem import Problem

NO_USER_IS_DUE = "no user is due anything: all of them have 0 tasks or weight 0"


def restrict(
    problem: Problem,
    *,
    users: Sequence[int] | None = None,
    groups: Sequence[int] | None = None,
    resources: Sequence[int] | None = None,
) -> Problem:
    """Return the problem with only these users, groups and resources, by index, in this order.

    Raises ProblemError when nothing is left, or a remaining user demands nothing or fits no server.
    """
    n = np.arange(problem.n_users) if users is None else np.asarray(users, dtype=np.int64)
    g = np.arange(problem.n_groups) if groups is None else np.asarray(groups, dtype=np.int64)
    r = np.arange(problem.n_resources) if resources is None else np.asarray(resources, np.int64)
    cluster, all_users = problem.cluster, problem.users
    weight = all_users.weight[n]
    if all_users.resource_weight is not None:
        weight = all_users.resource_weight[np.ix_(n, r)]
    part = Problem.from_arrays(
        cluster.capacity[np.ix_(g, r)],
        all_users.demand[np.ix_(n, r)],
        count=cluster.count[g],
        weight=weight,
        eligible=all_users.eligible[np.ix_(n, g)],
        task_limit=all_users.task_limit[n],
        rates=None if all_users.rates is None else all_users.rates[np.ix_(n, g)],
        resources=[cluster.resources[k] for k in r],
        units=[cluster.units[k] for k in r],
        groups=[cluster.groups[k] for k in g],
        users=[all_users.names[k] for k in n],
        labels=[cluster.labels[k] for k in g],
        devices=[name for name in cluster.devices if cluster.resources.index(name) in r],
    )
    return part if all_users.queues is None else part.in_tree(all_users.queues.select_users(n))


def active_part(problem: Problem) -> tuple[Problem, IntArray, IntArray]:
    """Remove users that are due nothing and groups without a server.

    Returns the problem (the same object when nothing is removed) and the indices of the remaining
    users and groups. Raises ProblemError when all users are due nothing.
    """
    users, groups = np.flatnonzero(~problem.due_nothing), np.flatnonzero(problem.count)
    if len(users) == problem.n_users and len(groups) == problem.n_groups:
        return problem, users, groups
    if not len(users):
        raise ProblemError(NO_USER_IS_DUE, "users")
    return restrict(problem, users=users.tolist(), groups=groups.tolist()), users, groups


def split_groups(problem: Problem) -> tuple[Problem, IntArray]:
    """Make every server a separate group; also return (S,) the former group of each server.

    In a group of several servers, the servers are named ``name-0``, ``name-1``, ...
    """
    cluster = problem.cluster
    group_of = np.repeat(np.arange(problem.n_groups), cluster.count)
    names = tuple(
        f"{name}-{k}" if count > 1 else name
        for name, count in zip(cluster.groups, cluster.count.tolist(), strict=True)
        for k in range(count)
    )
    servers = cluster.select(group_of, np.ones(len(group_of), dtype=np.int64))
    return Problem(replace(servers, groups=names), problem.users.on_groups(group_of)), group_of


def merge_groups(problem: Problem) -> tuple[Problem, IntArray]:
    """Merge groups of servers with equal capacity, eligible users and rates.

    It returns

    - the problem, in which a merged group has the name and labels of the first of its groups; if no
      two groups are equal, `problem` itself;
    - (G,) the index of the merged group of each group.

    O(G (N / 8 + R)), as constraints are compared as bits; with rates O(G (N + R)).
    """
    users, cluster = problem.users, problem.cluster
    tables: list[NDArray[Any]] = [cluster.capacity]
    if problem.has_constraints:
        tables.append(np.packbits(users.eligible.T, axis=1))
    if users.rates is not None:
        tables.append(users.rates.T)
    first, index = _distinct_rows(tables, problem.n_groups)
    if len(first) == problem.n_groups:
        return problem, index
    count = np.zeros(len(first), dtype=np.int64)
    np.add.at(count, index, cluster.count)
    return Problem(cluster.select(first, count), users.on_groups(first)), index


def group_equal_servers(problem: Problem) -> Problem:
    """Merge groups as `merge_groups` does, with other names and labels.

    A merged group is named by `name_of_group`, and has the labels that all its groups have.
    """
    merged, index = merge_groups(problem)
    cluster = problem.cluster
    groups_of: list[list[int]] = [[] for _ in range(merged.n_groups)]
    for g, m in enumerate(index.tolist()):
        groups_of[m].append(g)
    names = tuple(name_of_group([cluster.groups[g] for g in groups]) for groups in groups_of)
    labels = tuple(common_labels([cluster.labels[g] for g in groups]) for groups in groups_of)
    return Problem(replace(merged.cluster, groups=names, labels=labels), merged.users)


def spread_groups(tasks: FloatArray, count: IntArray, merged_index: IntArray) -> FloatArray:
    """Split tasks (N, M) on merged groups over the G original ones, in proportion to count (G,)."""
    total = np.bincount(merged_index, weights=count, minlength=tasks.shape[1])
    spread: FloatArray = tasks[:, merged_index] * (count / total[merged_index])[None, :]
    return spread


def merge_users(problem: Problem) -> tuple[Problem, IntArray, FloatArray]:
    """Merge users with equal demand, eligibility, rates and task limit per unit of weight.

    It returns

    - the problem, in which a merged user has the name of the first of its users, and the sums of
      their weights and limits; `problem` itself if no two users are equal, weights are per
      resource, or there are queues;
    - (N,) the index of the merged user of each user;
    - (N,) the fraction of the merged user's tasks that each user gets.

    Weights must be positive. O(N (G / 8 + R)), with rates O(N (G + R)).
    """
    users, n_users = problem.users, problem.n_users
    if users.resource_weight is not None or users.queues is not None:
        return problem, np.arange(n_users, dtype=np.int64), np.ones(n_users)
    tables: list[NDArray[Any]] = [users.demand, (users.task_limit / users.weight)[:, None]]
    if problem.has_constraints:
        tables.append(np.packbits(users.eligible, axis=1))
    if users.rates is not None:
        tables.append(users.rates)
    first, index = _distinct_rows(tables, n_users)
    if len(first) == n_users:
        return problem, index, np.ones(n_users)
    weight, task_limit = np.zeros(len(first)), np.zeros(len(first))
    np.add.at(weight, index, users.weight)
    np.add.at(task_limit, index, users.task_limit)
    merged_users = replace(
        users,
        names=tuple(users.names[n] for n in first),
        demand=users.demand[first],
        weight=weight,
        eligible=users.eligible[first],
        task_limit=task_limit,
        rates=None if users.rates is None else users.rates[first],
    )
    return Problem(problem.cluster, merged_users), index, users.weight / weight[index]


def spread_users(tasks: FloatArray, merged_index: IntArray, share: FloatArray) -> FloatArray:
    """Split tasks (M, G) of merged users over the N original ones.

    `merged_index` and `share`, both (N,), are the results of `merge_users`.
    """
    spread: FloatArray = tasks[merged_index] * share[:, None]
    return spread


def _distinct_rows(tables: list[NDArray[Any]], n_rows: int) -> tuple[IntArray, IntArray]:
    """Find the distinct rows of tables that are placed side by side.

    Returns (M,) the index of the first row of each set of equal rows, ascending, and (n_rows,) the
    index of the set of each row.
    """
    as_bytes = [np.ascontiguousarray(_comparable(table)).view(np.uint8) for table in tables]
    rows = np.concatenate([table.reshape(n_rows, -1) for table in as_bytes], axis=1)
    content, width = rows.tobytes(), rows.shape[1]
    distinct: dict[bytes, int] = {}
    keys = (content[k * width : (k + 1) * width] for k in range(n_rows))
    index = np.fromiter((distinct.setdefault(key, len(distinct)) for key in keys), np.int64, n_rows)
    first = np.zeros(len(distinct), dtype=np.int64)
    # In reverse order, so that the first of equal rows is assigned last.
    first[index[::-1]] = np.arange(n_rows - 1, -1, -1)
    return first, index


def _comparable(table: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers with a single form of 0 and of NaN, so equal ones have equal bytes."""
    if table.dtype.kind != "f":
        return table
    plain = table + 0.0
    plain[np.isnan(plain)] = np.nan
    return plain
