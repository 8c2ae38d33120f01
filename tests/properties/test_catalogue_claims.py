"""Claims of the catalogue stand, end where they say, and differ from papers with a witness."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from effort import cases
from fairlead import Problem, load, solve
from fairlead.executors.executor import Processes
from fairlead.mechanisms.catalogue import CATALOGUE, CONSTRAINTS, LIMITS, RATES
from fairlead.properties.audit import PROPERTIES, audit
from fairlead.properties.lies import Lie, declared_problem, search_lies
from fairlead.properties.subject import subject_of
from fairlead_papers.surveys.random_problems import Distribution
from fairlead_papers.surveys.survey import survey

# Problems of each distribution: more where few meet the premise, or where a claim has conditions.
SEARCHED = {
    cases(8): ("bottleneck-fairness", "single-resource-fairness"),
    cases(6): ("population-monotonicity",),
    cases(4): ("sharing-incentive", "envy-freeness", "pareto-optimality", "strategy-proofness"),
}
CLAIMING = [row.name for row in CATALOGUE.values() if row.proved]


def distributions(mechanism: str) -> list[Distribution]:
    """Plain problems, and problems with everything that the mechanism admits."""
    accepts = CATALOGUE[mechanism].accepts
    constrained = 0.3 if CONSTRAINTS in accepts else 0.0
    limited = 0.4 if LIMITS in accepts else 0.0
    rated = 0.2 if RATES in accepts else 0.0
    plain = Distribution(constrained=0.0)
    every = Distribution(
        constrained=constrained, limited=limited, rated=rated, zero_demand=0.2, weighted=0.5
    )
    positive = Distribution(constrained=constrained, limited=limited)
    return [plain, every, positive]


def test_claims_go_by_the_names_of_properties() -> None:
    for row in CATALOGUE.values():
        assert {claim.property for claim in row.proved} <= set(PROPERTIES)
        assert {refutation.property for refutation in row.refuted} <= set(PROPERTIES)
        unconditional = {claim.property for claim in row.proved if not claim.without}
        assert unconditional.isdisjoint(refutation.property for refutation in row.refuted)


@pytest.mark.parametrize("mechanism", CLAIMING)
def test_no_claim_is_refuted(mechanism: str) -> None:
    claimed = [claim.property for claim in CATALOGUE[mechanism].proved]
    missing = set(claimed) - {name for names in SEARCHED.values() for name in names}
    assert not missing, f"{mechanism} claims what SEARCHED does not name: {missing}"
    covered = dict.fromkeys(claimed, 0)
    for seed, look in enumerate(distributions(mechanism)):
        for problems, names in SEARCHED.items():
            properties = [name for name in claimed if name in names]
            if not properties:
                continue
            found = survey(
                [mechanism],
                problems,
                distribution=look,
                properties=properties,
                seed=100 + seed,
                lies=4,
                executor=Processes(1),
            )
            assert found.unproved[mechanism] <= 1  # rates with several resources are refused
            for name in properties:
                cell = found.cells[mechanism, name]
                assert cell.refutations == 0, (cell.witness.verdict.sentence, cell.to_dict())
                covered[name] += cell.covered
    rarely = {name: asked for name, asked in covered.items() if asked < 5}
    assert not rarely, f"problems that ask, fewer than 5: {rarely}"


@pytest.mark.parametrize(
    ("mechanism", "name", "look"),
    [
        ("drfh", "bottleneck-fairness", Distribution(constrained=0.6)),
        ("drfh", "population-monotonicity", Distribution(zero_demand=0.3)),
        ("drf", "population-monotonicity", Distribution(zero_demand=0.3, constrained=0.0)),
        ("tsf", "sharing-incentive", Distribution(constrained=0.6)),
    ],
)
def test_claims_end_where_they_have_to(mechanism: str, name: str, look: Distribution) -> None:
    """Without the condition that a claim states, there are witnesses against it."""
    claim = CATALOGUE[mechanism].claim(name)
    assert claim is not None
    assert claim.without
    found = survey(
        [mechanism],
        25,
        distribution=look,
        properties=[name],
        seed=5,
        lies=20,
        executor=Processes(1),
    )
    cell = found.cells[mechanism, name]
    assert cell.violations > 0
    assert cell.refutations == 0
    assert not claim.covers(cell.witness.problem)


def test_drf_claims_no_slice_with_weights_per_resource() -> None:
    """Levels x / 2 and y / 3 are equal where x + y = 1; with sums of 1, half of it is for each."""
    claim = CATALOGUE["drf"].claim("sharing-incentive")
    assert claim is not None
    for weight, tasks in (([3, 1], [0.4, 0.6]), ([0.5, 0.5], [0.5, 0.5])):
        problem = Problem.from_arrays([1, 1], [[1, 0.5], [1, 0]], weight=[weight, weight])
        found = audit(problem, "drf", properties=["sharing-incentive"])
        assert found.subject.tasks[:, 0].tolist() == pytest.approx(tasks)
        assert found.holds or not claim.covers(problem)


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
