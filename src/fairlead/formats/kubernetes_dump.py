"""The nodes and pods of a Kubernetes cluster, checked and with amounts in whole units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.errors import InputError
from fairlead.formats.kubernetes_documents import MADE_BY, ListedObject, read_items
from fairlead.formats.kubernetes_documents import NODE as NODE_KIND
from fairlead.formats.kubernetes_documents import POD as POD_KIND
from fairlead.formats.kubernetes_placement import TaintKey, forbidding_taints
from fairlead.formats.kubernetes_requests import Amounts, allocatable, effective_request
from fairlead.formats.kubernetes_shapes import NODE, POD, Metadata, PodSpec, check_object
from fairlead.formats.kubernetes_unmodelled import claimed_resources, may_repel
from fairlead.formats.row_faults import RowFaults
from fairlead.formats.schema import text_of
from fairlead.garbage_collection import garbage_collection_paused
from fairlead.model.quantity import show

BY_NAMESPACE = "namespace"
BY_LABEL = "label:"

_TERMINATED = ("Succeeded", "Failed")


@dataclass(frozen=True, eq=False)
class Node:
    """A node, with the taints that keep pods away, and what it has for pods, in whole units."""

    name: str
    labels: Mapping[str, str]
    taints: frozenset[TaintKey]
    allocatable: Amounts


@dataclass(frozen=True, eq=False)
class Pod:
    """A pod that holds its node, or waits for one."""

    source: str  # the file, where several were given
    place: str  # where it stands in the file
    namespace: str
    name: str
    user: str  # who holds what it holds
    node: str  # name of the node that it holds; empty when it waits
    request: Amounts  # what it takes, in whole units
    claimed: frozenset[str]  # extended resources that it holds by a resource claim
    spec: PodSpec  # where it may run
    labels: Mapping[str, str]
    annotations: Mapping[str, Any]


@dataclass(frozen=True)
class LostPod:
    """A pod that could not be read, as far as it can be told what it takes part in."""

    user: str  # empty where that cannot be told
    node: str  # the node that it names; empty where it names none
    holds: bool  # whether it may hold something
    waits: bool  # whether it may wait
    repels: bool  # whether it may keep other pods away by required anti-affinity


@dataclass(frozen=True, eq=False)
class Dump:
    """What files say of a cluster."""

    nodes: dict[str, Node]  # by name, in the files' order
    pods: list[Pod]  # pods that hold a node or wait for one, in the files' order
    users: dict[str, None]  # every user that a pod is of, whatever the pod does, to None
    lost_nodes: bool  # whether nodes were passed over
    lost_pods: list[LostPod]  # pods that were passed over
    claimed: frozenset[str]  # extended resources that any pod holds, or held, by a resource claim


@dataclass(frozen=True)
class UserRule:
    """Which user a pod is of: its namespace, or one of its labels."""

    label: str  # the label's key; empty where namespaces are the users

    @classmethod
    def parse(cls, text: object) -> UserRule:
        """Read ``namespace`` or ``label:KEY``; raise InputError for anything else."""
        if text == BY_NAMESPACE:
            return cls("")
        key = text.removeprefix(BY_LABEL) if isinstance(text, str) else ""
        if not key.strip() or key == text:
            raise InputError(f"must be namespace or label:KEY, not {show(text)}", "user_from")
        return cls(key)

    def user(self, namespace: str, labels: Mapping[str, Any]) -> str:
        """Return the user of a pod; without the label that is ``namespace:NAME``."""
        if not self.label:
            return namespace
        value = labels.get(self.label)
        return value if isinstance(value, str) and value else f"{BY_NAMESPACE}:{namespace}"


def read_dump(paths: Sequence[str | Path], rule: UserRule, faults: RowFaults) -> Dump:
    """Read the nodes and pods of one or several files.

    Parameters
    ----------
    paths : sequence of str or Path
        See `read_items`.
    rule : UserRule
        Which user a pod is of.
    faults : RowFaults
        What becomes of a node or pod at fault.

    Returns
    -------
    Dump
        Without pods that have terminated, and those without a node that are gated
        (``schedulingGates``) or being deleted, and so do not want to run. A pod of a terminated
        phase holds nothing, one of any other phase that has a node holds it.

    Raises
    ------
    InputError
        For a file that `read_items` refuses, or files without nodes or pods; for a node or pod
        without a name, of the wrong shape, with an amount that is none, or of a name that another
        has; for a pod on a node that is not there.

    Notes
    -----
    Cost O(file): for 10,000 pods on 500 nodes half a second for each 100 MB of JSON and half a
    second for the rest, and memory of some four times the file; seven seconds for 100 MB of YAML.
    """
    with garbage_collection_paused():  # it would take most of the time
        return _DumpReading(rule, faults).read(read_items(paths, faults))


class _DumpReading:
    """Nodes and pods as they are read."""

    def __init__(self, rule: UserRule, faults: RowFaults) -> None:
        self.rule, self.faults = rule, faults
        self.nodes: dict[str, Node] = {}
        self.users: dict[str, None] = {}
        self.seen: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.lost: list[LostPod] = []

    def read(self, items: list[ListedObject]) -> Dump:
        faults = self.faults
        # Objects of which not even the kind could be told may have been pods or nodes.
        unknown = LostPod("", "", holds=True, waits=True, repels=True)
        self.lost += [unknown for _ in faults.skipped]
        of_nodes = [item for item in items if item.kind == NODE_KIND]
        for item in of_nodes:
            with faults.passed_over(item.source):
                node = _node(item.content, item.place)
                if node.name in self.nodes:
                    raise InputError("a node of that name came before", item.place)
                self.nodes[node.name] = node
        faults.check_left(len(self.nodes))
        if not self.nodes:
            raise InputError(f"holds no nodes; {MADE_BY}")
        pods: list[Pod] = []
        for item in items:
            if item.kind == NODE_KIND:
                continue
            pod, n_faults = None, len(faults.skipped)
            with faults.passed_over(item.source):
                pod = self._pod(item)
            if pod is not None:
                pods.append(pod)
            elif len(faults.skipped) > n_faults:
                self._lose(item.content)
        faults.check_left(len(pods))
        if not pods:
            fate = "holds no pod that runs or wants to" if self.seen else "holds no pods"
            raise InputError(f"{fate}; {MADE_BY}")
        lost_nodes = unknown in self.lost or len(self.nodes) < len(of_nodes)
        of_pods = (item.content for item in items if item.kind == POD_KIND)
        claimed = frozenset[str]().union(*map(claimed_resources, of_pods))
        return Dump(self.nodes, pods, self.users, lost_nodes, self.lost, claimed)

    def _pod(self, item: ListedObject) -> Pod | None:
        """Read a pod; None when it neither holds a node nor wants one."""
        place = item.place
        found = check_object(POD, item.content, place)
        metadata = found["metadata"]
        namespace, name = _names(metadata, place)
        if (namespace, name) in self.seen:
            raise InputError("a pod of that name came before", place)
        self.seen[namespace, name] = item.content
        labels = metadata.get("labels") or {}
        user = self.rule.user(namespace, labels)
        if self.rule.label in labels:
            text_of(user, f"{place}.metadata.labels.{self.rule.label}")
        self.users[user] = None
        spec = found["spec"]
        node = spec.get("nodeName") or ""
        if (found.get("status") or {}).get("phase") in _TERMINATED:
            return None
        if not node and (spec.get("schedulingGates") or metadata.get("deletionTimestamp")):
            return None
        if node and node not in self.nodes:
            raise InputError(f"no node is named {show(node)}", f"{place}.spec.nodeName")
        return Pod(
            source=item.source,
            place=place,
            namespace=namespace,
            name=name,
            user=user,
            node=node,
            request=effective_request(spec, place),
            claimed=claimed_resources(item.content),
            spec=spec,
            labels=labels,
            annotations=metadata.get("annotations") or {},
        )

    def _lose(self, content: Mapping[str, Any]) -> None:
        """Note what a pod that was passed over may hold or want, from what of it can be read."""
        metadata, spec, status = (
            part if isinstance(part := content.get(key), dict) else {}
            for key in ("metadata", "spec", "status")
        )
        if status.get("phase") in _TERMINATED:
            return
        namespace, name = metadata.get("namespace") or "default", metadata.get("name")
        if isinstance(namespace, str) and isinstance(name, str):
            first = self.seen.get((namespace, name))
            if first is not None and first is not content and first == content:
                return  # the same object twice: the first of them was read
        node = spec.get("nodeName")
        named = isinstance(node, str) and bool(node)
        # Without a name of a node it waits, unless what names the node cannot be read.
        silent = bool(spec) and (node is None or node == "")
        if silent and (spec.get("schedulingGates") or metadata.get("deletionTimestamp")):
            return
        self.lost.append(
            LostPod(
                self._user_of_lost(content),
                str(node) if named else "",
                holds=not silent,
                waits=not named,
                repels=not silent and may_repel(content.get("spec")),
            )
        )

    def _user_of_lost(self, content: Mapping[str, Any]) -> str:
        """Return the user of a pod that was passed over; empty where that cannot be told."""
        metadata = content.get("metadata")
        if not isinstance(metadata, dict):
            return ""
        namespace, labels = metadata.get("namespace"), metadata.get("labels") or {}
        namespace = "default" if namespace is None else namespace
        value = labels.get(self.rule.label) if isinstance(labels, dict) else labels
        if not isinstance(namespace, str) or (
            self.rule.label and not isinstance(value, str | None)
        ):
            return ""
        user = self.rule.user(namespace, {self.rule.label: value})
        return user if user.isprintable() else ""


def _node(item: Mapping[str, Any], place: str) -> Node:
    found = check_object(NODE, item, place)
    metadata, status = found["metadata"], found.get("status") or {}
    key, amounts = "allocatable", status.get("allocatable")
    if amounts is None:
        key, amounts = "capacity", status.get("capacity")
    if amounts is None:
        raise InputError("the key 'allocatable' is missing", f"{place}.status")
    labels = metadata.get("labels") or {}
    for label, value in labels.items():
        text_of(label, f"{place}.metadata.labels")
        if value:
            text_of(value, f"{place}.metadata.labels.{label}")
    return Node(
        name=text_of(metadata["name"], f"{place}.metadata.name"),
        labels=labels,
        taints=forbidding_taints(found.get("spec") or {}),
        allocatable=allocatable(amounts, f"{place}.status.{key}"),
    )


def _names(metadata: Metadata, place: str) -> tuple[str, str]:
    namespace = metadata.get("namespace")
    return (
        # As everywhere in Kubernetes where none is named.
        "default" if namespace is None else text_of(namespace, f"{place}.metadata.namespace"),
        text_of(metadata["name"], f"{place}.metadata.name"),
    )
