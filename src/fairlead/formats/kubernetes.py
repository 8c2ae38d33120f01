"""Who holds what of a Kubernetes cluster: its namespaces as users, its nodes as groups.

A namespace has pods of many shapes, a user has tasks of one. So a namespace's task is the mean of
its pods that hold a node or wait for one; what its pods really hold, and where, is kept beside
that. Not modelled: affinity between pods, topology spread, volumes, priorities and preemption,
quotas, dynamic resource allocation, and what pods use beyond their requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fairlead.errors import InputError, ProblemError
from fairlead.formats.kubernetes_dump import Dump, Pod, read_dump
from fairlead.formats.kubernetes_placement import NodeChoice
from fairlead.formats.kubernetes_requests import PODS, unit_of
from fairlead.formats.placement import NamedGroups, find_unplaceable
from fairlead.formats.row_faults import RowFaults
from fairlead.formats.schema import did_you_mean
from fairlead.formats.text import source_name
from fairlead.model.cluster import BoolArray, Cluster, FloatArray, IntArray
from fairlead.model.holdings import Holdings, WaitingTask
from fairlead.model.problem import Problem
from fairlead.model.quantity import read_number, show
from fairlead.model.ties import first_largest_of_rows

# Cells of the table of what each namespace holds of each resource of each node: 0.8 GB.
MOST_CELLS = 100_000_000

_EQUAL_WEIGHTS: Mapping[str, float] = {}
_FIRST_COLUMNS = ("cpu", "memory", PODS, "ephemeral-storage")


def read_kubernetes(
    path: str | Path,
    *,
    lenient: bool = False,
    weights: Mapping[str, float] = _EQUAL_WEIGHTS,
) -> Holdings:
    """Read who holds what from a dump of a Kubernetes cluster.

    Parameters
    ----------
    path : str or Path
        What ``kubectl get nodes,pods -A -o json`` writes, at most 1 GiB; ``-`` for standard input.
        Objects of other kinds are ignored.
    lenient : bool
        Pass over nodes, pods and namespaces at fault, and say so in `Holdings.skipped`. Faults of
        the whole file are still raised.
    weights : mapping
        Weights of namespaces, 1 for those that it does not name.

    Returns
    -------
    Holdings
        Of N namespaces in order of first appearance, G nodes in the dump's order (groups of one
        server each) and the R resources that any pod requests.

        A namespace's demand is the mean effective request of its pods. ``tasks`` counts what it
        holds on a node in such tasks, by the resource where the mean task takes the largest share
        of the cluster; ``task_limit`` counts all its pods in the same way, and so is their number.
        ``amounts`` is what its pods hold, or None where the pods of every namespace are of one
        shape: then ``tasks`` are its pods, and say all.

        It may run on a node where some pod of it may run, or does. ``waiting`` are the pods
        without a node, those that are gated excepted.

    Raises
    ------
    InputError
        For a file that `read_dump` refuses; an unknown operator of a placement constraint; a
        namespace without a pod that fits any node, or whose pods ask for resources that no node
        has together; an unknown namespace or a bad weight in `weights`.

    Notes
    -----
    Cost O(file + P G + N G R) for P pods.
    """
    faults = RowFaults(lenient)
    try:
        dump = read_dump(path, faults)
        weight = _weights(weights, dump)
        census = _drop_unplaceable(_take_census(dump, faults), faults)
        return _holdings(census, weight, tuple(faults.skipped))
    except InputError as error:
        raise error.within(source_name(path)) from None


@dataclass(frozen=True, eq=False)
class _Census:
    """Pods as arrays, P of them."""

    cluster: Cluster  # the nodes, with every resource that is named
    names: list[str]  # (N,): the namespaces
    pods: list[Pod]
    user: IntArray  # (P,): namespace of each pod
    node: IntArray  # (P,): node of each pod, -1 where it waits
    # (P, R): what each takes, in whole units: thousandths of a core, bytes, pieces.
    request: FloatArray
    size: FloatArray  # (R,): whole units in the unit in which each resource is shown
    allowed: dict[int, BoolArray]  # of each pod that waits, where it may run, (G,) bool
    eligible: BoolArray  # (N, G): where some pod of each namespace may run, or runs

    def members(self, n: int) -> IntArray:
        """Return the pods of a namespace."""
        return np.flatnonzero(self.user == n)


def _take_census(dump: Dump, faults: RowFaults) -> _Census:
    nodes = list(dump.nodes.values())
    placement = NamedGroups(list(dump.nodes), [node.labels for node in nodes])
    choice = NodeChoice(placement, [node.taints for node in nodes])
    names: dict[str, int] = {}
    pods: list[Pod] = []
    user: list[int] = []
    held: list[int] = []
    waiting: dict[int, BoolArray] = {}
    eligible: list[BoolArray] = []
    for pod in dump.pods:
        with faults.passed_over():
            allowed = choice.allowed(pod.spec, pod.place)
            n = names.setdefault(pod.namespace, len(names))
            if n == len(eligible):
                eligible.append(np.zeros(len(nodes), dtype=bool))
            eligible[n] |= allowed
            if pod.node:
                eligible[n][placement.index[pod.node]] = True
            else:
                waiting[len(pods)] = allowed
            held.append(placement.index.get(pod.node, -1))
            user.append(n)
            pods.append(pod)
    faults.check_left(len(pods))
    columns = _columns(dump)
    if max(len(names) * len(nodes), len(nodes), len(pods)) * len(columns) > MOST_CELLS:
        raise InputError(
            f"has too many namespaces ({len(names):,}) and resources ({len(columns):,}) "
            f"for its {len(nodes):,} nodes and {len(pods):,} pods"
        )
    size = np.array([unit_of(name)[1] for name in columns], dtype=float)
    cluster = Cluster(
        groups=tuple(dump.nodes),
        resources=tuple(columns),
        capacity=_table([node.allocatable for node in nodes], columns) / size,
        count=np.ones(len(nodes), dtype=np.int64),
        units=tuple(unit_of(name)[0] for name in columns),
        labels=tuple(node.labels for node in nodes),
    )
    return _Census(
        cluster=cluster,
        names=list(names),
        pods=pods,
        user=np.array(user),
        node=np.array(held),
        request=_table([pod.request for pod in pods], columns),
        size=size,
        allowed=waiting,
        eligible=np.array(eligible),
    )


def _columns(dump: Dump) -> dict[str, int]:
    """Return the resources that any pod requests, the ordinary ones first."""
    asked = {name for pod in dump.pods for name, amount in pod.request.items() if amount > 0}
    first = [name for name in _FIRST_COLUMNS if name in asked]
    return {name: r for r, name in enumerate([*first, *sorted(asked.difference(first))])}


def _table(rows: list[Mapping[str, int]], columns: Mapping[str, int]) -> FloatArray:
    """Lay out amounts as (rows, R), 0 where none is named and without what is no column."""
    table = np.zeros((len(rows), len(columns)))
    for row, amounts in enumerate(rows):
        for name, amount in amounts.items():
            column = columns.get(name)
            if column is not None:
                table[row, column] = amount
    return table


def _drop_unplaceable(census: _Census, faults: RowFaults) -> _Census:
    """Leave out the namespaces that fit nowhere, or raise the first of them."""
    keep = np.ones(len(census.names), dtype=bool)
    for n, why in _unplaceable(census).items():
        members = census.members(n)
        keep[n] = False
        with faults.passed_over():
            raise ProblemError(
                f"namespace {census.names[n]!r} with {len(members):,} pod"
                f"{'s' if len(members) > 1 else ''} {why}",
                census.pods[members[0]].place,
            )
    if keep.all():
        return census
    faults.check_left(int(keep.sum()))
    stay = np.flatnonzero(keep[census.user])
    asked = census.request[stay].any(axis=0)
    cluster = census.cluster
    return replace(
        census,
        cluster=replace(
            cluster,
            resources=tuple(np.array(cluster.resources, dtype=object)[asked]),
            capacity=cluster.capacity[:, asked],
            units=tuple(np.array(cluster.units, dtype=object)[asked]),
        ),
        names=[name for n, name in enumerate(census.names) if keep[n]],
        pods=[census.pods[p] for p in stay],
        user=(np.cumsum(keep) - 1)[census.user[stay]],
        node=census.node[stay],
        request=census.request[np.ix_(stay, asked)],
        size=census.size[asked],
        allowed={k: census.allowed[p] for k, p in enumerate(stay.tolist()) if p in census.allowed},
        eligible=census.eligible[keep],
    )


def _unplaceable(census: _Census) -> dict[int, str]:
    """Find the namespaces that have no node to run on, and say why."""
    reasons: dict[int, str] = {}
    placed = np.bincount(census.user[census.node >= 0], minlength=len(census.names)) > 0
    asking = np.array([p for p in census.allowed if not placed[census.user[p]]], dtype=np.int64)
    if len(asking):
        demand = census.request[asking] / census.size
        allowed = np.array([census.allowed[p] for p in asking])
        lost = find_unplaceable(census.cluster, demand, allowed, None)
        for n in np.unique(census.user[asking]).tolist():
            own = np.flatnonzero(census.user[asking] == n).tolist()
            if all(k in lost for k in own):
                reasons[n] = f"fits no node: {lost[own[0]]}"
    asks = _sum_by_user(census) > 0
    lacks = ~(census.cluster.capacity > 0)
    runnable = census.eligible & ~(asks.astype(np.float32) @ lacks.T.astype(np.float32) > 0)
    for n in np.flatnonzero(~runnable.any(axis=1)).tolist():
        reasons.setdefault(n, _lacking(census, n, asks[n]))
    return dict(sorted(reasons.items()))


def _lacking(census: _Census, n: int, asks: BoolArray) -> str:
    """Say which resources keep a namespace from every node that it may use."""
    resources = np.array(census.cluster.resources, dtype=object)
    there = (census.cluster.capacity[census.eligible[n]] > 0).any(axis=0)
    missing = resources[asks & ~there]
    if len(missing):
        return f"fits no node: no node that it may use has {' or '.join(missing)}"
    return (
        f"fits no node as a whole: its pods ask for {', '.join(resources[asks])}, "
        "which no node that it may use has together"
    )


def _sum_by_user(census: _Census) -> FloatArray:
    """(N, R) float: what the pods of each namespace take together, in whole units."""
    total = np.zeros((len(census.names), census.request.shape[1]))
    np.add.at(total, census.user, census.request)
    return total


def _holdings(census: _Census, weight: Mapping[str, float], skipped: tuple[str, ...]) -> Holdings:
    names, cluster, user, size = census.names, census.cluster, census.user, census.size
    n_pods = np.bincount(user, minlength=len(names))
    one_of_each = census.request[np.unique(user, return_index=True)[1]]
    of_one_shape = bool((census.request == one_of_each[user]).all())
    mean = one_of_each if of_one_shape else _sum_by_user(census) / n_pods[:, None]
    on = np.flatnonzero(census.node >= 0)
    held = np.zeros((len(names), len(cluster.groups), len(size)))
    np.add.at(held, (user[on], census.node[on]), census.request[on])
    # Every namespace fits some node, so the cluster has of whatever it asks for.
    total = cluster.capacity.sum(axis=0) * size
    share = np.divide(mean, total, out=np.zeros_like(mean), where=total > 0)
    dominant = first_largest_of_rows(share)
    everyone = np.arange(len(names))
    tasks = held[everyone, :, dominant] / mean[everyone, dominant][:, None]
    problem = Problem.from_arrays(
        cluster.capacity,
        mean / size,
        weight=[weight.get(name, 1.0) for name in names],
        eligible=census.eligible,
        # Equal but for rounding: the mean counts every pod.
        task_limit=np.maximum(n_pods, tasks.sum(axis=1)),
        resources=cluster.resources,
        units=cluster.units,
        groups=cluster.groups,
        users=names,
        labels=cluster.labels,
    )
    return Holdings(
        problem=problem,
        tasks=tasks,
        source="kubernetes",
        whole_tasks=True,
        amounts=None if of_one_shape else held / size,
        waiting=tuple(
            WaitingTask(
                name=f"{census.pods[p].namespace}/{census.pods[p].name}",
                user=int(user[p]),
                request=census.request[p] / size,
                allowed=allowed,
            )
            for p, allowed in census.allowed.items()
        ),
        skipped=skipped,
    )


def _weights(weights: Mapping[str, float], dump: Dump) -> dict[str, float]:
    checked = {}
    for name, value in weights.items():
        place = f"weights.{name}"
        if name not in dump.namespaces:
            raise InputError(
                f"no pod is of the namespace {show(name)}{did_you_mean(name, dump.namespaces)}",
                place,
            )
        try:
            checked[name] = read_number(value, "a positive number")
        except ProblemError as error:
            raise ProblemError(error.fault, place) from None
        if checked[name] <= 0:
            raise ProblemError(f"must be a positive number, not {show(value)}", place)
    return checked
