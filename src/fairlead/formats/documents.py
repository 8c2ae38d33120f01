"""Parse YAML or JSON files into plain values; raise InputError for any other content.

A key that appears twice in a mapping is an error. Before a file is parsed, its size and number of
entries are checked, and for YAML also its nesting and the expansion of aliases.

YAML is that of version 1.2: ``yes``, ``no``, ``on``, ``off`` and dates are text, and ``1e3`` is a
number.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any, Literal

from fairlead.errors import InputError
from fairlead.model.quantity import show

STANDARD_INPUT = "-"

# A hundred thousand servers listed one by one take 5 to 9 MB and half a million entries.
LARGEST_FILE = 32 * 2**20
MOST_ENTRIES = 1_500_000

# The parser recurses for each level of block nesting. A level indents by a column or more, or is a
# dash or question mark on the same line, so a limit of columns bounds the levels.
_DEEPEST_INDENT = 200
_TOO_DEEP = re.compile(
    rf"^(?:[ \t]{{{_DEEPEST_INDENT}}}[ \t]*+[^ \t\r\n#]"
    rf"|[ \t]*+[?-][ \t][ \t?-]{{{_DEEPEST_INDENT}}})",
    re.MULTILINE,
)

# The first line of content, that is, of no comment or directive (``%``). And the beginning of a
# further document: ``---``, or content after the ``...`` that ends a document.
_CONTENT = re.compile(r"^[ \t]*[^#%\s].*", re.MULTILINE)
_NEXT_DOCUMENT = re.compile(
    r"^---(?:\s|\Z)|^\.\.\.[ \t\r]*\n(?:[ \t]*(?:[#%].*)?\n)*[ \t]*[^#%\s]", re.MULTILINE
)

# An alias repeats all nodes of its value. A node may be as long as the file, so the number of
# repeated nodes times the length of the file is bounded.
_MAX_REPEATED_CHARACTERS = 2**28
_MAX_REPEATED_NODES = 100_000

# Python refuses to print integers of more than 4300 decimal digits, so errors could not show them.
_LONG_NUMBER = re.compile(r"\b(?:[0-9]{4301,}+|0[xob][0-9a-fA-F]{3000,}+)\b(?![.\"'])")

LONG_NUMBER = "has a whole number with thousands of digits"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def source_name(path: str | Path) -> str:
    """Return the name of a source in an error: its path, or ``standard input`` for ``-``."""
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


def read_document(path: str | Path) -> Any:
    """Read a YAML or JSON file into plain values.

    Parameters
    ----------
    path : str or Path
        A file, or ``-`` for standard input. A file whose name ends in ``.json`` must be JSON; any
        other source may be YAML or JSON.

    Raises
    ------
    InputError
        For a source that cannot be read, is empty, is not UTF-8 text, is larger than
        `LARGEST_FILE`, is not well-formed, repeats a key, or holds several documents.

    Notes
    -----
    Reading takes at most some seconds and some hundred MB, whatever the source.
    """
    content = read_bytes(path, LARGEST_FILE)
    if len(content) > LARGEST_FILE:
        raise InputError(
            f"is larger than {LARGEST_FILE // 2**20} MiB; in a problem file, identical servers may "
            "be one group with a count"
        )
    text = _decode(content)
    if text.count("\n") + text.count(",") > MOST_ENTRIES:
        raise InputError(
            f"has more than {MOST_ENTRIES:,} entries; list identical servers once, with a count"
        )
    if str(path).lower().endswith(".json"):
        return parse_json(text)
    if text.lstrip()[:1] == "{":
        # JSON is not always YAML: it allows, for example, tabs after a colon.
        try:
            return parse_json(text)
        except _NotJsonError:
            pass

    return parse_yaml(text)


class _NotJsonError(InputError):
    """Text that is not well-formed JSON (it may still be YAML)."""


class _RepeatedKeyError(InputError):
    """A key that appears twice in one JSON mapping; `fault` is the key."""


def read_bytes(path: str | Path, limit: int) -> bytes:
    """Return a file or standard input, cut after `limit` + 1 bytes if it is longer.

    Raises InputError if it cannot be read.
    """
    try:
        if str(path) == STANDARD_INPUT:
            return sys.stdin.buffer.read(limit + 1)
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise InputError("is a directory, not a file")
        with open(path, "rb") as file:
            return file.read(limit + 1)
    except FileNotFoundError:
        raise InputError("no such file") from None
    except OSError as error:
        raise InputError(f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    except ValueError:  # a null character in the path
        raise InputError("is not the name of a file") from None


def _decode(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("is not a text file in UTF-8", f"byte {error.start + 1}") from None
    check_characters(text)
    if not text.strip():
        raise InputError("is empty")
    return text


def check_characters(text: str) -> None:
    """Raise InputError for control characters other than tabs and line ends."""
    control = _CONTROL.search(text)
    if control:
        line = text.count("\n", 0, control.start()) + 1
        raise InputError(
            f"is not a text file: it holds the control character {ord(control[0]):#04x}",
            f"line {line}",
        )


def parse_json(text: str) -> Any:
    """Parse JSON text into plain values; InputError for other text, or a repeated key."""
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except _RepeatedKeyError as repeated:
        first = json.loads(text, object_pairs_hook=lambda pairs: dict(reversed(pairs)))
        raise repeated_key(repeated.fault, first, json.loads(text)) from None
    except (ValueError, RecursionError) as error:
        raise json_fault(error) from None


def json_fault(error: Exception, remedy: str = "") -> InputError:
    """Return the InputError for text that the JSON decoder refused."""
    if isinstance(error, json.JSONDecodeError):
        fault = f"is not JSON: {error.msg[:1].lower()}{error.msg[1:]}{remedy}"
        return _NotJsonError(fault, f"line {error.lineno}, column {error.colno}")
    if isinstance(error, RecursionError):
        return InputError("is nested too deeply")
    return InputError(LONG_NUMBER)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedKeyError(key)
            seen.add(key)
    return mapping


def _place_of_repeat(key: str, first: Any, last: Any, place: str = "") -> str:
    """Return the key path of a repeated key; empty if both of its values are equal.

    The parsers do not report the place. So the text is parsed twice: `first` has the first value
    of each repeated key, and `last` the last value. The place is where they differ.
    """
    if first == last:
        return ""
    if isinstance(first, dict) and isinstance(last, dict):
        for name in first:
            if first[name] != last.get(name):
                below = f"{place}.{name}" if place else str(name)
                if str(name) == key:
                    return below
                return _place_of_repeat(key, first[name], last.get(name), below)
    if isinstance(first, list) and isinstance(last, list):
        for index, (one, other) in enumerate(zip(first, last, strict=False)):
            if one != other:
                return _place_of_repeat(key, one, other, f"{place}[{index}]")
    return ""


def repeated_key(key: str, first: Any, last: Any) -> InputError:
    """Return the error for a repeated key, with its path (see `_place_of_repeat`)."""
    return InputError(
        f"the key {show(key)} appears twice in one mapping", _place_of_repeat(key, first, last)
    )


def parse_yaml(text: str) -> Any:
    """Parse YAML text of one document into plain values.

    Raises InputError for text that is not YAML, is empty or has several documents.
    """
    documents = parse_yaml_documents(text)
    if len(documents) > 1:
        raise InputError(f"holds {len(documents)} documents, where there must be one")
    if documents[0] is None:
        raise InputError("is empty")
    return documents[0]


def parse_yaml_documents(text: str) -> list[Any]:
    """Parse YAML text of one or several documents; an empty one is None.

    Raises InputError for text that is not YAML.
    """
    import yaml_rs

    check_characters(text)
    deep = _TOO_DEEP.search(text)
    if deep:
        line = text.count("\n", 0, deep.start()) + 1
        raise InputError("is nested too deeply", f"line {line}")
    long = _LONG_NUMBER.search(text)
    if long:
        line = text.count("\n", 0, long.start()) + 1
        raise InputError(LONG_NUMBER, f"line {line}")
    try:
        document = _load_yaml(text)
    except yaml_rs.YAMLDecodeError as error:
        raise _explain(str(error), text) from None
    except TypeError:
        raise InputError("has a mapping or a list as the key of a mapping") from None
    except ValueError:
        raise InputError(LONG_NUMBER) from None
    # The parser returns several documents as a list too.
    return document if isinstance(document, list) and _holds_several(text) else [document]


def _holds_several(text: str) -> bool:
    """Return whether a text, which the parser returns as a list, has several documents."""
    first = _CONTENT.search(text)
    return first is not None and _NEXT_DOCUMENT.search(text, first.end()) is not None


def _load_yaml(text: str, repeats: Literal["Error", "FirstWins", "LastWins"] = "Error") -> Any:
    import yaml_rs

    repeated_nodes = min(_MAX_REPEATED_NODES, _MAX_REPEATED_CHARACTERS // len(text))
    return yaml_rs.loads(
        text,
        parse_datetime=False,
        duplicate_key_policy=getattr(yaml_rs.DuplicateKeyPolicy, repeats),
        alias_limits=yaml_rs.AliasLimits(max_total_replayed_events=repeated_nodes),
    )


def _explain(message: str, text: str) -> InputError:
    """Return an error of one line for the parser's message of several lines."""
    repeated = re.match(r"duplicate mapping key: (.*)", message, re.DOTALL)
    if repeated:
        # `repeated_key` finds the path of the key where the two readings differ.
        try:
            first, last = _load_yaml(text, "FirstWins"), _load_yaml(text, "LastWins")
        except (TypeError, ValueError):  # the text has another error further on
            first = last = None
        return repeated_key(repeated[1].strip("'\""), first, last)
    if message.startswith("alias"):
        return InputError("expands its aliases to too much for a file of its size")
    where = re.match(r"YAML parse error at (line \d+, column \d+)", message)
    fault = message.rstrip().rsplit("\n", 1)[-1].strip()
    if "recursion limit" in fault:
        return InputError("is nested too deeply", where[1] if where else "")
    return InputError(f"is not YAML: {fault}", where[1] if where else "")
