"""Read the nodes and pods in files of kubectl, check them, and convert amounts to whole units.

Files are JSON or YAML, one or many documents, gzipped or plain.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.errors import InputError
from fairlead.formats._kubernetes_placement import Node, forbidding_taints
from fairlead.formats._kubernetes_specs import (
    HOLDER_NAMESPACES,
    NODE,
    POD,
    Amounts,
    PodSpec,
    allocatable,
    claimed_resources,
    effective_request,
    part_of_one_gpu,
    unit_of,
)
from fairlead.formats.documents import (
    STANDARD_INPUT,
    json_fault,
    parse_yaml_documents,
    read_bytes,
    source_name,
)
from fairlead.formats.file_faults import RowFaults, check_object, short
from fairlead.garbage_collection import garbage_collection_paused
from fairlead.model.arguments import name_text
from fairlead.model.cluster import Cluster, FloatArray
from fairlead.model.quantity import show

MADE_BY = "make it with kubectl get nodes,pods -A -o json"

# A pod takes some 10 kB with its managed fields. Dumps of the largest clusters that Kubernetes
# supports, with 150,000 pods, exceed this limit; managed fields must be dropped from them first.
LARGEST_DUMP = 2**30

NODE_KIND, POD_KIND = "Node", "Pod"
_LISTS = ("List", "NodeList", "PodList")

_GZIP_MAGIC = b"\x1f\x8b"
_BLANK = re.compile(r"[ \t\r\n]*")
_DEEPEST_LIST = 10

BY_NAMESPACE = "namespace"
BY_LABEL = "label:"

_TERMINATED = ("Succeeded", "Failed")


def cluster_of(nodes: Mapping[str, Node], columns: Mapping[str, int]) -> Cluster:
    """Return the nodes as groups of one server each, with these resources in displayed units."""
    units, sizes = zip(*map(unit_of, columns), strict=True)
    return Cluster(
        groups=tuple(nodes),
        resources=tuple(columns),
        capacity=table_of([node.allocatable for node in nodes.values()], columns) / sizes,
        count=np.ones(len(nodes), dtype=np.int64),
        units=units,
        labels=tuple(node.labels for node in nodes.values()),
    )


def table_of(rows: Sequence[Mapping[str, float]], columns: Mapping[str, int]) -> FloatArray:
    """Return amounts as (rows, R), with 0 for absent ones; skip resources without a column."""
    table = np.zeros((len(rows), len(columns)))
    for row, amounts in enumerate(rows):
        for name, amount in amounts.items():
            column = columns.get(name)
            if column is not None:
                table[row, column] = amount
    return table


@dataclass(frozen=True, eq=False)
class Pod:
    """A bound or pending pod."""

    source: str  # the file if several were given, else empty
    place: str  # key path in the file
    namespace: str
    name: str
    user: str
    node: str  # name of its node; empty for a pending pod
    request: Amounts
    claimed: frozenset[str]  # extended resources that it holds by a resource claim
    spec: PodSpec
    labels: Mapping[str, str]
    annotations: Mapping[str, Any]
    gpu_part: float  # part of one GPU that an annotation requests; 0 if none does

    @property
    def full_name(self) -> str:
        """Namespace and name, such as ``shop/web-0``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, eq=False)
class Dump:
    """The checked nodes and pods of one or several files."""

    nodes: dict[str, Node]  # by name, in the files' order
    pods: list[Pod]  # bound and pending pods, in the files' order
    users: dict[str, None]  # users of all pods, terminated ones included; in order
    claimed: set[str]  # extended resources that any pod holds, or held, by a resource claim


@dataclass(frozen=True)
class UserRule:
    """The user of a pod: its namespace, or the value of a label."""

    label: str  # the label's key; empty if namespaces are the users

    @classmethod
    def parse(cls, text: object) -> UserRule:
        """Parse ``namespace`` or ``label:KEY``; raise InputError for any other value."""
        if text == BY_NAMESPACE:
            return cls("")
        key = text.removeprefix(BY_LABEL) if isinstance(text, str) else ""
        if not key.strip() or key == text:
            raise InputError(f"must be namespace or label:KEY, not {show(text)}", "user_from")
        return cls(key)

    def user(self, namespace: str, labels: Mapping[str, Any]) -> str:
        """Return the user of a pod; ``namespace:NAME`` if the pod lacks the label."""
        if not self.label:
            return namespace
        value = labels.get(self.label)
        return value if isinstance(value, str) and value else f"{BY_NAMESPACE}:{namespace}"


