"""The page of a survey: which mechanism has which property, and the smallest witnesses against."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from fairlead.mechanisms.catalogue import CATALOGUE
from fairlead.properties.survey import Survey
from fairlead.properties.survey_cell import Cell, Witness
from fairlead.report.numbers import counted
from fairlead.report.page import embedded_json, environment
from fairlead.report.witness_tables import problem_blocks, witness_blocks

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
}


def survey_page(survey: Survey, title: str) -> str:
    """Show a table of mechanisms and properties, and below it the smallest witnesses.

    Returns a whole HTML document, without pictures; the title says what was surveyed.
    """
    refuted = [cell for cell in survey.cells.values() if cell.refutations]
    return (
        environment()
        .get_template("survey.html")
        .render(
            title=title,
            size=f"{counted(len(survey.mechanisms), 'mechanism')}, "
            f"{counted(len(survey.properties), 'property').replace('propertys', 'properties')}, "
            f"{counted(survey.problems, 'random problem')}",
            left_out=(),
            holds=survey.holds,
            summary=f"{counted(len(refuted), 'claim')} refuted" if refuted else "no claim refuted",
            refuted=[_witness_to_show(survey, cell) for cell in refuted if cell.witness],
            properties=survey.properties,
            rows=[
                (name, [_cell_to_show(survey, name, of) for of in survey.properties])
                for name in survey.mechanisms
            ],
            witnesses=_witnesses(survey),
            parameters=[
                (PARAMETERS.get(name, name), f"{value:g}")
                for name, value in survey.distribution.to_dict().items()
            ],
            seed=survey.seed,
            answers=[
                {
                    "name": name,
                    "answered": survey.problems - survey.refused[name] - survey.unproved[name],
                    "refused": survey.refused[name],
                    "unproved": survey.unproved[name],
                }
                for name in survey.mechanisms
            ],
            figures=embedded_json({}),
            plotly=Markup(""),
        )
    )


def anchor(survey: Survey, cell: Cell) -> str:
    """Name the place of a cell's witness on the page."""
    row, column = survey.mechanisms.index(cell.mechanism), survey.properties.index(cell.property)
    return f"witness-{row}-{column}"


def _cell_to_show(survey: Survey, mechanism: str, of: str) -> dict[str, Any]:
    """Put a cell into words: what is proved, and what was found."""
    cell = survey.cells[mechanism, of]
    claimed = cell.claim is not None
    count = f"{cell.violations:,} of {cell.asked:,}"
    if not cell.asked:
        found, count = "never asked", ""
    elif cell.refutations:
        found, count = "refuted", f"{cell.refutations:,} of {cell.covered:,}"
        if (cell.violations, cell.asked) != (cell.refutations, cell.covered):
            count += f"; with what is not claimed {cell.violations:,} of {cell.asked:,}"
    elif cell.violations:
        found = "fails where it is not claimed" if claimed else "fails"
    else:
        found = "" if claimed else "no witness found"
    return {
        "claimed": claimed,
        "without": ", ".join(cell.claim.without) if cell.claim is not None else "",
        "found": found,
        "count": count,
        "kind": "refuted" if cell.refutations else "fails" if cell.violations else "quiet",
        "link": anchor(survey, cell) if cell.witness is not None else "",
    }


def _witnesses(survey: Survey) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Collect the witnesses by mechanism, each mechanism with its idea."""
    collected = []
    for name in survey.mechanisms:
        cells = [survey.cells[name, of] for of in survey.properties]
        shown = [_witness_to_show(survey, cell) for cell in cells if cell.witness is not None]
        if shown:
            row = CATALOGUE.get(name)
            collected.append((name, "" if row is None else row.summary, shown))
    return collected


def _witness_to_show(survey: Survey, cell: Cell) -> dict[str, Any]:
    witness: Witness | None = cell.witness
    assert witness is not None
    return {
        "link": anchor(survey, cell),
        "mechanism": cell.mechanism,
        "property": cell.property,
        "refuted": cell.refutations > 0,
        "claim": "" if cell.claim is None else str(cell.claim),
        "sentence": witness.verdict.sentence,
        "number": witness.number,
        "problem": problem_blocks(witness.problem),
        "blocks": witness_blocks(witness.verdict, witness.problem),
    }
