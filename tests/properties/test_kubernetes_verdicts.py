"""Verdicts on Kubernetes clusters: only what the dump shows is a tick or a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.formats.kubernetes import read_kubernetes
from fairlead.properties.audit import Audit, audit
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


def test_an_idle_user_has_a_row_of_nothing(tmp_path: Path) -> None:
    found = look(tmp_path, node("c1"), web(0, on="c1"), pod("m", {"cpu": 64}, namespace="ml"))
    rows = {row["name"]: row for row in found.to_dict()["users"]}
    assert (rows["ml"]["tasks"], rows["ml"]["slice"], rows["ml"]["holds"]) == (0, 0, {})
    assert found.holds
    assert found.slices.tolist() == [1]


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


def test_any_resource_that_shrank_is_not_feasible(tmp_path: Path) -> None:
    found = look(tmp_path, node("c1", {"cpu": 1, "pods": 9}), web(0, on="c1"), web(1, on="c1"))
    witness = found[FEASIBLE].witness
    assert (witness["resource"], witness["used"], witness["capacity"]) == ("cpu", 2, 1)


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


# --- what could not be read ----------------------------------------------------------------------

UNREADABLE = pod("odd", {"cpu": "three"}, on="c1", namespace="web")


def test_what_a_passed_over_pod_holds_is_not_free(tmp_path: Path) -> None:
    items = [node("c1"), web(0, on="c1"), pod("m", {"cpu": 1}, namespace="ml")]
    assert verdicts(look(tmp_path, *items), WASTE) == ["fails"]
    found = look(tmp_path, *items, UNREADABLE, lenient=True)
    assert verdicts(found, FEASIBLE, WASTE) == ["unknown", "unknown"]
    elsewhere = look(tmp_path, *items, UNREADABLE, node("c2"), lenient=True)
    assert elsewhere[WASTE].witness["group"] == "c2"
    full = [node("c1"), web(0, 4, on="c1"), items[2], UNREADABLE]
    assert verdicts(look(tmp_path, *full, lenient=True), WASTE) == ["holds"]


def test_a_pod_with_unreadable_placement_holds_its_node(tmp_path: Path) -> None:
    odd = web(0, 3, on="c1", tolerations=[{"operator": "Near"}])
    found = look(tmp_path, node("c1"), odd, pod("m", {"cpu": 2}, namespace="ml"), lenient=True)
    assert found.subject.holdings.usage[0, 0] == 3
    assert verdicts(found, FEASIBLE, WASTE) == ["holds", "holds"]


def test_a_user_with_a_passed_over_pod_is_not_short(tmp_path: Path) -> None:
    items = [
        node("c1"),
        web(0, 2, on="c1"),
        *(pod(f"m{k}", {"cpu": 1}, namespace="ml") for k in "ab"),
    ]
    assert look(tmp_path, *items)[SLICES].witness["short"] == ["ml"]
    odd = pod("odd", {"cpu": "three"}, on="c1", namespace="ml")
    assert verdicts(look(tmp_path, *items, odd, lenient=True), SLICES, ENVY) == ["unknown"] * 2


def test_a_pod_that_was_passed_over_may_wait(tmp_path: Path) -> None:
    items = [node("c1"), web(0, on="c1"), web(1, tolerations=[{"operator": "Near"}])]
    found = look(tmp_path, *items, lenient=True)
    assert verdicts(found, FEASIBLE, WASTE, SLICES, PARETO) == ["holds", *["unknown"] * 3]


def test_a_lost_node_may_have_room(tmp_path: Path) -> None:
    items = [node("c1"), node("c2", {"cpu": "?"}), web(0, 4, on="c1"), web(1)]
    found = look(tmp_path, *items, lenient=True)
    assert verdicts(found, FEASIBLE, WASTE, SLICES) == ["holds", "unknown", "unknown"]


def test_the_same_pod_twice_leaves_no_doubt(tmp_path: Path) -> None:
    items = [node("c1"), web(0, on="c1"), web(0, on="c1")]
    found = look(tmp_path, *items, lenient=True)
    assert found.subject.holdings.doubts is None
    moved = look(tmp_path, *items[:2], web(0, 2, on="c1"), lenient=True)
    assert verdicts(moved, FEASIBLE) == ["unknown"]


def test_parts_of_gpus_leave_their_gpus_open(tmp_path: Path) -> None:
    part = web(0, on="g")
    part["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    gpus = node("g", {"cpu": 4, "pods": 9, GPU: 1})
    waits = pod("m", {GPU: 1}, namespace="ml")
    found = look(tmp_path, gpus, part, waits)
    assert verdicts(found, FEASIBLE, WASTE) == ["unknown", "unknown"]
    plain = look(tmp_path, gpus, part, waits, pod("n", {"cpu": 1}, namespace="ml"))
    assert plain[WASTE].witness["task"] == "ml/n"


def test_volumes_that_bind_nothing_leave_no_doubt(tmp_path: Path) -> None:
    spec = {"volumes": [{"name": "v", "configMap": {"name": "c"}}], "initContainers": [container()]}
    assert verdicts(look(tmp_path, node("c1"), web(0, on="c1"), web(1, **spec)), WASTE) == ["fails"]
