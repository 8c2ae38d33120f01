"""Kubernetes dumps: who holds what, where pods may run, and every fault as one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.formats import _kubernetes_census
from fairlead.formats.kubernetes import read_kubernetes
from faults import fault_within
from kubernetes_dumps import affinity, container, expression, node, pod, read, write

SMALL = {"cpu": "500m", "memory": "1Gi"}
HUGE_PAGES = ("hugepages-2Mi", "hugepages-1Gi")
NODES = (node("n0"), node("n1"))


def request_of(path: Path, **spec: Any) -> dict[str, float]:
    """Return what one pod of this spec requests, without the pod itself."""
    everything = dict.fromkeys((*SMALL, "pods", "ephemeral-storage", *HUGE_PAGES), "1Ti")
    held = read(path, node("n0", everything), pod("p", on="n0", **spec))
    amounts = zip(held.problem.cluster.resources, held.problem.demand[0].tolist(), strict=True)
    return {name: amount for name, amount in amounts if name != "pods"}


def allowed_of(path: Path, nodes: list[dict[str, Any]], **spec: Any) -> list[bool]:
    """Return where a pod of this spec may run."""
    runs = pod("runs", on=nodes[0]["metadata"]["name"])  # so that the namespace fits somewhere
    held = read(path, *nodes, runs, pod("waits", **spec))
    if held.unrunnable:
        assert not held.waiting
        return [False] * len(nodes)
    return held.waiting[0].allowed.tolist()


# --- who holds what ------------------------------------------------------------------------------


def test_namespaces_of_one_shape_each(tmp_path: Path) -> None:
    held = read(
        tmp_path,
        node("n0", labels={"zone": "a"}),
        node("n1", {"cpu": 8, "memory": "17179869184", "pods": "110", "nvidia.com/gpu": "2"}),
        *(pod(f"web-{k}", SMALL, on="n0") for k in range(3)),
        pod("train", {"cpu": "2", "nvidia.com/gpu": "1"}, on="n1", namespace="ml"),
        pod("web-3", SMALL, on="n1"),
        pod("web-4", SMALL),
    )
    cluster, problem = held.problem.cluster, held.problem
    assert cluster.groups == ("n0", "n1")
    assert cluster.labels == ({"zone": "a"}, {})
    assert cluster.count.tolist() == [1, 1]
    assert cluster.resources == ("cpu", "memory", "pods", "nvidia.com/gpu")
    assert cluster.units == ("cores", "GiB", "", "")
    assert cluster.capacity.tolist() == [[4, 16, 110, 0], [8, 16, 110, 2]]
    assert problem.users.names == ("shop", "ml")
    assert problem.demand.tolist() == [[0.5, 1, 1, 0], [2, 0, 1, 1]]
    assert held.tasks.tolist() == [[3, 1], [0, 1]]
    assert held.whole_tasks is True
    assert held.source == "kubernetes"
    (waiting,) = held.waiting
    assert waiting.name == "shop/web-4"
    assert waiting.user == 0
    assert waiting.request.tolist() == [0.5, 1, 1, 0]
    assert waiting.allowed.tolist() == [True, True]


def test_pods_that_hold_nothing(tmp_path: Path) -> None:
    """Terminated pods hold nothing; gated ones neither hold nor want; others hold their node."""
    held = read(
        tmp_path,
        *NODES,
        pod("done", {"example.com/gone": 1}, on="n0", phase="Succeeded"),
        pod("failed", {"cpu": "junk"}, on="nowhere", phase="Failed"),
        pod("gated", {"cpu": 3}, schedulingGates=[{"name": "example.com/quota"}]),
        pod("starting", SMALL, on="n0", phase="Pending"),
        pod("lost", SMALL, on="n1", phase="Unknown"),
        {"kind": "Service", "metadata": {}},
    )
    assert held.tasks.tolist() == [[1, 1]]
    assert held.waiting == ()
    assert held.problem.task_limit.tolist() == [2]
    assert held.problem.cluster.resources == ("cpu", "memory", "pods")


def test_a_namespace_may_run_where_some_pod_of_it_may_or_does(tmp_path: Path) -> None:
    nodes = [node(f"n{k}", labels={"k": str(k)}) for k in range(4)]
    held = read(
        tmp_path,
        *nodes,
        pod("a", SMALL, on="n0", nodeSelector={"k": "1"}),
        pod("b", SMALL, nodeSelector={"k": "2"}),
    )
    assert held.problem.users.eligible.tolist() == [[True, True, True, False]]


def test_what_a_dump_leaves_out(tmp_path: Path) -> None:
    """Capacity stands in for allocatable amounts, and ``default`` for a namespace."""
    bare = node("n0")
    del bare["status"]["allocatable"]
    bare["status"]["capacity"] = {"cpu": 2, "memory": "4Gi", "pods": 9}
    lone = pod("a", SMALL, on="n0")
    del lone["metadata"]["namespace"]
    done = pod("c", phase="Failed", namespace="old")
    held = read(tmp_path, bare, lone, pod("b", SMALL, on="n0", namespace="ml"), done,
                weights={"ml": 2, "old": 3})  # fmt: skip
    assert held.problem.cluster.capacity.tolist() == [[2, 4, 9]]
    assert held.problem.users.names == ("default", "ml")
    assert held.problem.weight.tolist() == [1, 2]


# --- what a pod requests -------------------------------------------------------------------------


def test_containers_add_up_and_limits_stand_in(tmp_path: Path) -> None:
    containers = [
        container({"cpu": "100m", "memory": "64Mi"}, {"cpu": "9", "memory": "1Gi"}),
        container({"cpu": "200m"}, {"memory": "192Mi", "ephemeral-storage": "2Gi"}),
        container(),
    ]
    assert request_of(tmp_path, containers=containers) == {
        "cpu": 0.3,
        "memory": 0.25,
        "ephemeral-storage": 2,
    }


def test_overhead_is_added_and_whole_pods_override(tmp_path: Path) -> None:
    spec = {
        "containers": [container({"cpu": 1, "memory": "1Gi", "hugepages-2Mi": "4Mi"})],
        "overhead": {"cpu": "250m"},
        "resources": {
            "requests": {"cpu": "3", "hugepages-2Mi": "1Gi", "nvidia.com/gpu": 5},
            "limits": {"cpu": 4, "memory": "2Gi", "hugepages-1Gi": "1Gi"},
        },
    }
    assert request_of(tmp_path, **spec) == {
        "cpu": 3.25,
        "memory": 1,  # its container requests some, so the limit does not stand in
        "hugepages-2Mi": 1,
        "hugepages-1Gi": 1,
    }


CORES = {"100m": 0.1, "1": 1, 2: 2, 0.5: 0.5, "1e3": 1000, "1500u": 0.002, "1n": 0.001,
         "0.1n": 0.001, "2k": 2000, "0.1": 0.1, ".5": 0.5, "+1": 1}  # fmt: skip
GIB = {"1Gi": 1, 2**30: 1, str(2**30): 1, "512Mi": 0.5, "1M": 10**6 / 2**30, "1500m": 2 / 2**30,
       "128974848": 128974848 / 2**30}  # fmt: skip


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [*(("cpu", *pair) for pair in CORES.items()), *(("memory", *pair) for pair in GIB.items())],
)
def test_thousandths_of_cores_and_bytes_are_rounded_up(
    tmp_path: Path, resource: str, text: Any, amount: float
) -> None:
    assert request_of(tmp_path, containers=[container({resource: text})]) == {resource: amount}


def test_nano_units_add_up_before_they_are_rounded(tmp_path: Path) -> None:
    containers = [container({"cpu": "400u"}), container({"cpu": "600000n"})]
    assert request_of(tmp_path, containers=containers) == {"cpu": 0.001}


AMOUNTS = st.tuples(st.integers(0, 5), st.integers(0, 5))
INIT = st.tuples(st.booleans(), AMOUNTS)


def asking(cores: int, gib: int, **more: Any) -> dict[str, Any]:
    return container({"cpu": cores, "memory": f"{gib}Gi"}, **more)


@given(running=st.lists(AMOUNTS, min_size=1, max_size=3), init=st.lists(INIT, max_size=5))
def test_the_request_is_the_most_at_any_moment(
    tmp_path_factory: pytest.TempPathFactory, running: list[Any], init: list[Any]
) -> None:
    """By definition: the containers that run at each time, one init container after the other."""
    moments, alive = [], np.zeros(2)
    for sidecar, amounts in init:
        moments.append(alive + amounts)
        alive = alive + np.array(amounts) * sidecar
    moments.append(alive + np.sum(running, axis=0))
    spec = {
        "containers": [asking(*amounts) for amounts in running],
        "initContainers": [asking(*amounts, sidecar=side) for side, amounts in init],
    }
    most = dict(zip(SMALL, np.max(moments, axis=0).tolist(), strict=True))
    expected = {name: amount for name, amount in most.items() if amount}
    assert request_of(tmp_path_factory.mktemp("life"), **spec) == expected


# --- where a pod may run -------------------------------------------------------------------------

LABELLED = [
    node("n0", labels={"zone": "a", "disk": "10"}),
    node("n1", labels={"zone": "b", "disk": "20", "gpu": ""}),
    node("n2", labels={"disk": "many"}),
]


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
         [1, 1, 1]),
        ({"affinity": affinity(
            {"matchExpressions": [expression("zone", "In", "a")]},
            {"matchFields": [expression("metadata.name", "In", "n2", "n9")]})},
         [1, 0, 1]),
        ({"affinity": affinity(
            {"matchFields": [expression("metadata.name", "NotIn", "n0")],
             "matchExpressions": [expression("zone", "Exists")]})},
         [0, 1, 0]),
    ],
)  # fmt: skip
def test_labels_and_fields(tmp_path: Path, spec: dict[str, Any], allowed: list[int]) -> None:
    assert allowed_of(tmp_path, LABELLED, **spec) == [bool(a) for a in allowed]


TAINTED = [
    node("n0", taints=("gpu=t4:NoSchedule",)),
    node("n1", taints=("gpu=a100:NoSchedule", "down:NoExecute")),
    node("n2", taints=("slow:PreferNoSchedule",)),
    node("n3", cordoned=True),
]


SCORED = [node(f"n{k}", taints=(f"score={score}:NoSchedule",)) for k, score in
          enumerate(("500", "1000", "-3", "0800", "high"))]  # fmt: skip


def by_score(operator: str, value: str) -> list[dict[str, str]]:
    return [{"key": "score", "operator": operator, "value": value}]


@pytest.mark.parametrize(
    ("tolerations", "allowed"),
    [
        ([], [0, 0, 1, 0]),
        ([{"operator": "Exists"}], [1, 1, 1, 1]),
        ([{"key": "gpu", "operator": "Exists"}], [1, 0, 1, 0]),
        ([{"key": "gpu", "operator": "Equal", "value": "a100"}], [0, 0, 1, 0]),
        ([{"key": "gpu", "operator": "Exists"}, {"key": "down", "effect": "NoExecute"}],
         [1, 1, 1, 0]),
        ([{"key": "gpu", "operator": "Exists"}, {"key": "down", "effect": "NoSchedule"}],
         [1, 0, 1, 0]),
        ([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}], [0, 0, 1, 1]),
        (by_score("Gt", "800"), [0, 1, 0, 0, 0]),  # Gt and Lt compare the number of the taint
        (by_score("Lt", "800"), [1, 0, 1, 0, 0]),
        (by_score("Lt", "500"), [0, 0, 1, 0, 0]),
        (by_score("Gt", "-4"), [1, 1, 1, 0, 0]),
        (by_score("Gt", "x"), [0, 0, 0, 0, 0]),
    ],
)  # fmt: skip
def test_taints(tmp_path: Path, tolerations: list[Any], allowed: list[int]) -> None:
    nodes = SCORED if len(allowed) == len(SCORED) else TAINTED
    found = allowed_of(tmp_path, nodes, tolerations=tolerations)
    assert found == [bool(a) for a in allowed]


KEYS, VALUES = ("x", "y"), ("1", "2", "z")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
CONDITION = st.tuples(
    st.sampled_from(KEYS), st.sampled_from(OPERATORS), st.sampled_from(("1", "2"))
)


def holds(labels: dict[str, str], key: str, operator: str, value: str) -> bool:
    """Whether a condition holds of a node, by its definition."""
    if operator in ("Gt", "Lt"):
        there = labels.get(key, "z")
        return there != "z" and (there > value if operator == "Gt" else there < value)
    return {
        "In": labels.get(key) == value,
        "NotIn": labels.get(key) != value,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }[operator]


@given(
    nodes=st.lists(LABELS, min_size=1, max_size=5),
    terms=st.lists(st.lists(CONDITION, max_size=2), max_size=3),
    selector=LABELS,
)
def test_placement_is_that_of_the_definition(
    tmp_path_factory: pytest.TempPathFactory,
    nodes: list[dict[str, str]],
    terms: list[list[tuple[str, str, str]]],
    selector: dict[str, str],
) -> None:
    listed = [
        {"matchExpressions": [expression(k, o, *([v] if "xist" not in o else [])) for k, o, v in t]}
        for t in terms
    ]
    found = allowed_of(
        tmp_path_factory.mktemp("placed"),
        [node(f"n{k}", labels=labels) for k, labels in enumerate(nodes)],
        affinity=affinity(*listed),
        nodeSelector=selector,
    )
    assert found == [
        any(term and all(holds(labels, *condition) for condition in term) for term in terms)
        and all(labels.get(key) == value for key, value in selector.items())
        for labels in nodes
    ]


# --- all of it, on random clusters ---------------------------------------------------------------

SHAPES = ({"cpu": "250m", "memory": "1Gi"}, {"cpu": "1"}, {"memory": "300Mi"}, {})


@given(
    pods=st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["n0", "n1", ""]),
            st.sampled_from(SHAPES),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_nothing_is_lost_or_invented(
    tmp_path_factory: pytest.TempPathFactory, pods: list[tuple[str, str, dict[str, str]]]
) -> None:
    listed = [pod(f"p{k}", r, on=on, namespace=ns) for k, (ns, on, r) in enumerate(pods)]
    held = read(tmp_path_factory.mktemp("random"), *NODES, *listed)
    cluster = held.problem.cluster
    cores = {"250m": 0.25, "1": 1.0}
    gib = {"1Gi": 1.0, "300Mi": 300 / 1024}

    def amount(request: dict[str, str], resource: str) -> float:
        table = {"cpu": cores, "memory": gib}.get(resource)
        return 1.0 if table is None else table.get(request.get(resource, ""), 0.0)

    for n, name in enumerate(held.problem.users.names):
        own = [(on, request) for namespace, on, request in pods if namespace == name]
        assert held.problem.task_limit[n] == pytest.approx(len(own))
        assert held.user_tasks[n] <= held.problem.task_limit[n]
        for r, resource in enumerate(cluster.resources):
            total = sum(amount(request, resource) for _, request in own)
            assert held.problem.demand[n, r] == pytest.approx(total / len(own))
            for g, there in enumerate(cluster.groups):
                on_it = sum(amount(request, resource) for on, request in own if on == there)
                assert held.held[n, g, r] == pytest.approx(on_it)
        share = held.problem.demand[n] / held.problem.total_capacity
        r = int(share.argmax())
        np.testing.assert_allclose(held.tasks[n] * held.problem.demand[n, r], held.held[n, :, r])
    assert len(held.waiting) == sum(on == "" for _, on, _ in pods)
    one_shape = all(
        len({json.dumps(request) for namespace, _, request in pods if namespace == name}) == 1
        for name in held.problem.users.names
    )
    assert held.of_one_shape == one_shape


# --- faults --------------------------------------------------------------------------------------

GOOD = (*NODES, pod("good", SMALL, on="n0"))


def fault_of(path: Path, **options: Any) -> str:
    """Read a dump, and return the message without the file's name."""
    return fault_within(path, read_kubernetes, path, **options)


