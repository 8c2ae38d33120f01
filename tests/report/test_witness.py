"""Witnesses are laid out so that a reader can check them by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.report._witness import exact, witness_tables
from fairlead.report.document import Cell as Shown
from fairlead.report.document import Table


def headings(table: Table) -> tuple[str, ...]:
    return tuple(column.heading for column in table.columns)


def rows_of(table: Table) -> list[tuple[str, ...]]:
    """Return the text of the cells of a table."""
    rows = map(table.row, range(table.count))
    return [tuple(c.text if isinstance(c, Shown) else c for c in row) for row in rows]


def test_a_lie_about_servers_and_rates_is_laid_out() -> None:
    problem = Problem.from_arrays(
        [[1.0], [1.0], [1.0]],
        [[1.0], [1.0]],
        rates=[[2.0, 3.0, 0.0], [np.nan] * 3],
        eligible=[[True, True, False], [True, True, True]],
    )
    witness = {
        "user": "u1",
        "demand": {"r1": 1.0},
        "truth": {"r1": 1.0},
        "honest": 1.0,
        "gained": 1.5,
        "rates": {"g1": 2.0, "g2": 30.0, "g3": 0.0},
        "servers": ["g2"],
    }
    verdict = Verdict("strategy-proofness", "fails", witness, 5, severity=0.5)
    pairs, rates, places = witness_tables(verdict, problem, np.ones(2))
    assert rows_of(pairs)[0] == ("user", "u1")
    assert rows_of(pairs)[-1] == ("off by", "50 %")
    assert rows_of(rates) == [("g1", "2", "2"), ("g2", "30", "3"), ("g3", "0", "0")]
    assert rows_of(places) == [("g1", "may not run", "may run")]
    assert verdict.witness is witness
    assert "rates" in witness


def test_a_better_allocation_on_many_groups_is_put_into_words() -> None:
    problem = Problem.from_arrays(np.ones((12, 1)), [[1.0], [1.0]])
    better = {"u1": {f"g{k}": 0.5 for k in range(1, 13)}, "u2": {}}
    verdict = Verdict("pareto-optimality", "fails", {"user": "u1", "better": better}, 1)
    pairs, block = witness_tables(verdict, problem, np.array([5.0, 0.0]))
    assert rows_of(pairs) == [("user", "u1")]
    assert headings(block) == ("user", "where", "tasks in all", "now")
    assert rows_of(block)[0][1].startswith("g1 0.5, g2 0.5")
    assert rows_of(block)[0][2:] == ("6", "5")


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.0, "3"), (1 / 3, "0.3333333"), (12345.678, "12,345.68"), (np.inf, "unlimited")],
)
def test_numbers_of_witnesses(value: float, text: str) -> None:
    assert exact(value) == text
