"""Find constraints and amounts of pods that are reported, but not modelled.

A pending pod with such a constraint may be kept from a node that looks free, so an audit concludes
nothing from that pod. Sources: Kubernetes documentation, "Assigning Pods to Nodes", "Pod Topology
Spread Constraints", "Dynamic Resource Allocation", "Gang Scheduling"; KEP-5004 (extended resources
by claims); KAI scheduler, "GPU Sharing"; HAMi, "Configuration"; the group annotations and labels of
Volcano, KAI, YuniKorn, Koordinator and the coscheduling plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
# Fields (Kubernetes 1.35 and later), annotations and labels that put a pod into a gang unless they
# are empty.
_FIELDS = ("workloadRef", "schedulingGroup")
_ANNOTATIONS = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "pod-group-name",
    "yunikorn.apache.org/task-group-name",
    "yunikorn.apache.org/task-groups",
    "gang.scheduling.koordinator.sh/name",
)
_LABELS = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "pod-group.scheduling.sigs.k8s.io/name",
)
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
    # The scheduler counts the host ports of sidecars, but not of other init containers.
    sidecars = [
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    for container in (*spec["containers"], *sidecars):
        if any(port.get("hostPort") for port in _mappings(container.get("ports"))):
            return "hostPort"
    for name in _GPU_ANNOTATIONS:
        if name in annotations:
            return f"the annotation {name}"
    for kind, names, given in (
        ("field", _FIELDS, spec),
        ("annotation", _ANNOTATIONS, annotations),
        ("label", _LABELS, labels),
    ):
        for name in names:
            if given.get(name):
                return f"the {kind} {name}"
    return ""


def claimed_resources(pod: Mapping[str, Any]) -> frozenset[str]:
    """Return the extended resources that an unchecked pod holds, or held, by a resource claim."""
    status = pod.get("status")
    claim = status.get("extendedResourceClaimStatus") if isinstance(status, dict) else None
    mappings = _mappings(claim.get("requestMappings")) if isinstance(claim, dict) else []
    return frozenset(str(mapping.get("resourceName")) for mapping in mappings)


@dataclass
class Repulsion:
    """The required anti-affinity of running pods, which keeps other pods away from them."""

    # Keys are the namespace of the pods that are kept away ("" for any), and the text of their
    # selector; values are the selector, and the name of the first pod that keeps them away.
    _against: dict[str, dict[str, tuple[object, str]]] = field(default_factory=dict)

    def add(self, spec: PodSpec, namespace: str, name: str) -> None:
        """Add the required anti-affinity of a running pod."""
        for term in _terms((spec.get("affinity") or {}).get("podAntiAffinity")):
            named, selector = term.get("namespaces"), term.get("labelSelector")
            against = named if isinstance(named, list) and named else [namespace]
            if isinstance(term.get("namespaceSelector"), dict):
                against = [""]
            for other in against:
                terms = self._against.setdefault(str(other), {})
                terms.setdefault(repr(selector), (selector, f"{namespace}/{name}"))

    def keeps_away(self, namespace: str, labels: Mapping[str, str]) -> str:
        """Name a running pod that may keep away a pod with these labels; empty if none does."""
        for against in ("", namespace):
            for selector, name in self._against.get(against, {}).values():
                if _may_select(selector, labels):
                    return name
        return ""


def _may_select(selector: object, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector may select a pod with these labels.

    A missing selector selects no pod. A condition that cannot be read may be met.
    """
    if not isinstance(selector, dict):
        return False
    wanted = selector.get("matchLabels")
    if isinstance(wanted, dict) and any(labels.get(key) != value for key, value in wanted.items()):
        return False
    for condition in _mappings(selector.get("matchExpressions")):
        key, values = condition.get("key"), condition.get("values") or []
        exists = isinstance(key, str) and key in labels
        is_in = exists and isinstance(values, list) and labels[str(key)] in values
        met = {"In": is_in, "NotIn": not is_in, "Exists": exists, "DoesNotExist": not exists}
        if not met.get(str(condition.get("operator")), True):
            return False
    return True


def _terms(affinity: object) -> list[Mapping[str, Any]]:
    return _mappings(affinity.get(_REQUIRED)) if isinstance(affinity, dict) else []


def _mappings(found: object) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; none for any other value."""
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def split_request(
    request: Amounts, listed: frozenset[str], claimed: frozenset[str]
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