def test_tables_too_large_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kubernetes_census, "MOST_CELLS", 5)
    assert fault_of(write(tmp_path, *GOOD)) == (
        "has too many users (1) and resources (3) for its 2 nodes and 1 pods"
    )


def without(item: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != key}


POD, NODE = pod("web-1", SMALL), node("n2")
TERM = "@.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
TERM += ".nodeSelectorTerms[0]"
REQUESTS = "@.spec.containers[0].resources.requests"


def insisting(*conditions: dict[str, Any], by: str = "matchExpressions") -> dict[str, Any]:
    return pod("web-1", SMALL, affinity=affinity({by: list(conditions)}))


ITEMS: list[tuple[Any, str]] = [
    (without(POD, "spec"), "@: the key 'spec' is missing"),
    (pod("web-1", {"cpu": "4 cores"}), f"{REQUESTS}.cpu: must be a number or a quantity such"),
    (pod("web-1", SMALL, on="n9"), "@.spec.nodeName: no node is named 'n9'"),
    (pod("good", SMALL), "items[3] (pod shop/good): repeats the name of an earlier pod"),
    (node("n1"), "items[3] (node n1): repeats the name of an earlier node"),
    (without(NODE, "status"), "items[3] (node n2).status: the key 'allocatable' is missing"),
    (insisting(expression("zone", "Near")), f"{TERM}.matchExpressions[0].operator: must be In,"),
    (insisting(expression("zone", "Gt", "x")), f"{TERM}.matchExpressions[0].values: must hold"),
    (
        insisting(expression("metadata.uid", "In", "x"), by="matchFields"),
        f"{TERM}.matchFields[0].key: must be metadata.name, not 'metadata.uid'",
    ),
    (
        insisting(expression("metadata.name", "Exists"), by="matchFields"),
        f"{TERM}.matchFields[0].operator: must be In or NotIn, not 'Exists'",
    ),
    (
        pod("web-1", SMALL, tolerations=[{"operator": "Exists"}, {"operator": "Ge"}]),
        "@.spec.tolerations[1].operator: must be Equal, Exists, Gt or Lt, not 'Ge'",
    ),
]