def read_dump(paths: Sequence[str | Path], rule: UserRule, faults: RowFaults) -> Dump:
    """Read the nodes and pods of one or several files.

    All pods with a node are bound to it, and pods without a node are pending. Left out are
    terminated pods, pods that hold a GPU for others to share, and pods without a node that are
    gated (``schedulingGates``) or being deleted. Errors of single objects go to `faults`; raises
    InputError for unusable files.

    Cost O(file). For 10,000 pods on 500 nodes: 0.5 s for each 100 MB of JSON (7 s for YAML), plus
    0.5 s; memory some four times the file.
    """
    with garbage_collection_paused():  # collections would take most of the time
        items = read_items(paths, faults)
        dump = Dump(read_nodes(items, faults), [], {}, set())
        names = set[tuple[str, str]]()  # namespace and name of each pod
        for item in items:
            if item.kind == POD_KIND:
                with faults.collected(item.source):
                    _add_pod(item, dump, rule, names)
                dump.claimed.update(claimed_resources(item.content))
        faults.refuse_if_none_left(len(dump.pods))
        if not dump.pods:
            fate = "holds no running or waiting pod" if names else "holds no pods"
            raise InputError(f"{fate}; {MADE_BY}")
        return dump


def read_nodes(items: Sequence[ListedObject], faults: RowFaults) -> dict[str, Node]:
    """Return the nodes of files by name; raise InputError if there are none."""
    nodes: dict[str, Node] = {}
    for item in items:
        if item.kind == NODE_KIND:
            with faults.collected(item.source):
                node = _read_node(item.content, item.place)
                if node.name in nodes:
                    raise InputError("repeats the name of an earlier node", item.place)
                nodes[node.name] = node
    faults.refuse_if_none_left(len(nodes))
    if not nodes:
        raise InputError(f"holds no nodes; {MADE_BY}")
    return nodes


def _add_pod(item: ListedObject, dump: Dump, rule: UserRule, names: set[tuple[str, str]]) -> None:
    """Add the user of a pod, and the pod if it is bound or pending; skip pods that hold a GPU."""
    place = item.place
    found = check_object(POD, item.content, place)
    metadata = found["metadata"]
    namespace = metadata.get("namespace")
    if namespace is None:
        namespace = "default"  # as in the API server
    namespace = name_text(namespace, f"{place}.metadata.namespace")
    name = name_text(metadata["name"], f"{place}.metadata.name")
    if (namespace, name) in names:
        raise InputError("repeats the name of an earlier pod", place)
    names.add((namespace, name))
    if namespace in HOLDER_NAMESPACES:
        return  # the pods that share the GPU are counted instead
    labels = metadata.get("labels") or {}
    user = rule.user(namespace, labels)
    if rule.label in labels:
        name_text(user, f"{place}.metadata.labels.{rule.label}")
    dump.users[user] = None
    spec = found["spec"]
    node = spec.get("nodeName") or ""
    if (found.get("status") or {}).get("phase") in _TERMINATED:
        return
    if not node and (spec.get("schedulingGates") or metadata.get("deletionTimestamp")):
        return
    if node and node not in dump.nodes:
        raise InputError(f"no node is named {show(node)}", f"{place}.spec.nodeName")
    annotations = metadata.get("annotations") or {}
    pod = Pod(
        source=item.source,
        place=place,
        namespace=namespace,
        name=name,
        user=user,
        node=node,
        request=effective_request(spec, place),
        claimed=claimed_resources(item.content),
        spec=spec,
        labels=labels,
        annotations=annotations,
        gpu_part=part_of_one_gpu(annotations, place),
    )
    dump.pods.append(pod)


