"""Intervals for forecast starts, from how past forecasts came true: split conformal prediction.

A forecast leaves out jobs that come later, and run times are estimates. How much these matter
depends on the cluster and its policy. So the interval of a forecast is taken from the ratios of
waiting times to expected ones, of past forecasts that were most alike.

Loads change, so past ratios alone may miss. Each miss on a side widens that side, and each hit
takes a little of that back, as in adaptive conformal inference (Gibbs and Candès, NeurIPS 2021): in
the long run at least the wanted part of the starts is within. But hits make no interval narrower
than past ratios: after quiet weeks the next busy day would find it too narrow. A job that still
waits after the end of its interval is a miss then, not only when it starts.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from math import exp, isfinite, log
from typing import NamedTuple

KEPT = 5000  # forecasts that came true
MOST_ASKED = 1000  # of jobs that still wait
LEAST = 20  # forecast starts for an interval; texts name it
ALIKE = 10  # a tenth of past forecasts is alike
PART = 0.8  # of starts that are within the interval
BEYOND = 0.5 * (1.0 - PART)  # the part of past ratios on each side of an interval, at most
STEP = 0.02  # by which a miss and a hit together move the part of ratios beyond a side
SHORT = 300.0  # seconds; shorter times are taken for alike


class Asked(NamedTuple):
    at: float
    expected: float  # seconds from then
    interval: tuple[float, float] | None  # seconds from then; None without one, or after its end


class StartIntervals:
    """Past forecasts, and those of jobs that wait."""

    def __init__(self, kept: str = "") -> None:
        """Begin without forecasts, or with those of `to_json`."""
        self._asked: OrderedDict[int, Asked] = OrderedDict()
        self._past: deque[tuple[float, float]] = deque(
            maxlen=KEPT
        )  # newest first: scale of expected; ratio
        self._beyond = [BEYOND] * 2  # the part of ratios below and above an interval
        if kept:
            self._read(kept)

    def ask(self, job: int, now: float, expected: float) -> None:
        """Note the forecast of a waiting job: it starts in `expected` seconds. The first counts."""
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
        """Return seconds within which four of five jobs started; None without enough forecasts."""
        if len(self._past) < LEAST:
            return None
        here = _scale(expected)
        past = sorted(self._past, key=lambda found: abs(found[0] - here))
        ratios = sorted(ratio for _, ratio in past[: max(LEAST, len(past) // ALIKE)])
        below, above = (int(part * (len(ratios) - 1)) for part in self._beyond)
        low, high = ratios[below], ratios[-1 - above]
        return max(0.0, _seconds(here + low)), max(0.0, _seconds(here + high))

    def to_json(self) -> str:
        """Return the past forecasts and the parts beyond intervals."""
        past = [[round(scale, 4), round(ratio, 4)] for scale, ratio in self._past]
        return json.dumps({"beyond": self._beyond, "past": past})

    def _read(self, kept: str) -> None:
        """Read the text of `to_json`; one that is damaged is as if there were none."""
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
