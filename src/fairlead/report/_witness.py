"""Format the witness of a failed property, so that a reader can check it by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from fairlead.model.verdict import Verdict
from fairlead.report.document import Table, pairs_table
from fairlead.report.numbers import named

LISTED = 40  # users, servers or numbers in a cell


def witness_table(verdict: Verdict) -> Table:
    """Tabulate the keys of a witness and its numbers, with seven digits."""
    pairs = [(key.replace("_", " "), _in_words(value)) for key, value in verdict.witness.items()]
    if isfinite(verdict.severity) and verdict.severity > 0:
        pairs.append(("off by", f"{100 * verdict.severity:.4g} %"))
    return pairs_table("Witness", pairs)


def exact(value: float) -> str:
    """Format a number with seven digits, enough to check a witness."""
    if not isfinite(value):
        return "unlimited" if value > 0 else str(value)
    if float(value).is_integer() and abs(value) < 1e12:
        return f"{value:,.0f}"
    if 1e4 <= abs(value) < 1e12:
        return f"{value:,.2f}"
    return f"{value:.7g}"


def _in_words(value: Any) -> str:
    """Format any value of a witness as text."""
    if isinstance(value, Mapping):
        return named([_pair_in_words(key, item) for key, item in value.items()], LISTED)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return named([_in_words(item) for item in value], LISTED)
    if isinstance(value, float | int) and not isinstance(value, bool):
        return exact(value)
    return str(value)


def _pair_in_words(key: str, value: Any) -> str:
    text = _in_words(value)
    return f"{key} ({text})" if isinstance(value, Mapping) else f"{key} {text}"
