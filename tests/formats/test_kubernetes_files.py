"""Forms of kubectl's files: lists, streams, YAML, gzip, several files."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.errors import InputError
from fairlead.formats import _kubernetes_objects
from fairlead.formats.kubernetes import read_kubernetes
from fairlead.model.holdings import Holdings
from kubernetes_dumps import dump, node, pod

SMALL = {"cpu": "500m", "memory": "1Gi"}
NODES = [node("n0"), node("n1")]
PODS = [pod("a", SMALL, on="n0"), pod("b", SMALL), pod("c", {"cpu": 1}, on="n1", namespace="ml")]


def bare(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object without its kind, as the API lists it."""
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


def typed(kind: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": "v1", "items": [bare(item) for item in items]}


def lines(*documents: Any) -> bytes:
    return "\n".join(json.dumps(document) for document in documents).encode()


def save(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def is_all(held: Holdings) -> bool:
    """Return whether it is what the nodes and pods above say."""
    assert held.problem.cluster.groups == ("n0", "n1")
    assert held.problem.users.names == ("shop", "ml")
    assert held.tasks.tolist() == [[1, 0], [0, 1]]
    assert [task.name for task in held.waiting] == ["shop/b"]
    assert (held.skipped, held.incomplete) == ((), "")
    return True


FORMS: dict[str, Callable[[], bytes]] = {
    "one list": lambda: lines(dump(*NODES, *PODS)),
    "typed lists, one after the other": lambda: (
        lines(typed("NodeList", NODES)) + lines(typed("PodList", PODS))
    ),
    "indented and concatenated": lambda: b"".join(
        json.dumps(typed(kind, items), indent=4).encode() + b"\n"
        for kind, items in (("NodeList", NODES), ("PodList", PODS))
    ),
    "an object a line": lambda: lines(*NODES, *PODS),
    "an object a line without kinds": lambda: lines(*map(bare, [*NODES, *PODS])),
    "a list of lists": lambda: lines(dump(typed("NodeList", NODES), dump(*PODS))),
    "among other kinds": lambda: lines(
        dump(*NODES, {"kind": "Service"}, *PODS), {"kind": "ServiceList", "items": [{}]}
    ),
    "yaml": lambda: yaml.safe_dump(dump(*NODES, *PODS)).encode(),
    "yaml documents": lambda: yaml.safe_dump_all([*NODES, *PODS, None]).encode(),
    "utf-16": lambda: json.dumps(dump(*NODES, *PODS)).encode("utf-16"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_content(form: str, tmp_path: Path) -> None:
    content = FORMS[form]()
    for stored in (content, gzip.compress(content, mtime=0)):
        assert is_all(read_kubernetes(save(tmp_path / "any", stored)))


def test_nodes_and_pods_may_be_in_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = save(tmp_path / "nodes.json", lines(typed("NodeList", NODES)))
    pods = save(tmp_path / "pods.yaml", yaml.safe_dump(typed("PodList", PODS)).encode())
    assert is_all(read_kubernetes([nodes, pods]))
    assert is_all(read_kubernetes([pods, nodes]))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pods.read_bytes())))
    assert is_all(read_kubernetes([str(nodes), "-"]))


def fault_of(*paths: str | Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_kubernetes(paths, **options)
    message = str(caught.value)
    assert message.isprintable()
    return message


def test_a_fault_names_the_file_of_several(tmp_path: Path) -> None:
    nodes = save(tmp_path / "nodes.json", lines(dump(*NODES)))
    pods = save(tmp_path / "pods.json", lines(dump(*PODS), pod("d", {"cpu": "x"})))
    assert fault_of(nodes, pods).startswith(
        f"{pods}: documents[1] (pod shop/d).spec.containers[0].resources.requests.cpu: must be"
    )
    held = read_kubernetes([nodes, pods], lenient=True)
    assert held.skipped[0].startswith(f"{pods}: documents[1] (pod shop/d).spec")
    other = save(tmp_path / "other.json", lines(dump(node("n1"))))
    assert fault_of(nodes, other, pods) == (
        f"{other}: items[0] (node n1): repeats the name of an earlier node"
    )
    giant = save(tmp_path / "giant.json", lines(dump(pod("d", {"cpu": 64}))))
    assert fault_of(nodes, giant).startswith(f"{giant}: items[0] (pod shop/d): no pod runs")
    assert fault_of(pods).startswith(f"{pods}: holds no nodes; make it with kubectl get")
    assert fault_of(pods, pods).startswith(f"{pods}, {pods}: holds no nodes")
    broken = save(tmp_path / "broken.json", b'{"kind": ')
    assert fault_of(nodes, broken).startswith(f"{broken}: line 1, column 10: is not JSON")
    assert fault_of(nodes, tmp_path / "none").startswith(f"{tmp_path / 'none'}: no such file")
    assert fault_of("-", "-") == "standard input: can be read only once"
    assert fault_of().startswith("kubernetes: name at least one file")


ZIPPED = gzip.compress(lines(dump(*NODES, *PODS)), mtime=0)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (ZIPPED[:-20], "the gzip file ends before its data does (truncated?)"),
        (ZIPPED[:30] + b"\xff" * 20 + ZIPPED[50:], "the gzip file is damaged"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b'{"kind": "List", "items": ["\xff"]}', "byte 29: is not a text file"),
        (b'{"a": ' + b"[" * 100_000, "is nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "has a whole number with thousands of digits"),
        (b"kind: List\nitems:\n\t- kind: Pod\n", "line 3, column 2: is not YAML: tabs"),
        (b"kind: List\nitems: &a [*a]\n", "items[0]: must be a mapping, not empty"),
        (b"Error from server (Forbidden): nodes is forbidden\n", "documents[0]: must be a node or"),
        (b'{"kind": "List", "items": []} 3\n', "documents[1]: must be a List of nodes"),
        (b'{"kind": "List", "items": [{"metadata": {}}]}', "items[0]: must be a node or a"),
        (b"[" * 20 + b"]" * 20, "[0][0][0][0][0][0][0][0][0][0][0]: is nested too deeply"),
    ],
)
def test_a_file_that_holds_no_cluster(tmp_path: Path, content: bytes, fault: str) -> None:
    path = save(tmp_path / "any", content)
    assert fault_of(path).startswith(f"{path}: {fault}")
    assert fault in fault_of(path, lenient=True)


def test_the_limit_is_of_the_unpacked_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "any.gz", gzip.compress(b" " * 5000 + lines(dump(*NODES, *PODS))))
    monkeypatch.setattr(_kubernetes_objects, "LARGEST_DUMP", 5000)
    assert path.stat().st_size < 5000
    assert fault_of(path).startswith(f"{path}: is larger than 0 GiB")
