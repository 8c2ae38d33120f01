"""Heaps that know where everything is, and bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.optimize.bits import highest_bit, lowest_bit
from fairlead.optimize.keyed_heap import Heaps, empty_heaps, push, take_out

N_ITEMS = 6
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["push", "take out"]),
        st.integers(0, 1),
        st.integers(0, N_ITEMS - 1),
        st.integers(0, 4),
    )
)


def check(heaps: Heaps, h: int, expected: dict[int, float]) -> None:
    """Assert that heap h is a heap of just these keys, and knows where they are."""
    base = h * N_ITEMS
    size = int(heaps.size[h])
    items = heaps.item[base : base + size].tolist()
    assert sorted(items) == sorted(expected)
    for position, item in enumerate(items):
        assert heaps.place[base + item] == position
        assert heaps.key[base + item] == expected[item]
        parent = items[(position - 1) // 2] if position else item
        assert (expected[parent], parent) <= (expected[item], item)
    absent = set(range(N_ITEMS)) - set(items)
    assert all(heaps.place[base + item] == -1 for item in absent)


@given(EVENTS)
def test_two_heaps_stay_heaps(events: list[tuple[str, int, int, int]]) -> None:
    heaps = empty_heaps(2, N_ITEMS)
    expected: list[dict[int, float]] = [{}, {}]
    for kind, h, item, number in events:
        key = float(number)
        if kind == "push":
            push(heaps, h, N_ITEMS, item, key, 0.0)
            expected[h][item] = key
        else:
            take_out(heaps, h, N_ITEMS, item)
            expected[h].pop(item, None)
        for k in range(2):
            check(heaps, k, expected[k])


def test_the_low_part_of_a_key_counts() -> None:
    heaps = empty_heaps(1, 2)
    push(heaps, 0, 2, 0, 1.0, 1e-17)
    push(heaps, 0, 2, 1, 1.0, -1e-17)
    assert heaps.item[0] == 1


@pytest.mark.parametrize("word", [1, 2, 3, 2**63, 2**63 + 1, 2**40 + 2**12])
def test_the_first_and_last_bit_of_a_word(word: int) -> None:
    assert lowest_bit(np.uint64(word)) == (word & -word).bit_length() - 1
    assert highest_bit(np.uint64(word)) == word.bit_length() - 1
