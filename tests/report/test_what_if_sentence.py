"""The first sentence of ``allocate --what-if`` names gains and losses; computed by hand."""

from __future__ import annotations

import re

from fairlead.mechanisms.catalogue import solve
from fairlead.model.problem import Problem
from fairlead.model.problem_changes import change_problem
from fairlead.report.changes import what_if_document
from fairlead.report.document import Document, Listing


def document_of(problem: Problem, *changes: str, mechanism: str) -> Document:
    changed = {text: solve(change_problem(problem, text), mechanism) for text in changes}
    return what_if_document(solve(problem, mechanism), changed, "t")


def sentence_of(problem: Problem, *changes: str, mechanism: str) -> str:
    verdict = document_of(problem, *changes, mechanism=mechanism).verdict
    assert verdict is not None
    return verdict.sentence


def two_users() -> Problem:
    """Return 12 GPUs for two users with equal demands."""
    return Problem.from_arrays([[1.0]], [[1.0]] * 2, count=[12], groups=["g"], users=["a", "b"])


def test_gains_and_losses_of_a_change_come_first() -> None:
    """With weight 2, a has 8 of 12 GPUs and b 4; both had 6."""
    assert sentence_of(two_users(), "weight:a=2", mechanism="drfh") == (
        "weight:a=2: 1 user loses: b (−33.3\u00a0%); 1 user gains: a (+33.3\u00a0%). "
        "These are shares by drfh, not what users hold now."
    )
    unchanged = sentence_of(two_users(), "tasks:a=6", mechanism="drfh")
    assert unchanged.startswith("tasks:a=6: No user gains or loses. ")


def test_of_many_changes_the_first_are_in_the_sentence() -> None:
    changes = [f"weight:a={k}" for k in range(2, 7)]
    document = document_of(two_users(), *changes, mechanism="drfh")
    assert document.verdict is not None
    assert re.findall(r"weight:a=(\d): ", document.verdict.sentence) == ["2", "3", "4"]
    (further,) = (block for block in document.blocks if isinstance(block, Listing))
    assert [line.partition(": ")[0] for line in further.lines] == changes[3:]


def test_users_that_take_no_resource_gain_tasks() -> None:
    """A problem with only rates: twice the servers run twice the tasks."""
    problem = Problem.from_arrays(
        [[1.0]], [[0.0], [0.0]], rates=[[1.0], [2.0]], groups=["g"], users=["ana", "bo"]
    )
    sentence = sentence_of(problem, "servers:g+1", mechanism="ps-dsf-tdm")
    assert "2 users gain: " in sentence
    assert "ana (+100\u00a0%)" in sentence
