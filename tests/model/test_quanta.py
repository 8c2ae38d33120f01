"""Amounts in quanta are what their writers meant."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import Problem
from fairlead.model.quanta import LARGEST_QUANTA, to_quanta
from fairlead.model.quantity import exact
from strategies import problems


@pytest.mark.parametrize(
    ("amount", "meant"),
    [
        (0.1, Fraction(1, 10)),
        (0.3, Fraction(3, 10)),
        (1e-9, Fraction(1, 10**9)),
        (10**9 / 2**30, Fraction(10**9, 2**30)),
        (1 / 3, Fraction(1 / 3)),
        (0.0, Fraction(0)),
    ],
)
def test_amounts_are_written_decimals_or_measured_floats(amount: float, meant: Fraction) -> None:
    assert exact(amount) == meant


@given(problems(kinds=("whole", "few")))
def test_ordinary_amounts_are_whole_numbers_of_quanta(problem: Problem) -> None:
    quanta = to_quanta(problem)
    for r, per_unit in enumerate(quanta.per_unit):
        for whole, amounts in (
            (quanta.capacity[:, r], problem.cluster.capacity[:, r]),
            (quanta.demand[:, r], problem.demand[:, r]),
        ):
            expected = [exact(amount) * per_unit for amount in amounts.tolist()]
            assert quanta.is_exact
            assert whole.tolist() == expected


@given(st.floats(1e-90, 1e-30), st.floats(1e30, 1e90), st.floats(0.01, 1))
def test_amounts_are_rounded_down_to_at_least_one_quantum(
    small: float, large: float, part: float
) -> None:
    quanta = to_quanta(Problem.from_arrays([[large], [part * large]], [[small], [part * large]]))
    assert not quanta.is_exact
    assert (quanta.demand > 0).all()
    total = quanta.capacity.astype(object).sum()
    assert LARGEST_QUANTA // 2 - 2 < max(total, quanta.demand.max()) <= LARGEST_QUANTA
    (per_unit,) = quanta.per_unit
    for counted, amounts in (
        (quanta.capacity[:, 0], [large, part * large]),
        (quanta.demand[:, 0], [small, part * large]),
    ):
        assert counted.tolist() == [max(floor(exact(a) * per_unit), 1) for a in amounts]


@given(st.floats(1e-4, 1e-3), st.integers(1, 1000))
def test_thousandths_stay_whole_beside_an_amount_that_does_not(odd: float, parts: int) -> None:
    quanta = to_quanta(Problem.from_arrays([[1.0]], [[odd], [parts / 1000]]))
    (per_unit,) = quanta.per_unit
    assert quanta.capacity[0, 0] == per_unit
    assert int(quanta.demand[1, 0]) * 1000 == parts * per_unit
    assert quanta.demand[0, 0] <= exact(odd) * per_unit < quanta.demand[0, 0] + 1


def test_random_floats_of_one_size_are_exact() -> None:
    rng = np.random.default_rng(1)
    problem = Problem.from_arrays(np.ones((1, 2)), rng.uniform(0.01, 0.1, (50, 2)))
    assert to_quanta(problem).is_exact
