"""Verdicts on Kubernetes clusters that turn on uncounted resources, groups, claims and bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import InputError
from fairlead.formats.kubernetes import read_kubernetes
from fairlead.properties.audit import Audit, audit
from kubernetes_dumps import container, node, pod, write

WASTE, FEASIBLE, PARETO = "non-wastefulness", "feasibility", "pareto-optimality"
GPU = "nvidia.com/gpu"
CORES = {"cpu": 4, "pods": 9}


def look(path: Path, *items: Any, **options: Any) -> Audit:
    held = read_kubernetes(write(path, *items), **options)
    return audit(held.problem, held, lies=0)


def verdicts(found: Audit, *names: str) -> list[str]:
    return [found[name].verdict for name in names]


def with_metadata(item: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return item | {"metadata": item["metadata"] | metadata}


RUNS, WAITS = pod("r", {"cpu": 1}, on="n"), pod("w", {"cpu": 1})


@pytest.mark.parametrize(
    ("allocatable", "request_of_one", "options"),
    [
        ({"cpu": 4, "pods": 1}, {"cpu": 1}, {"ignore": ["pods"]}),
        ({"cpu": 4, "memory": "3Gi"}, {"cpu": 1, "memory": "2Gi"}, {"resources": ["cpu"]}),
    ],
)
def test_an_uncounted_resource_keeps_pareto_from_failing(
    tmp_path: Path,
    allocatable: dict[str, Any],
    request_of_one: dict[str, Any],
    options: dict[str, Any],
) -> None:
    items = [node("n", allocatable), pod("r", request_of_one, on="n"), pod("w", request_of_one)]
    assert verdicts(look(tmp_path, *items, **options), WASTE, PARETO) == ["holds", "unknown"]


def test_waste_by_a_waiting_pod_fails_pareto_of_any_shape(tmp_path: Path) -> None:
    items = [node("n", CORES), node("m", CORES), RUNS, pod("w", {"cpu": 2, "memory": 0})]
    found = look(tmp_path, *items)
    assert verdicts(found, WASTE, PARETO) == ["fails", "fails"]
    assert found[PARETO].witness["task"] == "shop/w"


def test_a_free_kibibyte_too_few_is_no_room(tmp_path: Path) -> None:
    large = 251 * 2**20
    items = [
        node("n", {"memory": f"{large}Ki"}),
        pod("r", {"memory": f"{large - 1024}Ki"}, on="n"),
        pod("w", {"memory": "1200Ki"}),
    ]
    assert verdicts(look(tmp_path, *items), WASTE) == ["holds"]
    items[2] = pod("w", {"memory": "1024Ki"})
    assert verdicts(look(tmp_path, *items), WASTE) == ["fails"]


def test_a_byte_too_many_is_overuse(tmp_path: Path) -> None:
    node_of, half = node("n", {"memory": 2**38}), pod("r", {"memory": 2**37}, on="n")
    assert verdicts(
        look(tmp_path, node_of, half, pod("s", {"memory": 2**37}, on="n")), FEASIBLE
    ) == ["holds"]
    more = pod("s", {"memory": 2**37 + 1}, on="n")
    assert verdicts(look(tmp_path, node_of, half, more), FEASIBLE) == ["fails"]


def test_a_host_port_of_a_sidecar_leaves_waste_open(tmp_path: Path) -> None:
    ports = {"ports": [{"hostPort": 80}]}
    for one, verdict in ((container(), "fails"), (container(sidecar=True), "unknown")):
        waits = pod("w", {"cpu": 1}, initContainers=[one | ports])
        assert verdicts(look(tmp_path, node("n", CORES), RUNS, waits), WASTE) == [verdict]


@pytest.mark.parametrize(
    "annotation",
    [
        "scheduling.k8s.io/group-name",
        "scheduling.volcano.sh/group-name",
        "pod-group-name",
        "yunikorn.apache.org/task-group-name",
        "yunikorn.apache.org/task-groups",
        "gang.scheduling.koordinator.sh/name",
    ],
)
def test_a_group_by_annotation_leaves_waste_open(tmp_path: Path, annotation: str) -> None:
    found = look(
        tmp_path, node("n", CORES), RUNS, with_metadata(WAITS, annotations={annotation: "g"})
    )
    assert verdicts(found, WASTE, PARETO) == ["unknown", "unknown"]
    assert annotation in found.to_dict()["undecided"][0]["why"]


@pytest.mark.parametrize(
    "label",
    [
        "scheduling.x-k8s.io/pod-group",
        "pod-group.scheduling.sigs.k8s.io",
        "pod-group.scheduling.sigs.k8s.io/name",
    ],
)
def test_a_group_by_label_leaves_waste_open(tmp_path: Path, label: str) -> None:
    found = look(tmp_path, node("n", CORES), RUNS, with_metadata(WAITS, labels={label: "g"}))
    assert verdicts(found, WASTE) == ["unknown"]


@pytest.mark.parametrize("field", ["workloadRef", "schedulingGroup"])
def test_a_group_by_field_leaves_waste_open(tmp_path: Path, field: str) -> None:
    waits = pod("w", {"cpu": 1}, **{field: {"name": "g"}})
    assert verdicts(look(tmp_path, node("n", CORES), RUNS, waits), WASTE) == ["unknown"]


def test_an_extended_resource_by_claim_is_not_counted(tmp_path: Path) -> None:
    """No node lists the GPUs that a driver gives out by claims."""
    runs = pod("r", {"cpu": 1, GPU: 1}, on="n")
    mapping = {"containerName": "c", "resourceName": GPU, "requestName": "q"}
    runs["status"]["extendedResourceClaimStatus"] = {"requestMappings": [mapping]}
    found = look(tmp_path, node("n", CORES), runs, pod("w", {"cpu": 1, GPU: 1}))
    assert verdicts(found, FEASIBLE, WASTE) == ["holds", "unknown"]
    values = found.to_dict()
    assert "unrunnable" not in values
    assert [row["task"] for row in values["undecided"]] == ["shop/w"]
    assert values["not_modelled"] == [f"{GPU}, by a resource claim: 2 pods, such as shop/r"]


@pytest.mark.parametrize(
    "change", [{"status": {"phase": "Succeeded"}}, {"spec": {"nodeName": "n", "containers": 5}}]
)
def test_any_pod_shows_that_a_resource_is_by_claim(tmp_path: Path, change: dict[str, Any]) -> None:
    """A pod that is over, or that cannot be read, still shows it."""
    claim = {"extendedResourceClaimStatus": {"requestMappings": [{"resourceName": GPU}]}}
    shows = pod("s", {GPU: 1}, on="n") | change
    shows["status"] = shows["status"] | claim
    found = look(
        tmp_path, node("n", CORES), RUNS, shows, pod("w", {"cpu": 1, GPU: 1}), lenient=True
    )
    assert [row["task"] for row in found.to_dict()["undecided"]] == ["shop/w"]


def test_a_resource_of_a_device_class_is_by_claim(tmp_path: Path) -> None:
    by_class = "deviceclass.resource.kubernetes.io/large"
    found = look(tmp_path, node("n", CORES), RUNS, pod("w", {"cpu": 1, by_class: 1}))
    assert verdicts(found, WASTE) == ["unknown"]


def test_a_pod_deleted_before_it_has_a_node_wants_nothing(tmp_path: Path) -> None:
    gone = with_metadata(WAITS, deletionTimestamp="2026-01-01T00:00:00Z")
    found = look(tmp_path, node("n", CORES), RUNS, gone)
    assert verdicts(found, WASTE) == ["holds"]
    assert found.waiting == [0]


def test_the_refusal_names_running_pods_that_do_not_count(tmp_path: Path) -> None:
    items = [node("n", CORES), RUNS, pod("w", {GPU: 1})]
    with pytest.raises(InputError, match="no pod that runs asks for what counts"):
        look(tmp_path, *items, resources=[GPU])


def test_parts_of_uncounted_gpus_leave_waste_open(tmp_path: Path) -> None:
    part = with_metadata(RUNS, annotations={"gpu-fraction": "0.5"})
    items = [node("n", {**CORES, GPU: 1}), part, pod("w", {"cpu": 1, GPU: 1})]
    assert verdicts(look(tmp_path, *items, ignore=[GPU]), WASTE) == ["unknown"]