@pytest.mark.parametrize(("item", "fault"), ITEMS)
def test_an_item_at_fault(tmp_path: Path, item: Any, fault: str) -> None:
    """A lenient reader skips it, and reads the rest as if it were not there."""
    path = write(tmp_path, *GOOD, item)
    fault = fault.replace("@", "items[3] (pod shop/web-1)")
    assert fault_of(path).startswith(fault)
    held = read_kubernetes(path, lenient=True)
    assert held.skipped == (fault_of(path),)
    assert held.problem.users.names == ("shop",)
    assert held.problem.cluster.groups == ("n0", "n1")
    assert held.problem.cluster.resources == ("cpu", "memory", "pods")
    assert held.tasks.tolist() == [[1, 0]]
    assert held.waiting == ()


def test_pods_and_nodes_of_faulty_ones(tmp_path: Path) -> None:
    """A running pod holds its amounts despite faulty constraints; a faulty node has no pods."""
    runs = pod("x", SMALL, on="n1", tolerations=[{"operator": "Ge"}])
    lost = [node("n2", {"cpu": "?"}), pod("y", SMALL, on="n2")]
    held = read(tmp_path, *GOOD, runs, *lost, lenient=True)
    for fault, place in zip(held.skipped, [
        "items[4] (node n2).status.allocatable.cpu: ",
        "items[5] (pod shop/y).spec.nodeName: no node is named 'n2'",
        "items[3] (pod shop/x).spec.tolerations[0].operator: ",
    ], strict=True):  # fmt: skip
        assert fault.startswith(place)
    assert held.tasks.tolist() == [[1, 1]]


def test_nothing_usable(tmp_path: Path) -> None:
    assert fault_of(write(tmp_path, *NODES)).startswith("holds no pods; make it with kubectl get")
    over = write(tmp_path, *NODES, pod("a", phase="Succeeded"))
    assert fault_of(over).startswith("holds no running or waiting pod; ")
    faulty = fault_of(
        write(tmp_path, node("n0", {"cpu": "?"}), node("n1", {"cpu": "?"})), lenient=True
    )
    assert faulty.startswith("nothing in it can be used: items[0] (node n0).status.allocatable.cpu")
    assert faulty.endswith("(and 1 more)")
    assert fault_of(write(tmp_path, *NODES, pod("a", {"cpu": 64}))).startswith(
        "items[2] (pod shop/a): no pod runs, and no waiting pod fits any node: one task needs 64"
    )
    # No node lists places for pods, and no pod requests anything else.
    idle = write(tmp_path, node("n0", {"cpu": 4}), pod("a"), pod("b", {"cpu": 0}, on="n0"))
    assert fault_of(idle) == "no pod requests a resource that counts"
