"""Quotas: amounts guaranteed to queues and users, on all servers or on some.

The unused part of a quota is lent to other queues. Quotas are refused if the servers cannot satisfy
them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.errors import ProblemError
from fairlead.model.arguments import name_text
from fairlead.model.cluster import BoolArray, Cluster, FloatArray
from fairlead.model.quantity import number_at, show
from fairlead.model.queues import Limits, Parents

_ROUNDING = 1e-12  # relative excess of a sum of amounts that is a rounding error

WHERE = "where"  # the key of a row that is not a resource: labels, or names of servers or groups

# Rows by the name of a queue or user. A row has amounts by resource, and the key `WHERE` if they
# are guaranteed on some servers only.
Quotas = dict[str, list[dict[str, Any]]]
Where = dict[str, str] | list[str] | None


@dataclass(frozen=True)
class Quota:
    """A row of the quotas of a queue or user."""

    amounts: dict[str, float]  # guaranteed amounts, by resource
    where: Where  # labels or names of the servers; None for all servers

    def is_on(self, labels: Mapping[str, str], names: Sequence[str]) -> bool:
        """Return whether the quota includes a server with these labels and names."""
        if isinstance(self.where, dict):
            return all(labels.get(key) == value for key, value in self.where.items())
        return self.where is None or any(name in self.where for name in names)


@dataclass(frozen=True)
class ServerKind:
    """Servers of a cluster with equal labels and names, so a quota includes all or none of them."""

    labels: Mapping[str, str]
    names: Sequence[str]
    total: Mapping[str, float]  # capacity of all of them, by resource


def quotas_of(rows: Sequence[Mapping[str, Any]]) -> list[Quota]:
    """Return the quotas of one queue from checked rows."""
    return [
        Quota({name: row[name] for name in row if name != WHERE}, row.get(WHERE)) for row in rows
    ]


def in_words(where: Where) -> str:
    """Describe the servers of a quota, such as `` with gpu=T4``; empty for all."""
    if where is None:
        return ""
    if isinstance(where, dict):
        return " with " + ", ".join(f"{key}={value}" for key, value in where.items())
    return " " + ", ".join(where)


def read_quotas(given: object) -> Quotas:
    """Check and return quotas by name of a queue or user; ProblemError for invalid ones."""
    if not isinstance(given, Mapping):
        raise ProblemError(f"must be a mapping of queues and users, not {show(given)}", "quotas")
    found: Quotas = {}
    for key, value in given.items():
        name = name_text(key, "quotas")
        if name in found:
            raise ProblemError(f"the key {name!r} appears twice in one mapping", "quotas")
        rows = value if isinstance(value, list) else [value]
        places = [f"quotas.{name}" + (f"[{k}]" if len(rows) > 1 else "") for k in range(len(rows))]
        found[name] = [_read_row(*each) for each in zip(rows, places, strict=True)]
        wheres = [row.get(WHERE) for row in found[name]]
        for k in range(len(wheres)):
            if wheres[k] in wheres[:k]:
                raise ProblemError("is on the same servers as an earlier one", places[k])
    return found


def _read_row(row: object, place: str) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise ProblemError(f"must be a mapping of resources, not {show(row)}", place)
    found: dict[str, Any] = {}
    for key, value in row.items():
        name = name_text(key, place)
        if name in found:
            raise ProblemError("appears twice in one mapping", f"{place}.{name}")
        if name == WHERE:
            found[WHERE] = _read_where(value, f"{place}.{WHERE}")
            continue
        found[name] = number_at(value, f"{place}.{name}")
    return found


def _read_where(value: object, place: str) -> dict[str, str] | list[str]:
    if isinstance(value, Mapping) and value:
        return {
            name_text(key, place): name_text(value[key], place) for key in sorted(value, key=str)
        }
    if isinstance(value, list) and value:
        return sorted({name_text(name, place) for name in value})
    raise ProblemError(f"must be labels, or names of servers, not {show(value)}", place)


# Feasibility of quotas


@dataclass(frozen=True)
class _Need:
    """An amount of a resource that servers must have for the quotas of some queues or users."""

    names: tuple[str, ...]  # of the queues or users
    where: Where  # the servers, as in `Quota`
    amount: float


def check_quotas(quotas: Quotas, parents: Parents, limits: Limits) -> None:
    """Raise ProblemError for quotas above a limit, or below the sum of the quotas of children."""
    children = _children_of(quotas, parents)
    least = {name: _least_needs(name, quotas, children) for name in _resources_of(quotas)}
    for name, row in limits.items():
        for resource, limit in row.items():
            need = least.get(resource, {}).get(name)
            # A sum of quotas may exceed an equal limit by a rounding error.
            if need is not None and need.amount > limit * (1 + _ROUNDING):
                whose = "" if need.names == (name,) else f" for {', '.join(need.names)}"
                fault = f"{need.amount:.6g}{whose} is more than the limit of {name}, {limit:.6g}"
                raise ProblemError(fault, f"quotas.{need.names[0]}.{resource}")
    for _ in _needs(quotas, parents):
        pass


def groups_of(quota: Quota, cluster: Cluster) -> list[int]:
    """Return the groups of servers that a quota includes."""
    return [g for g, name in enumerate(cluster.groups) if quota.is_on(cluster.labels[g], [name])]


def check_cluster(quotas: Quotas, parents: Parents, cluster: Cluster) -> None:
    """Raise ProblemError for quotas that the servers of a cluster cannot satisfy together."""
    known = cluster.resources
    for name, rows in quotas.items():
        for quota in quotas_of(rows):
            for resource in quota.amounts:
                if resource not in known:
                    fault = f"there is no such resource; there are {', '.join(known)}"
                    raise ProblemError(fault, f"quotas.{name}.{resource}")
    kinds = [
        ServerKind(
            cluster.labels[g],
            [name],
            dict(zip(known, (cluster.capacity[g] * cluster.count[g]).tolist(), strict=True)),
        )
        for g, name in enumerate(cluster.groups)
    ]
    check_servers(quotas, parents, kinds)


def check_servers(quotas: Quotas, parents: Parents, servers: Sequence[ServerKind]) -> None:
    """Raise ProblemError for quotas that the servers cannot satisfy together.

    It solves a linear programme for each resource, whose unknowns are the pairs of a quota and a
    kind of servers that the quota includes.
    """
    for resource, needs in _needs(quotas, parents):
        capacity = np.array([kind.total.get(resource, 0.0) for kind in servers])
        may_use = np.array(
            [
                [Quota({}, need.where).is_on(kind.labels, kind.names) for kind in servers]
                for need in needs
            ],
            dtype=bool,
        ).reshape(len(needs), len(servers))
        amounts = np.array([need.amount for need in needs])
        short = _find_shortage(may_use, amounts, capacity)
        if short.any():
            lacking = [needs[n] for n in np.flatnonzero(short)]
            names = list(dict.fromkeys(name for need in lacking for name in need.names))
            listed = ", ".join(names[:4]) + (" and others" if len(names) > 4 else "")
            places = {in_words(need.where) for need in lacking}
            on = places.pop() if len(places) == 1 else ""
            fault = f"{amounts[short].sum():.6g} {resource} are guaranteed to {listed}; "
            fault += f"the servers{on} have {capacity[may_use[short].any(axis=0)].sum():.6g}"
            raise ProblemError(fault, f"quotas.{names[0]}")


def _needs(quotas: Quotas, parents: Parents) -> Iterator[tuple[str, list[_Need]]]:
    """Yield each resource with the amounts of it that queues and users below the root need.

    A queue without a quota needs the sum of its children's needs. Raises ProblemError if this sum
    exceeds the queue's quota.
    """
    children = _children_of(quotas, parents)
    for resource in _resources_of(quotas):
        least = _least_needs(resource, quotas, children)
        yield (
            resource,
            [
                need
                for name in children[None]
                for need in _needs_of(name, resource, quotas, children, least).values()
            ],
        )


def _resources_of(quotas: Quotas) -> list[str]:
    """Return the resources of which amounts are guaranteed, each once."""
    amounts = (quota.amounts for rows in quotas.values() for quota in quotas_of(rows))
    return list(dict.fromkeys(resource for row in amounts for resource in row))


def _children_of(quotas: Quotas, parents: Parents) -> dict[str | None, list[str]]:
    """Return the children of each queue, by name; those of the root by None."""
    children: dict[str | None, list[str]] = {None: []}
    for name in dict.fromkeys([*parents, *quotas]):
        children.setdefault(parents.get(name), []).append(name)
    return children


def _needs_of(
    name: str,
    resource: str,
    quotas: Quotas,
    children: Mapping[str | None, list[str]],
    least: Mapping[str, _Need],
) -> dict[str, _Need]:
    """Return the needs of a queue for a resource; keys describe the servers, as `in_words`.

    Amounts add up: the one on all servers is in addition to those on some servers. `least` are the
    `_least_needs` of the resource.
    """
    found: dict[str, _Need] = {}
    for child in children.get(name, ()):
        for place, need in _needs_of(child, resource, quotas, children, least).items():
            siblings = found.get(place)
            if siblings is not None:
                amount = siblings.amount + need.amount
                found[place] = _Need(siblings.names + need.names, need.where, amount)
            else:
                found[place] = need
    rest = found.pop("", None)  # of the children, on any servers
    spare = 0.0  # amounts on some servers, beyond those of the children there
    everywhere = None
    own = [quota for quota in quotas_of(quotas.get(name, ())) if resource in quota.amounts]
    for quota in own:
        amount, place = quota.amounts[resource], in_words(quota.where)
        if quota.where is None:
            everywhere = amount
            below = _sum_of(least[child] for child in children.get(name, ()))
        else:
            below = found.get(place, _Need((), quota.where, 0.0))
            spare += amount - below.amount
            found[place] = _Need((name,), quota.where, amount)
        if below.amount > amount * (1 + _ROUNDING):
            fault = f"{amount:.6g} is less than the {below.amount:.6g} that are guaranteed to "
            raise ProblemError(fault + ", ".join(below.names), f"quotas.{name}.{resource}")
    for quota in own:
        amount = quota.amounts[resource]
        if everywhere is not None and amount > everywhere * (1 + _ROUNDING):
            # A task starts early only within all quotas of its queue, so it would not on these.
            fault = f"{everywhere:.6g} is less than the {amount:.6g} that are guaranteed on servers"
            raise ProblemError(f"{fault}{in_words(quota.where)}", f"quotas.{name}.{resource}")
    if everywhere is not None:
        elsewhere = sum(need.amount for need in found.values())
        found[""] = _Need((name,), None, max(everywhere - elsewhere, 0.0))
    elif rest is not None:
        found[""] = _Need(rest.names, None, max(rest.amount - spare, 0.0))
    return found


def _least_needs(
    resource: str, quotas: Quotas, children: Mapping[str | None, list[str]]
) -> dict[str, _Need]:
    """Return a lower bound of each queue's needs on all servers; O(queues and users).

    It is the queue's largest quota, or the sum of the bounds of its children if that is more.
    """
    parents_first = list(children[None])
    for name in parents_first:  # the list grows meanwhile
        parents_first += children.get(name, ())
    least: dict[str, _Need] = {}
    for name in reversed(parents_first):
        below = _sum_of(least[child] for child in children.get(name, ()))
        rows = (quota.amounts for quota in quotas_of(quotas.get(name, ())))
        own = max((row[resource] for row in rows if resource in row), default=0.0)
        least[name] = below if below.amount > own else _Need((name,), None, own)
    return least


def _sum_of(needs: Iterable[_Need]) -> _Need:
    """Return the sum of needs on all servers."""
    some = [need for need in needs if need.amount > 0]
    names = tuple(name for need in some for name in need.names)
    return _Need(names, None, sum(need.amount for need in some))


def _find_shortage(may_use: BoolArray, amounts: FloatArray, capacity: FloatArray) -> BoolArray:
    """Return (N,) bool: needs that together exceed the capacity of the servers they may use.

    `may_use` (N, K) has the kinds of servers of each need. All are False if all needs can be met. A
    linear programme (a maximum flow) divides the servers' capacity among the needs. If it cannot
    satisfy them all, its dual prices are a minimum cut: the needs of price 0 may use only servers
    of price 1, and together exceed the capacity of these.
    """
    from scipy.optimize import linprog  # noqa: PLC0415 (slow to import, seldom needed)
    from scipy.sparse import coo_array  # noqa: PLC0415

    need, kind = np.nonzero(may_use)
    n_needs, n_pairs = len(amounts), len(need)
    if not n_pairs:
        return amounts > 0
    scale = max(float(amounts.max()), 1e-300)
    bounds = np.concatenate([amounts, capacity]) / scale
    ends = np.concatenate([need, n_needs + kind])
    pairs = np.tile(np.arange(n_pairs), 2)
    rows = coo_array((np.ones(2 * n_pairs), (ends, pairs)), shape=(len(bounds), n_pairs)).tocsr()
    answer = linprog(-np.ones(n_pairs), A_ub=rows, b_ub=bounds, method="highs")
    if -float(answer.fun) * scale >= float(amounts.sum()) * (1 - 1e-9):
        return np.zeros(n_needs, dtype=bool)
    price = -np.asarray(answer.ineqlin.marginals)[:n_needs]
    short: BoolArray = (price < 0.5) & (amounts > 0)
    return short