def _read_node(item: Mapping[str, Any], place: str) -> Node:
    """Check a node; ``capacity`` counts if ``allocatable`` is absent. Raises InputError."""
    found = check_object(NODE, item, place)
    metadata, status = found["metadata"], found.get("status") or {}
    key, amounts = "allocatable", status.get("allocatable")
    if amounts is None:
        key, amounts = "capacity", status.get("capacity")
    if amounts is None:
        raise InputError("the key 'allocatable' is missing", f"{place}.status")
    labels = metadata.get("labels") or {}
    for label, value in labels.items():
        name_text(label, f"{place}.metadata.labels")
        if value:
            name_text(value, f"{place}.metadata.labels.{label}")
    return Node(
        name=name_text(metadata["name"], f"{place}.metadata.name"),
        labels=labels,
        taints=forbidding_taints(found.get("spec") or {}),
        allocatable=allocatable(amounts, f"{place}.status.{key}"),
    )


@dataclass(frozen=True, slots=True)
class ListedObject:
    """A node or a pod of a file, not yet checked."""

    source: str  # the file if several were given, else empty
    place: str  # key path in the file, with the object's name if it has one
    kind: str  # ``Node`` or ``Pod``
    content: Mapping[str, Any]


def read_items(paths: Sequence[str | Path], faults: RowFaults) -> list[ListedObject]:
    """Read the nodes and pods of one or several files, in the files' order, without checks.

    A file has JSON (one value, or several one after the other) or YAML (one or several documents),
    and may be gzipped; ``-`` is standard input. A value is an object or a list of objects; objects
    of other kinds are left out. The kind of an object that does not state it is that of its typed
    list (``PodList``), or is guessed from its keys. A repeated JSON key has its last value.
    """
    if not paths:
        raise InputError(f"name at least one file; {MADE_BY}", "kubernetes")
    if sum(str(path) == STANDARD_INPUT for path in paths) > 1:
        raise InputError("can be read only once", source=source_name(STANDARD_INPUT))
    items: list[ListedObject] = []
    for path in paths:
        source = source_name(path) if len(paths) > 1 else ""
        try:
            documents = _load(path)
            single = len(documents) == 1
            for k, document in enumerate(documents):
                if not isinstance(document, dict | list):
                    place = "" if single else f"documents[{k}]"
                    fault = f"must be a List of nodes and pods, not {show(document)}; {MADE_BY}"
                    raise InputError(fault, place)
                is_list = isinstance(document, list) or _is_list(document)
                place = "" if single and is_list else f"documents[{k}]"
                items.extend(_flatten(document, place, source, faults))
        except InputError as error:
            raise (error.within(source) if source else error) from None
    return items


def _flatten(
    found: object, place: str, source: str, faults: RowFaults, kind: str = "", depth: int = 0
) -> Iterator[ListedObject]:
    """Yield the nodes and pods in an object, a list object or an array.

    `kind` is that of the typed list around `found`, if any.
    """
    if depth > _DEEPEST_LIST:
        raise InputError("is nested too deeply", place)
    if isinstance(found, list):
        for k, member in enumerate(found):
            yield from _flatten(member, f"{place}[{k}]", source, faults, kind, depth + 1)
        return
    if isinstance(found, dict) and _is_list(found):
        with faults.collected(source):
            _check_whole(found, place)
        items, here = found.get("items"), f"{place}.items".lstrip(".")
        if not isinstance(items, list):
            raise InputError(f"must be a list, not {show(items)}", here)
        of_list = str(found.get("kind") or "").removesuffix("List")
        yield from _flatten(items, here, source, faults, of_list, depth + 1)
        return
    item = None
    with faults.collected(source):
        item = _read_item(found, place, source, kind)
    if item is not None:
        yield item


