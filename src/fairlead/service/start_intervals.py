"""Intervals for forecast starts, from errors of past forecasts: split conformal prediction.

A forecast leaves out later jobs, and run times are estimates. How much both matter depends on the
cluster and its policy. So the interval of a forecast is taken from similar past forecasts, namely
from their ratios of the waiting time to the expected waiting time.

Loads change, so intervals from past ratios may miss starts. Each start below or above its interval
widens that side of later intervals; each other start narrows it a little, as in adaptive conformal
inference (Gibbs and Candès, NeurIPS 2021). So about the fraction `PART` of starts is within the
intervals; it is no guarantee, as an interval never exceeds the range of similar past ratios. Nor
does it become narrower than the middle `PART` of them, which would be too narrow on a busy day
after quiet weeks. A job that still waits at the end of its interval counts as a late miss at the
next forecast, not only when it starts.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from math import exp, log
from typing import NamedTuple

KEPT = 5000  # past forecasts of started jobs
MOST_NOTED = 1000  # forecasts of waiting jobs
LEAST = 20  # past forecasts that an interval needs; pages in docs state the number
ALIKE = 10  # the most similar 1/10 of past forecasts counts
PART = 0.8  # the wanted fraction of starts within the interval
BEYOND = 0.5 * (1.0 - PART)  # largest fraction of past ratios beyond each side
STEP = 0.02  # a miss lowers the fraction beyond a side by 0.9 STEP, a hit raises it by 0.1 STEP
SHORT = 300.0  # seconds that are added to times, so that short times count as similar


class NotedForecast(NamedTuple):
    """The forecast of a job that still waits."""

    at: float  # time of the forecast
    expected: float  # seconds from `at`
    interval: tuple[float, float] | None  # seconds from `at`; None if unknown, or after its end


class StartIntervals:
    """Intervals for the starts of jobs, from the forecasts of started and of waiting jobs."""

    def __init__(self) -> None:
        self._noted: OrderedDict[int, NotedForecast] = OrderedDict()  # by job
        # Newest first: the `_scale` of the expected wait, and the logarithm of the ratio.
        self._past: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._beyond = [BEYOND] * 2  # the fractions of ratios below and above an interval

    def ask(self, job: int, now: float, expected: float) -> None:
        """Count overdue jobs as late misses; note a job's first forecast, in `expected` seconds."""
        for late, asked in self._noted.items():
            if asked.interval is not None and now - asked.at > asked.interval[1]:
                self._adapt(1, is_missed=True)
                self._noted[late] = asked._replace(interval=None)
        if job not in self._noted:
            self._noted[job] = NotedForecast(now, expected, self.interval(expected))
            if len(self._noted) > MOST_NOTED:
                self._noted.popitem(last=False)

    def start(self, job: int, now: float) -> None:
        """Learn from the start of a job."""
        noted = self._noted.pop(job, None)
        if noted is None:
            return
        waited, expected = now - noted.at, _scale(noted.expected)
        self._past.appendleft((expected, _scale(waited) - expected))
        if noted.interval is not None:
            self._adapt(0, is_missed=waited < noted.interval[0])
            self._adapt(1, is_missed=waited > noted.interval[1])

    def drop(self, job: int) -> None:
        """Forget a job that ended without a start."""
        self._noted.pop(job, None)

    def interval(self, expected: float) -> tuple[float, float] | None:
        """Return the shortest and longest likely wait in seconds; None before `LEAST` starts."""
        if len(self._past) < LEAST:
            return None
        here = _scale(expected)
        past = sorted(self._past, key=lambda found: abs(found[0] - here))
        ratios = sorted(ratio for _, ratio in past[: max(LEAST, len(past) // ALIKE)])
        below, above = (int(part * (len(ratios) - 1)) for part in self._beyond)
        low, high = ratios[below], ratios[-1 - above]
        return max(0.0, _seconds(here + low)), max(0.0, _seconds(here + high))

    def _adapt(self, side: int, *, is_missed: bool) -> None:
        """Widen side 0 (early) or 1 (late) of later intervals after a miss, else narrow it."""
        moved = self._beyond[side] + STEP * (BEYOND - is_missed)
        self._beyond[side] = min(max(0.0, moved), BEYOND)


def _scale(seconds: float) -> float:
    """Return the logarithm of a time, on which waiting times are compared."""
    return log(max(0.0, seconds) + SHORT)


def _seconds(scale: float) -> float:
    return exp(scale) - SHORT
