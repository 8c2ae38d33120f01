"""Verdicts on Kubernetes clusters depend on what the dump shows only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import InputError
from fairlead.formats.kubernetes import read_kubernetes
from fairlead.properties.audit import Audit, audit
from fairlead.properties.queue_guarantees import QUOTAS
from fairlead.report.audit_document import share_limit_of
from kubernetes_dumps import container, node, pod, read, write

GPU, AMD = "nvidia.com/gpu", "amd.com/gpu"
WASTE, SLICES = "non-wastefulness", "sharing-incentive"
FEASIBLE, ENVY, PARETO = "feasibility", "envy-freeness", "pareto-optimality"
CLAIM: dict[str, Any] = {"resourceClaims": [{"name": "gpu"}]}
CORES = {"cpu": 4, "pods": 9}


def look(path: Path, *items: Any, **options: Any) -> Audit:
    held = read_kubernetes(write(path, *items), **options)
    return audit(held.problem, held, lies=0)


def verdicts(found: Audit, *names: str) -> dict[str, str]:
    return {name: found[name].verdict for name in names or [row.name for row in found]}


def holds(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "holds")


def fails(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "fails")


def unknown(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "unknown")


def web(k: int, cores: int = 1, **spec: Any) -> dict[str, Any]:
    return pod(f"w{k}", {"cpu": cores}, namespace="web", **spec)


def ml(name: str = "m", requests: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return pod(name, requests or {"cpu": 1}, namespace="ml", **spec)


def with_metadata(item: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return item | {"metadata": item["metadata"] | metadata}


def with_part(item: dict[str, Any], part: str) -> dict[str, Any]:
    return with_metadata(item, annotations={"gpu-fraction": part})


N1, RUNS, WAITS = node("n", CORES), pod("r", {"cpu": 1}, on="n"), pod("w", {"cpu": 1})
FULL = [node("n"), *(web(k, on="n") for k in range(4))]
TWO_KINDS = [
    node("n0", CORES | {AMD: 1}),
    node("n1", CORES | {GPU: 1}),
    ml("a", {"cpu": 1, AMD: 1}, on="n0"),
    ml("b", {"cpu": 1, GPU: 1}, on="n1"),
    web(0, on="n0"),
]
LARGE = 251 * 2**20
ALMOST_FULL = [
    node("n", {"memory": f"{LARGE}Ki"}),
    pod("r", {"memory": f"{LARGE - 1024}Ki"}, on="n"),
]
HALF_FULL = [node("n", {"memory": 2**38}), pod("r", {"memory": 2**37}, on="n")]
HOST_PORT = {"initContainers": [container() | {"ports": [{"hostPort": 80}]}]}
BY_CLASS = "deviceclass.resource.kubernetes.io/large"
# No mean task stands for these: the slice of the nodes without GPUs would run the pods of ml.
UNEQUAL = [
    node("g", CORES | {GPU: 1}),
    *(node(f"n{k}", CORES) for k in range(4)),
    ml("m", {"cpu": 1, GPU: 1}, on="g"),
    *(ml(f"m{k}", {"cpu": 2}) for k in range(4)),
    *(web(k, 4, on=f"n{k}") for k in range(4)),
]
GPU_MEMORY = with_metadata(RUNS, annotations={"gpu-memory": "2000"})
DELETED = with_metadata(WAITS, deletionTimestamp="2026-01-01T00:00:00Z")

CASES: dict[str, tuple[list[Any], dict[str, str]]] = {
    "two kinds of GPU run": (TWO_KINDS, holds(FEASIBLE, WASTE, SLICES, ENVY)),
    "two kinds of GPU, one waits": (
        [*TWO_KINDS, ml("c", {"cpu": 1, GPU: 1})],
        holds(FEASIBLE, WASTE) | unknown(SLICES, ENVY),
    ),
    "a mean with a GPU and nodes without": (UNEQUAL, unknown(SLICES)),
    "a claim without room": ([node("n"), web(0, 3, on="n"), web(1, 3, **CLAIM)], holds(WASTE)),
    "a claim alone is due a slice": ([*FULL, ml(**CLAIM)], unknown(SLICES, ENVY)),
    "a claim and a plain pod": ([*FULL, ml(**CLAIM), ml("k")], fails(SLICES, ENVY)),
    "a claim of another user": ([*FULL, ml(), web(9, **CLAIM)], fails(SLICES) | holds(WASTE)),
    "half a GPU is free": (
        [node("n", CORES | {GPU: 1}), with_part(web(0, on="n"), "0.5"), ml("m", {GPU: 1})],
        unknown(FEASIBLE) | holds(WASTE),
    ),
    "a GPU is free if the parts share one": (
        [
            node("n", CORES | {GPU: 2}),
            *(with_part(web(k, on="n"), "0.5") for k in range(2)),
            ml("m", {GPU: 1}),
        ],
        unknown(FEASIBLE, WASTE),
    ),
    "parts that fit no GPU": (
        [node("n", CORES | {GPU: 1}), *(with_part(web(k, on="n"), "0.7") for k in range(2))],
        fails(FEASIBLE),
    ),
    "a part in bytes on an overused node": (
        [node("n", {"cpu": 0, "pods": 9, GPU: 1}), GPU_MEMORY],
        fails(FEASIBLE) | unknown(WASTE),
    ),
    "a host port": ([N1, RUNS, pod("w", {"cpu": 1}, **HOST_PORT)], unknown(WASTE)),
    "a resource of a device class": ([N1, RUNS, pod("w", {BY_CLASS: 1})], unknown(WASTE)),
    "a pod deleted before it has a node": ([N1, RUNS, DELETED], holds(WASTE)),
    "waste, whatever the shapes": (
        [N1, node("m", CORES), RUNS, pod("w", {"cpu": 2, "memory": 0})],
        fails(WASTE, PARETO),
    ),
    "a kibibyte too few": ([*ALMOST_FULL, pod("w", {"memory": "1200Ki"})], holds(WASTE)),
    "just enough memory": ([*ALMOST_FULL, pod("w", {"memory": "1024Ki"})], fails(WASTE)),
    "a full node": ([*HALF_FULL, pod("s", {"memory": 2**37}, on="n")], holds(FEASIBLE)),
    "a byte too many": ([*HALF_FULL, pod("s", {"memory": 2**37 + 1}, on="n")], fails(FEASIBLE)),
} | {
    f"the label {name} names no group": (
        [N1, RUNS, with_metadata(WAITS, labels={name: "g"}, annotations={name: "g"})],
        fails(WASTE),
    )
    for name in ("nodegroup", "group", "scheduling/queue-name")
}


@pytest.mark.parametrize("case", CASES)
def test_verdicts_of_a_dump(tmp_path: Path, case: str) -> None:
    items, expected = CASES[case]
    assert verdicts(look(tmp_path, *items), *expected) == expected


PARTS = [with_part(pod(name, {"cpu": 1}, on="n"), "0.5") for name in "ab"]


@pytest.mark.parametrize(
    ("items", "options", "expected"),
    [
        (
            [node("n", {"cpu": 4, "pods": 1}), RUNS, WAITS],
            {"ignore": ["pods"]},
            holds(WASTE) | unknown(PARETO),
        ),
        (
            [node("n", CORES | {GPU: 1}), GPU_MEMORY, pod("w", {"cpu": 1, GPU: 1})],
            {"ignore": [GPU]},
            unknown(WASTE),
        ),
        (
            [node("n", CORES | {GPU: 2}), *PARTS, pod("w", {"cpu": 1, GPU: 1})],
            {"ignore": [GPU]},
            unknown(WASTE),
        ),
    ],
)
def test_uncounted_resources_leave_room_open(
    tmp_path: Path, items: list[Any], options: dict[str, Any], expected: dict[str, str]
) -> None:
    assert verdicts(look(tmp_path, *items, **options), *expected) == expected


def test_a_pod_that_has_no_room_now_is_no_waste(tmp_path: Path) -> None:
    """Of 8 cores 6 are taken; a pod asks for 4, and another for a GPU that no node has."""
    items = [node("n", {"cpu": 8, "pods": 110}), web(0, 6, on="n"), ml("m", {"cpu": 4})]
    found = look(tmp_path, *items, pod("typo", {"cpu": 1, GPU: 1}, namespace="web"))
    assert verdicts(found, FEASIBLE, WASTE, PARETO) == holds(FEASIBLE, WASTE, PARETO)
    assert found[SLICES].witness["short"] == ["ml"]  # half of the node would run the pod
    assert [row["task"] for row in found.to_dict()["unrunnable"]] == ["web/typo"]


def test_a_pod_that_fits_no_node_is_due_nothing(tmp_path: Path) -> None:
    runs = [web(0, on="n"), web(1, on="n"), ml(on="n")]
    found = look(tmp_path, N1, *runs, web(2, nodeSelector={"disk": "sdd"}))
    names = (FEASIBLE, WASTE, SLICES, ENVY, PARETO)
    assert verdicts(found, *names) == holds(*names)
    assert (found.slices.tolist(), found.waiting) == ([2, 1], [0, 0])


@pytest.mark.parametrize("others", [0, 1])
def test_a_held_resource_that_vanished_is_not_feasible(tmp_path: Path, others: int) -> None:
    """One GPU of the node is gone, and of the cluster unless others have one."""
    nodes = [*(node(f"n{k}", CORES | {GPU: 4}) for k in range(others)), node("c", CORES | {GPU: 0})]
    found = look(tmp_path, *nodes, ml("m", {"cpu": 1, GPU: 1}, on="c"), web(0, on="c"))
    assert verdicts(found, FEASIBLE, PARETO) == fails(FEASIBLE) | unknown(PARETO)
    witness = found[FEASIBLE].witness
    assert (witness["kind"], witness["group"], witness["resource"]) == ("overuse", "c", GPU)


def test_a_user_whose_only_resource_vanished_is_seen(tmp_path: Path) -> None:
    asks = {"cpu": 1, GPU: 1}
    found = look(
        tmp_path,
        node("c1", CORES | {GPU: 0}),
        node("c2", CORES | {GPU: 1}),
        ml("m", asks, on="c1", nodeSelector={"kind": "old"}),
        pod("n", asks, on="c2", namespace="web"),
        resources=[GPU],
    )
    assert found.subject.problem.users.names == ("web",)
    row = found.to_dict()["users"][1]
    assert (row["name"], row["holds"], row["dominant_share"]) == ("ml", {GPU: 1}, 1)
    assert (found[FEASIBLE].witness["group"], found[FEASIBLE].witness["used"]) == ("c1", 1)


def test_a_claim_leaves_waste_open(tmp_path: Path) -> None:
    items = [node("n"), web(0, on="n"), ml(on="n"), web(1, **CLAIM)]
    found = look(tmp_path, *items)
    assert verdicts(found, FEASIBLE, WASTE, PARETO) == holds(FEASIBLE) | unknown(WASTE, PARETO)
    expected = {"task": "web/w1", "user": "web", "why": "resourceClaims"}
    assert found.to_dict()["undecided"] == [expected]
    decided = look(tmp_path, *items, web(2))
    assert verdicts(decided, WASTE, PARETO) == fails(WASTE, PARETO)
    assert decided[WASTE].witness["task"] == "web/w2"


def test_parts_of_gpus_in_bytes_decide_nothing(tmp_path: Path) -> None:
    """The holder's bundle may be larger than counted, so ml may envy it."""
    found = look(tmp_path, node("n", CORES | {GPU: 1}), GPU_MEMORY, ml("m", {GPU: 1}))
    assert set(verdicts(found).values()) == {"unknown"}
    assert share_limit_of(found, 0.1).finding == "unknown"


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
    waits = with_metadata(WAITS, **{kind: {name: "g"}})
    if kind == "fields":
        waits = pod("w", {"cpu": 1}, **{name: {"name": "g"}})
    found = look(tmp_path, N1, RUNS, waits)
    assert verdicts(found, WASTE, PARETO) == unknown(WASTE, PARETO)
    assert name in found.to_dict()["undecided"][0]["why"]