def _read_item(found: object, place: str, source: str, kind: str) -> ListedObject | None:
    """Return an object if it is a node or a pod, else None; `kind` is used if it states none."""
    if not isinstance(found, dict):
        raise InputError(f"must be a mapping, not {show(found)}", place)
    stated = found.get("kind")
    if stated is None:
        stated = kind or _guess_kind(found)
    if not stated or not isinstance(stated, str):
        raise InputError(f"must be a node or a pod, or state its kind; {MADE_BY}", place)
    if stated not in (NODE_KIND, POD_KIND):
        return None
    return ListedObject(source, _with_name(place, stated, found), stated, found)


def _check_whole(found: Mapping[str, Any], place: str) -> None:
    """Raise InputError for one page of a longer list, which the API server returns with a limit."""
    kind, metadata = found.get("kind"), found.get("metadata")
    if not isinstance(metadata, dict) or (kind is not None and kind not in _LISTS):
        return
    for key in ("continue", "remainingItemCount"):
        if metadata.get(key):
            left = metadata.get("remainingItemCount")
            more = f"{left:,} more items follow" if isinstance(left, int) else "more items follow"
            here = f"{place}.metadata.{key}".lstrip(".")
            raise InputError(f"is only a part of the list: {more}; {MADE_BY}", here)


def _is_list(found: Mapping[str, Any]) -> bool:
    kind = found.get("kind")
    if kind in _LISTS:
        return True
    may_be_list = kind is None or (isinstance(kind, str) and kind.endswith("List"))
    return may_be_list and isinstance(found.get("items"), list)


def _guess_kind(found: Mapping[str, Any]) -> str:
    """Return the kind of an object by its keys; empty if it is neither a node nor a pod."""
    spec, status = found.get("spec"), found.get("status")
    if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
        return POD_KIND
    if isinstance(status, dict) and ("allocatable" in status or "nodeInfo" in status):
        return NODE_KIND
    return ""


def _with_name(place: str, kind: str, item: Mapping[str, Any]) -> str:
    """Add an object's namespace and name to its key path."""
    metadata = item.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    parts = [names[key] for key in ("namespace", "name") if isinstance(names.get(key), str)]
    return f"{place} ({kind.lower()} {short('/'.join(parts))})" if parts else place


def _load(path: str | Path) -> list[Any]:
    """Parse all documents of a file, except empty ones."""
    text = _decode(_read_content(path))
    start = _skip_blanks(text, 0)
    if start == len(text):
        raise InputError(f"is empty; {MADE_BY}")
    if text[start] in "{[":
        documents = _parse_json(text, start)
    else:
        documents = [found for found in parse_yaml_documents(text) if found is not None]
    if not documents:
        raise InputError(f"is empty; {MADE_BY}")
    return documents


def _parse_json(text: str, start: int) -> list[Any]:
    """Parse JSON values that follow each other, such as the output of several commands."""
    decoder, documents = json.JSONDecoder(), []
    try:
        while start < len(text):
            document, end = decoder.raw_decode(text, start)
            documents.append(document)
            start = _skip_blanks(text, end)
    except (ValueError, RecursionError) as error:
        raise json_fault(error, f"; {MADE_BY}") from None
    return documents


def _skip_blanks(text: str, start: int) -> int:
    blank = _BLANK.match(text, start)
    return blank.end() if blank else start


def _decode(content: bytes) -> str:
    """Decode UTF-8, or UTF-16 (written by some shells); drop a byte order mark."""
    try:
        return content.decode(json.detect_encoding(content)).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError("is not a text file", f"byte {error.start + 1}") from None


def _read_content(path: str | Path) -> bytes:
    content = read_bytes(path, LARGEST_DUMP)
    if content.startswith(_GZIP_MAGIC) and len(content) <= LARGEST_DUMP:
        content = _unpack(content)
    if len(content) > LARGEST_DUMP:
        raise InputError(
            f"is larger than {LARGEST_DUMP // 2**30} GiB; drop the managed fields, as in "
            "jq 'del(.items[].metadata.managedFields)'"
        )
    return content


def _unpack(content: bytes) -> bytes:
    try:
        with gzip.open(io.BytesIO(content)) as stream:
            return stream.read(LARGEST_DUMP + 1)
    except EOFError:
        raise InputError("the gzip file ends before its data does (truncated?)") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"the gzip file is damaged: {error}") from None
