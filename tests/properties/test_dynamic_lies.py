"""The search for lies finds one where there is one, and its witness can be replayed."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from dynamic_sequences import Sequence, sequences
from fairlead.errors import InputError
from fairlead.properties.dynamic import DynamicShares
from fairlead.properties.dynamic_lies import Mechanism, dynamic_drf, search_lies
from oracles.dynamic import exact_levels

Shares = Callable[[int], np.ndarray]


def by_size(demand: np.ndarray, _weight: np.ndarray) -> Shares:
    """Divide equally, with less for agents that declare a small demand."""
    shares = demand.mean(axis=1) / len(demand)
    return lambda step: shares[:step]


def to_the_odd(demand: np.ndarray, weight: np.ndarray) -> Shares:
    """Dynamic DRF, with a little extra at the end for agents that declare all of resource 1."""
    honest = dynamic_drf(float(weight.sum()))(demand, weight)
    n = len(demand)

    def shares_at(step: int) -> np.ndarray:
        shares = honest(step).copy()
        if step == n:
            shares[demand[:, 0] == 1.0] *= 1.05
        return shares

    return shares_at


def shares_of(sequence: Sequence, divide: Mechanism) -> DynamicShares:
    shares_at = divide(sequence.demand, sequence.weight)
    return DynamicShares(sequence.demand, sequence.weight, float(sequence.weight.sum()), shares_at)


SEQUENCE = Sequence(
    np.array([[1.0, 0.3], [0.5, 1.0], [0.97, 1.0], [0.2, 1.0], [1.0, 1.0]]), np.ones(5)
)


@pytest.mark.parametrize("divide", [by_size, to_the_odd])
def test_a_mechanism_that_rewards_lies_is_caught(divide: Mechanism) -> None:
    verdict = search_lies(shares_of(SEQUENCE, divide), divide, 400, seed=1)
    assert verdict.verdict == "fails"
    assert verdict.searched == 400
    witness = verdict.witness
    agent = witness["agent"] - 1
    told = SEQUENCE.demand.copy()
    told[agent] = witness["lie"]
    lied = divide(told, SEQUENCE.weight)(witness["step"])[agent]
    bundle = lied * told[agent]
    assert (bundle / SEQUENCE.demand[agent]).min() == pytest.approx(witness["gained"])
    honest = divide(SEQUENCE.demand, SEQUENCE.weight)(witness["step"])[agent]
    assert honest == pytest.approx(witness["honest"])
    assert witness["gained"] > honest


@given(sequences(zeros=False))
def test_no_lie_pays_under_dynamic_drf(sequence: Sequence) -> None:
    """As is proved for positive demands."""
    divide = dynamic_drf(float(sequence.weight.sum()))
    verdict = search_lies(shares_of(sequence, divide), divide, 40)
    assert verdict.verdict == "unknown"
    assert verdict.searched == 40
    assert verdict.detail == "40 lies"


# Agents 2 and 3 do not demand everything. By asking for more of resource 2 than it needs, agent 1
# keeps agent 3 from going on alone at step 3, which would cost everybody resource 3 at step 4.
WITH_ZEROS = [[1.0, 0.5, 0.5], [1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.5, 0.5, 1.0]]


def test_a_lie_can_pay_with_zero_demands() -> None:
    """In fractions: what the papers prove for positive demands is not true of all demands."""
    honest = exact_levels(WITH_ZEROS, [1.0] * 4)
    lied = exact_levels([[1.0, 1.0, 0.5], *WITH_ZEROS[1:]], [1.0] * 4)
    assert [levels[0] for levels in honest] == [Fraction(s) for s in ("1/4", "1/4", "3/8", "3/8")]
    assert [levels[0] for levels in lied] == [Fraction(s) for s in ("1/4", "1/4", "3/8", "2/5")]
    # The lie asks for as much of resources 1 and 3 per share, so its shares are worth the same.


def test_the_search_finds_that_lie() -> None:
    sequence = Sequence(np.array(WITH_ZEROS), np.ones(4))
    divide = dynamic_drf(4.0)
    verdict = search_lies(shares_of(sequence, divide), divide, 300, seed=1)
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
    with pytest.raises(InputError, match=place):
        search_lies(shares_of(SEQUENCE, by_size), by_size, lies, seed)
