"""Hand-written dumps of Kubernetes clusters, in the shape that kubectl gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairlead.formats.kubernetes import read_kubernetes
from fairlead.model.holdings import Holdings

SMALL_NODE = {"cpu": "4", "memory": "16Gi", "pods": "110"}


def node(
    name: str,
    allocatable: Mapping[str, Any] = SMALL_NODE,
    *,
    labels: Mapping[str, str] | None = None,
    taints: tuple[str, ...] = (),
    cordoned: bool = False,
) -> dict[str, Any]:
    """Return a node; taints are written ``key=value:effect``."""
    spec: dict[str, Any] = {"podCIDR": "10.0.0.0/24"}
    if taints:
        spec["taints"] = [taint(text) for text in taints]
    if cordoned:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": dict(labels or {})},
        "spec": spec,
        "status": {
            "allocatable": dict(allocatable),
            "capacity": dict.fromkeys(allocatable, "999"),
        },
    }


def taint(text: str) -> dict[str, str]:
    """Return a taint written ``key=value:effect``, with the value left out where there is none."""
    pair, _, effect = text.partition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def container(
    requests: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    *,
    sidecar: bool = False,
) -> dict[str, Any]:
    """Return a container; among the init containers it may be a sidecar."""
    resources = {"requests": requests, "limits": limits}
    found: dict[str, Any] = {
        "name": "c",
        "image": "nginx",
        "resources": {key: dict(amounts) for key, amounts in resources.items() if amounts},
    }
    return found | ({"restartPolicy": "Always"} if sidecar else {})


def pod(
    name: str,
    requests: Mapping[str, Any] | None = None,
    *,
    on: str = "",
    namespace: str = "shop",
    phase: str = "",
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod of one container, that runs ``on`` a node or waits."""
    placed = {"nodeName": on} if on else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "managedFields": [{"manager": "x"}]},
        "spec": {"containers": [container(requests)]} | placed | spec,
        "status": {"phase": phase or ("Running" if on else "Pending"), "qosClass": "Burstable"},
    }


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return the affinity to nodes of which one of the terms holds."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {required: {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """Return a condition on a label or a field."""
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def dump(*items: Any) -> dict[str, Any]:
    """Return what kubectl gives for several kinds at once."""
    return {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {}}


def write(path: Path, *items: Any) -> Path:
    """Write a dump of the items into a folder, and return its path."""
    target = path / "dump.json"
    target.write_text(json.dumps(dump(*items)))
    return target


def read(path: Path, *items: Any, **options: Any) -> Holdings:
    """Write a dump of the items into a folder, and read it."""
    return read_kubernetes(write(path, *items), **options)
