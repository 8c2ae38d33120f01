"""Compute effective requests of pods by the rule of the Kubernetes scheduler.

A pod's effective request of a resource is the larger of

- the sum over its containers and sidecars, and
- the largest sum of an init container and the sidecars started before it.

A pod-level request replaces it, and the pod's overhead is added. Source: Kubernetes documentation,
"Effective Pod requests and limits" and "Assign Pod-level CPU and memory resources"; KEP-753
(sidecars), KEP-2837 (pod-level requests).

A pod that gets a part of one GPU by KAI's annotations requests no GPU. For each shared GPU, KAI and
Run:ai run, in a separate namespace, a pod that requests the whole GPU. Sources: KAI scheduler, "GPU
Sharing"; Run:ai, "Fractions".

Amounts are summed as whole nano-units, and a pod's sum is rounded up to the scheduler's units:
thousandths of a core, bytes, pieces. So sums are exact, and equal pods take equal amounts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fairlead.errors import InputError, ProblemError
from fairlead.formats._kubernetes_shapes import Container, PodSpec, ResourceRequirements
from fairlead.formats.file_faults import short, text_of
from fairlead.model.quantity import parse_quantity, read_amount, show, typed_number

PODS = "pods"

# Amounts by resource, in the scheduler's units: thousandths of a core, bytes, pieces.
Amounts = Mapping[str, int]

_NANO = 10**9
_BYTES = ("memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"

# Resources that a pod-level request may name; it may also name huge pages.
_POD_LEVEL = ("cpu", "memory")

_NO_RESOURCES: ResourceRequirements = {}

# The resource of which pods may take parts, and the namespaces of the pods that request shared
# GPUs whole.
NVIDIA_GPU = "nvidia.com/gpu"
HOLDER_NAMESPACES = ("kai-resource-reservation", "runai-reservation")
# Annotations that request a part of a GPU.
FRACTION = "gpu-fraction"
GPU_PARTS = (FRACTION, "gpu-memory")
# Annotation: the number of GPUs of each of which the fraction is requested.
FRACTION_DEVICES = "gpu-fraction-num-devices"


def unit_of(resource: str) -> tuple[str, int]:
    """Return the displayed unit of a resource, and its number of the scheduler's units."""
    if resource == "cpu":
        return "cores", 1000
    if resource in _BYTES or resource.startswith(_HUGE_PAGES):
        return "GiB", 2**30
    return "", 1


def allocatable(quantities: Mapping[str, Any], place: str) -> dict[str, int]:
    """Return the allocatable amounts of a node in the scheduler's units.

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
        text_of(name, place)
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
    return math.ceil(round(amount * _NANO, 3))  # without the rounding error of the product


def _to_whole_units(nanos: Mapping[str, int]) -> dict[str, int]:
    """Round up to thousandths of a core, and to whole bytes and pieces."""
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
        part = typed_number(str(annotations[FRACTION]))
    except ValueError:
        part = 0.0
    if not 0 < part < 1:
        raise InputError(
            f"must be a part of a GPU between 0 and 1, not {show(annotations[FRACTION])}", where
        )
    return part
