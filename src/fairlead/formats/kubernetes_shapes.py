"""The shape of the objects of a Kubernetes dump, as far as they say who holds what, and where.

pydantic checks the shape and drops the rest; what the values mean is read elsewhere. Keys are those
of the Kubernetes API, version ``v1``. Whatever may be left out may also be null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Required, TypeVar

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from fairlead.errors import InputError
from fairlead.formats.schema import short
from fairlead.model.quantity import show

# Amounts by resource, as they are written.
Quantities = dict[str, Any]


class Metadata(TypedDict, total=False):
    """What every object has."""

    name: Required[str]
    namespace: str | None
    labels: dict[str, str] | None
    annotations: dict[str, Any] | None
    deletionTimestamp: Any  # only whether there is one


class ResourceRequirements(TypedDict, total=False):
    """What a container or a whole pod asks for."""

    requests: Quantities | None
    limits: Quantities | None


class Container(TypedDict, total=False):
    """A container; one of ``initContainers`` that always restarts is a sidecar."""

    resources: ResourceRequirements | None
    restartPolicy: str | None
    ports: Any  # only whether a host port is among them


class Toleration(TypedDict, total=False):
    """Taints that a pod puts up with."""

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
    """Terms; one of them must hold."""

    nodeSelectorTerms: Required[list[NodeSelectorTerm]]


class NodeAffinity(TypedDict, total=False):
    """Nodes that a pod insists on; those that it only prefers are left out."""

    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None


class Affinity(TypedDict, total=False):
    """Affinity to nodes; that to other pods is not modelled, only seen."""

    nodeAffinity: NodeAffinity | None
    podAffinity: Any
    podAntiAffinity: Any


class PodSpec(TypedDict, total=False):
    """What a pod asks for, and where it may run."""

    containers: Required[list[Container]]
    initContainers: list[Container] | None
    overhead: Quantities | None
    resources: ResourceRequirements | None
    nodeName: str | None
    nodeSelector: dict[str, str] | None
    affinity: Affinity | None
    tolerations: list[Toleration] | None
    schedulingGates: list[Any] | None
    # Not modelled, only seen.
    resourceClaims: Any
    topologySpreadConstraints: Any
    workloadRef: Any
    schedulingGroup: Any
    volumes: Any


class PodStatus(TypedDict, total=False):
    """How far a pod got."""

    phase: str | None


class PodObject(TypedDict, total=False):
    """A pod."""

    metadata: Required[Metadata]
    spec: Required[PodSpec]
    status: PodStatus | None


class Taint(TypedDict, total=False):
    """What keeps pods from a node."""

    key: Required[str]
    value: str | None
    effect: Required[str]


class KubernetesNodeSpec(TypedDict, total=False):
    """What keeps pods from a node."""

    unschedulable: bool | None
    taints: list[Taint] | None


class NodeStatus(TypedDict, total=False):
    """What a node has."""

    allocatable: Quantities | None
    capacity: Quantities | None


class NodeObject(TypedDict, total=False):
    """A node."""

    metadata: Required[Metadata]
    spec: KubernetesNodeSpec | None
    status: NodeStatus | None


NODE = TypeAdapter(NodeObject)
POD = TypeAdapter(PodObject)

Shape = TypeVar("Shape")


def check_object(shape: TypeAdapter[Shape], item: object, place: str) -> Shape:
    """Check that a plain object has its shape, and keep of it what the shape names.

    Raises InputError, with the place, for a missing key or a value of the wrong kind.
    """
    try:
        return shape.validate_python(item, strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
        location, kind = list(fault["loc"]), fault["type"]
        if kind == "missing":
            raise InputError(
                f"the key {location[-1]!r} is missing", place + _path(location[:-1])
            ) from None
        wanted = {
            "dict_type": "a mapping",
            "list_type": "a list",
            "string_type": "text",
            "bool_type": "true or false",
        }.get(kind, "text in UTF-8")
        raise InputError(
            f"must be {wanted}, not {show(fault['input'])}", place + _path(location)
        ) from None


def _path(location: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{short(part)}" for part in location)
