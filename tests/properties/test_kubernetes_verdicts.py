"""Verdicts on Kubernetes clusters depend on what the dump shows only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import InputError
from fairlead.formats.kubernetes import read_kubernetes
from fairlead.properties.audit import Audit, audit
from fairlead.report.audit import share_limit_of
from kubernetes_dumps import container, node, pod, write

GPU, AMD = "nvidia.com/gpu", "amd.com/gpu"
CLAIM: dict[str, Any] = {"resourceClaims": [{"name": "gpu"}]}
WASTE, SLICES = "non-wastefulness", "sharing-incentive"
FEASIBLE, ENVY, PARETO = "feasibility", "envy-freeness", "pareto-optimality"


def look(path: Path, *items: Any, **options: Any) -> Audit:
    held = read_kubernetes(write(path, *items), **options)
    return audit(held.problem, held, lies=0)


def verdicts(found: Audit, *names: str) -> list[str]:
    return [found[name].verdict for name in names]


def web(k: int, cores: int = 1, **spec: Any) -> dict[str, Any]:
    return pod(f"w{k}", {"cpu": cores}, namespace="web", **spec)


# --- pods that no node could run ------------------------------------------------------------------


def test_a_pod_that_has_no_room_now_is_no_waste(tmp_path: Path) -> None:
    """Of 8 cores 6 are taken; a pod asks for 4, and another for a GPU that no node has."""
    found = look(
        tmp_path,
        node("c1", {"cpu": 8, "pods": 110}),
        web(0, 6, on="c1"),
        pod("typo", {"cpu": 1, GPU: 1}, namespace="web"),
        pod("m", {"cpu": 4}, namespace="ml"),
    )
    assert found.subject.problem.users.names == ("web", "ml")
    assert verdicts(found, FEASIBLE, WASTE, PARETO) == ["holds"] * 3
    # Half of the node would run the pod that waits.
    assert found[SLICES].witness["short"] == ["ml"]
    assert [row["task"] for row in found.to_dict()["unrunnable"]] == ["web/typo"]


def test_a_pod_that_fits_no_node_is_due_nothing(tmp_path: Path) -> None:
    found = look(
        tmp_path,
        node("c1", {"cpu": 4, "pods": 110}),
        web(0, on="c1"),
        web(1, on="c1"),
        web(2, nodeSelector={"disk": "sdd"}),
        pod("m", {"cpu": 1}, on="c1", namespace="ml"),
    )
    assert verdicts(found, FEASIBLE, WASTE, SLICES, ENVY, PARETO) == ["holds"] * 5
    assert found.slices.tolist() == [2, 1]
    assert found.waiting == [0, 0]


# --- resources that vanished, and kinds that exclude each other ----------------------------------


@pytest.mark.parametrize("others", [0, 1])
def test_a_held_resource_that_vanished_is_not_feasible(tmp_path: Path, others: int) -> None:
    """One GPU of the node is gone, and of the cluster unless others have one."""
    found = look(
        tmp_path,
        *(node(f"n{k}", {"cpu": 4, "pods": 9, GPU: 4}) for k in range(others)),
        node("c1", {"cpu": 4, "pods": 9, GPU: 0}),
        pod("m", {"cpu": 1, GPU: 1}, on="c1", namespace="ml"),
        web(0, on="c1"),
    )
    assert verdicts(found, FEASIBLE) == ["fails"]
    assert found[FEASIBLE].witness["kind"] == "overuse"
    assert (found[FEASIBLE].witness["group"], found[FEASIBLE].witness["resource"]) == ("c1", GPU)
    assert verdicts(found, PARETO) == ["unknown"]


def test_a_user_whose_only_resource_vanished_is_seen(tmp_path: Path) -> None:
    found = look(
        tmp_path,
        node("c1", {"cpu": 4, "pods": 9, GPU: 0}),
        node("c2", {"cpu": 4, "pods": 9, GPU: 1}),
        pod("m", {"cpu": 1, GPU: 1}, on="c1", namespace="ml", nodeSelector={"kind": "old"}),
        pod("n", {"cpu": 1, GPU: 1}, on="c2", namespace="web"),
        resources=[GPU],
    )
    assert found.subject.problem.users.names == ("web",)
    row = found.to_dict()["users"][1]
    assert (row["name"], row["holds"], row["dominant_share"]) == ("ml", {GPU: 1}, 1)
    assert (found[FEASIBLE].witness["group"], found[FEASIBLE].witness["used"]) == ("c1", 1)


TWO_KINDS = (
    node("n0", {"cpu": 4, "pods": 9, AMD: 1}),
    node("n1", {"cpu": 4, "pods": 9, GPU: 1}),
    pod("a", {"cpu": 1, AMD: 1}, on="n0", namespace="ml"),
    pod("b", {"cpu": 1, GPU: 1}, on="n1", namespace="ml"),
)


def test_a_user_of_two_kinds_of_gpu_is_audited(tmp_path: Path) -> None:
    satisfied = look(tmp_path, *TWO_KINDS, web(0, on="n0"))
    assert verdicts(satisfied, FEASIBLE, WASTE, SLICES, ENVY) == ["holds"] * 4
    waits = pod("c", {"cpu": 1, GPU: 1}, namespace="ml")
    found = look(tmp_path, *TWO_KINDS, web(0, on="n0"), waits)
    assert verdicts(found, FEASIBLE, WASTE, SLICES, ENVY) == [
        "holds",
        "holds",
        "unknown",
        "unknown",
    ]


def test_a_mean_with_a_gpu_earns_no_tick_for_other_nodes(tmp_path: Path) -> None:
    """Its slice of the nodes without GPUs would run its pods, which the mean task overlooks."""
    found = look(
        tmp_path,
        node("g", {"cpu": 4, "pods": 9, GPU: 1}),
        *(node(f"n{k}", {"cpu": 4, "pods": 9}) for k in range(4)),
        pod("m", {"cpu": 1, GPU: 1}, on="g", namespace="ml"),
        *(pod(f"m{k}", {"cpu": 2}, namespace="ml") for k in range(4)),
        *(web(k, 4, on=f"n{k}") for k in range(4)),
    )
    assert found[SLICES].verdict != "holds"


# --- waiting pods under constraints that are not modelled ----------------------------------------


def test_a_claim_leaves_waste_open(tmp_path: Path) -> None:
    items = [node("c1"), web(0, on="c1"), pod("m", {"cpu": 1}, on="c1", namespace="ml")]
    found = look(tmp_path, *items, web(1, **CLAIM))
    assert verdicts(found, FEASIBLE, WASTE, PARETO) == ["holds", "unknown", "unknown"]
    assert "resourceClaims" in found[WASTE].sentence
    assert found.to_dict()["undecided"] == [
        {"task": "web/w1", "user": "web", "why": "resourceClaims"}
    ]
    decided = look(tmp_path, *items, web(1, **CLAIM), web(2))
    assert verdicts(decided, WASTE, PARETO) == ["fails", "fails"]
    assert decided[WASTE].witness["task"] == "web/w2"


def test_a_claim_without_room_leaves_nothing_open(tmp_path: Path) -> None:
    found = look(tmp_path, node("c1"), web(0, 3, on="c1"), web(1, 3, **CLAIM))
    assert verdicts(found, WASTE) == ["holds"]


def test_a_slice_for_a_claim_is_open(tmp_path: Path) -> None:
    items = [node("c1"), *(web(k, on="c1") for k in range(4))]
    found = look(tmp_path, *items, pod("m", {"cpu": 1}, namespace="ml", **CLAIM))
    assert verdicts(found, SLICES, ENVY) == ["unknown", "unknown"]
    assert "ml/m" in found[SLICES].sentence
    both = [
        pod(name, {"cpu": 1}, namespace="ml", **spec) for name, spec in (("m", CLAIM), ("k", {}))
    ]
    decided = look(tmp_path, *items, *both)
    assert verdicts(decided, SLICES, ENVY) == ["fails", "fails"]


def test_a_claim_of_one_user_leaves_others_decided(tmp_path: Path) -> None:
    items = [node("c1"), *(web(k, on="c1") for k in range(4)), pod("m", {"cpu": 1}, namespace="ml")]
    found = look(tmp_path, *items, web(9, **CLAIM))
    assert found[SLICES].witness["short"] == ["ml"]
    assert verdicts(found, WASTE) == ["holds"]


# --- parts of GPUs ---


def with_part(item: dict[str, Any], part: str) -> dict[str, Any]:
    item["metadata"]["annotations"] = {"gpu-fraction": part}
    return item


@pytest.mark.parametrize(
    ("gpus", "parts", "feasible", "waste"),
    [
        (1, ["0.5"], "unknown", "holds"),  # half a GPU is free
        (2, ["0.5", "0.5"], "unknown", "unknown"),  # one is free if the parts share the other
        (1, ["0.7", "0.7"], "fails", "holds"),
    ],
)
def test_parts_of_gpus_may_share_a_gpu(
    tmp_path: Path, gpus: int, parts: list[str], feasible: str, waste: str
) -> None:
    runs = [with_part(web(k, on="g"), part) for k, part in enumerate(parts)]
    waits = pod("m", {GPU: 1}, namespace="ml")
    found = look(tmp_path, node("g", {"cpu": 4, "pods": 9, GPU: gpus}), *runs, waits)
    assert verdicts(found, FEASIBLE, WASTE) == [feasible, waste]


def test_parts_of_gpus_that_are_not_counted_decide_nothing(tmp_path: Path) -> None:
    """The holder's bundle may be larger than counted, so ml may envy it."""
    part = web(0, on="g")
    part["metadata"]["annotations"] = {"gpu-memory": "2000"}
    gpus = node("g", {"cpu": 4, "pods": 9, GPU: 1})
    found = look(tmp_path, gpus, part, pod("m", {GPU: 1}, namespace="ml"))
    assert {row.verdict for row in found} == {"unknown"}
    assert share_limit_of(found, 0.1).finding == "unknown"
    overused = look(tmp_path, node("g", {"cpu": 0, "pods": 9, GPU: 1}), part)
    assert verdicts(overused, FEASIBLE, WASTE) == ["fails", "unknown"]


