"""Documents of audits show the numbers of the audit."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from handmade_answers import HOSTILE, crowd, hostile_problem

from fairlead.model.holdings import Holdings, WaitingTask
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.properties import efficiency, envy, feasibility, sharing
from fairlead.properties.audit import Audit, audit
from fairlead.report._fair_comparison import compare_with_fair, furthest_off
from fairlead.report.audit_document import LISTED, audit_document, witness_table
from fairlead.report.charts import USERS_DRAWN, Dots
from fairlead.report.document import Cell, Document, Table
from fairlead.report.numbers import change
from fairlead.report.page import to_page
from fairlead.report.terminal import to_terminal
from page_reader import Reader, figure_of, read_harmless

SHARES = "Dominant share of each"
CHEAP = (feasibility.NAME, efficiency.WASTE, sharing.NAME, envy.NAME)


def small() -> Problem:
    return Problem.from_arrays(
        [[2, 12], [12, 2]],
        [[0.2, 1], [1, 0.2], [0.3, 0.4]],
        weight=[1, 2, 1],
        eligible=[[True, True], [True, True], [False, True]],
        users=["ana", "bo", "cy"],
        groups=["high-memory", "high-cpu"],
    )


def greedy(problem: Problem) -> np.ndarray[Any, Any]:
    """Give more to users that demand more, and leave a tenth idle."""
    demanded = problem.demand.sum(axis=1)
    tasks: np.ndarray[Any, Any] = 0.9 * problem.gamma * (demanded / demanded.sum())[:, None]
    return tasks


def of_many() -> Audit:
    allocation = crowd(300, 4)
    return audit(allocation.problem, allocation.tasks, fair="ps-dsf", properties=CHEAP)


def of_hostile_names() -> Audit:
    tasks = np.array([[0.5, 0.0], [0.1, 0.0]])
    holdings = Holdings(hostile_problem(), tasks, HOSTILE, skipped=(HOSTILE,))
    return audit(holdings.problem, holdings, fair="max-tasks")


def of_several_shapes() -> Audit:
    problem = small()
    tasks = np.array([[4.0, 0.0], [0.0, 2.0], [0.0, 3.0]])
    amounts = tasks[:, :, None] * problem.demand[:, None, :]
    waits = WaitingTask("job 7", 0, np.array([0.1, 0.1]), np.array([True, True]))
    skipped = tuple(f"row {k}: no such user" for k in range(250))
    holdings = Holdings(problem, tasks, "a log", True, amounts, (waits,), skipped)
    return audit(problem, holdings)


def of_given_rates() -> Audit:
    problem = Problem.from_arrays([[1.0]], [[0.0], [0.0]], rates=[[3.0], [5.0]])
    return audit(problem, np.array([[0.6], [4.0]]), fair="ps-dsf-tdm")


AUDITS = {
    "a mechanism": lambda: audit(small(), "max-tasks", fair="ps-dsf", lies=5),
    "a rule": lambda: audit(small(), greedy, lies=20),
    "an allocation": lambda: audit(small(), np.array([[1.0, 0], [0, 3], [0, 1]]), fair="drfh"),
    "one user": lambda: audit(Problem.from_arrays([[4.0]], [[1.0]]), "drf"),
    "whole tasks": lambda: audit(
        Problem.from_arrays([[7.0]], [[2.0], [3.0]]), "drf-tasks", lies=2, fair="drf"
    ),
    "several shapes": of_several_shapes,
    "a number missing": lambda: audit(
        small(), np.array([[1.0, 0], [np.nan, 0], [0, 1]]), fair="ps-dsf"
    ),
    "rates": of_given_rates,
    "hostile": of_hostile_names,
    "many": of_many,
}


@cache
def audit_of(name: str) -> Audit:
    return AUDITS[name]()


def document_of(name: str) -> Document:
    return audit_document(audit_of(name), HOSTILE)


@cache
def page_of(name: str) -> str:
    return to_page(document_of(name))


@cache
def read(name: str) -> Reader:
    return Reader(page_of(name))


def on_terminal(found: Audit) -> str:
    return to_terminal(audit_document(found, "t"), width=None, plain=True)


@pytest.mark.parametrize("name", AUDITS)
def test_a_page_is_harmless_and_has_every_verdict(name: str) -> None:
    found, reader, text = audit_of(name), read_harmless(page_of(name)), on_terminal(audit_of(name))
    kinds = [
        str(a["class"]).split()[1]
        for t, a in reader.elements
        if t == "div" and str(a.get("class")).startswith("statement ")
    ]
    applying = [verdict for verdict in found if verdict.applies]
    assert kinds == [v.verdict for v in applying] + ["muted"] * (len(found) - len(applying))
    for verdict in found:
        word = verdict.verdict.replace("fails", "FAILS")
        assert f"{verdict.name} {word} {' '.join(verdict.sentence.split())}" in reader.text
        # Names that are undecided for one reason share a line.
        line = rf"^.  ([a-z-]+, )*{verdict.name}(, [a-z-]+)* +{word} "
        assert re.search(line, text, re.MULTILINE)
    fail = kinds.count("fails")
    for whole in (reader.text, text):
        assert (f"{fail} of {len(found)} properties fail" in whole) == (fail > 0)
        assert ("No property fails" in whole) == (fail == 0)
    opening = f"opening {'fails' if fail else 'holds'}"
    assert opening in [str(a.get("class")) for _, a in reader.elements]


def test_the_verdict_counts_users_that_are_worse_off() -> None:
    tasks = np.array([[4.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    text = on_terminal(audit(small(), tasks, fair="drfh", properties=CHEAP))
    assert (
        "✗ 3 of 4 properties fail: non-wastefulness, sharing-incentive, envy-freeness. Users below "
        "the fair share by drfh: 2 of 3; without a task: bo; envious: bo.\n"
    ) in text
    missing = on_terminal(audit_of("a number missing"))
    assert "with a missing number: 1 user" in missing
    assert "envious" not in missing


@pytest.mark.parametrize(
    ("name", "kind"), [("strategy-proofness", "unknown"), ("feasibility", "holds")]
)
def test_an_undecided_audit_has_no_tick(name: str, kind: str) -> None:
    found = audit(Problem.from_arrays([[4.0]], [[1.0], [2.0]]), "drf", properties=[name], lies=3)
    verdict = audit_document(found, "x").verdict
    assert verdict is not None
    assert verdict.kind == kind


@pytest.mark.parametrize(
    "name", ["a rule", "an allocation", "several shapes", "a number missing", "rates"]
)
def test_the_table_has_the_numbers_of_every_user(name: str) -> None:
    users = audit_of(name).to_dict()["users"]
    cells = [value for row in read(name).numbers("Users, their holdings") for value in row]
    waits = any("waiting" in user for user in users)
    expected = []
    for user in users:
        expected += [user["weight"], user["tasks"]]
        expected += [user.get("waiting", 0)] if waits else []
        expected += [user["dominant_share"]]
        if "fair_tasks" in user:
            share, due = user["dominant_share"], user["fair_dominant_share"]
            if name == "rates":  # nothing is demanded: tasks are compared
                share, due = user["tasks"], user["fair_tasks"]
            off = share / due - 1 if share is not None and due > 0 else None
            expected += [user["fair_tasks"], user["fair_dominant_share"], off]
        expected += [user["slice"], user["margin"]]
    known = [1e300 if value is None else value for value in expected]
    assert cells == pytest.approx(known, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("name", ["a rule", "an allocation", "rates"])
def test_the_note_explains_only_columns_of_the_table(name: str) -> None:
    shown = on_terminal(audit_of(name))
    header = next(line for line in shown.splitlines() if line.strip().startswith("user  "))
    for column in ("over/under", "envies"):
        assert (f"{column}: " in shown.partition(header)[2]) == (column in header)


def test_shares_are_drawn_beside_the_fair_ones() -> None:
    found = audit_of("an allocation")
    assert found.fair is not None
    figure = figure_of(document_of("an allocation"), SHARES)
    *others, reference, labels = figure.traces
    held = found.subject.holdings.dominant_share
    ratio = held / found.fair.dominant_share
    order = np.argsort(-ratio)
    assert reference.name == "fair share by drfh"
    assert reference.x == pytest.approx(found.fair.dominant_share[order].tolist(), rel=1e-5)
    changes = [change(r - 1, "as due") for r in ratio[order]]
    assert labels.texts == changes
    dots = {y: x for t in others if isinstance(t, Dots) for x, y in zip(t.x, t.y, strict=True)}
    assert [dots[k] for k in range(3)] == pytest.approx(held[order].tolist(), rel=1e-5)
    assert [label for _, label in figure.y.marks] == [("ana", "bo", "cy")[n] for n in order]


def test_without_fair_shares_the_reference_is_the_slice() -> None:
    found = audit_of("a rule")
    problem = found.subject.problem
    reference = figure_of(document_of("a rule"), SHARES).traces[-2]
    due = found.slices * (problem.demand / problem.total_capacity).max(axis=1)
    assert sorted(reference.x) == pytest.approx(sorted(due), rel=1e-5)


def test_a_difference_below_a_thousandth_is_none() -> None:
    problem = Problem.from_arrays([[1.0]], [[1.0]] * 3)
    tasks = np.array([[1 / 3 * (1 - 5e-4)], [1 / 3], [1 / 3 * (1 + 5e-4)]])
    found = audit(problem, tasks, fair="drf", properties=CHEAP)
    assert not compare_with_fair(found).below.any()
    shown = audit_document(found, "t")
    page = Reader(to_page(shown))
    names = {t.name for t in figure_of(shown, SHARES).traces if isinstance(t, Dots)}
    assert names == {"holds as much", "fair share by drf"}
    assert page.text.count("as due") == 6


def test_of_many_users_the_furthest_off_are_drawn() -> None:
    found, shown = audit_of("many"), document_of("many")
    comparison = compare_with_fair(found)
    reference = figure_of(shown, SHARES).traces[-2]
    assert len(reference.x) == USERS_DRAWN
    order = np.argsort(-comparison.ratio, kind="stable")
    ends = [*order[:30], *order[-30:]]
    assert reference.x == pytest.approx(comparison.due[ends].tolist(), rel=1e-5)
    ratio = np.array([0.5, np.nan, 3.0, 1.0, np.inf, 0.1])
    assert furthest_off(ratio, 10) == [4, 2, 3, 0, 5]
    assert furthest_off(ratio, 4) == [4, 2, 0, 5]


def test_users_with_slices_below_one_task_are_not_short() -> None:
    """Ten users share a server for four tasks: a slice is less than a task, and six run none."""
    problem = Problem.from_arrays([[4.0]], [[1.0]] * 10)
    tasks = np.array([[1.0]] * 3 + [[0.0]] * 7)
    found = audit(problem, Holdings(problem, tasks, whole_tasks=True))
    assert not compare_with_fair(found).short.any()
    whole = compare_with_fair(audit_of("whole tasks"))
    assert (whole.margin < 0).any()
    assert not whole.short.any()


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
        "limit": np.inf,
    }
    verdict = Verdict("pareto-optimality", "fails", witness, 5, severity=0.5)
    assert rows_of(witness_table(verdict)) == [
        ("user", "u1"),
        ("demand", "r1 1, r2 0.3333333"),
        ("better", "u1 (g1 0.5, g2 2), u2 ()"),
        ("loses most", "True"),
        ("servers", "g2, g1"),
        ("limit", "unlimited"),
        ("off by", "50 %"),
    ]


def test_long_witnesses_are_cut_and_counted() -> None:
    verdict = Verdict("envy-freeness", "fails", {"users": {f"u{n}": n for n in range(50)}}, 50)
    ((_, users),) = rows_of(witness_table(verdict))
    assert users.count("u") == LISTED
    assert users.endswith("10 more")
