"""Properties over time: dynamic DRF has them, and a mechanism without one fails with a witness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from dynamic_sequences import Sequence, history_of, sequences
from fairlead.errors import InputError
from fairlead.mechanisms.dynamic_run import run_dynamic
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.properties import dynamic
from fairlead.properties.dynamic import (
    DynamicShares,
    Mechanism,
    check_dynamic,
    check_envy_freeness,
    check_pareto_optimality,
    check_sharing_incentive,
    dynamic_drf,
    search_lies,
)
from oracles.dynamic import exact_levels

NAMES = ["sharing-incentive", "dynamic-envy-freeness", "dynamic-pareto-optimality"]


def shares_of(sequence: Sequence) -> DynamicShares:
    run = sequence.run()
    return DynamicShares(
        sequence.demand, sequence.weight, float(sequence.weight.sum()), run.shares_at
    )


@given(sequences())
def test_dynamic_drf_has_them_all(sequence: Sequence) -> None:
    verdicts = check_dynamic(shares_of(sequence))
    assert [v.name for v in verdicts] == NAMES
    assert [v.verdict for v in verdicts] == ["holds"] * 3
    assert all(v.searched == len(sequence.weight) and not v.witness for v in verdicts)


DEMAND = np.array([[1.0, 0.5], [0.1, 1.0], [1.0, 1.0]])


def lower_triangle(rows: list[list[float]]) -> np.ndarray:
    shares = np.zeros((len(rows), len(rows)))
    for k, row in enumerate(rows):
        shares[k, : k + 1] = row
    return shares


def envy(agent: int, envies: int, before: float) -> dict[str, float]:
    """Return the witness of an agent with a third that envies one with a half at step 2."""
    of_other = {"its_share": 1 / 2, "its_share_before": before}
    return {"step": 2, "agent": agent, "envies": envies, "share": 1 / 3, **of_other}


@pytest.mark.parametrize(
    ("check", "rows", "witness"),
    [
        (
            check_sharing_incentive,
            [[1 / 3], [1 / 3, 0.3], [1 / 3, 1 / 3, 1 / 3]],
            {"step": 2, "agent": 2, "share": 0.3, "part": 1 / 3},
        ),
        (
            check_envy_freeness,  # of one who came later
            [[1 / 3], [1 / 3, 1 / 2], [1 / 3, 1 / 2, 1 / 3]],
            envy(agent=1, envies=2, before=0.0),
        ),
        (
            check_envy_freeness,  # of one who was given more meanwhile
            [[1 / 3], [1 / 2, 1 / 3], [1 / 2, 1 / 2, 1 / 3]],
            envy(agent=2, envies=1, before=1 / 3),
        ),
        (
            check_pareto_optimality,
            [[1 / 3], [1 / 3, 1 / 3], [1 / 3, 1 / 3, 1 / 3]],
            {"step": 2, "agent": 1, "left": 2 / 3 - 1 / 2},
        ),
    ],
)
def test_a_broken_mechanism_is_caught(
    check: Callable[[DynamicShares], Verdict], rows: list[list[float]], witness: dict[str, float]
) -> None:
    verdict = check(history_of(DEMAND, lower_triangle(rows)))
    assert verdict.verdict == "fails"
    assert verdict.witness == pytest.approx(witness)


def test_gains_before_an_arrival_cause_no_envy() -> None:
    rows = [[1 / 3], [5 / 9, 5 / 9], [5 / 9, 5 / 9, 1 / 3]]
    assert check_envy_freeness(history_of(DEMAND, lower_triangle(rows))).verdict == "holds"


def test_with_zero_demands_bundles_are_compared() -> None:
    """The first has the higher level and nothing that the second could use."""
    demand = np.array([[1.0, 0.0], [0.0, 1.0]])
    rows = [[1 / 2], [1.0, 1 / 2]]
    assert check_envy_freeness(history_of(demand, lower_triangle(rows))).verdict == "holds"
    demand = np.array([[1.0, 1.0], [0.0, 1.0]])
    verdict = check_envy_freeness(history_of(demand, lower_triangle(rows)))
    assert verdict.witness["agent"] == 2


def test_an_unstopped_agent_of_another_kind_is_seen() -> None:
    """Resource 1 is used up, but the second agent does not demand it."""
    demand = np.array([[1.0, 0.0], [0.0, 1.0]])
    rows = [[1 / 2], [1.0, 1 / 2]]
    verdict = check_pareto_optimality(history_of(demand, lower_triangle(rows)))
    assert verdict.witness == pytest.approx({"step": 2, "agent": 2, "left": 0.5})


def test_weights_count() -> None:
    demand, weight = np.ones((2, 1)), np.array([1.0, 3.0])
    sequence = Sequence(demand, weight)
    assert [v.verdict for v in check_dynamic(shares_of(sequence))] == ["holds"] * 3
    shares = lower_triangle([[0.25], [0.5, 0.5]])
    course = DynamicShares(demand, weight, 4.0, lambda k: shares[k - 1, :k])
    assert check_sharing_incentive(course).witness["agent"] == 2
    assert check_envy_freeness(course).witness["agent"] == 2


def test_of_many_agents_a_sample_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least levels of a run are known, so that sharing is checked at every step."""
    monkeypatch.setattr(dynamic, "CHECKED_IN_FULL", 20)
    monkeypatch.setattr(dynamic, "PAIRS_IN_FULL", 20)
    monkeypatch.setattr(dynamic, "SAMPLED", 10)
    problem = Problem.from_arrays([[4, 4]], np.random.default_rng(0).uniform(0.1, 1, (90, 2)))
    course = DynamicShares.from_run(run_dynamic(problem))
    for verdict in check_dynamic(replace(course, least_level=None)):
        assert (verdict.verdict, verdict.searched) == ("unknown", 10)
        assert verdict.detail == "10 of 90 steps"
    assert (course.steps[0], course.steps[-1], course.agents_of_pairs[-1]) == (1, 90, 89)
    verdict = check_sharing_incentive(course)
    assert (verdict.verdict, verdict.searched) == ("holds", 90)

    def shares_at(step: int) -> np.ndarray:
        return course.shares_at(step) * (0.5 if step == 42 else 1.0)

    assert course.least_level is not None
    least = course.least_level.copy()
    least[41] /= 2
    verdict = check_sharing_incentive(replace(course, shares_at=shares_at, least_level=least))
    assert verdict.verdict == "fails"
    assert verdict.witness["step"] == 42
    assert 42 not in course.steps


