"""The document of a survey shows its findings."""

from __future__ import annotations

import re

from fairlead.mechanisms.catalogue import Claim
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.report.terminal import to_terminal
from fairlead_papers.surveys._survey_document import problem_line, survey_document
from fairlead_papers.surveys.random_problems import Distribution
from fairlead_papers.surveys.survey import Survey, SurveyCell, Witness


def text_of(found: Survey) -> str:
    return to_terminal(survey_document(found, "t"), width=None, plain=True)


def handmade() -> Survey:
    """Return a survey with one cell of each kind."""
    verdict = Verdict("envy-freeness", "fails", {"envy": 1.5}, 2, "why", "how", severity=0.25)
    problem = Problem.from_arrays([[4.0, 1.25]], [[1.0, 0.5], [0.5, 1.0]])
    witness = Witness(problem, verdict, None, True, 7)
    claim = Claim("envy-freeness", ("limits", "finite tasks"))
    cells = [
        SurveyCell("a", "p0", claim, 9, 5, 3, 2, witness),
        SurveyCell("a", "p1", claim, 9, 5, 3, 0, witness),
        SurveyCell("a", "p2", claim, 9, 5),
        SurveyCell("b", "p0", claim),
        SurveyCell("b", "p1", None, 1234, 0, 1001, 0, witness),
        SurveyCell("b", "p2", None, 9),
    ]
    return Survey(
        ("a", "b"),
        ("p0", "p1", "p2"),
        1300,
        42,
        Distribution(users=5, limited=0.25),
        {(cell.mechanism, cell.property): cell for cell in cells},
        {"a": 0, "b": 11},
        {"a": 66, "b": 0},
    )


def test_each_kind_of_cell_in_words() -> None:
    text = re.sub(" +", " ", text_of(handmade()))
    assert "\n a REFUTED 2/5 ✓* 3/9 ✓* 0/9\n" in text
    assert "\n b ✓* not asked 1,001/1,234 0/9\n" in text
    assert "✗ 1 claim is refuted on 1,300 random problems: a, p0.\n" in text
    assert "* a, p1: claimed without limits or finite tasks\n" in text
    prose = " ".join(text.split())
    assert "on 2 of 5 problems on which it is claimed, and on 3 of 9 in all" in prose
    assert text.count("fails where it is not claimed") == 1
    witness = handmade().cells["a", "p0"].witness
    assert witness is not None
    assert " ".join(problem_line(witness.problem).split()) in prose
    assert "\n a 1,234 66 0\n" in text
    assert "\n b 1,289 0 11\n" in text
