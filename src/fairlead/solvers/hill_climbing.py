"""Hill climbing: random changes to the current candidate, and random restarts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

Candidate = TypeVar("Candidate")


def climb(
    draw: Callable[[Candidate | None], Candidate],
    height: Callable[[Candidate], float],
    tries: int,
    patience: int,
    on_progress: Callable[[int, int], None] | None = None,
    *,
    openings: Iterable[Candidate] = (),
) -> Candidate:
    """Return the highest candidate found; of equally high ones the first.

    Parameters
    ----------
    draw : callable
        Draws a candidate: near the given one, or anywhere when given None. All randomness is in
        this function, so that equal seeds find equal candidates.
    height : callable
        The value to maximise; a NaN is lower than every number.
    tries : int
        Number of candidates to draw, at least 1.
    patience : int
        Restart after this many candidates in a row that are no higher than the current one.
    on_progress : callable, optional
        Called with the number of candidates drawn so far, and `tries`.
    openings : iterable, optional
        Candidates to try first, within `tries`; the first climb starts from the highest.
    """

    def height_of(candidate: Candidate) -> float:
        found = height(candidate)
        return -math.inf if math.isnan(found) else found

    remaining = iter(openings)
    highest: Candidate | None = None
    current: Candidate | None = None
    failures = 0
    for tried in range(1, tries + 1):
        opening = next(remaining, None)
        candidate = draw(current) if opening is None else opening
        if on_progress is not None:
            on_progress(tried, tries)
        if current is None or height_of(candidate) > height_of(current):
            current, failures = candidate, 0
        elif opening is None:
            failures += 1
        if highest is None or height_of(current) > height_of(highest):
            highest = current
        if failures >= patience:
            current, failures = None, 0
    assert highest is not None, "tries must be at least 1"
    return highest