def shares_by(sequence: Sequence, divide: Mechanism) -> DynamicShares:
    shares_at = divide(sequence.demand, sequence.weight)
    return DynamicShares(sequence.demand, sequence.weight, float(sequence.weight.sum()), shares_at)


def test_a_mechanism_that_rewards_lies_is_caught() -> None:
    def divide(demand: np.ndarray, weight: np.ndarray) -> Callable[[int], np.ndarray]:
        """Dynamic DRF, with 5 % more at step 5 for agents that declare all of resource 1."""
        honest = dynamic_drf(5.0)(demand, weight)
        more = np.where(demand[:, 0] == 1.0, 1.05, 1.0)
        return lambda step: honest(step) * (more[:step] if step == 5 else 1.0)

    demand = np.array([[1.0, 0.3], [0.5, 1.0], [0.97, 1.0], [0.2, 1.0], [1.0, 1.0]])
    verdict = search_lies(shares_by(Sequence(demand, np.ones(5)), divide), divide, 400, seed=1)
    assert verdict.verdict == "fails"
    assert (verdict.witness["step"], verdict.witness["lie"][0]) == (5, 1.0)


@given(sequences(zeros=False))
def test_no_lie_pays_under_dynamic_drf(sequence: Sequence) -> None:
    """As is proved for positive demands."""
    divide = dynamic_drf(float(sequence.weight.sum()))
    verdict = search_lies(shares_by(sequence, divide), divide, 40)
    assert (verdict.verdict, verdict.searched) == ("unknown", 40)


# Agents 2 and 3 do not demand everything. By asking for more of resource 2 than it needs, agent 1
# keeps agent 3 from going on alone at step 3, which would cost everybody resource 3 at step 4.
WITH_ZEROS = [[1.0, 0.5, 0.5], [1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.5, 0.5, 1.0]]


def test_the_search_finds_that_lie() -> None:
    sequence = Sequence(np.array(WITH_ZEROS), np.ones(4))
    divide = dynamic_drf(4.0)
    honest = exact_levels(WITH_ZEROS, [1.0] * 4)
    assert [levels[0] for levels in honest][2:] == [Fraction(3, 8)] * 2
    verdict = search_lies(shares_by(sequence, divide), divide, 300, seed=1)
    assert verdict.verdict == "fails"
    assert (verdict.witness["agent"], verdict.witness["step"]) == (1, 4)
    assert verdict.witness["honest"] == pytest.approx(3 / 8)
    assert verdict.witness["gained"] > 0.375 * 1.01
    told = [verdict.witness["lie"], *WITH_ZEROS[1:]]
    worth = min(a / b for a, b in zip(told[0], WITH_ZEROS[0], strict=True))
    replayed = float(exact_levels(told, [1.0] * 4)[-1][0]) * worth
    assert replayed == pytest.approx(verdict.witness["gained"])


@pytest.mark.parametrize(("lies", "seed", "place"), [(0, 0, "lies"), (1, -1, "seed")])
def test_numbers_out_of_range(lies: int, seed: int, place: str) -> None:
    sequence, divide = Sequence(np.array(WITH_ZEROS), np.ones(4)), dynamic_drf(4.0)
    with pytest.raises(InputError, match=place):
        search_lies(shares_by(sequence, divide), divide, lies, seed)
