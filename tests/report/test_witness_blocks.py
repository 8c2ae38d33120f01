"""Problems and witnesses in words and tables."""

from __future__ import annotations

import numpy as np
import pytest
from handmade_answers import HOSTILE, hostile_problem

from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.report.document import Cell as Shown
from fairlead.report.document import Table
from fairlead.report.witness import exact, problem_blocks, problem_line, witness_blocks


def test_a_small_problem_in_a_line() -> None:
    users = (f"{HOSTILE}'\"0 (1, 0.5) only on {HOSTILE}g0", f"{HOSTILE}'\"1 (0.5, 1) weight 7")
    assert problem_line(hostile_problem()) == (
        f"servers {HOSTILE}g0 (4, 1.25), {HOSTILE}g1 (2, 3) x 3; "
        f"tasks {users[0]}, {users[1]} with 17.5 tasks"
    )


def headings(table: Table) -> tuple[str, ...]:
    return tuple(column.heading for column in table.columns)


def rows_of(table: Table) -> list[tuple[str, ...]]:
    """Return the text of the cells of a table."""
    rows = map(table.row, range(table.count))
    return [tuple(c.text if isinstance(c, Shown) else c for c in row) for row in rows]


def test_a_small_problem_is_laid_out_in_full() -> None:
    servers, users = problem_blocks(hostile_problem())
    r0, r1 = f"{HOSTILE}r0", f"{HOSTILE}r1 ({HOSTILE})"
    assert headings(servers) == ("group", "how many", r0, r1)
    assert rows_of(servers)[1] == (f"{HOSTILE}g1", "3", "2", "3")
    per_task = (f"{r0} per task", f"{r1} per task")
    assert headings(users) == ("user", *per_task, "weight", "tasks in all", "may run on")
    assert rows_of(users)[0][1:] == ("1", "0.5", "1", "unlimited", f"{HOSTILE}g0")
    assert rows_of(users)[1][1:] == ("0.5", "1", "7", "17.5", "all servers")
    assert [k for k, column in enumerate(users.columns) if column.words] == [0, 5]


def test_rates_and_weights_per_resource_are_laid_out() -> None:
    problem = Problem.from_arrays(
        [[1.0, 1.0]],
        [[1.0, 1.0], [0.0, 2.0]],
        rates=[[np.nan], [3.0]],
        weight=[[1.0, 2.0], [1.0, 1.0]],
    )
    users = problem_blocks(problem)[1]
    assert headings(users)[3:] == ("weight, r1", "weight, r2", "rate on g1")
    assert [row[3:] for row in rows_of(users)] == [("1", "2", ""), ("1", "1", "3")]


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
    said, rates, places = witness_blocks(verdict, problem)
    assert rows_of(said)[0] == ("user", "u1")
    assert rows_of(said)[-1] == ("off by", "50 %")
    assert rows_of(rates) == [("g1", "2", "2"), ("g2", "30", "3"), ("g3", "0", "0")]
    assert rows_of(places) == [("g1", "may not run", "may run")]
    assert places.about == "Where it may run; the truth on 2 other groups"
    assert verdict.witness is witness
    assert "rates" in witness


def test_a_better_allocation_on_many_groups_is_put_into_words() -> None:
    problem = Problem.from_arrays(np.ones((12, 1)), [[1.0], [1.0]])
    better = {"u1": {f"g{k}": 0.5 for k in range(1, 13)}, "u2": {}}
    verdict = Verdict("pareto-optimality", "fails", {"user": "u1", "better": better}, 1)
    said, block = witness_blocks(verdict, problem, np.array([5.0, 0.0]))
    assert rows_of(said) == [("user", "u1")]
    assert headings(block) == ("user", "where", "in all", "now")
    assert rows_of(block)[0][1].startswith("g1 0.5, g2 0.5")
    assert rows_of(block)[0][2:] == ("6", "5")


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.0, "3"), (1 / 3, "0.3333333"), (12345.678, "12,345.68"), (np.inf, "unlimited")],
)
def test_numbers_of_witnesses(value: float, text: str) -> None:
    assert exact(value) == text
