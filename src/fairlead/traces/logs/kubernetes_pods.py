"""Read the pods of a Kubernetes dump as a trace: a job of one task for each ended pod."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairlead.formats.kubernetes_runs import read_pod_runs
from fairlead.model.cluster import BoolArray, Cluster, common_labels, name_of_group
from fairlead.model.workload import Workload
from fairlead.traces._stored_files import ProgressReport, error_source
from fairlead.traces.logs.job_collector import HALF_SECOND, JobCollector, group_equal


def is_kubernetes_dump(line: str) -> bool:
    """Return whether the first line of a file may be that of a dump in JSON or YAML."""
    return line.startswith("{") or line.startswith(("apiVersion:", "kind:"))


def read_pods(
    path: Path,
    *,
    user_from: str | None = None,
    on_progress: ProgressReport | None = None,  # noqa: ARG001 (the file is read at once)
) -> Workload:
    """Read the ended pods of ``kubectl get nodes,pods -A -o json`` as a workload.

    A pod is a job of one task that takes the pod's requests, submitted when the pod was created.
    Node selectors, node affinity and taints restrict where it may run. Equal nodes are a group.
    Users are namespaces; with `user_from` ``label:KEY``, they are the values of this label of pods.
    """
    found = read_pod_runs(path, user_from or "namespace")
    cluster, nodes_of_group, server_of = _group_nodes(
        found.cluster, [run.allowed for run in found.runs]
    )
    collected = JobCollector()
    collected.notes.update(found.notes)
    for run, amounts in zip(found.runs, found.amounts.tolist(), strict=True):
        with error_source(str(path), run.place):
            collected.add_job(run.name, run.user, run.submitted)
            allowed = tuple(bool(run.allowed[nodes].any()) for nodes in nodes_of_group)
            collected.add_tasks(
                tuple(amounts),
                allowed,
                (run.ended - run.started or HALF_SECOND,),
                start=run.started,
                servers=[server_of[run.node] if run.node >= 0 else -1],
            )
    return collected.workload(path, cluster, "pods of")


def _group_nodes(
    cluster: Cluster, allowed: list[BoolArray]
) -> tuple[Cluster, list[list[int]], list[int]]:
    """Group equal nodes; return the cluster, the nodes of each group, and the server of each node.

    Equal nodes have equal amounts and are open to the same pods. A group has their common labels.
    """
    open_to = np.unique(np.array(allowed), axis=0).T
    kinds = [(*amounts, open_to[g].tobytes()) for g, amounts in enumerate(cluster.capacity)]
    groups, server_of = group_equal(dict(zip(cluster.groups, kinds, strict=True)))
    index = {name: g for g, name in enumerate(cluster.groups)}
    members = [[index[name] for name in names] for names in groups.values()]
    first = [nodes[0] for nodes in members]
    return (
        Cluster(
            groups=tuple(map(name_of_group, groups.values())),
            resources=cluster.resources,
            capacity=cluster.capacity[first],
            count=np.array([len(nodes) for nodes in members], dtype=np.int64),
            units=cluster.units,
            labels=tuple(common_labels([cluster.labels[g] for g in nodes]) for nodes in members),
            devices=cluster.devices,
        ),
        members,
        list(map(server_of.__getitem__, cluster.groups)),
    )
