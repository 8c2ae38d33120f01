"""Constraints and amounts of pods that are not modelled, only reported.

A waiting pod with one of these may be kept from a node that looks free, so an audit concludes
nothing from it. Sources: Kubernetes documentation, "Assigning Pods to Nodes", "Pod Topology Spread
Constraints", "Dynamic Resource Allocation", "Gang Scheduling"; KEP-5004 (extended resources by
claims); KAI scheduler, "GPU Sharing"; HAMi, "Configuration"; the group annotations and labels of
Volcano, KAI, YuniKorn, Koordinator and the coscheduling plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.formats._kubernetes_requests import GPU_PARTS, Amounts
from fairlead.formats._kubernetes_shapes import PodSpec

# Last parts of names of resources that HAMi's scheduler counts and no node lists.
_DEVICE_PARTS = frozenset((
    "gpumem", "gpumem-percentage", "gpucores", "dcumem", "dcucores", "vcuda-core", "vcuda-memory",
    "vcore", "vmemory", "smlu.mim", "vmlu.memory", "vmlu.percentage", "priority",
))  # fmt: skip
# Annotations that divide or choose GPUs (of HAMi), even if empty.
_GPU_ANNOTATIONS = (
    *GPU_PARTS,
    "nvidia.com/use-gputype",
    "nvidia.com/nouse-gputype",
    "nvidia.com/use-gpuuuid",
    "nvidia.com/nouse-gpuuuid",
)
# Keys that put a pod into a group that a scheduler places as a whole, unless empty; fields of a pod
# do that in Kubernetes 1.35 and later.
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
# Names of resources that are always allocated by a claim; the rest is a device class.
_BY_CLASS = "deviceclass.resource.kubernetes.io/"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_BINDING_VOLUMES = ("persistentVolumeClaim", "ephemeral")


def unmodelled_constraint(
    spec: PodSpec, annotations: Mapping[str, Any], labels: Mapping[str, str]
) -> str:
    """Name the first constraint on where a pod may run that is not modelled, or nothing."""
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
        one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"
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
    """Return the extended resources that a pod, valid or not, holds or held by a claim."""
    status = pod.get("status")
    claim = status.get("extendedResourceClaimStatus") if isinstance(status, dict) else None
    mappings = _mappings(claim.get("requestMappings")) if isinstance(claim, dict) else []
    return frozenset(str(one.get("resourceName")) for one in mappings)


@dataclass
class Repulsion:
    """The required anti-affinity of running pods, which keeps other pods away from them."""

    # Each term once, by the namespace of the pods it keeps away ("" for any): its selector, and the
    # first pod with it.
    _against: dict[str, dict[str, tuple[object, str]]] = field(default_factory=dict)

    def add(self, spec: PodSpec, namespace: str, name: str) -> None:
        for term in _terms((spec.get("affinity") or {}).get("podAntiAffinity")):
            named, selector = term.get("namespaces"), term.get("labelSelector")
            against = named if isinstance(named, list) and named else [namespace]
            if isinstance(term.get("namespaceSelector"), dict):
                against = [""]
            for other in against:
                terms = self._against.setdefault(str(other), {})
                terms.setdefault(repr(selector), (selector, f"{namespace}/{name}"))

    def keeps_away(self, namespace: str, labels: Mapping[str, str]) -> str:
        """Name a running pod whose anti-affinity may be against a pod, or return nothing."""
        for against in ("", namespace):
            for selector, name in self._against.get(against, {}).values():
                if _may_select(selector, labels):
                    return name
        return ""


def _may_select(selector: object, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector may select these labels; no selector selects none."""
    if not isinstance(selector, dict):
        return False
    wanted = selector.get("matchLabels")
    if isinstance(wanted, dict) and any(labels.get(key) != value for key, value in wanted.items()):
        return False
    for condition in _mappings(selector.get("matchExpressions")):
        key, values = condition.get("key"), condition.get("values") or []
        there = isinstance(key, str) and key in labels
        among = there and isinstance(values, list) and labels[str(key)] in values
        met = {"In": among, "NotIn": not among, "Exists": there, "DoesNotExist": not there}
        if not met.get(str(condition.get("operator")), True):
            return False
    return True


def _terms(affinity: object) -> list[Mapping[str, Any]]:
    return _mappings(affinity.get(_REQUIRED)) if isinstance(affinity, dict) else []


def _mappings(found: object) -> list[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def split_request(
    request: Amounts, listed: frozenset[str], claimed: frozenset[str]
) -> tuple[dict[str, int], dict[str, str]]:
    """Split a request into its counted amounts and the uncounted resources with the reason.

    Not counted are parts of devices that no node lists, and resources allocated by claims.
    """
    by_claim = claimed | {name for name in request if name.startswith(_BY_CLASS)}
    apart = {
        name: "by a resource claim" if name in by_claim else "which no node lists"
        for name in request
        if name in by_claim or (name.partition("/")[2] in _DEVICE_PARTS and name not in listed)
    }
    return {name: amount for name, amount in request.items() if name not in apart}, apart
