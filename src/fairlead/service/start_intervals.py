"""Intervals for forecast starts, from how past forecasts came true: split conformal prediction.

A forecast leaves out jobs that come later, and run times are estimates. How much these matter
depends on the cluster and its policy. So the interval of a forecast is taken from the ratios of
waiting times to expected ones, of past forecasts that were most alike.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from math import exp, log
from typing import NamedTuple

KEPT = 5000  # forecasts that came true
MOST_ASKED = 1000  # of jobs that still wait
LEAST = 20  # for an interval
ALIKE = 3  # a third of past forecasts is alike
PART = 0.8  # of starts that are within the interval
SHORT = 300.0  # seconds; shorter times are taken for alike


class Asked(NamedTuple):
    at: float
    expected: float  # seconds from then


class StartIntervals:
    """Past forecasts, and those of jobs that wait."""

    def __init__(self) -> None:
        self._asked: OrderedDict[int, Asked] = OrderedDict()
        self._past: deque[tuple[float, float]] = deque(maxlen=KEPT)  # scale of expected; ratio

    def ask(self, job: int, now: float, expected: float) -> None:
        """Note the forecast of a waiting job: it starts in `expected` seconds. The first counts."""
        if job not in self._asked:
            self._asked[job] = Asked(now, expected)
            if len(self._asked) > MOST_ASKED:
                self._asked.popitem(last=False)

    def start(self, job: int, now: float) -> None:
        """Learn from the start of a job."""
        asked = self._asked.pop(job, None)
        if asked is not None:
            expected = _scale(asked.expected)
            self._past.append((expected, _scale(now - asked.at) - expected))

    def drop(self, job: int) -> None:
        """Forget a job that ended without a start."""
        self._asked.pop(job, None)

    def interval(self, expected: float) -> tuple[float, float] | None:
        """Return seconds within which four of five jobs started; None without enough forecasts."""
        if len(self._past) < LEAST:
            return None
        here = _scale(expected)
        past = sorted(self._past, key=lambda found: abs(found[0] - here))
        ratios = sorted(ratio for _, ratio in past[: max(LEAST, len(past) // ALIKE)])
        outside = 0.5 * (1.0 - PART) * (len(ratios) - 1)
        low, high = ratios[int(outside)], ratios[-1 - int(outside)]
        return max(0.0, _seconds(here + low)), max(0.0, _seconds(here + high))


def _scale(seconds: float) -> float:
    return log(max(0.0, seconds) + SHORT)


def _seconds(scale: float) -> float:
    return exp(scale) - SHORT
