"""The parts of nodes and pods in a Kubernetes dump that state amounts and placement.

pydantic checks the shape and drops all other keys. Keys are those of the Kubernetes API, version
``v1``. Optional keys may also be null. Values of type `Any` are not checked here: amounts and
annotations are checked where they are read; most of the others are only reported as not modelled.
"""

from __future__ import annotations

from typing import Any, Required

from pydantic import TypeAdapter
from typing_extensions import TypedDict

# Amounts by resource, as written in the file.
Quantities = dict[str, Any]


class Metadata(TypedDict, total=False):
    name: Required[str]
    namespace: str | None
    labels: dict[str, str] | None
    annotations: dict[str, Any] | None
    deletionTimestamp: Any  # only its presence counts


class ResourceRequirements(TypedDict, total=False):
    requests: Quantities | None
    limits: Quantities | None


class Container(TypedDict, total=False):
    """A container; an init container with ``restartPolicy: Always`` is a sidecar."""

    resources: ResourceRequirements | None
    restartPolicy: str | None
    ports: Any


class Toleration(TypedDict, total=False):
    key: str | None
    operator: str | None
    value: str | None
    effect: str | None


class Requirement(TypedDict, total=False):
    """A condition on one label or field of a node."""

    key: Required[str]
    operator: Required[str]
    values: list[str] | None


class NodeSelectorTerm(TypedDict, total=False):
    """Conditions that must all hold."""

    matchExpressions: list[Requirement] | None
    matchFields: list[Requirement] | None


class NodeSelector(TypedDict, total=False):
    """Terms, of which at least one must hold."""

    nodeSelectorTerms: Required[list[NodeSelectorTerm]]


class NodeAffinity(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None


class Affinity(TypedDict, total=False):
    nodeAffinity: NodeAffinity | None
    podAffinity: Any
    podAntiAffinity: Any


class PodSpec(TypedDict, total=False):
    containers: Required[list[Container]]
    initContainers: list[Container] | None
    overhead: Quantities | None
    resources: ResourceRequirements | None
    nodeName: str | None
    nodeSelector: dict[str, str] | None
    affinity: Affinity | None
    tolerations: list[Toleration] | None
    schedulingGates: list[Any] | None
    resourceClaims: Any
    topologySpreadConstraints: Any
    workloadRef: Any
    schedulingGroup: Any
    volumes: Any


class PodStatus(TypedDict, total=False):
    phase: str | None


class PodObject(TypedDict, total=False):
    metadata: Required[Metadata]
    spec: Required[PodSpec]
    status: PodStatus | None


class Taint(TypedDict, total=False):
    key: Required[str]
    value: str | None
    effect: Required[str]


class KubernetesNodeSpec(TypedDict, total=False):
    unschedulable: bool | None
    taints: list[Taint] | None


class NodeStatus(TypedDict, total=False):
    allocatable: Quantities | None
    capacity: Quantities | None


class NodeObject(TypedDict, total=False):
    metadata: Required[Metadata]
    spec: KubernetesNodeSpec | None
    status: NodeStatus | None


NODE = TypeAdapter(NodeObject)
POD = TypeAdapter(PodObject)
