"""Check the shape of a problem file: its keys, and the type of each value.

Amounts and constraints have the type `Any` here, and are checked where they are read.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, cast

from fairlead.errors import InputError
from fairlead.formats.file_faults import did_you_mean, is_name, short
from fairlead.model.quantity import show

FORMAT_VERSION = 1

Name = str | int


class ServerRow(TypedDict):
    name: Name
    count: NotRequired[Any]
    capacity: dict[Any, Any]
    labels: NotRequired[dict[Any, Any]]


class UserRow(TypedDict):
    name: Name
    demand: NotRequired[dict[Any, Any]]
    weight: NotRequired[Any]
    servers: NotRequired[Any]
    tasks: NotRequired[Any]
    rates: NotRequired[dict[Any, Any]]
    queue: NotRequired[Name]


class QueueRow(TypedDict):
    name: Name
    weight: NotRequired[Any]
    parent: NotRequired[Name]


class ProblemDocument(TypedDict):
    fairlead: int
    resources: NotRequired[Any]
    devices: NotRequired[list[Name]]
    servers: list[ServerRow]
    users: list[UserRow]
    queues: NotRequired[list[QueueRow]]
    expect: NotRequired[Any]


# The shape of the document and of the rows of its lists, and the required keys.
_SHAPES: dict[str, tuple[type, tuple[str, ...]]] = {
    "": (ProblemDocument, ("servers", "users")),
    "servers": (ServerRow, ("name", "capacity")),
    "users": (UserRow, ("name",)),
    "queues": (QueueRow, ("name",)),
}
_MAPPINGS = ("capacity", "labels", "demand", "rates")
_LISTS = ("devices", "servers", "users", "queues")
_NAMES = ("name", "queue", "parent")


def check_shape(document: object) -> ProblemDocument:
    """Return plain values as a problem document; raise InputError for any other shape."""
    if not isinstance(document, dict):
        raise InputError(f"must be one mapping with servers and users, not {show(document)}")
    if "fairlead" not in document:
        raise InputError(
            f"the key 'fairlead', the version of the format, is missing: write "
            f"fairlead: {FORMAT_VERSION}"
        )
    check_version(document["fairlead"])
    _check_keys(document, "", "")
    for what in _LISTS:
        rows = document.get(what, [])
        if not isinstance(rows, list):
            raise InputError(f"must be a list, not {show(rows)}", what)
        if not rows and what in ("servers", "users"):
            raise InputError("must list at least one", what)
        for number, row in enumerate(rows):
            place = f"{what}[{number}]"
            if what == "devices":
                _check_name(row, place)
            elif isinstance(row, dict):
                _check_row(row, what, place)
            else:
                raise InputError(f"must be a mapping, not {show(row)}", place)
    return cast(ProblemDocument, document)


def check_version(version: object) -> None:
    """Raise InputError for a format version other than `FORMAT_VERSION`."""
    if type(version) is not int or version != FORMAT_VERSION:
        raise InputError(
            f"unknown format version {show(version)}; this reader knows {FORMAT_VERSION}",
            "fairlead",
        )


def _check_row(row: dict[Any, Any], what: str, place: str) -> None:
    _check_keys(row, what, place)
    for key, value in row.items():
        if key in _NAMES:
            _check_name(value, f"{place}.{key}")
        elif not isinstance(value, dict) and key in _MAPPINGS:
            raise InputError(f"must be a mapping, not {show(value)}", f"{place}.{key}")


def _check_keys(mapping: dict[Any, Any], what: str, place: str) -> None:
    """Raise InputError for an unknown key, which may be a misspelled required one, or a missing."""
    shape, required = _SHAPES[what]
    for key in mapping:
        if key not in shape.__annotations__:
            fault = f"unknown key{did_you_mean(key, shape.__annotations__)}"
            raise InputError(fault, f"{place}.{short(key)}".lstrip("."))
    for key in required:
        if key not in mapping:
            raise InputError(f"the key {key!r} is missing", place)


def _check_name(value: object, place: str) -> None:
    if not is_name(value):
        quotes = "; put it in quotes" if isinstance(value, bool | float) else ""
        raise InputError(f"must be text, not {show(value)}{quotes}", place)
