"""Read the ended pods of a Kubernetes dump: their times, requests and nodes.

A pod ran from its ``startTime`` to the end of its last container. Kubernetes deletes ended pods
after some time, so a dump has only the latest ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fairlead.errors import InputError
from fairlead.formats._kubernetes_objects import (
    BY_NAMESPACE,
    NODE_KIND,
    UserRule,
    cluster_of,
    read_items,
    read_nodes,
    table_of,
)
from fairlead.formats._kubernetes_placement import NodeChoice
from fairlead.formats._kubernetes_specs import (
    HOLDER_NAMESPACES,
    NVIDIA_GPU,
    POD,
    PODS,
    effective_request,
    gpu_part_annotation,
    part_of_one_gpu,
    unit_of,
)
from fairlead.formats.file_faults import RowFaults, check_object
from fairlead.model.arguments import name_text
from fairlead.model.cluster import BoolArray, Cluster, FloatArray, with_devices
from fairlead.model.quantity import show

STILL_RUNS = "pods left out, as they had not ended"
NEVER_RAN = "pods left out, as they never started"
WITHOUT_REQUEST = "pods left out, as they request nothing"
GONE_NODE = "pods whose node is not in the dump"
GPU_HOLDER = "pods left out, as they hold a GPU for others that share it"
OTHER_PARTS = "pods with parts of GPUs by memory or of several GPUs, which are not counted"


class PodRun(NamedTuple):
    """A pod that ran; times are seconds since 1970."""

    place: str  # key path in the file
    name: str  # such as ``namespace/name``
    user: str
    submitted: float
    started: float
    ended: float
    request: Mapping[str, float]  # in whole units
    allowed: BoolArray  # (G,): whether it may run on a node; True for all if no node is open
    node: int  # number of its node; -1 if the node is not in the dump


@dataclass(frozen=True)
class PodRuns:
    """The ended pods and all nodes of a dump."""

    cluster: Cluster
    runs: list[PodRun]
    amounts: FloatArray  # (P, R): of each pod, in the units of the cluster
    notes: Counter[str]  # number of pods that were left out or simplified, by reason


def read_pod_runs(path: Path, user_from: str = BY_NAMESPACE) -> PodRuns:
    """Read the ended pods of the output of ``kubectl get nodes,pods -A -o json``.

    Users are namespaces; with ``label:KEY``, they are the values of this label. Raises InputError
    for a file that is not a dump, or a malformed node or pod. O(file + pods times nodes).
    """
    rule, faults = UserRule.parse(user_from), RowFaults(lenient=False)
    try:
        items = read_items([path], faults)
        nodes = read_nodes(items, faults)
        choice = NodeChoice(nodes)
        notes: Counter[str] = Counter()
        runs = [
            run
            for item in items
            if item.kind != NODE_KIND
            and (run := _read_run(item.content, item.place, rule, choice, notes)) is not None
        ]
        if not runs:
            left = "; ".join(f"{what}: {count:,}" for what, count in notes.items() if count)
            raise InputError(f"holds no pod that ended{f' ({left})' if left else ''}")
        resources = dict.fromkeys(name for run in runs for name in run.request)
        columns = {name: r for r, name in enumerate(resources)}
        cluster = cluster_of(nodes, columns)
        size = [unit_of(name)[1] for name in columns]
        amounts = table_of([run.request for run in runs], columns) / size
        by_device = [NVIDIA_GPU] if NVIDIA_GPU in columns else []
        return PodRuns(with_devices(cluster, amounts, by_device), runs, amounts, notes)
    except InputError as error:
        raise (error if error.source else error.within(str(path))) from None


def _read_run(
    content: Mapping[str, Any],
    place: str,
    rule: UserRule,
    choice: NodeChoice,
    notes: Counter[str],
) -> PodRun | None:
    """Return the run of an ended pod; for any other pod return None, and count it in `notes`."""
    found = check_object(POD, content, place)
    metadata, status = found["metadata"], content.get("status") or {}
    namespace = metadata.get("namespace") or "default"
    name = f"{name_text(namespace, place)}/{name_text(metadata['name'], place)}"
    started = _parse_time(status.get("startTime"), f"{place}.status.startTime")
    if started is None:
        notes[NEVER_RAN] += 1
        return None
    containers, where = status.get("containerStatuses") or [], f"{place}.status.containerStatuses"
    if not isinstance(containers, list):
        raise InputError(f"must be a list, not {show(containers)}", where)
    ends = [
        _parse_time(_nested(each, "state", "terminated", "finishedAt"), f"{where}[{k}]")
        for k, each in enumerate(containers)
    ]
    ended = [end for end in ends if end is not None]
    if not ends or len(ended) < len(ends):
        notes[STILL_RUNS] += 1
        return None
    if namespace in HOLDER_NAMESPACES:
        notes[GPU_HOLDER] += 1
        return None
    effective = effective_request(found["spec"], place)
    request: dict[str, float] = {r: a for r, a in effective.items() if a and r != PODS}
    annotations = metadata.get("annotations") or {}
    part = part_of_one_gpu(annotations, place)
    if part:
        request[NVIDIA_GPU] = part
    elif gpu_part_annotation(annotations):
        notes[OTHER_PARTS] += 1
    if not request:
        notes[WITHOUT_REQUEST] += 1
        return None
    labels = metadata.get("labels") or {}
    created = _parse_time(_nested(content, "metadata", "creationTimestamp"), f"{place}.metadata")
    submitted = started if created is None else min(started, created)
    node = choice.nodes.index.get(found["spec"].get("nodeName") or "", -1)
    notes[GONE_NODE] += node < 0
    allowed = choice.allowed(found["spec"], place)
    if node >= 0:
        allowed[node] = True
    elif not allowed.any():
        allowed = np.ones_like(allowed)
    user = rule.user(namespace, labels)
    return PodRun(place, name, user, submitted, started, max(ended), request, allowed, node)


def _nested(found: object, *keys: str) -> object:
    """Return the value under a path of keys; None if it is absent."""
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _parse_time(text: object, place: str) -> float | None:
    if text is None:
        return None
    try:
        if not isinstance(text, str):
            raise ValueError
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:  # it would depend on this machine's time zone
            raise ValueError
        return moment.timestamp()
    except ValueError:
        raise InputError(f"{show(text)} is not a time with a time zone", place) from None
