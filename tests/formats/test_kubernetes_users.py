"""Pods that count, pods that do not, and the users that they make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faults import fault_of
from kubernetes_dumps import container, node, pod, read

GPU, AMD = "nvidia.com/gpu", "amd.com/gpu"
NODES = (node("n0"), node("n1", {"cpu": 4, "pods": 9, GPU: 2}))


def noted(item: dict[str, Any], *, labels: Any = None, annotations: Any = None) -> dict[str, Any]:
    """Return an object with labels and annotations."""
    item["metadata"] |= {"labels": labels or {}, "annotations": annotations or {}}
    return item


# --- pods that no node could run ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"requests": {"cpu": "64"}}, "the largest server has 4 cores"),
        ({"requests": {"cpu": 1, "example.com/fpga": 1}}, "no server has example.com/fpga"),
        ({"requests": {"cpu": 1}, "nodeSelector": {"disk": "sdd"}}, "allows no group"),
        ({"requests": {"memory": "1Gi", GPU: 1}}, "no server has 1 GiB of memory and 1 of pods"),
    ],
)
def test_a_pod_that_fits_no_node_counts_for_nothing(
    tmp_path: Path, spec: dict[str, Any], why: str
) -> None:
    runs = pod("a", {"cpu": 2}, on="n0")
    held = read(tmp_path, *NODES, runs, pod("never", **spec))
    alone = read(tmp_path, *NODES, runs)
    assert held.problem.demand.tolist() == alone.problem.demand.tolist() == [[2, 1]]
    assert held.problem.users.eligible.tolist() == alone.problem.users.eligible.tolist()
    assert held.problem.task_limit.tolist() == [1]
    assert (held.waiting, held.idle, held.amounts) == ((), (), None)
    (never,) = held.unrunnable
    assert (never.name, never.user) == ("shop/never", "shop")
    assert why in never.why


def test_nodes_that_list_no_places_for_pods(tmp_path: Path) -> None:
    held = read(tmp_path, node("n0", {"cpu": 2}), pod("a", {"cpu": 1}, on="n0"), pod("b"))
    assert held.problem.cluster.resources == ("cpu",)
    assert held.tasks.tolist() == [[1]]


# --- resources that vanish, and kinds that exclude each other ------------------------------------


def test_resources_that_vanished_stay_held(tmp_path: Path) -> None:
    held = read(
        tmp_path, *NODES, pod("a", {"cpu": 1, AMD: 1}, on="n0"), pod("b", {"cpu": 1, AMD: 1})
    )
    assert held.problem.cluster.resources == ("cpu", "pods", AMD)
    assert held.problem.demand.tolist() == [[1, 1, 0]]
    assert held.usage.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert held.tasks.tolist() == [[1, 0]]
    assert [task.name for task in held.unrunnable] == ["shop/b"]


def test_two_kinds_of_gpu_that_no_node_has_together(tmp_path: Path) -> None:
    held = read(
        tmp_path,
        node("n0", {"cpu": 4, "pods": 9, AMD: 1}),
        node("n1", {"cpu": 4, "pods": 9, GPU: 2}),
        pod("a", {AMD: 1}, on="n0"),
        pod("b", {GPU: 1}, on="n1"),
        pod("c", {GPU: 1}, on="n1"),
        pod("d", {"cpu": 1}, on="n1", namespace="ml"),
    )
    assert held.problem.users.names == ("shop", "ml")
    assert held.problem.cluster.resources == ("cpu", "pods", AMD, GPU)
    # n1 could run more of its pods: the mean keeps what n1 has.
    assert held.problem.demand[0].tolist() == [0, 1, 0, pytest.approx(2 / 3)]
    assert held.user_amounts[0].tolist() == [0, 3, 1, 2]
    assert held.dominant_share[0] == 1
    assert held.partial is not None
    assert held.partial.tolist() == [True, False]
    assert held.not_modelled == (
        "the mean task of shop leaves out amd.com/gpu, which no node has together with the rest",
    )


# --- which resources count, and who a pod is of ---------------------------------------------------


MIXED = (
    *NODES,
    pod("web", {"cpu": 1, "memory": "1Gi"}, on="n0"),
    pod("train", {"cpu": 1, GPU: 1}, on="n1", namespace="ml"),
    pod("more", {"cpu": 1, GPU: 1}, namespace="ml"),
    pod("book", {"cpu": 2}, namespace="ml"),
)


def test_resources_may_be_chosen_and_left_out(tmp_path: Path) -> None:
    held = read(tmp_path, *MIXED, ignore=["pods", "memory"])
    assert held.problem.cluster.resources == ("cpu", GPU)
    held = read(tmp_path, *MIXED, resources=[GPU])
    assert held.problem.users.names == ("ml",)
    assert held.problem.demand.tolist() == [[1]]
    assert held.problem.task_limit.tolist() == [2]
    assert [task.name for task in held.waiting] == ["ml/more"]
    assert [user.name for user in held.idle] == ["shop"]
    assert held.idle[0].why == "none of its pods requests a resource that counts"
    never = pod("b", {"cpu": 64}, namespace="big")
    held = read(tmp_path, *MIXED, never, resources=["cpu", GPU], ignore=GPU, weights={"big": 2})
    assert held.problem.cluster.resources == ("cpu",)
    (idle,) = held.idle
    assert (idle.name, idle.weight, idle.why) == ("big", 2, "no node could run any of its pods")


def test_resources_that_do_not_count_still_keep_pods_away(tmp_path: Path) -> None:
    """A pod waits for the second GPU of n1, which another pod holds."""
    items = [*MIXED[:4], pod("all", {"cpu": 1, GPU: 2}, namespace="ml")]
    (task,) = read(tmp_path, *items, ignore=[GPU]).waiting
    assert task.allowed.tolist() == [False, False]
    # Running pods share no GPU, so enough of one is free.
    half = noted(pod("half", {"cpu": 1}, namespace="ml"), annotations=HALF)
    task, _ = read(tmp_path, *MIXED[:5], half, ignore=[GPU]).waiting
    assert (task.allowed.tolist(), task.undecided) == ([False, True], "")


def test_users_by_a_label(tmp_path: Path) -> None:
    held = read(
        tmp_path,
        *NODES,
        noted(pod("a", {"cpu": 1}, on="n0"), labels={"team": "ana"}),
        noted(pod("b", {"cpu": 1}, on="n0", namespace="ml"), labels={"team": "ana"}),
        noted(pod("c", {"cpu": 1}, namespace="ml"), labels={"team": ""}),
        pod("ml", {"cpu": 1}, on="n1"),
        user_from="label:team",
        weights={"ana": 3, "namespace:ml": 2},
    )
    assert held.problem.users.names == ("ana", "namespace:ml", "namespace:shop")
    assert held.problem.weight.tolist() == [3, 2, 1]
    assert held.tasks.tolist() == [[2, 0], [0, 0], [0, 1]]
    assert held.waiting[0].name == "ml/c"


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"resources": ["gpu"]}, "resources: 'gpu' is in no pod and no node"),
        ({"ignore": ["pod"]}, "ignore: 'pod' is in no pod and no node; did you mean 'pods'?"),
        ({"resources": []}, "no pod requests a resource that counts"),
        ({"ignore": [3]}, "ignore: must be names of resources, not 3"),
        ({"weights": {"shpo": 1}}, "weights.shpo: no pod is of the namespace 'shpo'; did you mean"),
        ({"weights": {"shop": 0}}, "weights.shop: must be a positive number, not 0"),
        ({"user_from": "label:"}, "user_from: must be namespace or label:KEY, not 'label:'"),
    ],
)
def test_options_at_fault(tmp_path: Path, options: dict[str, Any], fault: str) -> None:
    assert fault in fault_of(read, tmp_path, *MIXED, **options)


# --- what is not modelled -------------------------------------------------------------------------

PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}
TERMS = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims"),
        ({"affinity": {"podAffinity": TERMS}}, "required podAffinity"),
        ({"affinity": {"podAntiAffinity": TERMS}}, "required podAntiAffinity"),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
         "topologySpreadConstraints"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]},
         "a volume by persistentVolumeClaim"),
        ({"volumes": [{"ephemeral": {"volumeClaimTemplate": {}}}]}, "a volume by ephemeral"),
        ({"volumes": 3, "resourceClaims": None, "topologySpreadConstraints": "x"}, ""),
        ({"containers": [container() | {"ports": [{"hostPort": 80}]}]}, "hostPort"),
        ({"affinity": {"podAffinity": PREFERRED}}, ""),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, ""),
        ({"volumes": [{"configMap": {}}, {"emptyDir": {}}, 3]}, ""),
        ({"containers": [container() | {"ports": [{"containerPort": 80}]}]}, ""),
    ],
)  # fmt: skip
def test_constraints_that_are_not_modelled(tmp_path: Path, spec: dict[str, Any], why: str) -> None:
    (task,) = read(tmp_path, *NODES, pod("a", on="n0"), pod("b", **spec)).waiting
    assert task.undecided == why


ANY = {"labelSelector": {}}


@pytest.mark.parametrize(
    ("term", "repels"),
    [
        (ANY, True),
        (ANY | {"namespaces": ["ml"]}, False),
        (ANY | {"namespaces": ["ml", "shop"]}, True),
        (ANY | {"namespaceSelector": {}}, True),
    ],
)
def test_running_pods_may_keep_others_away(
    tmp_path: Path, term: dict[str, Any], repels: bool
) -> None:
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    lonely = pod("lonely", on="n0", affinity={"podAntiAffinity": terms})
    (task,) = read(tmp_path, *NODES, lonely, pod("b")).waiting
    assert task.undecided == ("the podAntiAffinity of shop/lonely" if repels else "")


HALF = {"gpu-fraction": "0.5"}


def test_a_part_of_one_gpu_is_held(tmp_path: Path) -> None:
    """Of the GPUs of n1, shop holds half of one and ml one; the pod that holds a GPU is no user."""
    held = read(
        tmp_path,
        *reversed(NODES),
        noted(pod("a", {"cpu": 1}, on="n1"), annotations=HALF),
        noted(pod("b", {"cpu": 1}), annotations=HALF),
        pod("c", {"cpu": 1, GPU: 1}, on="n1", namespace="ml"),
        pod("holder", {GPU: 1}, on="n1", namespace="kai-resource-reservation"),
    )
    problem = held.problem
    gpu = problem.cluster.resources.index(GPU)
    assert problem.users.names == ("shop", "ml")
    assert problem.cluster.devices == (GPU,)
    assert problem.demand[:, gpu].tolist() == [0.5, 1]
    assert held.held[:, 0, gpu].tolist() == [0.5, 1]
    assert held.not_modelled == ()
    assert held.waiting[0].undecided == "the annotation gpu-fraction"
    assert held.waiting[0].request[gpu] == 0.5
    assert held.shared is not None
    assert [axis.tolist() for axis in held.shared.nonzero()] == [[0], [gpu]]


@pytest.mark.parametrize("others", [{"gpu-fraction": "0.25"}, {}])
def test_unlike_parts_are_no_devices(tmp_path: Path, others: dict[str, str]) -> None:
    """The mean of a half and less is a part that no pod takes, so GPUs are one amount."""
    pods = [noted(pod(f"p{k}", {"cpu": 1}, on="n1"), annotations=each)
            for k, each in enumerate([HALF, others])]  # fmt: skip
    held = read(tmp_path, *NODES, *pods)
    gpu = held.problem.cluster.resources.index(GPU)
    part = 0.5 + float(others.get("gpu-fraction", 0))
    assert held.problem.cluster.devices == ()
    assert held.problem.demand[0, gpu] == part / 2
    assert held.held[0, 1, gpu] == part


def test_a_wrong_part_of_a_gpu_is_refused(tmp_path: Path) -> None:
    for part in ("1.5", "1", "0", "half", "nan"):
        odd = noted(pod("a", {"cpu": 1}, on="n1"), annotations={"gpu-fraction": part})
        fault = fault_of(read, tmp_path, *NODES, odd)
        assert "annotations.gpu-fraction: must be a part of a GPU" in fault


@pytest.mark.parametrize(
    ("annotations", "gpus"),
    [
        ({"gpu-memory": "2000"}, 2),
        ({"gpu-memory": ""}, 2),
        ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, 2),
        (HALF, 0),  # no node lists GPUs
    ],
)
def test_other_parts_of_gpus_are_listed(
    tmp_path: Path, annotations: dict[str, str], gpus: int
) -> None:
    name = next(iter(annotations))
    held = read(
        tmp_path,
        NODES[0],
        node("n1", {"cpu": 4, "pods": 9} | ({GPU: gpus} if gpus else {})),
        noted(pod("a", {"cpu": 1}, on="n1"), annotations=annotations),
        noted(pod("b", {"cpu": 1}), annotations=annotations),
        pod("c", {"cpu": 1} | ({GPU: 1} if gpus else {}), on="n1", namespace="ml"),
    )
    assert held.not_modelled == (f"parts of GPUs by the annotation {name}: 2 pods, such as shop/a",)
    assert held.waiting[0].undecided == f"the annotation {name}"
    assert held.problem.cluster.devices == ()
    assert held.incomplete == "parts of GPUs are not counted"


def test_parts_of_devices_that_no_node_lists(tmp_path: Path) -> None:
    part = "nvidia.com/gpucores"
    asks = {"cpu": 1, GPU: 1, part: 30}
    held = read(tmp_path, *NODES, pod("a", asks, on="n1"), pod("b", asks))
    assert held.not_modelled == (f"{part}, which no node lists: 2 pods, such as shop/a",)
    assert held.problem.cluster.resources == ("cpu", "pods", GPU)
    assert held.waiting[0].undecided == f"a request of {part}, which no node lists"
    listed = node("n1", {"cpu": 4, "pods": 9, GPU: 2, part: 100})
    held = read(tmp_path, NODES[0], listed, pod("a", asks, on="n1"), pod("b", asks))
    assert held.not_modelled == ()
    assert held.problem.cluster.resources == ("cpu", "pods", GPU, part)
    assert held.waiting[0].undecided == ""
