"""Surveys, and what they draw and shrink: valid, the same again, and true when looked at afresh."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead
from fairlead import Problem
from fairlead.errors import InputError
from fairlead.executors.executor import Processes
from fairlead.formats.problem_file import document_of, problem_of
from fairlead.mechanisms.catalogue import find_mechanism
from fairlead.model.verdict import Verdict
from fairlead.properties.audit import PROPERTIES, audit, audit_subject
from fairlead.properties.lies import declared_problem
from fairlead.properties.special_cases import find_bottleneck, find_single_resource
from fairlead.properties.subject import subject_of
from fairlead_papers.surveys._shrinking import shrink, size_key
from fairlead_papers.surveys.random_problems import Distribution
from fairlead_papers.surveys.survey import (
    TOLERANCE,
    SurveyCell,
    Witness,
    save_survey_witnesses,
    shrink_witness,
    survey,
)

# Drawing.

chances = st.sampled_from([0.0, 0.4, 1.0])
distributions = st.builds(
    Distribution,
    users=st.integers(2, 6),
    servers=st.integers(1, 5),
    resources=st.integers(1, 4),
    heterogeneity=st.sampled_from([0.0, 1.0, 3.0]),
    constrained=chances,
    zero_demand=chances,
    limited=chances,
    weighted=chances,
    rated=chances,
)


@given(look=distributions, seed=st.integers(0, 2**32 - 1))
def test_problems_are_valid_and_look_as_they_should(look, seed):
    problem = look.draw(np.random.default_rng(seed))
    assert document_of(problem_of(document_of(problem))) == document_of(problem)
    assert 2 <= problem.n_users <= look.users
    assert 1 <= problem.n_groups <= look.servers
    assert 1 <= problem.n_resources <= look.resources
    assert look.weighted > 0 or (problem.weight == 1).all()
    assert look.limited > 0 or not problem.has_limits
    assert look.limited < 1 or np.isfinite(problem.task_limit).all()
    assert look.constrained > 0 or not problem.has_constraints
    assert (problem.users.rates is not None) == (look.rated == 1) or 0 < look.rated < 1
    assert look.zero_demand > 0 or (problem.demand > 0).all()
    assert document_of(look.draw(np.random.default_rng(seed))) == document_of(problem)


def test_premises_that_chance_hardly_meets_are_met():
    drawn = [Distribution().draw(np.random.default_rng([5, k])) for k in range(200)]
    assert sum(find_bottleneck(problem) is not None for problem in drawn) > 20
    assert sum(find_single_resource(problem) is not None for problem in drawn) > 10
    assert sum(problem.n_groups == 1 for problem in drawn) > 10
    assert sum(problem.has_constraints for problem in drawn) > 50


# Shrinking.


def test_what_is_to_be_shown_is_kept_and_all_else_goes():
    rng = np.random.default_rng(4)
    problem = Problem.from_arrays(
        rng.uniform(1, 9, (4, 3)),
        rng.uniform(1, 2, (5, 3)),
        weight=[1, 2, 3, 4, 5],
        task_limit=[3.17, np.inf, 2.2, np.inf, np.inf],
        eligible=rng.random((5, 4)) < 0.8,
        users=["a", "b", "c", "d", "e"],
    )
    small = shrink(problem, lambda p: "c" in p.users.names and p.weight[-1] == 5, 2000)
    assert small.users.names == ("c", "e")
    assert small.weight.tolist() == [1, 5]
    assert (small.n_groups, small.n_resources) == (1, 1)
    assert (small.cluster.capacity == 1).all()
    assert (small.demand == 1).all()
    assert not small.has_limits
    assert not small.has_constraints


# Surveys.

LOOK = Distribution(constrained=0.5, limited=0.3)
ASKED = ["drf-per-server", "pdrf", "tsf"]


@pytest.fixture(scope="module")
def surveyed():
    return survey(ASKED, 5, distribution=LOOK, seed=2, lies=3, executor=Processes(2))


def test_counts_are_those_of_audits_one_by_one(surveyed):
    counts = dict.fromkeys(surveyed.cells, 0)
    refused = dict.fromkeys(ASKED, 0)
    for number in range(5):
        problem = LOOK.draw(np.random.default_rng([2, number]))
        for name in ASKED:
            try:
                subject = subject_of(problem, name)
            except fairlead.RefusalError:
                refused[name] += 1
                continue
            for verdict in audit_subject(subject, lies=3, seed=number):
                counts[name, verdict.name] += (
                    verdict.verdict == "fails" and verdict.severity > TOLERANCE
                )
    assert {key: cell.violations for key, cell in surveyed.cells.items()} == counts
    assert [of for name, of in surveyed.cells if name == "tsf"] == list(PROPERTIES)
    assert surveyed.refused == refused
    assert refused["drf-per-server"] > 0
    assert sum(counts.values()) > 0


def test_witnesses_fail_when_they_are_looked_at_afresh(surveyed, tmp_path):
    files = {path.name: path for path in save_survey_witnesses(surveyed, tmp_path)}
    seen = 0
    for (mechanism, of), cell in surveyed.cells.items():
        assert cell.asked >= cell.violations >= cell.refutations
        assert (cell.witness is None) == (cell.violations == 0)
        if cell.witness is None:
            continue
        problem = fairlead.load(files[f"{mechanism}.{of}.yaml"])
        assert document_of(problem) == document_of(cell.witness.problem)
        drawn = LOOK.draw(np.random.default_rng([2, cell.witness.number]))
        assert size_key(problem)[0] <= size_key(drawn)[0]
        if of == "strategy-proofness":
            told = fairlead.load(files[f"{mechanism}.{of}.lie.yaml"])
            lie = cell.witness.lie
            assert document_of(told) == document_of(declared_problem(problem, lie))
            honest = fairlead.solve(problem, mechanism).user_tasks[lie.user]
            assert honest == pytest.approx(cell.witness.verdict.witness["honest"])
            assert cell.witness.verdict.witness["gained"] > honest
        else:
            verdict = audit(problem, mechanism, properties=[of])[0]
            assert verdict.verdict == "fails"
            assert verdict.severity == pytest.approx(cell.witness.verdict.severity)
            assert verdict.witness == cell.witness.verdict.witness
        seen += 1
    assert seen >= 4


def test_properties_and_numbers_are_checked():
    for wrong in ({"properties": ["envy"]}, {"seed": -1}, {"lies": -1}, {"problems": 0}):
        with pytest.raises(InputError):
            survey(["drf"], **({"problems": 1} | wrong))
    for wrong in ({"users": 1}, {"resources": 1001}, {"limited": 1.1}, {"rated": np.nan}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            Distribution(**wrong)


def test_a_witness_outside_of_a_claim_stays_outside():
    """What refutes nothing must not be shown on a problem of which the claim speaks.

    The server that lacks a resource is what the claim of DRFH leaves out.
    """
    claim = find_mechanism("drfh").claim("bottleneck-fairness")
    problem = Problem.from_arrays([[4.0, 4.0], [4.0, 0.0]], [[1.0, 0.5], [1.0, 0.0]])
    assert not claim.covers(problem)
    verdict = Verdict("pareto-optimality", "fails", severity=1.0)
    cell = SurveyCell("drf-per-server", "pareto-optimality", claim, 1, 0, 1, 0)
    unfair = Problem.from_arrays(
        [[2.0, 12.0], [12.0, 2.0], [3.0, 0.0]], [[0.2, 1.0], [1.0, 0.2], [1.0, 0.0]]
    )
    from dataclasses import replace

    shrunk = shrink_witness(replace(cell, witness=Witness(unfair, verdict, None, False, 0)))
    assert not claim.covers(shrunk.witness.problem)
    assert size_key(shrunk.witness.problem) < size_key(unfair)
