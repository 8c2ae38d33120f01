"""The nodes and pods of a Kubernetes cluster, checked and with amounts in whole units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.errors import InputError
from fairlead.formats._kubernetes_files import MADE_BY, ListedObject, read_items
from fairlead.formats._kubernetes_files import NODE as NODE_KIND
from fairlead.formats._kubernetes_files import POD as POD_KIND
from fairlead.formats._kubernetes_placement import TaintKey, forbidding_taints
from fairlead.formats._kubernetes_requests import Amounts, allocatable, effective_request
from fairlead.formats._kubernetes_shapes import NODE, POD, PodSpec, check_object
from fairlead.formats._kubernetes_unmodelled import claimed_resources, may_repel
from fairlead.formats.file_faults import RowFaults, text_of
from fairlead.garbage_collection import garbage_collection_paused
from fairlead.model.quantity import show

BY_NAMESPACE = "namespace"
BY_LABEL = "label:"

_TERMINATED = ("Succeeded", "Failed")


@dataclass(frozen=True, eq=False)
class Node:
    name: str
    labels: Mapping[str, str]
    taints: frozenset[TaintKey]
    allocatable: Amounts


@dataclass(frozen=True, eq=False)
class Pod:
    """A pod that holds its node, or waits for one."""

    source: str  # the file, where several were given
    place: str  # key path in the file
    namespace: str
    name: str
    user: str
    node: str  # name of the node that it holds; empty when it waits
    request: Amounts
    claimed: frozenset[str]  # extended resources that it holds by a resource claim
    spec: PodSpec
    labels: Mapping[str, str]
    annotations: Mapping[str, Any]


@dataclass(frozen=True)
class LostPod:
    """The known effects of a pod that could not be read."""

    user: str  # empty if unknown
    node: str  # the node that it names; empty where it names none
    holds: bool  # whether it may hold something
    waits: bool  # whether it may wait
    repels: bool  # whether it may keep other pods away by required anti-affinity


@dataclass(frozen=True, eq=False)
class Dump:
    nodes: dict[str, Node]  # by name, in the files' order
    pods: list[Pod]  # pods that hold a node or wait for one, in the files' order
    users: dict[str, None]  # users of all pods, terminated ones included
    lost_nodes: bool  # whether nodes were skipped
    lost_pods: list[LostPod]
    claimed: frozenset[str]  # extended resources that any pod holds, or held, by a resource claim


@dataclass(frozen=True)
class UserRule:
    """The user of a pod: its namespace, or the value of a label."""

    label: str  # the label's key; empty where namespaces are the users

    @classmethod
    def parse(cls, text: object) -> UserRule:
        if text == BY_NAMESPACE:
            return cls("")
        key = text.removeprefix(BY_LABEL) if isinstance(text, str) else ""
        if not key.strip() or key == text:
            raise InputError(f"must be namespace or label:KEY, not {show(text)}", "user_from")
        return cls(key)

    def user(self, namespace: str, labels: Mapping[str, Any]) -> str:
        """Return the user of a pod; without the label it is ``namespace:NAME``."""
        if not self.label:
            return namespace
        value = labels.get(self.label)
        return value if isinstance(value, str) and value else f"{BY_NAMESPACE}:{namespace}"


def read_dump(paths: Sequence[str | Path], rule: UserRule, faults: RowFaults) -> Dump:
    """Read the nodes and pods of one or several files.

    Terminated pods are left out, and pods without a node that are gated (``schedulingGates``) or
    being deleted: they hold nothing and want nothing. Pods of other phases hold their node.

    Cost O(file): for 10,000 pods on 500 nodes half a second for each 100 MB of JSON and half a
    second for the rest, and memory of some four times the file; seven seconds for 100 MB of YAML.
    """
    with garbage_collection_paused():  # it would take most of the time
        return _DumpReading(rule, faults).read(read_items(paths, faults))


class _DumpReading:
    def __init__(self, rule: UserRule, faults: RowFaults) -> None:
        self.rule, self.faults = rule, faults
        self.nodes: dict[str, Node] = {}
        self.users: dict[str, None] = {}
        self.seen: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.lost: list[LostPod] = []

    def read(self, items: list[ListedObject]) -> Dump:
        faults = self.faults
        # Objects of unknown kind may have been pods or nodes.
        unknown = LostPod("", "", holds=True, waits=True, repels=True)
        self.lost += [unknown for _ in faults.skipped]
        of_nodes = [item for item in items if item.kind == NODE_KIND]
        of_pods = [item for item in items if item.kind == POD_KIND]
        for item in of_nodes:
            with faults.collected(item.source):
                node = _node(item.content, item.place)
                if node.name in self.nodes:
                    raise InputError("a node of that name came before", item.place)
                self.nodes[node.name] = node
        faults.refuse_if_none_left(len(self.nodes))
        if not self.nodes:
            raise InputError(f"holds no nodes; {MADE_BY}")
        pods: list[Pod] = []
        for item in of_pods:
            pod, n_faults = None, len(faults.skipped)
            with faults.collected(item.source):
                pod = self._pod(item)
            if pod is not None:
                pods.append(pod)
            elif len(faults.skipped) > n_faults:
                self._note_lost(item.content)
        faults.refuse_if_none_left(len(pods))
        if not pods:
            fate = "holds no pod that runs or wants to" if self.seen else "holds no pods"
            raise InputError(f"{fate}; {MADE_BY}")
        lost_nodes = unknown in self.lost or len(self.nodes) < len(of_nodes)
        claimed = frozenset[str]().union(*(claimed_resources(item.content) for item in of_pods))
        return Dump(self.nodes, pods, self.users, lost_nodes, self.lost, claimed)

    def _pod(self, item: ListedObject) -> Pod | None:
        """Read a pod; None when it neither holds a node nor wants one."""
        place = item.place
        found = check_object(POD, item.content, place)
        metadata = found["metadata"]
        # As everywhere in Kubernetes where no namespace is named.
        namespace = metadata.get("namespace")
        if namespace is None:
            namespace = "default"
        namespace = text_of(namespace, f"{place}.metadata.namespace")
        name = text_of(metadata["name"], f"{place}.metadata.name")
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

    def _note_lost(self, content: Mapping[str, Any]) -> None:
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
        # Without the name of a node it waits, unless the name cannot be read.
        waits_surely = bool(spec) and (node is None or node == "")
        if waits_surely and (spec.get("schedulingGates") or metadata.get("deletionTimestamp")):
            return
        self.lost.append(
            LostPod(
                self._user_of_lost(content),
                str(node) if named else "",
                holds=not waits_surely,
                waits=not named,
                repels=not waits_surely and may_repel(content.get("spec")),
            )
        )

    def _user_of_lost(self, content: Mapping[str, Any]) -> str:
        """Return the user of a pod that was skipped; empty if unknown."""
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
