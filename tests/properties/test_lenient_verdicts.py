"""Verdicts on dumps in which nodes or pods were skipped: those of the whole dump, or none."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest

from effort import cases
from fairlead.errors import InputError
from fairlead.formats.kubernetes import read_kubernetes
from fairlead.properties.audit import Audit, audit
from kubernetes_dumps import node, pod, write

WASTE, SLICES = "non-wastefulness", "sharing-incentive"
FEASIBLE, ENVY, PARETO = "feasibility", "envy-freeness", "pareto-optimality"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NO_CORES = {"cpu": "abc"}


def look(path: Path, *items: Any, **options: Any) -> Audit:
    held = read_kubernetes(write(path, *items), **options)
    return audit(held.problem, held, lies=0)


def lenient(path: Path, *items: Any, **options: Any) -> dict[str, str]:
    return {row.name: row.verdict for row in look(path, *items, lenient=True, **options)}


def of(user: str, name: str, cores: Any = 1, **options: Any) -> dict[str, Any]:
    return pod(f"{user}{name}", {"cpu": cores}, namespace=user, **options)


# --- every property, by spoiling one object ------------------------------------------------------


def random_items(draw: random.Random) -> list[dict[str, Any]]:
    """Return a small cluster with labels, taints, waiting pods and required anti-affinity."""
    nodes = [
        node(
            f"n{k}",
            {"cpu": draw.choice([1, 2, 4, 8]), "memory": f"{draw.choice([2, 4])}Gi", "pods": 9},
            taints=draw.choice([(), (), (), ("old:NoSchedule",)]),
        )
        for k in range(draw.randint(1, 3))
    ]
    pods = []
    for k in range(draw.randint(2, 7)):
        request: dict[str, Any] = {"cpu": draw.choice([1, 1, 2, 3])}
        if draw.random() < 0.3:
            request["memory"] = "1Gi"
        on = draw.choice(nodes)["metadata"]["name"] if draw.random() < 0.6 else ""
        item = pod(f"p{k}", request, on=on, namespace=draw.choice(["a", "b", "c"]))
        item["metadata"]["labels"] = draw.choice([{}, {"team": "x"}, {"team": "y"}])
        if draw.random() < 0.1:
            term = {"labelSelector": {"matchLabels": {"team": "x"}}, "topologyKey": "zone"}
            item["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
        pods.append(item)
    items = [*nodes, *pods]
    draw.shuffle(items)
    return items


def spoil(draw: random.Random, item: dict[str, Any]) -> None:
    """Make an object unreadable in one place."""
    places: list[tuple[str, str, Any]] = [("metadata", "name", None), ("", "kind", 5)]
    if item["kind"] == "Node":
        places += [("spec", "taints", [{"key": 5}]), ("status", "allocatable", {"cpu": "x"})]
    else:
        places += [
            ("", "spec", None),
            ("", "metadata", []),
            ("metadata", "namespace", 5),
            ("metadata", "labels", 5),
            ("spec", "containers", [{"resources": {"requests": NO_CORES}}]),
            ("spec", "nodeName", draw.choice(["nowhere", 5]) if "nodeName" in item["spec"] else 5),
            ("spec", "tolerations", [{"operator": "Near"}]),
            ("status", "phase", 5),
        ]
    inside, key, value = draw.choice(places)
    (item[inside] if inside else item)[key] = value


@pytest.mark.parametrize("seed", range(cases(2)))
def test_a_definite_verdict_is_that_of_the_whole_dump(tmp_path: Path, seed: int) -> None:
    draw, definite = random.Random(seed), 0
    for _ in range(40):
        items = random_items(draw)
        options: dict[str, Any] = {"user_from": draw.choice(["namespace", "label:team"])}
        options["ignore"] = draw.choice([(), ("pods",)])
        spoilt = copy.deepcopy(items)
        spoil(draw, draw.choice(spoilt))
        try:
            whole = look(tmp_path, *items, **options)
            found = look(tmp_path, *spoilt, lenient=True, **options)
        except InputError:
            continue
        for row in found:
            if row.verdict != "unknown":
                assert row.verdict == whole[row.name].verdict, (row.name, items, spoilt)
                definite += row.name != "single-server-drf"
    assert definite


# --- earlier findings, one by one ----------------------------------------------------------------

CORES = {"cpu": 4}


@pytest.mark.parametrize("user", ["b", 5, ""])
def test_a_lost_waiting_pod_of_another_user_ends_ticks(tmp_path: Path, user: Any) -> None:
    lost = of("b", "1", "abc") | {"metadata": {"name": "b1", "namespace": user}}
    found = lenient(tmp_path, node("n1", CORES), of("a", "1", on="n1"), lost)
    assert [found[name] for name in (WASTE, SLICES, ENVY, PARETO)] == ["unknown"] * 4


def test_pods_of_a_lost_node_end_the_tick_of_feasibility(tmp_path: Path) -> None:
    broken = node("n2", {"cpu": 4, "memory": "-1"})
    items = [node("n1", CORES), broken, of("a", "1", on="n1")]
    assert lenient(tmp_path, *items)[FEASIBLE] == "holds"
    overused = [of("a", "2", 3, on="n2"), of("a", "3", 3, on="n2")]
    assert lenient(tmp_path, *items, *overused)[FEASIBLE] == "unknown"


def test_an_unrunnable_pod_may_run_on_a_lost_node(tmp_path: Path) -> None:
    broken = node("n2", {"cpu": 16, "memory": "-1"})
    found = look(
        tmp_path, node("n1", CORES), broken, of("a", "1", on="n1"), of("b", "1", 8), lenient=True
    )
    assert [found[name].verdict for name in (WASTE, SLICES, ENVY)] == ["unknown"] * 3
    assert "nodes were skipped" in found.to_dict()["unrunnable"][0]["why"]


def test_a_lost_pod_of_a_user_ends_its_failures(tmp_path: Path) -> None:
    items = [node("n1", CORES), of("b", "1", 4, on="n1"), of("a", "1", 2)]
    assert lenient(tmp_path, *items)[SLICES] == "fails"
    assert lenient(tmp_path, *items, of("a", "2", "4x"))[SLICES] == "unknown"
    assert lenient(tmp_path, *items, node("n2", {"cpu": "?"}))[SLICES] == "unknown"


def test_lost_anti_affinity_ends_the_failure_of_waste(tmp_path: Path) -> None:
    items = [node("n1", CORES), node("n2", CORES), of("a", "1", on="n1"), of("a", "2")]
    lost = of("b", "1", "abc", on="n1")
    assert lenient(tmp_path, *items, lost)[WASTE] == "fails"
    lost["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}
    assert lenient(tmp_path, *items, lost)[WASTE] == "unknown"


@pytest.mark.parametrize("left", [{"continue": "abc"}, {"remainingItemCount": 1200}])
def test_a_part_of_a_list_is_refused(tmp_path: Path, left: dict[str, Any]) -> None:
    page = {"kind": "PodList", "metadata": left, "items": [of("a", "1", on="n1")]}
    with pytest.raises(InputError, match="only a part of the list"):
        look(tmp_path, node("n1", CORES), page)
    found = lenient(tmp_path, node("n1", CORES), page)
    assert "holds" not in {found[name] for name in (FEASIBLE, WASTE, SLICES, ENVY, PARETO)}
