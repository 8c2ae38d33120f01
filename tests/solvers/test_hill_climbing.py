"""Search by small changes: draws near the best, restarts, and the first of the highest."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.solvers.hill_climbing import climb


def drawing(heights):
    """Draw these one after the other, and remember near what each was drawn."""
    left = list(enumerate(heights))
    near = []

    def draw(best):
        near.append(best)
        return left.pop(0)

    return draw, near


def second(candidate):
    return candidate[1]


@settings(max_examples=40)
@given(heights=st.lists(st.integers(0, 4), min_size=1, max_size=30), patience=st.integers(1, 4))
def test_draws_are_near_the_best_since_the_last_restart(heights, patience):
    draw, near = drawing(heights)
    found = climb(draw, second, len(heights), patience)
    assert found == (heights.index(max(heights)), max(heights))
    current, failures = None, 0
    for k, height in enumerate(heights):
        assert near[k] == current
        if current is None or height > current[1]:
            current, failures = (k, height), 0
        else:
            failures += 1
        if failures == patience:
            current, failures = None, 0


@settings(max_examples=60)
@given(heights=st.lists(st.integers(0, 2), min_size=1, max_size=9), opened=st.integers(0, 9))
def test_a_climb_starts_from_the_highest_opening(heights, opened):
    draw, near = drawing(heights)
    candidates = list(enumerate(heights))
    seen = []
    found = climb(
        lambda best: candidates[opened + draw(best)[0]],
        second,
        len(heights),
        1,
        lambda *at: seen.append(at),
        openings=iter(candidates[:opened]),
    )
    assert found == (heights.index(max(heights)), max(heights))
    assert seen == [(k, len(heights)) for k in range(1, len(heights) + 1)]
    assert len(near) == max(len(heights) - opened, 0)
    if near and opened:
        assert near[0] == max(candidates[:opened], key=second)


def test_candidates_without_a_height_are_lowest():
    draw, _ = drawing([math.nan, 1.0, 2.0, math.nan])
    assert climb(draw, second, 4, patience=10) == (2, 2.0)
