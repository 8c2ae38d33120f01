"""Documents of surveys: a table of mechanisms and properties, and the smallest witnesses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.report.document import (
    FAILS,
    HOLDS,
    Block,
    Cell,
    Content,
    Document,
    Listing,
    Prose,
    Section,
    Statement,
    Table,
    numbers,
    table_of,
    words,
)
from fairlead.report.numbers import counted, number
from fairlead_papers.surveys.survey import Survey, SurveyCell


def survey_document(survey: Survey, title: str) -> Document:
    """Return the document of a survey: mechanisms, their properties, and smallest witnesses."""
    properties = "1 property"
    if len(survey.properties) != 1:
        properties = f"{len(survey.properties)} properties"
    mechanisms = counted(len(survey.mechanisms), "mechanism")
    return Document(
        title,
        "properties of mechanisms",
        f"{mechanisms}, {properties} (seed {survey.seed})",
        _verdict(survey),
        [*_findings(survey), *_witnesses(survey), _searched(survey)],
        survey.to_dict,
    )


def _verdict(survey: Survey) -> Statement:
    """Count and name the refuted claims."""
    problems = counted(survey.problems, "random problem")
    refuted = [c for c in survey.cells.values() if c.refutations]
    if not refuted:
        return Statement(HOLDS, f"No claim is refuted on {problems}.")
    claims = f"{counted(len(refuted), 'claim')} {'is' if len(refuted) == 1 else 'are'} refuted"
    which = "; ".join(f"{cell.mechanism}, {cell.property}" for cell in refuted)
    return Statement(FAILS, f"{claims} on {problems}: {which}.")


def _findings(survey: Survey) -> Iterator[Block]:
    """Yield the table of mechanisms and properties, and a note on its marks."""
    rows: list[list[Content]] = [
        [
            name,
            *(_finding(survey.cells[name, property_name]) for property_name in survey.properties),
        ]
        for name in survey.mechanisms
    ]
    columns = [*words("mechanism"), *numbers(*survey.properties)]
    yield table_of("Mechanisms and their properties", columns, rows)
    yield Prose(
        "Problems on which a property fails / problems that meet its premises. ✓ a paper proves "
        "it, and it is not refuted; ✓* a paper proves it under the conditions below, and it is not "
        "refuted there; REFUTED: a paper claims it, and there is a witness below; no mark: no "
        "paper claims it. A search cannot prove a property; it can refute one.",
        "small",
    )
    conditions = [
        f"* {cell.mechanism}, {cell.property}: claimed without {' or '.join(cell.claim.without)}"
        for cell in survey.cells.values()
        if cell.claim is not None and cell.claim.without
    ]
    if conditions:
        yield Listing(conditions, kind="small")


def _finding(cell: SurveyCell) -> Cell:
    """Return a mark for the claim on a mechanism and property, and the count of violations."""
    count = f"{cell.violations:,}/{cell.asked:,}" if cell.asked else "not asked"
    kind, mark = "" if cell.violations else "dim", ""
    if cell.refutations:
        kind, mark, count = "bad", "REFUTED ", f"{cell.refutations:,}/{cell.covered:,}"
    elif cell.claim is not None:
        kind, mark = "good", "✓* " if cell.claim.without else "✓ "
    return Cell(f"{mark}{count}", kind=kind)


def _witnesses(survey: Survey) -> Iterator[Block]:
    """Yield the smallest witness against each property of each mechanism."""
    for cell in survey.cells.values():
        if cell.witness is not None:
            heading = f"{cell.mechanism}, {cell.property}"
            yield Section(heading, list(_witness(cell)))


def _witness(cell: SurveyCell) -> Iterator[Block]:
    """Yield why a mechanism lacks a property on a small problem, and the problem."""
    witness = cell.witness
    assert witness is not None
    if cell.refutations:
        yield Prose(
            f"REFUTED: {cell.claim}; on {cell.refutations:,} of {cell.covered:,} problems on which "
            f"it is claimed, and on {cell.violations:,} of {cell.asked:,} in all",
            "bad",
        )
    elif cell.claim is not None:
        yield Prose("fails where it is not claimed", "small")
    yield Prose(witness.verdict.sentence)
    yield Prose(problem_line(witness.problem), "small")


def _searched(survey: Survey) -> Table:
    """Count the problems that each mechanism answered."""

    def row(name: str) -> list[Content]:
        refused, unproved = survey.refused[name], survey.unproved[name]
        answered = survey.problems - refused - unproved
        return [
            name,
            f"{answered:,}",
            f"{refused:,}",
            Cell(f"{unproved:,}", kind="bad" if unproved else ""),
        ]

    headings = ("problems answered", "refused by its definition", "without a certified answer")
    rows = [row(name) for name in survey.mechanisms]
    return table_of("Answers of each mechanism", [*words("mechanism"), *numbers(*headings)], rows)


def problem_line(problem: Problem) -> str:
    """Describe a small problem in a line: servers, tasks, weights and constraints."""
    cluster, users = problem.cluster, problem.users
    servers = []
    for g, name in enumerate(cluster.groups):
        count = int(cluster.count[g])
        times = f" x {count:,}" if count > 1 else ""
        servers.append(f"{name} {_vector(cluster.capacity[g])}{times}")
    rows = []
    for n, name in enumerate(users.names):
        row = f"{name} {_vector(users.demand[n])}"
        if users.weight[n] != 1:
            row += f" weight {number(float(users.weight[n]))}"
        if not users.eligible[n].all():
            allowed = [cluster.groups[g] for g in np.flatnonzero(users.eligible[n])]
            row += f" only on {' and '.join(allowed)}"
        if np.isfinite(users.task_limit[n]):
            row += f" with {number(float(users.task_limit[n]))} tasks"
        rows.append(row)
    return f"servers {', '.join(servers)}; tasks {', '.join(rows)}"


def _vector(amounts: FloatArray) -> str:
    return f"({', '.join(number(float(amount)) for amount in amounts)})"
