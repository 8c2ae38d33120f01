"""Intervals for forecast starts, from errors of past forecasts: split conformal prediction.

A forecast leaves out later jobs, and run times are estimates. How much these matter depends on the
cluster and its policy. So the interval of a forecast is taken from similar past forecasts: from
their ratios of the waiting time to the expected one.

Loads change, so past ratios may miss. Each miss on a side widens that side, and each hit takes back
a little, as in adaptive conformal inference (Gibbs and Candès, NeurIPS 2021): in the long run at
least the fraction `PART` of starts is within. But hits make no interval narrower than the past
ratios, because it would be too narrow on a busy day after quiet weeks. A job that still waits at
the end of its interval is a miss from then on, not only when it starts.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from math import exp, isfinite, log
from typing import NamedTuple

KEPT = 5000  # past forecasts of started jobs
MOST_ASKED = 1000  # forecasts of waiting jobs
LEAST = 20  # past forecasts that an interval needs; texts name the number
ALIKE = 10  # the most similar tenth of past forecasts counts
PART = 0.8  # the wanted fraction of starts within the interval
BEYOND = 0.5 * (1.0 - PART)  # largest fraction of past ratios beyond each side
STEP = 0.02  # a miss moves the fraction beyond a side by 0.9 of it, a hit by 0.1
SHORT = 300.0  # seconds that are added to times, so that short ones count as similar


class Asked(NamedTuple):
    at: float  # time of the forecast
    expected: float  # seconds from `at`
    interval: tuple[float, float] | None  # seconds from `at`; None without one, or after its end


class StartIntervals:
    """Forecasts of started and of waiting jobs, and the intervals that follow."""

    def __init__(self, kept: str = "") -> None:
        """Start without forecasts, or with those of `to_json`."""
        self._asked: OrderedDict[int, Asked] = OrderedDict()
        self._past: deque[tuple[float, float]] = deque(
            maxlen=KEPT
        )  # newest first: scale of expected; ratio
        self._beyond = [BEYOND] * 2  # the fraction of ratios below and above an interval
        if kept:
            self._read(kept)

    def ask(self, job: int, now: float, expected: float) -> None:
        """Note the first forecast of a waiting job: it starts in `expected` seconds."""
        for late, asked in self._asked.items():
            if asked.interval is not None and now - asked.at > asked.interval[1]:
                self._adapt(1, is_missed=True)
                self._asked[late] = asked._replace(interval=None)
        if job not in self._asked:
            self._asked[job] = Asked(now, expected, self.interval(expected))
            if len(self._asked) > MOST_ASKED:
                self._asked.popitem(last=False)

    def start(self, job: int, now: float) -> None:
        """Learn from the start of a job."""
        asked = self._asked.pop(job, None)
        if asked is None:
            return
        waited, expected = now - asked.at, _scale(asked.expected)
        self._past.appendleft((expected, _scale(waited) - expected))
        if asked.interval is not None:
            self._adapt(0, is_missed=waited < asked.interval[0])
            self._adapt(1, is_missed=waited > asked.interval[1])

    def drop(self, job: int) -> None:
        """Forget a job that ended without a start."""
        self._asked.pop(job, None)

    def interval(self, expected: float) -> tuple[float, float] | None:
        """Return the seconds between which `PART` of starts lie; None before `LEAST` forecasts."""
        if len(self._past) < LEAST:
            return None
        here = _scale(expected)
        past = sorted(self._past, key=lambda found: abs(found[0] - here))
        ratios = sorted(ratio for _, ratio in past[: max(LEAST, len(past) // ALIKE)])
        below, above = (int(part * (len(ratios) - 1)) for part in self._beyond)
        low, high = ratios[below], ratios[-1 - above]
        return max(0.0, _seconds(here + low)), max(0.0, _seconds(here + high))

    def to_json(self) -> str:
        """Return the past forecasts and the fractions beyond intervals."""
        past = [[round(scale, 4), round(ratio, 4)] for scale, ratio in self._past]
        return json.dumps({"beyond": self._beyond, "past": past})

    def _read(self, kept: str) -> None:
        """Read the text of `to_json`; ignore a damaged one."""
        try:
            found = json.loads(kept)
            past = [(float(scale), float(ratio)) for scale, ratio in found["past"]]
            beyond = [min(max(0.0, float(part)), BEYOND) for part in found["beyond"]]
        except (ValueError, TypeError, KeyError):
            return
        if len(beyond) == 2 and all(isfinite(number) for row in past for number in row):
            self._past.extend(past)
            self._beyond = beyond

    def _adapt(self, side: int, *, is_missed: bool) -> None:
        moved = self._beyond[side] + STEP * (BEYOND - is_missed)
        self._beyond[side] = min(max(0.0, moved), BEYOND)


def _scale(seconds: float) -> float:
    return log(max(0.0, seconds) + SHORT)


def _seconds(scale: float) -> float:
    return exp(scale) - SHORT
