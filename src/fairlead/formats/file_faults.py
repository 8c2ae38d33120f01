"""Check names and values of files that users write; errors have the key path of the value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from fairlead.errors import InputError
from fairlead.model.arguments import LONGEST_NAME, name_text
from fairlead.model.quantity import show

Layout = TypeVar("Layout")

_KINDS = {
    "dict_type": "a mapping",
    "list_type": "a list",
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "string_too_short": "text that is not empty",
}

_MOST_CANDIDATES = 10_000


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` with the most similar known name; empty if none is similar."""
    candidates = [name for name, _ in zip(known, range(_MOST_CANDIDATES), strict=False)]
    near = difflib.get_close_matches(str(name)[:LONGEST_NAME], candidates, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def keyed_by_text(mapping: Mapping[Any, Any], place: str) -> dict[str, Any]:
    """Return a mapping with its keys as text.

    Raises InputError for a key that is not a name, and for two keys that are equal as text.
    """
    named: dict[str, Any] = {}
    for key, value in mapping.items():
        text = name_text(key, f"{place}.{short(key)}")
        if text in named:
            raise InputError(f"the key {text!r} appears twice in one mapping", place)
        named[text] = value
    return named


def short(key: object) -> str:
    """Return a key as it appears in a key path: on one line of at most some 80 characters."""
    text = str(key) if isinstance(key, str) else show(key)
    return text if text.isprintable() and len(text) <= 80 else show(text)


def check_object(layout: TypeAdapter[Layout], item: object, place: str) -> Layout:
    """Return an object with only the keys of a layout; raise InputError if it has another."""
    try:
        return layout.validate_python(item, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        location, kind = list(first["loc"]), first["type"]
        if kind == "missing":
            fault = f"the key {location.pop()!r} is missing"
        else:
            wanted = _KINDS.get(kind, "text in UTF-8").format(**first.get("ctx", {}))
            fault = f"must be {wanted}, not {show(first['input'])}"
        path = (f"[{part}]" if isinstance(part, int) else f".{short(part)}" for part in location)
        raise InputError(fault, f"{place}{''.join(path)}".removeprefix(".")) from None


class RowFaults:
    """Handles errors of single rows: raises them, or if lenient collects them in `skipped`."""

    def __init__(self, lenient: bool) -> None:
        self.lenient = lenient
        self.skipped: list[str] = []  # the messages of the errors

    @contextmanager
    def collected(self, source: str = "") -> Iterator[None]:
        """Handle an InputError of a ``with`` block that reads one row.

        `source` is the file of the row, if several files are read.
        """
        try:
            yield
        except InputError as error:
            fault = error.within(source) if source else error
            if not self.lenient:
                raise fault from None
            self.skipped.append(str(fault))

    def refuse_if_none_left(self, left: int) -> None:
        """Raise InputError when all rows of a source were skipped."""
        if not left and self.skipped:
            rest = len(self.skipped) - 1
            more = f" (and {rest:,} more)" if rest else ""
            raise InputError(f"nothing in it can be used: {self.skipped[0]}{more}")
