"""Documents of surveys: which mechanism has which property, and the smallest witnesses against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fairlead.mechanisms.catalogue import CATALOGUE
from fairlead.report.document import (
    FAILS,
    HOLDS,
    PAGE,
    TERMINAL,
    Block,
    Cards,
    Cell,
    Column,
    Content,
    Document,
    Facts,
    Listing,
    Prose,
    Section,
    Statement,
    table_of,
    words,
)
from fairlead.report.numbers import counted
from fairlead.report.witness import problem_blocks, problem_line, witness_blocks
from fairlead_papers.surveys.survey import Survey
from fairlead_papers.surveys.work import SurveyCell

# What the parameters of random problems are, for a reader.
PARAMETERS = {
    "users": "users at most",
    "servers": "servers at most",
    "resources": "resources at most",
    "heterogeneity": "orders of magnitude over which amounts spread",
    "constrained": "chance that a user may run on some servers only",
    "zero_demand": "chance that a task takes nothing of a resource, and that a server has none",
    "limited": "chance that a user has finitely many tasks",
    "weighted": "chance that users have weights",
    "rated": "chance that users have rates, not demands",
}


def survey_document(survey: Survey, title: str) -> Document:
    """Show a table of mechanisms and properties, and below it the smallest witnesses.

    Parameters
    ----------
    survey : Survey
    title : str
        What was surveyed.
    """
    properties = "1 property"
    if len(survey.properties) != 1:
        properties = f"{len(survey.properties)} properties"
    mechanisms = counted(len(survey.mechanisms), "mechanism")
    return Document(
        title,
        "properties of mechanisms",
        f"{mechanisms}, {properties} (seed {survey.seed})",
        _opening(survey),
        [
            Section("Which mechanism has which property", list(_findings(survey))),
            Section("The smallest witnesses", list(_witnesses(survey))),
            Section("What was searched", list(_searched(survey))),
        ],
        survey.to_dict,
    )


def _opening(survey: Survey) -> Statement:
    """List refuted claims."""
    problems = counted(survey.problems, "random problem")
    refuted = [c for c in survey.cells.values() if c.refutations]
    if not refuted:
        return Statement(HOLDS, f"No claim is refuted on {problems}.")
    claims = f"{counted(len(refuted), 'claim')} {'is' if len(refuted) == 1 else 'are'} refuted"
    which = "; ".join(f"{cell.mechanism}, {cell.property}" for cell in refuted)
    return Statement(FAILS, f"{claims} on {problems}: {which}.")


def _findings(survey: Survey) -> Iterator[Block]:
    """Yield the table of mechanisms and properties, and what its marks mean."""
    rows: list[list[Content]] = [
        [name, *(_finding(survey, survey.cells[name, of]) for of in survey.properties)]
        for name in survey.mechanisms
    ]
    columns = [words("mechanism"), *map(Column, survey.properties)]
    yield table_of("Mechanisms and their properties", columns, rows)
    yield Prose(
        "The problems on which a property fails / those on which there was something to ask. "
        "✓ a paper proves it, and it is not refuted; ✓* a paper proves it under the conditions "
        "below, and it is not refuted there; REFUTED: a paper claims it, and here is a witness; no "
        "mark: nobody claims it. A search cannot prove a property; it can refute one.",
        "small",
    )
    conditions = [
        f"* {cell.mechanism}, {cell.property}: claimed without {' or '.join(cell.claim.without)}"
        for cell in survey.cells.values()
        if cell.claim is not None and cell.claim.without
    ]
    if conditions:
        yield Listing(conditions, kind="small")


def _finding(survey: Survey, cell: SurveyCell) -> Cell:
    """Describe the claim on a mechanism and property, and the result."""
    count = f"{cell.violations:,}/{cell.asked:,}" if cell.asked else "not asked"
    part = cell.violations / cell.asked if cell.asked else 0.0
    kind, mark = "" if cell.violations else "dim", ""
    if cell.refutations:
        kind, mark, count = "bad", "REFUTED ", f"{cell.refutations:,}/{cell.covered:,}"
    elif cell.claim is not None:
        kind, mark = "good", "✓* " if cell.claim.without else "✓ "
    link = _anchor(survey, cell) if cell.witness is not None else ""
    return Cell(f"{mark}{count}", part, kind=kind, link=link)


def _anchor(survey: Survey, cell: SurveyCell) -> str:
    """Name the place of a cell's witness on the page."""
    row, column = survey.mechanisms.index(cell.mechanism), survey.properties.index(cell.property)
    return f"witness-{row}-{column}"


def _witnesses(survey: Survey) -> Iterator[Block]:
    """Yield the witnesses by mechanism, each mechanism with its idea."""
    for name in survey.mechanisms:
        cells = [survey.cells[name, of] for of in survey.properties]
        cards = [
            ("", Section(f"{name}, {cell.property}", list(_witness(cell)), 4, kind, anchor))
            for cell in cells
            if cell.witness is not None
            for kind, anchor in [("fails" if cell.refutations else "", _anchor(survey, cell))]
        ]
        if cards:
            about = [Prose(CATALOGUE[name].summary, "small", PAGE)] if name in CATALOGUE else []
            yield Section(name, [*about, Cards(cards)], level=3)


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
    yield Prose(problem_line(witness.problem), "small", TERMINAL)
    yield from problem_blocks(witness.problem)
    for table in witness_blocks(witness.verdict, witness.problem):
        yield replace(table, folded=table.about, captioned=False)
    yield Prose(f"shrunk from random problem {witness.number}", "small", PAGE)


def _searched(survey: Survey) -> Iterator[Block]:
    """Yield how many problems each mechanism answered, and what the problems were."""

    def row(name: str) -> list[Content]:
        refused, unproved = survey.refused[name], survey.unproved[name]
        answered = survey.problems - refused - unproved
        cells = [Cell(f"{count:,}", count) for count in (answered, refused)]
        return [name, *cells, Cell(f"{unproved:,}", unproved, kind="bad" if unproved else "")]

    headings = ("problems answered", "refused by its definition", "without a certified answer")
    rows = [row(name) for name in survey.mechanisms]
    columns = [words("mechanism"), *map(Column, headings)]
    yield table_of("Answers of each mechanism", columns, rows)
    parameters = [
        (PARAMETERS.get(name, name), f"{value:g}")
        for name, value in survey.distribution.to_dict().items()
    ]
    facts = Facts([*parameters, ("seed", str(survey.seed))])
    yield Section("Random problems", [facts], level=3, only=PAGE)
