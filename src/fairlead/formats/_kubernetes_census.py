"""The pods of a Kubernetes cluster as arrays: their requests, and the nodes open to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairlead.errors import InputError
from fairlead.formats._kubernetes_objects import (
    Dump,
    Pod,
    cluster_of,
    table_of,
)
from fairlead.formats._kubernetes_placement import NodeChoice
from fairlead.formats._kubernetes_specs import (
    NVIDIA_GPU,
    PODS,
    gpu_part_annotation,
    repelled_namespaces,
    split_request,
    unit_of,
    unmodelled_constraint,
)
from fairlead.formats.file_faults import RowFaults
from fairlead.model.cluster import BoolArray, Cluster, FloatArray, IntArray, find_unplaceable

# Largest table of holdings: users times nodes times resources. It takes 0.8 GB.
MOST_CELLS = 100_000_000

_FIRST_COLUMNS = ("cpu", "memory", PODS, "ephemeral-storage")


@dataclass(frozen=True, eq=False)
class Census:
    """Pods as arrays: P pods of N users, G nodes, R resources (all that any pod requests)."""

    cluster: Cluster
    names: list[str]  # (N,): the users
    pods: list[Pod]  # (P,)
    user: IntArray  # (P,): user of each pod
    node: IntArray  # (P,): node of each bound pod, -1 for pending ones
    # (P, R): in whole units (`_kubernetes_specs`); parts of a GPU are fractions.
    request: FloatArray
    size: FloatArray  # (R,): whole units in one displayed unit of each resource
    allowed: dict[int, BoolArray]  # for each pending pod: (G,) whether it may run on a node
    # For each user and set of requested resources (an array (R,) of bool, as bytes): (G,) whether
    # such pods run or may run on a node.
    reach: dict[tuple[int, bytes], BoolArray]
    unrunnable: dict[int, str]  # reasons why pending pods fit no node, by pod
    undecided: dict[int, str]  # names of constraints that are not modelled, by pending pod
    has_part: BoolArray  # (P,): whether a part of one GPU is counted for the pod
    lacks_parts: bool  # whether some bound pod has a part of a GPU that is not counted
    not_modelled: dict[str, list[str]]  # names of pods, by request that is not modelled


@dataclass
class _OpenNodes:
    """The pods that are kept, and the nodes open to each."""

    # The position in the dump of each kept pod. Pods are numbered by their index in this list.
    kept: list[int] = field(default_factory=list)
    users: dict[str, int] = field(default_factory=dict)  # number of each user, by name
    allowed: dict[int, BoolArray] = field(default_factory=dict)  # as in the census
    reach: dict[tuple[int, bytes], BoolArray] = field(default_factory=dict)  # of running pods
    # The first running pod whose required anti-affinity may keep away pods of a namespace.
    repels: dict[str, str] = field(default_factory=dict)


def take_census(dump: Dump, faults: RowFaults) -> Census:
    """Arrange the pods of a dump in arrays, and find the nodes open to each pod. O(P G + P R).

    Errors of single pods go to `faults`. Raises InputError if no pod is left.
    """
    nodes = dump.nodes.values()
    listed = frozenset(name for node in nodes for name in node.allocatable)
    not_modelled: dict[str, list[str]] = {}
    requests, first_not_modelled = _split_requests(dump, listed, not_modelled)
    columns = _columns(requests)
    if not columns:
        raise InputError("no pod requests a resource that counts")
    n_cells = max(len(dump.users) * len(nodes), len(nodes), len(dump.pods)) * len(columns)
    if n_cells > MOST_CELLS:
        raise InputError(
            f"has too many users ({len(dump.users):,}) and resources ({len(columns):,}) "
            f"for its {len(nodes):,} nodes and {len(dump.pods):,} pods"
        )
    request = table_of(requests, columns)
    choice = NodeChoice(dump.nodes)
    found = _find_open_nodes(dump, choice, request > 0, faults)
    faults.refuse_if_none_left(len(found.kept))
    pods, request = [dump.pods[p] for p in found.kept], request[found.kept]
    user = np.array([found.users[pod.user] for pod in pods], dtype=np.int64)
    size = np.array([unit_of(name)[1] for name in columns], dtype=float)
    cluster = cluster_of(dump.nodes, columns)
    unrunnable = _find_unrunnable(cluster, request / size, found.allowed)
    # Constraints outside the model may keep pending pods away from nodes.
    undecided = {}
    for k, allowed in found.allowed.items():
        if k not in unrunnable:
            reached = int(user[k]), (request[k] > 0).tobytes()
            found.reach[reached] = found.reach.get(reached, allowed) | allowed
            why = _why_undecided(pods[k], found.repels)
            why = why or first_not_modelled.get(found.kept[k], "")
            if why:
                undecided[k] = why
    has_part = np.array([pod.gpu_part > 0 and NVIDIA_GPU in listed for pod in pods])
    return Census(
        cluster=cluster,
        names=list(found.users),
        pods=pods,
        user=user,
        node=np.array([choice.nodes.index.get(pod.node, -1) for pod in pods], dtype=np.int64),
        request=request,
        size=size,
        allowed=found.allowed,
        reach=found.reach,
        unrunnable=unrunnable,
        undecided=undecided,
        has_part=has_part,
        lacks_parts=any(
            pod.node and gpu_part_annotation(pod.annotations) and not has_part[k]
            for k, pod in enumerate(pods)
        ),
        not_modelled=not_modelled,
    )


def _find_open_nodes(
    dump: Dump, choice: NodeChoice, is_requested: BoolArray, faults: RowFaults
) -> _OpenNodes:
    """Find the nodes open to each pod; drop pending pods whose constraint cannot be read.

    `is_requested` (P, R) tells whether a pod of the dump requests a resource.
    """
    found = _OpenNodes()
    for p, pod in enumerate(dump.pods):
        allowed = None
        with faults.collected(pod.source):
            allowed = choice.allowed(pod.spec, pod.place)
        if allowed is None:
            if not pod.node:
                continue
            allowed = np.zeros(len(dump.nodes), dtype=bool)  # the pod's own node is added below
        n = found.users.setdefault(pod.user, len(found.users))
        if pod.node:
            allowed[choice.nodes.index[pod.node]] = True
            for namespace in repelled_namespaces(pod.spec, pod.namespace):
                found.repels.setdefault(namespace, pod.full_name)
            reached = n, is_requested[p].tobytes()
            found.reach[reached] = found.reach.get(reached, allowed) | allowed
        else:
            found.allowed[len(found.kept)] = allowed
        found.kept.append(p)
    return found


def _split_requests(
    dump: Dump, listed: frozenset[str], not_modelled: dict[str, list[str]]
) -> tuple[list[Mapping[str, float]], dict[int, str]]:
    """Return the counted request of each pod; and for some pods, their first uncounted request.

    Adds the names of pods with uncounted requests to `not_modelled`.
    """
    requests: list[Mapping[str, float]] = []
    first_not_modelled: dict[int, str] = {}
    for p, pod in enumerate(dump.pods):
        # The ResourceClaim of a pending pod may not exist yet, so any claimed resource is possible.
        claimed = pod.claimed if pod.node else dump.claimed
        counted, uncounted = split_request(pod.request, listed, claimed)
        request: dict[str, float] = dict(counted)
        if PODS not in listed:  # files written by hand may leave it out
            request.pop(PODS, None)
        for resource, why in uncounted.items():
            what = f"{resource}, {why}"
            first_not_modelled.setdefault(p, f"a request of {what}")
            not_modelled.setdefault(what, []).append(pod.full_name)
        annotation = gpu_part_annotation(pod.annotations)
        if pod.gpu_part and NVIDIA_GPU in listed:
            request[NVIDIA_GPU] = pod.gpu_part
        elif annotation:
            what = f"parts of GPUs by the annotation {annotation}"
            not_modelled.setdefault(what, []).append(pod.full_name)
        requests.append(request)
    return requests, first_not_modelled


def _columns(requests: Sequence[Mapping[str, float]]) -> dict[str, int]:
    """Return the index of each resource that any pod requests; `_FIRST_COLUMNS` come first."""
    asked = {name for request in requests for name, amount in request.items() if amount > 0}
    first = [name for name in _FIRST_COLUMNS if name in asked]
    return {name: r for r, name in enumerate([*first, *sorted(asked.difference(first))])}


def _find_unrunnable(
    cluster: Cluster, demand: FloatArray, allowed_of: Mapping[int, BoolArray]
) -> dict[int, str]:
    """Return the reason for each pending pod that fits no empty node."""
    alike: dict[tuple[bytes, bytes], list[int]] = {}
    for k, allowed in allowed_of.items():
        alike.setdefault((demand[k].tobytes(), allowed.tobytes()), []).append(k)
    first = [members[0] for members in alike.values()]
    if not first:
        return {}
    rows = np.array([allowed_of[k] for k in first])
    reasons = find_unplaceable(cluster, demand[first], rows, None)
    return {
        k: reasons[row]
        for row, members in enumerate(alike.values())
        if row in reasons
        for k in members
    }


def _why_undecided(pod: Pod, repels: Mapping[str, str]) -> str:
    """Name a constraint that is not modelled and may keep a pod away; empty if there is none."""
    constraint = unmodelled_constraint(pod.spec, pod.annotations, pod.labels)
    if constraint:
        return constraint
    other = repels.get("") or repels.get(pod.namespace)
    return f"the podAntiAffinity of {other}" if other else ""