def test_volumes_that_bind_nothing_leave_no_doubt(tmp_path: Path) -> None:
    spec = {"volumes": [{"name": "v", "configMap": {"name": "c"}}], "initContainers": [container()]}
    assert verdicts(look(tmp_path, node("c1"), web(0, on="c1"), web(1, **spec)), WASTE) == ["fails"]


# --- uncounted resources, groups, claims and bytes ---

CORES = {"cpu": 4, "pods": 9}


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


def test_a_host_port_leaves_waste_open(tmp_path: Path) -> None:
    waits = pod("w", {"cpu": 1}, initContainers=[container() | {"ports": [{"hostPort": 80}]}])
    assert verdicts(look(tmp_path, node("n", CORES), RUNS, waits), WASTE) == ["unknown"]


@pytest.mark.parametrize("name", ["nodegroup", "group", "scheduling/queue-name"])
def test_other_labels_put_a_pod_into_no_group(tmp_path: Path, name: str) -> None:
    waits = with_metadata(WAITS, labels={name: "g"}, annotations={name: "g"})
    assert verdicts(look(tmp_path, node("n", CORES), RUNS, waits), WASTE) == ["fails"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("annotations", "scheduling.k8s.io/group-name"),
        ("annotations", "scheduling.volcano.sh/group-name"),
        ("annotations", "pod-group-name"),
        ("annotations", "yunikorn.apache.org/task-group-name"),
        ("annotations", "yunikorn.apache.org/task-groups"),
        ("annotations", "gang.scheduling.koordinator.sh/name"),
        ("labels", "scheduling.x-k8s.io/pod-group"),
        ("labels", "pod-group.scheduling.sigs.k8s.io"),
        ("labels", "pod-group.scheduling.sigs.k8s.io/name"),
        ("fields", "workloadRef"),
        ("fields", "schedulingGroup"),
    ],
)
def test_a_pod_of_a_group_leaves_waste_open(tmp_path: Path, kind: str, name: str) -> None:
    if kind == "fields":
        waits = pod("w", {"cpu": 1}, **{name: {"name": "g"}})
    else:
        waits = with_metadata(WAITS, **{kind: {name: "g"}})
    found = look(tmp_path, node("n", CORES), RUNS, waits)
    assert verdicts(found, WASTE, PARETO) == ["unknown", "unknown"]
    assert name in found.to_dict()["undecided"][0]["why"]


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
    with pytest.raises(InputError, match="no running pod requests a resource that counts"):
        look(tmp_path, *items, resources=[GPU])


def test_parts_of_uncounted_gpus_leave_waste_open(tmp_path: Path) -> None:
    memory = with_metadata(RUNS, annotations={"gpu-memory": "2000"})
    items = [node("n", {**CORES, GPU: 1}), memory, pod("w", {"cpu": 1, GPU: 1})]
    assert verdicts(look(tmp_path, *items, ignore=[GPU]), WASTE) == ["unknown"]
    parts = [with_metadata(pod(name, {"cpu": 1}, on="n"), annotations={"gpu-fraction": "0.5"})
             for name in "ab"]  # fmt: skip
    items = [node("n", {**CORES, GPU: 2}), *parts, pod("w", {"cpu": 1, GPU: 1})]
    assert verdicts(look(tmp_path, *items, ignore=[GPU]), WASTE) == ["unknown"]