def test_an_extended_resource_by_claim_is_not_counted(tmp_path: Path) -> None:
    """No node lists the GPUs that a driver gives out by claims."""
    runs = pod("r", {"cpu": 1, GPU: 1}, on="n")
    mapping = {"containerName": "c", "resourceName": GPU, "requestName": "q"}
    runs["status"]["extendedResourceClaimStatus"] = {"requestMappings": [mapping]}
    found = look(tmp_path, N1, runs, pod("w", {"cpu": 1, GPU: 1}))
    assert verdicts(found, FEASIBLE, WASTE) == holds(FEASIBLE) | unknown(WASTE)
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
    found = look(tmp_path, N1, RUNS, shows, pod("w", {"cpu": 1, GPU: 1}), lenient=True)
    assert [row["task"] for row in found.to_dict()["undecided"]] == ["shop/w"]


def test_the_refusal_names_running_pods_that_do_not_count(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no running pod requests a resource that counts"):
        look(tmp_path, N1, RUNS, pod("w", {GPU: 1}), resources=[GPU])


# Dumps in which nodes or pods were skipped: all is unknown, except a certain overuse.


@pytest.mark.parametrize(
    "broken",
    [
        node("n2", {"cpu": "?"}),
        pod("b", {"cpu": "abc"}),
        pod("b", {"cpu": "abc"}, on="n"),
        pod("b", {"cpu": 1}, tolerations=[{"operator": "Near"}]),
        {"metadata": {"name": "b"}, "kind": 5},
    ],
)
def test_skipped_objects_leave_all_verdicts_unknown(tmp_path: Path, broken: dict[str, Any]) -> None:
    found = look(tmp_path, N1, RUNS, broken, lenient=True)
    assert set(verdicts(found).values()) == {"unknown"}
    assert "nodes or pods were skipped" in found[ENVY].sentence
    assert len(found.subject.holdings.skipped) == 1
    overused = look(tmp_path, N1, RUNS, web(0, 4, on="n"), broken, lenient=True)
    assert verdicts(overused) == unknown(*verdicts(found)) | fails(FEASIBLE)


@pytest.mark.parametrize("left", [{"continue": "abc"}, {"remainingItemCount": 1200}])
def test_a_part_of_a_list_is_refused(tmp_path: Path, left: dict[str, Any]) -> None:
    page = {"kind": "PodList", "metadata": left, "items": [RUNS]}
    with pytest.raises(InputError, match="only a part of the list"):
        look(tmp_path, N1, page)
    found = look(tmp_path, N1, page, lenient=True)
    assert set(verdicts(found).values()) == {"unknown"}


def test_a_quota_is_owed_to_the_pods_that_wait(tmp_path: Path) -> None:
    """The mean pod of web is as large as one that runs, and the pod that waits is small."""

    def found(*items: Any, cores: float = 4) -> str:
        held = read(tmp_path, *items)
        quotas = {"web": [{"cpu": cores}]}
        return audit(held.problem, held, properties=[QUOTAS], quotas=quotas)[QUOTAS].verdict

    runs, small = web(0, 3, on="n"), pod("s", {"cpu": "100m"}, namespace="web")
    claim = pod("s", {"cpu": "100m"}, namespace="web", **CLAIM)
    assert found(node("n"), runs, small) == "fails"
    assert found(node("n"), runs, small, cores=3) == "holds"
    assert found(node("n"), runs, web(1, 2)) == "holds"
    assert found(node("n"), runs, claim) == "unknown"
    assert found(node("n"), runs, claim, small | {"metadata": web(9)["metadata"]}) == "fails"
    assert found(node("n"), runs, pod("s", {"cpu": "100m"}, on="n", namespace="web")) == "holds"
