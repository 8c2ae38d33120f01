"""The witnesses of a survey as problem files."""

from __future__ import annotations

from pathlib import Path

from fairlead.properties.witness_files import save_pair, save_problem
from fairlead_papers.surveys.survey import Survey


def save_survey_witnesses(survey: Survey, folder: Path) -> list[Path]:
    """Write the smallest witness against each property of each mechanism as a problem file.

    Returns the files: ``MECHANISM.PROPERTY.yaml``, and the lie that pays beside it as
    ``MECHANISM.strategy-proofness.lie.yaml``. Creates the folder; raises InputError when a file
    cannot be written.
    """
    written = []
    for cell in survey.cells.values():
        if cell.witness is None:
            continue
        name = f"{cell.mechanism}.{cell.property}"
        if cell.witness.lie is not None:
            problem = cell.witness.problem
            written += save_pair(problem, cell.witness.lie, folder, name, f"{name}.lie")
        else:
            written.append(save_problem(cell.witness.problem, folder, name))
    return written
