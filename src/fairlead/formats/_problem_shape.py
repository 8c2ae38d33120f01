"""Check the shape of a problem file: its keys, and the type of each value.

Amounts and constraints have the type `Any` here, and are checked where they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, FailFast, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from fairlead.errors import InputError
from fairlead.formats.file_faults import did_you_mean, key_path, short
from fairlead.model.quantity import show

FORMAT_VERSION = 1

_SHAPE = ConfigDict(extra="forbid", strict=True)

Name = str | int


class ServerRow(TypedDict):
    __pydantic_config__ = _SHAPE  # type: ignore[misc]

    name: Name
    count: NotRequired[Any]
    capacity: dict[Any, Any]
    labels: NotRequired[dict[Any, Any]]


class UserRow(TypedDict):
    __pydantic_config__ = _SHAPE  # type: ignore[misc]

    name: Name
    demand: NotRequired[dict[Any, Any]]
    weight: NotRequired[Any]
    servers: NotRequired[Any]
    tasks: NotRequired[Any]
    rates: NotRequired[dict[Any, Any]]
    queue: NotRequired[Name]


class QueueRow(TypedDict):
    __pydantic_config__ = _SHAPE  # type: ignore[misc]

    name: Name
    weight: NotRequired[Any]
    parent: NotRequired[Name]


class ProblemDocument(TypedDict):
    __pydantic_config__ = _SHAPE  # type: ignore[misc]

    fairlead: int
    resources: NotRequired[Any]
    devices: NotRequired[list[Name]]
    servers: Annotated[list[ServerRow], FailFast(), Field(min_length=1)]
    users: Annotated[list[UserRow], FailFast(), Field(min_length=1)]
    queues: NotRequired[Annotated[list[QueueRow], FailFast()]]
    expect: NotRequired[Any]


_DOCUMENT = TypeAdapter(ProblemDocument)
_KEYS: dict[str, Mapping[str, object]] = {
    "": ProblemDocument.__annotations__,
    "servers": ServerRow.__annotations__,
    "users": UserRow.__annotations__,
    "queues": QueueRow.__annotations__,
}


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
    for what in ("servers", "users"):
        if what not in document:
            raise InputError(f"the key {what!r} is missing")
        if isinstance(document[what], list):
            for number, row in enumerate(document[what]):
                if isinstance(row, dict) and len(row) > len(_KEYS[what]):
                    _check_keys(row, what, f"{what}[{number}].")
    try:
        return _DOCUMENT.validate_python(document)
    except ValidationError as error:
        raise _first_fault(error) from None


def check_version(version: object) -> None:
    """Raise InputError for a format version other than `FORMAT_VERSION`."""
    if type(version) is not int or version != FORMAT_VERSION:
        raise InputError(
            f"unknown format version {show(version)}; this reader knows {FORMAT_VERSION}",
            "fairlead",
        )


def _check_keys(mapping: Mapping[Any, Any], what: str, prefix: str) -> None:
    """Raise InputError for the first unknown key (pydantic would report up to a million)."""
    for key in mapping:
        if key not in _KEYS[what]:
            raise InputError(
                f"unknown key{did_you_mean(key, _KEYS[what])}", f"{prefix}{short(key)}"
            )


def _first_fault(error: ValidationError) -> InputError:
    """Return one of pydantic's errors as one line.

    An unknown key takes precedence, as it may be a misspelled required key.
    """
    faults = error.errors(include_url=False, include_context=False)
    unknown = [fault for fault in faults if fault["type"] == "extra_forbidden"]
    fault = (unknown or faults)[0]
    location, kind, found = list(fault["loc"]), fault["type"], fault["input"]
    place = key_path(location)
    if kind == "missing":
        return InputError(f"the key {location[-1]!r} is missing", key_path(location[:-1]))
    if kind == "extra_forbidden":
        known = _KEYS[str(location[0])]
        return InputError(f"unknown key{did_you_mean(location[-1], known)}", place)
    if kind == "too_short":
        return InputError("must list at least one", place)
    if kind == "dict_type":
        return InputError(f"must be a mapping, not {show(found)}", place)
    if kind == "list_type":
        return InputError(f"must be a list, not {show(found)}", place)
    quotes = "; put it in quotes" if isinstance(found, bool | float) else ""
    return InputError(f"must be text, not {show(found)}{quotes}", key_path(location[:-1]))
