"""Pairs of floats are as exact as they say, and equal numbers are equal."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead.optimize.double_double import add, compare, divide, of_whole, times, to_pairs

WHOLE = st.integers(0, 2**62)
POSITIVE = st.integers(1, 2**62)
CLOSE = Fraction(1, 2**98)


def value(pair: tuple[float, float]) -> Fraction:
    return Fraction(pair[0]) + Fraction(pair[1])


@given(WHOLE)
def test_whole_numbers_are_exact(number: int) -> None:
    assert value(of_whole(number)) == number


@given(WHOLE, WHOLE, POSITIVE)
def test_sums_products_and_quotients_are_right_to_98_bits(a: int, b: int, c: int) -> None:
    pairs = [of_whole(a), of_whole(b), of_whole(c)]
    for got, exact in (
        (add(*pairs[0], *pairs[1]), Fraction(a + b)),
        (times(*pairs[0], *pairs[1]), Fraction(a * b)),
        (divide(*pairs[0], *pairs[2]), Fraction(a, c)),
    ):
        assert abs(value(got) - exact) <= CLOSE * exact


@given(POSITIVE, POSITIVE, st.integers(1, 2**20), st.integers(1, 2**20))
def test_equal_quotients_are_equal_however_they_are_written(a: int, b: int, j: int, k: int) -> None:
    assume(a * j < 2**62 and b * j < 2**62 and a * k < 2**62 and b * k < 2**62)
    one = divide(*of_whole(a * j), *of_whole(b * j))
    other = divide(*of_whole(a * k), *of_whole(b * k))
    assert compare(*one, *other) == 0


@given(st.integers(1, 2**30), st.integers(1, 2**30), st.integers(1, 2**30), st.integers(1, 2**30))
def test_products_are_ordered_as_they_are(a: int, b: int, c: int, d: int) -> None:
    one = times(*of_whole(a), *divide(1.0, 0.0, *of_whole(b)))
    other = times(*of_whole(c), *divide(1.0, 0.0, *of_whole(d)))
    difference = Fraction(a, b) - Fraction(c, d)
    assert compare(*one, *other) == (difference > 0) - (difference < 0)


@given(st.lists(st.fractions(min_value=0), min_size=1, max_size=5))
def test_fractions_become_pairs(numbers: list[Fraction]) -> None:
    high, low = to_pairs(numbers)
    for number, pair in zip(numbers, zip(high.tolist(), low.tolist(), strict=True), strict=True):
        assert abs(value(pair) - number) <= CLOSE * number


def test_infinity_is_more_than_anything_and_the_same_as_itself() -> None:
    infinite = (float("inf"), 0.0)
    assert compare(1.0, 0.0, *infinite) == -1
    assert compare(*infinite, 1.0, 0.0) == 1
    assert compare(*infinite, *infinite) == 0
