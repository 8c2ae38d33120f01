"""Apply a change in text form, such as ``weight:ana=3``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster
from fairlead.model.problem import Problem
from fairlead.model.quantity import number_from_text
from fairlead.model.workload_checks import usable_amounts

SYNTAX = "weight:USER=NUMBER, tasks:USER=NUMBER, servers:GROUP+NUMBER or servers:GROUP-NUMBER"
_SERVERS = re.compile(r"(.+)([+-])([0-9]{1,10})", re.DOTALL)
_MOST_NAMED = 10  # names listed in an error
PARTITION = "partition"  # label of a group: its Slurm partitions, separated by commas


def change_problem(problem: Problem, change: str) -> Problem:
    """Return the problem with one change.

    Parameters
    ----------
    problem : Problem
    change : str
        One of

        - ``weight:USER=NUMBER``, as in `with_weights`,
        - ``tasks:USER=NUMBER``, where ``inf`` means no limit,
        - ``servers:GROUP+NUMBER`` or ``servers:GROUP-NUMBER``, where ``GROUP`` may also be a
          partition whose nodes are a single group.

        Names may contain ``:``, ``=``, ``+`` and ``-``.

    Raises
    ------
    InputError
        For another syntax, an unknown name or a number out of range.

    Examples
    --------
    >>> import fairlead
    >>> problem = fairlead.Problem.from_arrays([[4.0]], [[1.0]], groups=["a"], users=["ana"])
    >>> change_problem(problem, "servers:a+2").count.tolist()
    [3]
    """
    kind, _, rest = change.partition(":")
    try:
        if kind in ("weight", "tasks"):
            return _with_number(problem, kind, rest)
        if kind == "servers":
            return _with_servers(problem, rest)
        raise InputError(f"must be {SYNTAX}")
    except InputError as error:
        raise InputError(error.fault, f"what-if {change!r:.80}") from None


def with_weights(problem: Problem, weights: Mapping[str, float]) -> Problem:
    """Return the problem with other weights of users and queues, by name.

    Raises
    ------
    InputError
        For an unknown name, a weight out of range, or a problem with weights per resource.
    """
    users, queues = problem.users, problem.users.queues
    if users.resource_weight is not None:
        raise InputError("the problem has weights per resource")
    position = {name: n for n, name in enumerate(users.names)}
    weight = users.weight.copy()
    for name, number in weights.items():
        if queues is not None and name in queues.names:
            queues = queues.with_weight(name, number)
            continue
        if name not in position:
            raise _unknown_user_error(name, users.names)
        if not usable_amounts(np.array(number)):
            raise InputError(f"must be a number from 0, not {number:g}", name)
        weight[position[name]] = number
    changed = rebuilt(problem, weight=weight)
    return changed if queues is None else changed.in_tree(queues)


def _with_number(problem: Problem, quantity: str, rest: str) -> Problem:
    """Return the problem with another number of a user.

    `quantity` is ``weight`` or ``tasks`` (the task limit), and `rest` is ``USER=NUMBER``.
    """
    name, equals, text = rest.rpartition("=")
    if not equals:
        raise InputError(f"must be {quantity}:USER=NUMBER, such as {quantity}:ana=3")
    users = problem.users
    try:
        number = number_from_text(text)
    except ValueError:
        raise InputError(f"{text!r:.60} is not a number") from None
    if quantity == "weight":
        return with_weights(problem, {name: number})
    if name not in users.names:
        raise _unknown_user_error(name, users.names)
    limit = users.task_limit.copy()
    limit[users.names.index(name)] = number
    return rebuilt(problem, task_limit=limit)


def _with_servers(problem: Problem, rest: str) -> Problem:
    """Return the problem with more or fewer servers.

    `rest` is ``GROUP+NUMBER`` or ``GROUP-NUMBER``.
    """
    parts = _SERVERS.fullmatch(rest)
    if parts is None:
        raise InputError("must be servers:GROUP+NUMBER or servers:GROUP-NUMBER")
    g = group_named(parts[1], problem.cluster)
    count = problem.count.copy()
    more = int(parts[3]) if parts[2] == "+" else -int(parts[3])
    if count[g] + more < 0:
        raise InputError(f"cannot remove {parts[3]}: {parts[1]} has {format_servers(count[g])}")
    count[g] += more
    return rebuilt(problem, count=count)


def group_named(name: str, cluster: Cluster) -> int:
    """Return the index of a group by its name, or by a partition of which it is the only group.

    Raises InputError for an unknown name, and for a partition of several groups.
    """
    if name in cluster.groups:
        return cluster.groups.index(name)
    labels = enumerate(cluster.labels)
    found = [g for g, row in labels if name in row.get(PARTITION, "").split(",")]
    if len(found) == 1:
        return found[0]
    if found:
        choices = _listed([cluster.groups[g] for g in found])
        raise InputError(f"{len(found)} groups are of the partition {name!r:.60}: {choices}")
    raise InputError(f"no group is named {name!r:.60}; known: {_listed(cluster.groups)}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")


def _unknown_user_error(user: str, known: Sequence[str]) -> InputError:
    return InputError(f"no user is named {user!r:.60}; known: {_listed(known)}")


def rebuilt(problem: Problem, **columns: Any) -> Problem:
    """Return a problem with other arguments of `from_arrays`, such as ``count``, validated anew."""
    cluster, users = problem.cluster, problem.users
    weight = users.weight if users.resource_weight is None else users.resource_weight
    arguments = {
        "count": cluster.count, "weight": weight, "eligible": users.eligible,
        "task_limit": users.task_limit, "rates": users.rates, "resources": cluster.resources,
        "units": cluster.units, "groups": cluster.groups, "users": users.names,
        "labels": cluster.labels, "devices": cluster.devices,
    }  # fmt: skip
    found = Problem.from_arrays(cluster.capacity, users.demand, **arguments | columns)
    return found if users.queues is None else found.in_tree(users.queues)


def format_servers(count: int) -> str:
    """Format a number of servers: ``1 server``, ``2,000 servers``."""
    return f"{count:,} {'server' if count == 1 else 'servers'}"
