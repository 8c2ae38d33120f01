"""Khamse-Ashari et al. 2017, Table I: each tick stands or is refuted, each blank has a witness."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairlead import Problem, load, solve
from fairlead.mechanisms.catalogue import CATALOGUE
from fairlead.properties.audit import audit
from fairlead.properties.lies import Lie, declared_problem, search_lies
from fairlead.properties.subject import subject_of

EXAMPLES = Path(__file__).parents[2] / "examples" / "refuted"
FIGURE_1 = Problem.from_arrays(
    [[9, 12, 100], [12, 12, 0]], [[1, 2, 10], [1, 2, 1], [1, 2, 0]], weight=[1, 1, 2]
)


def test_the_figures_numbers_are_in_the_witnesses() -> None:
    """Fig. 1: 3 tasks each are fair to users 1 and 2; C-DRFH gives 2.609, TSF 2."""
    for mechanism, has in (("drfh", 2.609), ("tsf", 2.0)):
        witness = audit(FIGURE_1, mechanism, properties=("bottleneck-fairness",))[0].witness
        assert (witness["user"], witness["resource"]) == ("u1", "r2")
        assert witness["tasks"] == pytest.approx(has, abs=5e-4)
        assert witness["fair_tasks"] == pytest.approx(3)
    assert audit(FIGURE_1, "ps-dsf", properties=("bottleneck-fairness",)).holds


def test_a_lie_about_servers_pays_under_resource_division() -> None:
    problem = Problem.from_arrays([[6, 5], [6, 3]], [[1, 9], [7, 1], [9, 2]])
    lie = Lie(1, problem.demand[1], np.array([True, False]), None)
    honest = solve(problem, "ps-dsf").user_tasks[1]
    gained = solve(declared_problem(problem, lie), "ps-dsf").user_tasks[1]
    assert gained > 1.005 * honest
    verdict, found = search_lies(subject_of(problem, "ps-dsf"), 5, first=lie)
    assert verdict.verdict == "fails"
    assert found.gained >= gained


@pytest.mark.parametrize(
    ("mechanism", "refutation"),
    [(row.name, refutation) for row in CATALOGUE.values() for refutation in row.refuted],
    ids=str,
)
def test_what_papers_state_and_the_catalogue_calls_refuted_is(mechanism, refutation) -> None:
    found = audit(load(EXAMPLES / refutation.witness), mechanism, properties=(refutation.property,))
    assert found[0].verdict == "fails"


def test_every_witness_among_the_examples_refutes_something() -> None:
    named = {refutation.witness for row in CATALOGUE.values() for refutation in row.refuted}
    assert {path.name for path in EXAMPLES.iterdir()} == named


def test_declared_rates_can_be_lied_about() -> None:
    problem = Problem.from_arrays([[1], [1]], [[1], [1]], rates=[[4, 1], [8, 4]])
    claim = CATALOGUE["ps-dsf-tdm"].claim("strategy-proofness")
    assert claim is not None
    assert not claim.covers(problem)
    verdict, _ = search_lies(subject_of(problem, "ps-dsf-tdm"), 300)
    assert verdict.verdict == "fails"
    assert verdict.severity > 0.02
