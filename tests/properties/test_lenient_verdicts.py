"""Verdicts on dumps in which nodes or pods were skipped: unknown, except a certain overuse."""

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

FEASIBLE, ENVY = "feasibility", "envy-freeness"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NO_CORES = {"cpu": "abc"}


def look(path: Path, *items: Any, **options: Any) -> Audit:
    held = read_kubernetes(write(path, *items), **options)
    return audit(held.problem, held, lies=0)


def lenient(path: Path, *items: Any, **options: Any) -> dict[str, str]:
    return {row.name: row.verdict for row in look(path, *items, lenient=True, **options)}


def of(user: str, name: str, cores: Any = 1, **options: Any) -> dict[str, Any]:
    return pod(f"{user}{name}", {"cpu": cores}, namespace=user, **options)


# --- the rule ------------------------------------------------------------------------------------

CORES = {"cpu": 4}


@pytest.mark.parametrize(
    "broken",
    [
        node("n2", {"cpu": "?"}),
        of("b", "1", "abc"),
        of("b", "1", "abc", on="n1"),
        of("b", "1", tolerations=[{"operator": "Near"}]),
        {"metadata": {"name": "b"}, "kind": 5},
    ],
)
def test_skipped_objects_leave_all_verdicts_unknown(tmp_path: Path, broken: dict[str, Any]) -> None:
    found = look(tmp_path, node("n1", CORES), of("a", "1", on="n1"), broken, lenient=True)
    assert {row.verdict for row in found} == {"unknown"}
    assert "nodes or pods were skipped" in found[ENVY].sentence
    assert len(found.subject.holdings.skipped) == 1


def test_an_overused_node_fails_beside_skipped_pods(tmp_path: Path) -> None:
    overused = [of("a", name, 3, on="n1") for name in "12"]
    found = lenient(tmp_path, node("n1", CORES), *overused, of("b", "1", "abc"))
    assert found.pop(FEASIBLE) == "fails"
    assert set(found.values()) == {"unknown"}


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
                definite += 1
    assert definite


@pytest.mark.parametrize("left", [{"continue": "abc"}, {"remainingItemCount": 1200}])
def test_a_part_of_a_list_is_refused(tmp_path: Path, left: dict[str, Any]) -> None:
    page = {"kind": "PodList", "metadata": left, "items": [of("a", "1", on="n1")]}
    with pytest.raises(InputError, match="only a part of the list"):
        look(tmp_path, node("n1", CORES), page)
    found = lenient(tmp_path, node("n1", CORES), page)
    assert set(found.values()) == {"unknown"}
