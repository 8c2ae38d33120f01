"""The first sentence of ``allocate --what-if`` names gains and losses; computed by hand."""

from __future__ import annotations

import re

import pytest

from fairlead.mechanisms.catalogue import solve
from fairlead.model.problem import Problem
from fairlead.model.problem_changes import change_problem
from fairlead.report.changes import what_if_document


def sentence_of(problem: Problem, *changes: str, mechanism: str = "ps-dsf") -> str:
    changed = {text: solve(change_problem(problem, text), mechanism) for text in changes}
    verdict = what_if_document(solve(problem, mechanism), changed, "t").verdict
    assert verdict is not None
    return verdict.sentence


def lab() -> Problem:
    """Two nodes of 8 GPUs for cy and bo (of weight 3), and two without for dee and ana."""
    return Problem.from_arrays(
        [[32, 64, 8], [16, 64, 0]],
        [[4, 8, 0], [4, 4, 1], [2, 4, 1], [2, 0, 0]],
        count=[2, 2],
        resources=["cpu", "memory", "gpu"],
        units=["cores", "GiB", ""],
        groups=["a100", "m"],
        users=["dee", "cy", "bo", "ana"],
        eligible=[[False, True], [True, False], [True, False], [False, True]],
        weight=[1, 1, 3, 1],
        task_limit=[2, 40, float("inf"), 3],
    )


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        # Of 16 GPUs bo has 12 by weight 3 and cy 4; of 32 GPUs bo has 24 and cy 8.
        # On m, dee's 8 cores and ana's 6 stay. Of 96 cores 54 were used, of 160 it is 94.
        (
            "servers:a100+2",
            "With 2 more servers of a100, bo gains 12 gpu, 24 cores of cpu and 48 GiB of memory, "
            "and cy gains 4 gpu, 16 cores of cpu and 16 GiB of memory; no user loses; the cluster "
            "then uses 100.00 % of gpu (before: 100.00 %), 58.75 % of cpu (before: 56.25 %) and ",
        ),
        # With weight 1 for each, both have 8 GPUs: bo has 4 fewer, cy 4 more.
        (
            "weight:bo=1",
            "With weight 1 for bo, cy gains 4 gpu, 16 cores of cpu and 16 GiB of memory; bo loses "
            "4 gpu, 8 cores of cpu and 16 GiB of memory; the cluster then uses ",
        ),
        ("tasks:ana=3", "With at most 3 tasks of ana, no user gains; no user loses; the cluster "),
    ],
)
def test_it_names_gains_losses_and_use(change: str, moved: str) -> None:
    assert sentence_of(lab(), change).startswith(moved)


def test_many_users_are_counted() -> None:
    """Of 12 GPUs each of 6 users has 2; of 18, it has 3."""
    problem = Problem.from_arrays([[1.0]], [[1.0]] * 6, count=[12], resources=["gpu"], groups=["g"])
    sentence = sentence_of(problem, "servers:g+6", mechanism="drfh")
    assert "u2 gains 1 gpu, u3 gains 1 gpu, and 3 more users gain; no user loses; " in sentence


def test_of_many_changes_the_first_are_named() -> None:
    problem = Problem.from_arrays([[1.0]], [[1.0]] * 2, count=[12], groups=["g"], users=["a", "b"])
    sentence = sentence_of(problem, *(f"weight:a={k}" for k in range(2, 7)), mechanism="drfh")
    assert re.findall(r"With weight (\d) for a", sentence) == ["2", "3", "4"]
    assert sentence.endswith(
        " 2 more changes are below. These are shares by drfh, not what users hold now."
    )


def test_users_that_take_no_resource_gain_tasks() -> None:
    """A problem with only rates: twice the servers run twice the tasks."""
    problem = Problem.from_arrays(
        [[1.0]], [[0.0], [0.0]], rates=[[1.0], [2.0]], groups=["g"], users=["ana", "bo"]
    )
    sentence = sentence_of(problem, "servers:g+1", mechanism="ps-dsf-tdm")
    assert "With 1 more server of g, 2 users gain: " in sentence
    assert "ana (+100\u00a0%)" in sentence
