"""Apply a change in text form, such as ``weight:ana=3``; list the differences of two problems."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.errors import InputError, ProblemError
from fairlead.model.cluster import Cluster
from fairlead.model.problem import Problem
from fairlead.model.quantity import typed_number
from fairlead.model.workload_checks import usable_amounts

SYNTAX = "weight:USER=NUMBER, tasks:USER=NUMBER, servers:GROUP+NUMBER or servers:GROUP-NUMBER"
_SERVERS = re.compile(r"(.+)([+-])([0-9]{1,10})", re.DOTALL)
_MOST_NAMED = 10  # names listed in an error
PARTITION = "partition"  # label of groups: names of Slurm's partitions, with commas


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


def change_in_words(change: str) -> str:
    """Describe a change of `change_problem`: ``8 more servers of big``, ``weight 3 for ana``."""
    kind, _, rest = change.partition(":")
    if kind == "servers" and (parts := _SERVERS.fullmatch(rest)) is not None:
        count = int(parts[3])
        if parts[2] == "-":
            return f"{count:,} fewer server{'s' * (count != 1)} of {parts[1]}"
        return f"{count:,} more server{'s' * (count != 1)} of {parts[1]}"
    name, _, number = rest.rpartition("=")
    return (
        f"weight {number} for {name}" if kind == "weight" else f"at most {number} tasks of {name}"
    )


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
        number = typed_number(text)
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
        raise InputError(f"cannot remove {parts[3]}: {parts[1]} has {_format_servers(count[g])}")
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


@dataclass(frozen=True)
class _Group:
    """A group of servers, independent of the order of resources in its problem."""

    capacity: Mapping[str, float]  # of one server, by resource
    count: int
    labels: Mapping[str, str]


@dataclass(frozen=True)
class _User:
    """A user, independent of the order of groups and resources in its problem."""

    demand: Mapping[str, float]  # of one task, by resource
    weight: Mapping[str, float] | float  # by resource if weights are per resource
    task_limit: float
    eligible: Mapping[str, bool]  # by group
    rates: Mapping[str, float] | None  # by group


@dataclass(frozen=True)
class ProblemDifference:
    """A difference of two problems in one group of servers or one user."""

    kind: str  # "group" or "user"
    name: str
    text: str  # the difference in words


class TwoProblems:
    """Two problems whose groups and users are compared by name.

    Raises ProblemError when a resource has different units in them.
    """

    def __init__(self, before: Problem, after: Problem) -> None:
        self.before, self.after = before, after
        self._units = dict(zip(before.cluster.resources, before.cluster.units, strict=True))
        for resource, unit in zip(after.cluster.resources, after.cluster.units, strict=True):
            if self._units.setdefault(resource, unit) != unit:
                both = f"{self._units[resource] or 'none'} and {unit or 'none'}"
                raise ProblemError(f"the problems have the units {both}", f"resources.{resource}")
        self._groups = [_groups_of(problem) for problem in (before, after)]
        self._users = [_users_of(problem) for problem in (before, after)]

    def differences(self) -> list[ProblemDifference]:
        """Return all differences of groups, then of users, in the order of names."""
        found = []
        for kind, (old, new) in (("group", self._groups), ("user", self._users)):
            for name in [*old, *(name for name in new if name not in old)]:
                text = _describe_change(kind, name, old.get(name), new.get(name))
                if text:
                    found.append(ProblemDifference(kind, name, text))
        return found

    def with_one(self, difference: ProblemDifference) -> Problem:
        """Return the first problem with one group or user as in the second one.

        Raises ProblemError if the result is invalid.
        """
        groups, users = dict(self._groups[0]), dict(self._users[0])
        is_group = difference.kind == "group"
        table: dict[str, Any] = groups if is_group else users
        new: Mapping[str, Any] = self._groups[1] if is_group else self._users[1]
        if difference.name in new:
            table[difference.name] = new[difference.name]
        else:
            del table[difference.name]
        return self._build(groups, users)

    def _build(self, groups: dict[str, _Group], users: dict[str, _User]) -> Problem:
        """Build a problem of these groups and users, with the resources of both problems."""
        resources = list(self._units)
        has_rates = any(user.rates is not None for user in users.values())
        weights: Any = [user.weight for user in users.values()]
        if any(isinstance(weight, Mapping) for weight in weights):
            weights = [
                [w.get(r, 1.0) if isinstance(w, Mapping) else w for r in resources] for w in weights
            ]
        return Problem.from_arrays(
            [[group.capacity.get(r, 0.0) for r in resources] for group in groups.values()],
            [[user.demand.get(r, 0.0) for r in resources] for user in users.values()],
            count=[group.count for group in groups.values()],
            weight=weights,
            eligible=[
                [self._may_run(name, user, g) for g in groups] for name, user in users.items()
            ],
            task_limit=[user.task_limit for user in users.values()],
            rates=[[(user.rates or {}).get(g, 0.0) for g in groups] for user in users.values()]
            if has_rates
            else None,
            resources=resources,
            units=list(self._units.values()),
            groups=list(groups),
            users=list(users),
            labels=[group.labels for group in groups.values()],
        )

    def _may_run(self, name: str, user: _User, group: str) -> bool:
        """Return whether a user may run on a group, which the user's problem may lack.

        Then the user of this name in the other problem decides; without one, the user may run on
        the group if it may run on all groups of its problem.
        """
        for known in (user, *(table[name] for table in self._users if name in table)):
            if group in known.eligible:
                return known.eligible[group]
        return all(user.eligible.values())


def _groups_of(problem: Problem) -> dict[str, _Group]:
    cluster = problem.cluster
    rows = zip(cluster.groups, cluster.capacity.tolist(), cluster.count.tolist(), cluster.labels,
               strict=True)  # fmt: skip
    return {
        name: _Group(dict(zip(cluster.resources, amounts, strict=True)), count, dict(labels))
        for name, amounts, count, labels in rows
    }


def _users_of(problem: Problem) -> dict[str, _User]:
    users, cluster = problem.users, problem.cluster

    def by_group(table: Any, n: int) -> dict[str, Any]:
        return dict(zip(cluster.groups, table[n].tolist(), strict=True))

    def weight(n: int) -> Mapping[str, float] | float:
        if users.resource_weight is None:
            return float(users.weight[n])
        return dict(zip(cluster.resources, users.resource_weight[n].tolist(), strict=True))

    return {
        name: _User(
            dict(zip(cluster.resources, users.demand[n].tolist(), strict=True)),
            weight(n),
            float(users.task_limit[n]),
            by_group(users.eligible, n),
            None if users.rates is None else by_group(users.rates, n),
        )
        for n, name in enumerate(users.names)
    }


def _describe_change(kind: str, name: str, old: Any, new: Any) -> str:
    """Describe a difference; empty if there is none."""
    if new is None:
        return f"without {name}"
    if old is None:
        return f"{_format_servers(new.count)} {name}" if kind == "group" else f"new user {name}"
    parts = []
    if kind == "group":
        if old.count != new.count:
            parts.append(f"{old.count:,} to {_format_servers(new.count)}")
        parts += _describe_amounts("", old.capacity, new.capacity)
        if old.labels != new.labels:
            parts.append("labels")
    else:
        if old.weight != new.weight:
            numbers = isinstance(old.weight, float) and isinstance(new.weight, float)
            parts.append(f"weight {old.weight:g} to {new.weight:g}" if numbers else "weights")
        parts += _describe_amounts("demand of ", old.demand, new.demand)
        if old.task_limit != new.task_limit:
            parts.append(
                f"{_describe_limit(old.task_limit)} to {_describe_limit(new.task_limit)} tasks"
            )
        if any(old.eligible[g] != new.eligible[g] for g in old.eligible if g in new.eligible):
            parts.append("where it may run")
        if old.rates != new.rates:
            parts.append("rates")
    return f"{name}: {', '.join(parts)}" if parts else ""


def _describe_amounts(what: str, old: Mapping[str, float], new: Mapping[str, float]) -> list[str]:
    names = dict.fromkeys([*old, *new])
    changed = [(r, old.get(r, 0.0), new.get(r, 0.0)) for r in names]
    return [f"{what}{r} {a:g} to {b:g}" for r, a, b in changed if a != b]


def _format_servers(count: int) -> str:
    return f"{count:,} {'server' if count == 1 else 'servers'}"


def _describe_limit(tasks: float) -> str:
    return f"{tasks:g}" if np.isfinite(tasks) else "any number of"
