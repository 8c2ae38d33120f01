"""The objects in files of kubectl: JSON or YAML, one or many documents, gzipped or plain."""

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

from fairlead.errors import InputError
from fairlead.formats._yaml_documents import parse_yaml_documents
from fairlead.formats.documents import STANDARD_INPUT, json_fault, read_bytes, source_name
from fairlead.formats.file_faults import RowFaults
from fairlead.model.quantity import show

MADE_BY = "make it with kubectl get nodes,pods -A -o json"

# A pod takes some 10 kB with its managed fields: the largest clusters that Kubernetes supports, of
# 150,000 pods, write more than this; they can drop those fields first.
LARGEST_DUMP = 2**30

NODE, POD = "Node", "Pod"
_LISTS = ("List", "NodeList", "PodList")

_GZIP_MAGIC = b"\x1f\x8b"
_BLANK = re.compile(r"[ \t\r\n]*")
_DEEPEST_LIST = 10


@dataclass(frozen=True, slots=True)
class ListedObject:
    """A node or a pod of a file, not yet checked."""

    source: str  # the file, where several were given; else empty
    place: str  # key path in the file, with the object's name if it has one
    kind: str  # ``Node`` or ``Pod``
    content: Mapping[str, Any]


def read_items(paths: Sequence[str | Path], faults: RowFaults) -> list[ListedObject]:
    """Read the nodes and pods of one or several files, in the files' order.

    Each holds JSON (one value, or several one after the other) or YAML (one or several documents),
    gzipped or plain by its first bytes; ``-`` is standard input. A value is a list of objects or
    one object; objects of other kinds are left out. An object without a kind takes the kind of its
    typed list (``PodList``), or else that of its shape. A repeated JSON key has its last value.
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
                if not isinstance(document, dict | list) or (single and _is_no_object(document)):
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
    """Yield the nodes and pods of an object, a list object or an array; `kind` is the list's."""
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
        item = _item(found, place, source, kind)
    if item is not None:
        yield item


def _item(found: object, place: str, source: str, kind: str) -> ListedObject | None:
    if not isinstance(found, dict):
        raise InputError(f"must be a mapping, not {show(found)}", place)
    stated = found.get("kind")
    if stated is None:
        stated = kind or _kind_of_shape(found)
    if not stated or not isinstance(stated, str):
        raise InputError(f"must be text, not {show(found.get('kind'))}", f"{place}.kind")
    if stated not in (NODE, POD):
        return None
    return ListedObject(source, _named(place, stated, found), stated, found)


def _check_whole(found: Mapping[str, Any], place: str) -> None:
    """Refuse one page of a longer list, as the API server returns with a limit."""
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
    of_some_kind = kind is None or (isinstance(kind, str) and kind.endswith("List"))
    return of_some_kind and isinstance(found.get("items"), list)


def _is_no_object(document: object) -> bool:
    """Return whether a mapping is no Kubernetes object, such as a logged error."""
    if not isinstance(document, dict) or "kind" in document or _is_list(document):
        return False
    return not _kind_of_shape(document)


def _kind_of_shape(found: Mapping[str, Any]) -> str:
    spec, status = found.get("spec"), found.get("status")
    if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
        return POD
    if isinstance(status, dict) and ("allocatable" in status or "nodeInfo" in status):
        return NODE
    return ""


def _named(place: str, kind: str, item: Mapping[str, Any]) -> str:
    """Add an item's name to its place, if it has one that can be shown."""
    metadata = item.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    wanted = ("namespace", "name") if kind == POD else ("name",)
    parts = [names.get(key) for key in wanted if names.get(key) is not None]
    named = [part for part in parts if isinstance(part, str) and part.isprintable()]
    if not named or len(named) < len(parts) or "name" not in names:
        return place
    full_name = "/".join(named)
    shown = full_name if len(full_name) <= 120 else full_name[:117] + "..."
    return f"{place} ({kind.lower()} {shown})"


def _load(path: str | Path) -> list[Any]:
    """Parse all documents of a file, the empty ones left out."""
    text = _decode(_read_content(path))
    start = _first(text, 0)
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
    """Parse JSON values that follow one another, as of several commands or one on each line."""
    decoder, documents = json.JSONDecoder(), []
    try:
        while start < len(text):
            document, end = decoder.raw_decode(text, start)
            documents.append(document)
            start = _first(text, end)
    except (ValueError, RecursionError) as error:
        raise json_fault(error, f"; {MADE_BY}") from None
    return documents


def _first(text: str, start: int) -> int:
    blank = _BLANK.match(text, start)
    return blank.end() if blank else start


def _decode(content: bytes) -> str:
    """Decode UTF-8 or, as some shells write, UTF-16; a byte order mark is left out."""
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
