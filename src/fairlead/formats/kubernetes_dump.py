"""The nodes and pods of a Kubernetes cluster, as ``kubectl get -o json`` writes them."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.errors import InputError
from fairlead.formats.garbage import garbage_collection_paused
from fairlead.formats.kubernetes_placement import TaintKey, forbidding_taints
from fairlead.formats.kubernetes_requests import Amounts, allocatable, effective_request
from fairlead.formats.kubernetes_shapes import NODE, POD, Metadata, PodSpec, check_object
from fairlead.formats.row_faults import RowFaults
from fairlead.formats.schema import text_of
from fairlead.formats.text import STANDARD_INPUT
from fairlead.model.quantity import show

MADE_BY = "make it with kubectl get nodes,pods -A -o json"

# A pod takes some 10 kB with its managed fields: the largest clusters that Kubernetes supports, of
# 150,000 pods, write more than this; they can drop those fields first.
LARGEST_DUMP = 2**30

_TERMINATED = ("Succeeded", "Failed")


@dataclass(frozen=True, eq=False)
class Node:
    """A node, with the taints that keep pods away, and what it has for pods, in whole units."""

    name: str
    labels: Mapping[str, str]
    taints: frozenset[TaintKey]
    allocatable: Amounts


@dataclass(frozen=True, eq=False)
class Pod:
    """A pod that holds its node, or waits for one."""

    place: str  # where it stands in the dump
    namespace: str
    name: str
    node: str  # name of the node that it holds; empty when it waits
    request: Amounts  # what it takes, in whole units
    spec: PodSpec  # where it may run


@dataclass(frozen=True, eq=False)
class Dump:
    """What a dump says of a cluster."""

    nodes: dict[str, Node]  # by name, in the dump's order
    pods: list[Pod]  # those that hold a node or wait for one, in the dump's order
    namespaces: dict[str, None]  # every namespace that a pod is of, whatever the pod does, to None


def read_dump(path: str | Path, faults: RowFaults) -> Dump:
    """Read the nodes and pods of a dump.

    Parameters
    ----------
    path : str or Path
        A JSON file of at most `LARGEST_DUMP` bytes, or ``-`` for standard input.
    faults : RowFaults
        What becomes of a node or pod at fault.

    Returns
    -------
    Dump
        Without pods that have terminated, and those that are gated (``schedulingGates``) and so do
        not want to run yet. A pod of a terminated phase holds nothing, one of any other phase that
        has a node holds it.

    Raises
    ------
    InputError
        For a file that cannot be read, is not JSON, is not a list of nodes and pods, or lacks
        either; for a node or pod without a name, of the wrong shape, with an amount that is none,
        or of a name that another has; for a pod on a node that is not there.

    Notes
    -----
    Cost O(file): for 10,000 pods on 500 nodes half a second for each 100 MB of JSON and half a
    second for the rest, and memory of some four times the file. Of a key that appears twice the
    last counts.
    """
    with garbage_collection_paused():  # it would take most of the time
        return _nodes_and_pods(_by_kind(_items(_load(path)), faults), faults)


def _nodes_and_pods(items: Mapping[str, list[tuple[str, Any]]], faults: RowFaults) -> Dump:
    nodes: dict[str, Node] = {}
    for place, item in items["Node"]:
        with faults.passed_over():
            node = _node(item, place)
            if node.name in nodes:
                raise InputError("a node of that name came before", place)
            nodes[node.name] = node
    faults.check_left(len(nodes))
    if not nodes:
        raise InputError(f"holds no nodes; {MADE_BY}")
    pods: list[Pod] = []
    seen: set[tuple[str, str]] = set()
    namespaces: dict[str, None] = {}
    for place, item in items["Pod"]:
        with faults.passed_over():
            pod = _pod(item, place, nodes, seen, namespaces)
            if pod is not None:
                pods.append(pod)
    faults.check_left(len(pods))
    if not pods:
        fate = "holds no pod that runs or wants to" if seen else "holds no pods"
        raise InputError(f"{fate}; {MADE_BY}")
    return Dump(nodes, pods, namespaces)


def _load(path: str | Path) -> Any:
    content = _read_bytes(path)
    if not content.strip():
        raise InputError(f"is empty; {MADE_BY}")
    try:
        return json.loads(content)  # in UTF-8 or, from some shells, UTF-16
    except UnicodeDecodeError as error:
        raise InputError("is not a text file", f"byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        fault = error.msg[:1].lower() + error.msg[1:]
        raise InputError(
            f"is not JSON: {fault}; {MADE_BY}", f"line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise InputError("is nested too deeply") from None
    except ValueError:
        raise InputError("holds a whole number of thousands of digits") from None


def _read_bytes(path: str | Path) -> bytes:
    try:
        if str(path) == STANDARD_INPUT:
            content = sys.stdin.buffer.read(LARGEST_DUMP + 1)
        else:
            if stat.S_ISDIR(os.stat(path).st_mode):
                raise InputError("is a directory, not a file")
            with open(path, "rb") as file:
                content = file.read(LARGEST_DUMP + 1)
    except FileNotFoundError:
        raise InputError("no such file") from None
    except OSError as error:
        raise InputError(f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    except ValueError:  # a null character in the path
        raise InputError("is not the name of a file") from None
    if len(content) > LARGEST_DUMP:
        raise InputError(
            f"is larger than {LARGEST_DUMP // 2**30} GiB; drop the managed fields, as in "
            "jq 'del(.items[].metadata.managedFields)'"
        )
    return content


def _items(document: object) -> list[Any]:
    if not isinstance(document, dict):
        raise InputError(f"must be one List of nodes and pods, not {show(document)}; {MADE_BY}")
    if document.get("kind") != "List":
        raise InputError(f"must be List, not {show(document.get('kind'))}; {MADE_BY}", "kind")
    items = document.get("items")
    if not isinstance(items, list):
        raise InputError(f"must be a list, not {show(items)}", "items")
    return items


def _by_kind(items: list[Any], faults: RowFaults) -> dict[str, list[tuple[str, Any]]]:
    """Return the nodes and the pods among the items, each with its place."""
    found: dict[str, list[tuple[str, Any]]] = {"Node": [], "Pod": []}
    for k, item in enumerate(items):
        with faults.passed_over():
            if not isinstance(item, dict):
                raise InputError(f"must be a mapping, not {show(item)}", f"items[{k}]")
            if not isinstance(item.get("kind"), str):
                raise InputError(f"must be text, not {show(item.get('kind'))}", f"items[{k}].kind")
            if item["kind"] in found:
                found[item["kind"]].append((_place(k, item), item))
    return found


def _place(k: int, item: Mapping[str, Any]) -> str:
    """Return where an item stands, with its name if it has one."""
    metadata = item.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    wanted = ("namespace", "name") if item["kind"] == "Pod" else ("name",)
    parts = [names.get(key) for key in wanted if names.get(key) is not None]
    named = [part for part in parts if isinstance(part, str) and part.isprintable()]
    if not named or len(named) < len(parts) or "name" not in names:
        return f"items[{k}]"
    who = "/".join(named)
    return f"items[{k}] ({item['kind'].lower()} {who if len(who) <= 120 else who[:117] + '...'})"


def _node(item: Mapping[str, Any], place: str) -> Node:
    found = check_object(NODE, item, place)
    metadata, status = found["metadata"], found.get("status") or {}
    key, amounts = "allocatable", status.get("allocatable")
    if amounts is None:
        key, amounts = "capacity", status.get("capacity")
    if amounts is None:
        raise InputError("the key 'allocatable' is missing", f"{place}.status")
    labels = metadata.get("labels") or {}
    for label, value in labels.items():
        text_of(label, f"{place}.metadata.labels")
        if value:
            text_of(value, f"{place}.metadata.labels.{label}")
    return Node(
        name=text_of(metadata["name"], f"{place}.metadata.name"),
        labels=labels,
        taints=forbidding_taints(found.get("spec") or {}),
        allocatable=allocatable(amounts, f"{place}.status.{key}"),
    )


def _pod(
    item: Mapping[str, Any],
    place: str,
    nodes: Mapping[str, Node],
    seen: set[tuple[str, str]],
    namespaces: dict[str, None],
) -> Pod | None:
    """Read a pod; None when it neither holds a node nor wants one."""
    found = check_object(POD, item, place)
    namespace, name = _names(found["metadata"], place)
    if (namespace, name) in seen:
        raise InputError("a pod of that name came before", place)
    seen.add((namespace, name))
    namespaces[namespace] = None
    spec = found["spec"]
    node = spec.get("nodeName") or ""
    if (found.get("status") or {}).get("phase") in _TERMINATED:
        return None
    if not node and spec.get("schedulingGates"):
        return None
    if node and node not in nodes:
        raise InputError(f"no node is named {show(node)}", f"{place}.spec.nodeName")
    return Pod(place, namespace, name, node, effective_request(spec, place), spec)


def _names(metadata: Metadata, place: str) -> tuple[str, str]:
    namespace = metadata.get("namespace")
    return (
        # As everywhere in Kubernetes where none is named.
        "default" if namespace is None else text_of(namespace, f"{place}.metadata.namespace"),
        text_of(metadata["name"], f"{place}.metadata.name"),
    )
