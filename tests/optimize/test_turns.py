"""Exact comparison of levels, compiled and not, and the order that it gives."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from fairlead.optimize.turns import compare_products, precedes, sort_roughly, sort_turns

WORDS = st.one_of(
    st.integers(0, 5), st.integers(0, 2**62), st.integers(0, 62).map(lambda k: 2**k - (k > 0))
)


@njit
def compare_compiled(p, q, r, s):
    return compare_products(p, q, r, s)


@given(WORDS, WORDS, WORDS, WORDS)
def test_products_of_words_are_compared_exactly(p: int, q: int, r: int, s: int) -> None:
    sign = (p * q > r * s) - (p * q < r * s)
    assert compare_products(p, q, r, s) == sign
    assert compare_compiled(p, q, r, s) == sign
    assert compare_compiled(p, q, q, p) == 0


def test_products_that_differ_by_one_in_two_words() -> None:
    # (a + 1)(a - 1) = a a - 1.
    a = 2**61 + 12345
    assert compare_compiled(a, a, a + 1, a - 1) == 1
    assert compare_compiled(a + 1, a - 1, a, a) == -1


def columns(shares: list[Fraction], kind: type) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    numerator = np.array([share.numerator for share in shares], dtype=kind)
    denominator = np.array([share.denominator for share in shares], dtype=kind)
    return numerator, denominator, np.array([float(share) for share in shares])


@pytest.mark.parametrize("kind", [np.int64, object])
@given(
    users=st.lists(
        st.tuples(
            st.one_of(
                st.fractions(Fraction(1, 12), 3, max_denominator=12),
                # Apart by less than a float can tell.
                st.integers(2**58, 2**58 + 3).map(lambda k: Fraction(k, 2**58 + 1)),
            ),
            st.integers(0, 12),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_users_are_sorted_by_level_then_larger_share_then_index(
    kind: type, users: list[tuple[Fraction, int]]
) -> None:
    shares = [share for share, _ in users]
    taken = np.array([count for _, count in users], dtype=object)
    fractions = columns(shares, object)
    order = sort_roughly(np.arange(len(users)), taken.astype(kind), fractions[2])
    sort_turns(order, taken, *fractions)
    expected = sorted(range(len(users)), key=lambda n: (users[n][1] * shares[n], -shares[n], n))
    assert order.tolist() == expected


def test_a_difference_beyond_floats_decides() -> None:
    shares = columns([Fraction(2**58 + 1, 2**58), Fraction(1)], object)
    assert shares[2][0] == shares[2][1]
    assert precedes(1, 3, 0, 3, *shares)
    assert not precedes(0, 3, 1, 3, *shares)
