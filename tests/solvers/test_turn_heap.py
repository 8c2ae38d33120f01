"""Exact comparison of turns, and the order that it gives."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from fairlead.solvers.turn_heap import UserInTurn, precedes


def user(number: int, share: Fraction, taken: int = 0) -> UserInTurn:
    """Return a user whose tasks have this dominant share."""
    return UserInTurn(
        number, taken, float("inf"), [], share.numerator, share.denominator, float(share)
    )


@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.fractions(Fraction(1, 12), 3, max_denominator=12),
                # Apart by less than a float can tell.
                st.integers(2**58, 2**58 + 3).map(lambda k: Fraction(k, 2**58 + 1)),
                # Products of these fit no machine word.
                st.integers(2**70, 2**70 + 3).map(lambda k: Fraction(k, 2**70 + 1)),
            ),
            st.integers(0, 12),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_the_order_is_level_then_larger_share_then_index(
    drawn: list[tuple[Fraction, int]],
) -> None:
    users = [user(n, share, taken) for n, (share, taken) in enumerate(drawn)]
    expected = sorted(range(len(drawn)), key=lambda n: (drawn[n][1] * drawn[n][0], -drawn[n][0], n))
    assert [one.number for one in sorted(users)] == expected


def test_a_difference_beyond_floats_decides() -> None:
    one, other = user(1, Fraction(2**58 + 1, 2**58)), user(0, Fraction(1))
    assert one.step == other.step
    assert precedes(other, 3, one, 3)
    assert not precedes(one, 3, other, 3)
    assert precedes(one, 0, other, 0)  # of equal levels the larger share goes first
