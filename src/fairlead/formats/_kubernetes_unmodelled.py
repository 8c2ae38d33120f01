"""Find constraints and amounts of pods that are reported, but not modelled.

A pending pod with such a constraint may be kept from a node that looks free, so an audit concludes
nothing from that pod. Sources: Kubernetes documentation, "Assigning Pods to Nodes", "Pod Topology
Spread Constraints", "Dynamic Resource Allocation", "Gang Scheduling"; KEP-5004 (extended resources
by claims); KAI scheduler, "GPU Sharing"; HAMi, "Configuration"; the group annotations and labels of
Volcano, KAI, YuniKorn, Koordinator and the coscheduling plugin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

from fairlead.formats._kubernetes_requests import GPU_PARTS, Amounts
from fairlead.formats._kubernetes_shapes import PodSpec

# Names, without the domain, of resources that HAMi's scheduler counts and no node lists.
_HAMI_RESOURCES = frozenset((
    "gpumem", "gpumem-percentage", "gpucores", "dcumem", "dcucores", "vcuda-core", "vcuda-memory",
    "vcore", "vmemory", "smlu.mim", "vmlu.memory", "vmlu.percentage", "priority",
))  # fmt: skip
# Annotations that divide GPUs, or choose them (HAMi), even if empty.
_GPU_ANNOTATIONS = (
    *GPU_PARTS,
    "nvidia.com/use-gputype",
    "nvidia.com/nouse-gputype",
    "nvidia.com/use-gpuuuid",
    "nvidia.com/nouse-gpuuuid",
)
# Fields (Kubernetes 1.35 and later), and names of annotations and labels that put a pod into a gang
# unless they are empty.
_GANG_FIELDS = ("workloadRef", "schedulingGroup")
_GANG_NAME = re.compile(r"(pod|task)-group|gang\.scheduling|scheduling\..*/group-name")
# Prefix of resources that are always allocated by a claim; a device class follows.
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_BINDING_VOLUMES = ("persistentVolumeClaim", "ephemeral")


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
    `listed` are the resources that nodes list, `claimed` those that are allocated by claims.
    """
    by_claim = claimed | {name for name in request if name.startswith(_DEVICE_CLASS)}
    uncounted = {
        name: "by a resource claim" if name in by_claim else "which no node lists"
        for name in request
        if name in by_claim or (name.partition("/")[2] in _HAMI_RESOURCES and name not in listed)
    }
    return {name: amount for name, amount in request.items() if name not in uncounted}, uncounted
