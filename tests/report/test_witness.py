"""Witnesses are tables that a reader can check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.model.verdict import Verdict
from fairlead.report.audit import LISTED, exact, witness_table
from fairlead.report.document import Cell, Table


def rows_of(table: Table) -> list[tuple[str, ...]]:
    """Return the text of the cells of a table."""
    rows = map(table.row, range(table.count))
    return [tuple(c.text if isinstance(c, Cell) else c for c in row) for row in rows]


def test_a_witness_is_a_table_of_its_values() -> None:
    witness = {
        "user": "u1",
        "demand": {"r1": 1.0, "r2": 1 / 3},
        "better": {"u1": {"g1": 0.5, "g2": 2.0}, "u2": {}},
        "loses_most": True,
        "servers": ["g2", "g1"],
    }
    verdict = Verdict("pareto-optimality", "fails", witness, 5, severity=0.5)
    assert rows_of(witness_table(verdict)) == [
        ("user", "u1"),
        ("demand", "r1 1, r2 0.3333333"),
        ("better", "u1 (g1 0.5, g2 2), u2 ()"),
        ("loses most", "True"),
        ("servers", "g2, g1"),
        ("off by", "50 %"),
    ]


def test_long_witnesses_are_cut_and_counted() -> None:
    verdict = Verdict("envy-freeness", "fails", {"users": {f"u{n}": n for n in range(50)}}, 50)
    ((_, users),) = rows_of(witness_table(verdict))
    assert users.count("u") == LISTED
    assert users.endswith("10 more")


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.0, "3"), (1 / 3, "0.3333333"), (12345.678, "12,345.68"), (np.inf, "unlimited")],
)
def test_numbers_of_witnesses(value: float, text: str) -> None:
    assert exact(value) == text
