"""Nothing is claimed in the catalogue that a search over random problems refutes."""

from __future__ import annotations

import pytest

from effort import cases
from fairlead.executors.local_processes import Processes
from fairlead.mechanisms.catalogue import CATALOGUE, CONSTRAINTS, LIMITS, RATES
from fairlead.properties.audit import PROPERTIES
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
