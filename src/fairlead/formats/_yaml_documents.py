"""Parse YAML 1.2, of which JSON is a subset, into plain values.

``yes``, ``no``, ``on``, ``off`` and dates are text, and ``1e3`` is a number. A key that appears
twice is an error. Nesting and the expansion of aliases are bounded.
"""

from __future__ import annotations

import re
from typing import Any

import yaml_rs

from fairlead.errors import InputError
from fairlead.formats.documents import check_characters, repeated_key

# The parser recurses for each level of block nesting. A level indents by a column or more, or is a
# dash or question mark on the same line, so a limit of columns bounds the levels.
_DEEPEST_INDENT = 200
_TOO_DEEP = re.compile(
    rf"^(?:[ \t]{{{_DEEPEST_INDENT}}}[ \t]*+[^ \t\r\n#]"
    rf"|[ \t]*+[?-][ \t][ \t?-]{{{_DEEPEST_INDENT}}})",
    re.MULTILINE,
)

# The first line of content, which comments and directives (``%``) are not; and the beginning of a
# further document, by ``---`` or by content after the ``...`` that ends one.
_CONTENT = re.compile(r"^[ \t]*[^#%\s].*", re.MULTILINE)
_NEXT_DOCUMENT = re.compile(
    r"^---(?:\s|\Z)|^\.\.\.[ \t\r]*\n(?:[ \t]*(?:[#%].*)?\n)*[ \t]*[^#%\s]", re.MULTILINE
)

# An alias repeats all nodes of its value. A node may be as long as the file, so the number of
# repeated nodes times the length of the file is bounded.
_MAX_REPEATED_CHARACTERS = 2**28
_MAX_REPEATED_NODES = 100_000


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
    check_characters(text)
    deep = _TOO_DEEP.search(text)
    if deep:
        line = text.count("\n", 0, deep.start()) + 1
        raise InputError("is nested too deeply", f"line {line}")
    try:
        document = _load_yaml(text)
    except yaml_rs.YAMLDecodeError as error:
        raise _explain(str(error), text) from None
    except TypeError:
        raise InputError("has a mapping or a list as the key of a mapping") from None
    except ValueError:
        raise InputError("has a whole number with thousands of digits") from None
    # The parser returns several documents as a list too.
    return document if isinstance(document, list) and _holds_several(text) else [document]


def _holds_several(text: str) -> bool:
    """Return whether a text, which the parser returns as a list, has several documents."""
    first = _CONTENT.search(text)
    return first is not None and _NEXT_DOCUMENT.search(text, first.end()) is not None


def _load_yaml(
    text: str, repeats: yaml_rs.DuplicateKeyPolicy = yaml_rs.DuplicateKeyPolicy.Error
) -> Any:
    repeated_nodes = min(_MAX_REPEATED_NODES, _MAX_REPEATED_CHARACTERS // len(text))
    return yaml_rs.loads(
        text,
        parse_datetime=False,
        duplicate_key_policy=repeats,
        alias_limits=yaml_rs.AliasLimits(max_total_replayed_events=repeated_nodes),
    )


def _explain(message: str, text: str) -> InputError:
    """Return an error of one line for the parser's message of several lines."""
    repeated = re.match(r"duplicate mapping key: (.*)", message, re.DOTALL)
    if repeated:
        # `repeated_key` finds the path of the key where the two readings differ.
        policy = yaml_rs.DuplicateKeyPolicy
        try:
            first, last = _load_yaml(text, policy.FirstWins), _load_yaml(text, policy.LastWins)
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
