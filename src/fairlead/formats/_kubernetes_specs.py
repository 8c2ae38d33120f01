"""Nodes and pods of the Kubernetes API, ``v1``: their layout, requests, and unmodelled features.

pydantic checks the layout and drops all other keys. Optional keys may also be null. Values of type
`Any` are checked where they are read; most of them are only reported as not modelled.

A pod's effective request of a resource is the larger of

- the sum over its containers and sidecars, and
- the largest sum of an init container and the sidecars started before it.

A pod-level request replaces it, and the pod's overhead is added. Source: Kubernetes documentation,
"Effective Pod requests and limits" and "Assign Pod-level CPU and memory resources"; KEP-753
(sidecars), KEP-2837 (pod-level requests).

A pod that gets a part of one GPU by KAI's annotations requests no GPU. For each shared GPU, KAI and
Run:ai run, in a separate namespace, a pod that requests the whole GPU. Sources: KAI scheduler, "GPU
Sharing"; Run:ai, "Fractions".

Amounts are summed as whole nano-units, and a pod's sum is rounded up to *whole units*, which are
those of Kubernetes' scheduler: thousandths of a core, bytes, pieces. So sums are exact, and equal
pods take equal amounts.

A pending pod with a constraint that is not modelled may be kept from a node that looks free, so an
audit concludes nothing from that pod. Sources: Kubernetes documentation, "Assigning Pods to Nodes",
"Pod Topology Spread Constraints", "Dynamic Resource Allocation", "Gang Scheduling"; KEP-5004
(extended resources by claims); HAMi, "Configuration"; the group annotations and labels of Volcano,
KAI, YuniKorn, Koordinator and the coscheduling plugin.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from functools import lru_cache
from typing import Any, Required

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from fairlead.errors import InputError, ProblemError
from fairlead.formats.file_faults import short
from fairlead.model.arguments import name_text
from fairlead.model.quantity import number_from_text, parse_quantity, read_amount, show

PODS = "pods"

# Amounts by resource, in whole units.
Amounts = Mapping[str, int]

_NANO = 10**9
_BYTES = ("memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"

# Resources that a pod-level request may name; it may also name huge pages.
_POD_LEVEL = ("cpu", "memory")

# The resource of which pods may take parts, and the namespaces of the pods that request shared
# GPUs whole.
NVIDIA_GPU = "nvidia.com/gpu"
HOLDER_NAMESPACES = ("kai-resource-reservation", "runai-reservation")
# Annotations that request a part of a GPU.
FRACTION = "gpu-fraction"
GPU_PARTS = (FRACTION, "gpu-memory")
# Annotation: the number of GPUs of each of which the fraction is requested.
FRACTION_DEVICES = "gpu-fraction-num-devices"
# Names, without the domain, of resources that HAMi's scheduler counts and no node lists.
_HAMI_RESOURCES = frozenset((
    "gpumem", "gpumem-percentage", "gpucores", "dcumem", "dcucores", "vcuda-core", "vcuda-memory",
    "vcore", "vmemory", "smlu.mim", "vmlu.memory", "vmlu.percentage", "priority",
))  # fmt: skip
# Annotations that divide GPUs, or choose them (HAMi); they count even if empty.
_GPU_ANNOTATIONS = (
    *GPU_PARTS,
    "nvidia.com/use-gputype",
    "nvidia.com/nouse-gputype",
    "nvidia.com/use-gpuuuid",
    "nvidia.com/nouse-gpuuuid",
)
# Fields (Kubernetes 1.35 and later), and names of annotations and labels, which put a pod into a
# gang unless they are empty.
_GANG_FIELDS = ("workloadRef", "schedulingGroup")
_GANG_NAME = re.compile(r"(pod|task)-group|gang\.scheduling|scheduling\..*/group-name")
# Prefix of resources that are always allocated by a claim; a device class follows.
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_BINDING_VOLUMES = ("persistentVolumeClaim", "ephemeral")

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
_NO_RESOURCES: ResourceRequirements = {}


def unit_of(resource: str) -> tuple[str, int]:
    """Return the displayed unit of a resource, and the number of whole units in one of it."""
    if resource == "cpu":
        return "cores", 1000
    if resource in _BYTES or resource.startswith(_HUGE_PAGES):
        return "GiB", 2**30
    return "", 1


def allocatable(quantities: Mapping[str, Any], place: str) -> dict[str, int]:
    """Return the allocatable amounts of a node in whole units.

    Raises ProblemError, with a key path below `place`, for an invalid quantity.
    """
    return _to_whole_units(_read_nanos(quantities, place))


def effective_request(spec: PodSpec, place: str) -> dict[str, int]:
    """Return the amounts that a pod takes on its node, including 1 of ``pods``.

    A container with a limit and no request requests its limit. While a pod is resized, its new
    request counts. Raises ProblemError, with a key path below `place`, for an invalid quantity.
    """
    running: Counter[str] = Counter()
    for k, container in enumerate(spec["containers"]):
        running.update(_container_request(container, f"{place}.spec.containers[{k}]"))
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for k, container in enumerate(spec.get("initContainers") or ()):
        request = _container_request(container, f"{place}.spec.initContainers[{k}]")
        if container.get("restartPolicy") == "Always":
            sidecars.update(request)
        else:
            peak |= Counter(request) + sidecars
    total = (running + sidecars) | peak
    total.update(_pod_level_excess(spec, total, f"{place}.spec.resources"))
    total.update(_read_nanos(spec.get("overhead") or {}, f"{place}.spec.overhead"))
    total[PODS] = _NANO
    return _to_whole_units(total)


def _pod_level_excess(spec: PodSpec, summed: Mapping[str, int], place: str) -> dict[str, int]:
    """Return the pod-level request minus `summed`, the request of the containers."""
    resources = spec.get("resources") or _NO_RESOURCES
    asked = _read_nanos(resources.get("requests") or {}, f"{place}.requests")
    for name, limit in _read_nanos(resources.get("limits") or {}, f"{place}.limits").items():
        # As in the API server, the limit is the request if no container requests the resource.
        if name not in asked and not summed.get(name):
            asked[name] = limit
    return {
        name: amount - summed.get(name, 0)
        for name, amount in asked.items()
        if name in _POD_LEVEL or name.startswith(_HUGE_PAGES)
    }


def _container_request(container: Container, place: str) -> dict[str, int]:
    resources = container.get("resources") or _NO_RESOURCES
    limits = _read_nanos(resources.get("limits") or {}, f"{place}.resources.limits")
    return limits | _read_nanos(resources.get("requests") or {}, f"{place}.resources.requests")


def _read_nanos(quantities: Mapping[str, Any], place: str) -> dict[str, int]:
    """Return amounts in nano-units; raise ProblemError for an invalid one."""
    nanos = {}
    for name, value in quantities.items():
        name_text(name, place)
        try:
            nanos[name] = (
                _parse_nano(value) if type(value) is str else _to_nano(read_amount(value)[0])
            )
        except ProblemError as error:
            raise ProblemError(error.fault, f"{place}.{short(name)}") from None
    return nanos


@lru_cache(maxsize=65536)
def _parse_nano(text: str) -> int:
    amount, _ = parse_quantity(text)
    if amount < 0:
        amount, _ = read_amount(text)  # raises ProblemError for a negative amount
    return _to_nano(amount)


def _to_nano(amount: float) -> int:
    """Return an amount in nano-units, rounded up as Kubernetes does."""
    if amount.is_integer():
        return int(amount) * _NANO
    # `round` removes the rounding error of the product, which `ceil` would turn into a nano-unit.
    return math.ceil(round(amount * _NANO, 3))


def _to_whole_units(nanos: Mapping[str, int]) -> dict[str, int]:
    """Return nano-units in whole units, rounded up."""
    return {
        name: -(-amount // (10**6 if name == "cpu" else _NANO)) for name, amount in nanos.items()
    }


def gpu_part_annotation(annotations: Mapping[str, Any]) -> str:
    """Return the name of the annotation that requests a part of a GPU; empty if none does."""
    return next((name for name in GPU_PARTS if name in annotations), "")


def part_of_one_gpu(annotations: Mapping[str, Any], place: str) -> float:
    """Return the part of one GPU that a pod requests; 0 for parts by memory or of several GPUs.

    Raises InputError for a fraction that is not between 0 and 1.
    """
    if FRACTION not in annotations or str(annotations.get(FRACTION_DEVICES, "1")) != "1":
        return 0.0
    where = f"{place}.metadata.annotations.{FRACTION}"
    try:
        part = number_from_text(str(annotations[FRACTION]))
    except ValueError:
        part = 0.0
    if not 0 < part < 1:
        raise InputError(
            f"must be a part of a GPU between 0 and 1, not {show(annotations[FRACTION])}", where
        )
    return part


def unmodelled_constraint(
    spec: PodSpec, annotations: Mapping[str, Any], labels: Mapping[str, str]
) -> str:
    """Name the first placement constraint that is not modelled; empty if there is none."""
    if spec.get("resourceClaims"):
        return "resourceClaims"
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if _terms(affinity.get(kind)):
            return f"required {kind}"
    for constraint in _mappings(spec.get("topologySpreadConstraints")):
        if constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule":
            return "topologySpreadConstraints"
    for volume in _mappings(spec.get("volumes")):
        for kind in _BINDING_VOLUMES:
            if volume.get(kind):
                return f"a volume by {kind}"
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        if any(port.get("hostPort") for port in _mappings(container.get("ports"))):
            return "hostPort"
    for name in _GPU_ANNOTATIONS:
        if name in annotations:
            return f"the annotation {name}"
    for name in _GANG_FIELDS:
        if spec.get(name):
            return f"the field {name}"
    for name, value in (*annotations.items(), *labels.items()):
        if value and _GANG_NAME.search(name):
            return f"the pod group by {name}"
    return ""


def claimed_resources(pod: Mapping[str, Any]) -> frozenset[str]:
    """Return the extended resources that an unchecked pod holds, or held, by a resource claim."""
    status = pod.get("status")
    claim = status.get("extendedResourceClaimStatus") if isinstance(status, dict) else None
    mappings = _mappings(claim.get("requestMappings")) if isinstance(claim, dict) else []
    return frozenset(str(mapping.get("resourceName")) for mapping in mappings)


def repelled_namespaces(spec: PodSpec, namespace: str) -> Iterator[str]:
    """Yield the namespaces whose pods a running pod may keep away; empty text for all of them.

    Its required anti-affinity selects pods by label, too; these selectors are not evaluated.
    """
    for term in _terms((spec.get("affinity") or {}).get("podAntiAffinity")):
        named = term.get("namespaces")
        if isinstance(term.get("namespaceSelector"), dict):
            yield ""
        elif isinstance(named, list) and named:
            yield from map(str, named)
        else:
            yield namespace


def _terms(affinity: object) -> list[Mapping[str, Any]]:
    return _mappings(affinity.get(_REQUIRED)) if isinstance(affinity, dict) else []


def _mappings(found: object) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; none for any other value."""
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def split_request(
    request: Amounts, listed: frozenset[str], claimed: Set[str]
) -> tuple[dict[str, int], dict[str, str]]:
    """Split a request into counted amounts, and uncounted resources with the reason for each.

    Resources of HAMi that no node lists are not counted, nor resources allocated by claims.
    `listed` has the resources that nodes list, `claimed` the resources that claims allocate.
    """
    by_claim = claimed | {name for name in request if name.startswith(_DEVICE_CLASS)}
    uncounted = {
        name: "by a resource claim" if name in by_claim else "which no node lists"
        for name in request
        if name in by_claim or (name.partition("/")[2] in _HAMI_RESOURCES and name not in listed)
    }
    return {name: amount for name, amount in request.items() if name not in uncounted}, uncounted
