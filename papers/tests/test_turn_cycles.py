"""Cycles of turns: the examples of Metin, and the simulated order of turns."""

from __future__ import annotations

import heapq
from fractions import Fraction
from math import gcd

from hypothesis import given
from hypothesis import strategies as st

from fairlead_papers.pdrf._printed_examples import (
    find_basic_subcycle,
    find_cycle,
    find_higher_order_cycles,
    find_nested_subcycle,
    take_turns,
)

SHARES = st.lists(
    st.fractions(min_value=Fraction(1, 6), max_value=3, max_denominator=6), min_size=1, max_size=4
)


def turns(shares: list[Fraction], number: int) -> list[int]:
    """Serve the user with the least share, of equal ones that with the larger task."""
    waiting = [(Fraction(0), -share, n) for n, share in enumerate(shares)]
    heapq.heapify(waiting)
    served = []
    for _ in range(number):
        level, size, n = heapq.heappop(waiting)
        served.append(n)
        heapq.heappush(waiting, (level - size, size, n))
    return served


@given(SHARES)
def test_drawn_turns_are_those_of_a_loop_over_tasks(shares: list[Fraction]) -> None:
    assert take_turns(tuple(shares), 20) == "".join("ABCD"[n] for n in turns(shares, 20))


def test_the_cycle_of_the_drf_example() -> None:
    # Metin, 3.3: 2/9 and 1/3.
    shares = [Fraction(2, 9), Fraction(1, 3)]
    assert find_cycle(shares).occurrences == (3, 2)
    assert find_cycle(shares).length == 5
    assert find_basic_subcycle(shares).occurrences == (1, 1)


def test_cycles_of_the_printed_ratios() -> None:
    # Metin, 3.3: with a ratio of 1.25 one turn each, and one more of the smaller in each fourth.
    assert find_basic_subcycle([4, 5]).occurrences == (1, 1)
    assert find_cycle([4, 5]).occurrences == (5, 4)
    assert find_cycle([1, 2, 4]) == find_basic_subcycle([1, 2, 4])
    assert find_cycle([1, 2, 4]).length == 7


def test_higher_order_cycles_of_the_paper() -> None:
    # Metin, 6.1: 26 of 35 units are used by 4, 2 and 1 tasks; of the 9 left, 8 by 2 and 1.
    first, second = find_higher_order_cycles([35], [[2], [4], [10]], [2, 4, 10])
    assert (first.tasks, first.repetitions, first.used, first.left) == ((4, 2, 1), 1, (26,), (9,))
    assert (second.users, second.tasks, second.repetitions) == ((0, 1), (2, 1), 1)
    assert (second.used, second.left) == ((8,), (1,))


def test_higher_order_cycles_by_the_formula() -> None:
    # floor(10 / 2) is 5: 28 units, and of the 7 left only the smallest demand fits.
    first, second = find_higher_order_cycles([35], [[2], [4], [10]], [2, 4, 10], nested=False)
    assert (first.tasks, first.used) == ((5, 2, 1), (28,))
    assert (second.users, second.repetitions, second.left) == ((0,), 3, (1,))


@given(SHARES)
def test_after_a_cycle_turns_repeat_and_not_before(shares: list[Fraction]) -> None:
    cycle = find_cycle(shares)
    served = turns(shares, 2 * cycle.length)
    once = served[: cycle.length]
    assert tuple(once.count(n) for n in range(len(shares))) == cycle.occurrences
    assert served[cycle.length :] == once
    levels = {share * times for share, times in zip(shares, cycle.occurrences, strict=True)}
    assert len(levels) == 1
    assert gcd(*cycle.occurrences) == 1  # no shorter cycle


@given(SHARES)
def test_subcycles_fit_between_two_turns_of_the_largest(
    shares: list[Fraction],
) -> None:
    basic, nested = find_basic_subcycle(shares), find_nested_subcycle(shares)
    largest = shares.index(max(shares))
    assert basic.occurrences[largest] == nested.occurrences[largest] == 1
    for share, many, few in zip(shares, basic.occurrences, nested.occurrences, strict=True):
        assert few * share <= max(shares)
        assert many * share <= max(shares) < (many + 1) * share
