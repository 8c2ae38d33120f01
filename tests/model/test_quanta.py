"""Amounts: quantities as text, and as whole numbers of quanta, against exact fractions."""

from __future__ import annotations

import time
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import Problem
from fairlead.errors import ProblemError
from fairlead.model.quanta import LARGEST_QUANTA, to_quanta
from fairlead.model.quantity import (
    exact,
    number_from_text,
    parse_quantity,
    read_amount,
    show,
    unit_size,
)
from faults import fault_of
from strategies import problems


def test_amounts_are_written_decimals_or_measured_floats() -> None:
    assert [exact(a) for a in (0.1, 1e-9, 0.0)] == [Fraction(1, 10), Fraction(1, 10**9), 0]
    assert exact(10**9 / 2**30) == Fraction(10**9, 2**30)  # more digits than are written
    assert exact(1 / 3) == Fraction(1 / 3)


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


SIZES = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(1000), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18), "Ki": Fraction(1024), "Mi": Fraction(1024**2),
    "Gi": Fraction(1024**3), "Ti": Fraction(1024**4), "Pi": Fraction(1024**5),
    "Ei": Fraction(1024**6),
}  # fmt: skip
UNITS = {
    "": Fraction(1), "cores": Fraction(1), "millicores": Fraction(1, 1000), "bytes": Fraction(1),
    "GiB": Fraction(1024**3), "GB": Fraction(10**9), "MiB": Fraction(1024**2),
    "Mb/s": Fraction(10**6), "TiB": Fraction(1024**4), "kB": Fraction(1000),
}  # fmt: skip


@given(
    whole=st.integers(0, 10**12),
    part=st.text("0123456789", max_size=6),
    suffix=st.sampled_from(sorted(SIZES)),
    unit=st.sampled_from(sorted(UNITS)),
)
def test_amount_is_the_exact_one_rounded_once(
    whole: int, part: str, suffix: str, unit: str
) -> None:
    exact = Fraction(f"{whole}.{part or 0}")
    if suffix:
        exact = exact * SIZES[suffix] / UNITS[unit]
    text = f"{whole}.{part}{suffix}"
    assert parse_quantity(text, unit) == (float(exact), bool(suffix))


@pytest.mark.parametrize(
    ("text", "unit", "amount", "suffixed"),
    [
        ("1e3", "GiB", 1000.0, False),
        ("1E", "", 1e18, True),
        ("1e-3", "", 0.001, False),
        (".5", "", 0.5, False),
        ("+5", "", 5.0, False),
        ("16", "of the largest server", 16.0, False),
        ("0e99999999999", "", 0.0, False),
    ],
)
def test_ways_to_write_an_amount(text: str, unit: str, amount: float, suffixed: bool) -> None:
    assert read_amount(text, unit) == (amount, suffixed)


NO_QUANTITIES = ("", ".", "m", "1 Gi", "1gi", "1e3Ki", "1e", "0x10", "1_000", "nan", "1,5", "٣",
                 "1Gi\n", "9" * 301, "1e-400E", True, None, {})  # fmt: skip
OUT_OF_RANGE = (1e308, 10**400, "1e400")


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        (NO_QUANTITIES, "must be a number or a quantity such as 500m or 4Gi, not "),
        (OUT_OF_RANGE, "must be 0 or a number between 1e-100 and 1e+100, not "),
        ((float("nan"), float("inf")), "must be a finite number, not "),
        ((-1, "-1"), "must not be negative, not "),
    ],
)
def test_refusals(values: tuple[object, ...], fault: str) -> None:
    for value in values:
        assert fault_of(read_amount, value).startswith(fault)


@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999", "1e" + "9" * 200, "9" * 299])
def test_huge_numbers_cost_nothing(text: str) -> None:
    start = time.process_time()
    with pytest.raises(ProblemError, match="must be 0 or a number between"):
        parse_quantity(text)
    assert time.process_time() - start < 1


def test_suffix_without_an_absolute_unit() -> None:
    fault = fault_of(read_amount, "500m", "of the largest server")
    assert fault.startswith("must be a plain number, not '500m': an absolute quantity has no")


def test_units_are_known_in_any_sensible_case() -> None:
    assert (unit_size("Cores"), unit_size("GPUs"), unit_size("Mb/s")) == (1, 1, 10**6)
    assert unit_size("mb/s") is unit_size("normalised") is None


def test_what_is_shown_stays_short() -> None:
    assert len(show("x" * 10**6)) < 50
    assert show("a\nb") == r"'a\nb'"


def test_a_typed_number_is_of_plain_digits() -> None:
    assert [number_from_text(text) for text in ("2", "-0.5", "1e3")] == [2, -0.5, 1000]
    for text in ("1_0", "\u0663", " 2", "2\n"):
        with pytest.raises(ValueError, match="is not a plain number"):
            number_from_text(text)
