"""Compiled loop of `dynamic_levels`: replay a log of levels and measure each step's violations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

INFINITE: Final = float("inf")
NONE: Final = -1


class ArrivalReplay:
    """A replay of a log, with P agents of K kinds and R resources.

    A kind is the agents that demand the same resources. A *stair* is the agents of one kind at one
    level; its number is that of its first agent.

    Parameters
    ----------
    demands : (K R,) bool
        Which resources each kind demands, one kind after the other.
    use : (P R,) float
        Use by each agent per unit of level, one agent after the other.
    resources : int
        Number of resources, R.
    """

    overuse: float  # the largest of any step, relative to the budget
    # The largest distance of an agent from being stopped: the least, over its demanded resources,
    # of the free fraction and the fraction by which it is below the highest level that rose there.
    could_rise: float
    shrunk: float  # the largest relative fall of a level
    worst: float  # the largest overuse or possible rise
    worst_step: i64  # the step of `worst`
    _demands: vec[bool]  # (K R,)
    _lowest: vec[i64]  # (K,) the lowest stair of each kind, or NONE
    _higher: vec[i64]  # (P,) the next higher stair of the kind, or NONE
    _level: vec[float]  # (P,) of each stair
    _use: vec[float]  # (P R,) of each stair per unit of level
    _used: vec[float]  # (R,) the used part of each resource
    _lost: vec[float]  # (R,) the compensation for rounding errors of `_used`
    _left: vec[float]  # (R,) the fraction of the budget that is free after the step
    _rose: vec[float]  # (R,) the highest level to which a demanding kind rose in the step, or 0

    def __init__(self, demands: Iterable[bool], use: Iterable[float], resources: i64) -> None:
        self.overuse = self.could_rise = self.shrunk = self.worst = 0.0
        self.worst_step = 0
        self._demands = vec[bool](demands)
        self._use = vec[float](use)
        self._lowest = vec[i64]([NONE] * (len(self._demands) // resources))
        agents = len(self._use) // resources
        self._higher = vec[i64](capacity=agents)
        self._level = vec[float](capacity=agents)
        self._used = vec[float]([0.0] * resources)
        self._lost = vec[float]([0.0] * resources)
        self._left = vec[float]([0.0] * resources)
        self._rose = vec[float]([0.0] * resources)

    def replay(
        self,
        kinds: Iterable[int],
        budget: Iterable[float],
        log_step: Iterable[int],
        log_kind: Iterable[int],
        log_level: Iterable[float],
    ) -> vec[float]:
        """Replay all steps; return (P,) the least level after each.

        `kinds` (P,) is the kind of each agent. `budget` (P,) is the fraction of every resource that
        may be used after each arrival. `log_step`, `log_kind` and `log_level` (L,) are the entries
        of the log, with steps from 1. O(R) amortised for each arrival and entry, and O(K R) a step.
        """
        steps, of_kind, levels = vec[i64](log_step), vec[i64](log_kind), vec[float](log_level)
        kind_of, budgets = vec[i64](kinds), vec[float](budget)
        lowest, rose = self._lowest, self._rose
        entry: i64 = 0
        least = vec[float](capacity=len(kind_of))
        for k in range(len(kind_of)):
            self._higher = append(self._higher, lowest[kind_of[k]])
            self._level = append(self._level, 0.0)
            lowest[kind_of[k]] = k
            for r in range(len(rose)):
                rose[r] = 0.0
            while entry < len(steps) and steps[entry] == k + 1:
                self._set_level(of_kind[entry], levels[entry])
                entry += 1
            least = append(least, self._measure_step(k + 1, budgets[k]))
        return least

    def _set_level(self, kind: i64, target: float) -> None:
        """Raise the lowest agents of a kind to a level; record a level that falls."""
        before = self._level[self._lowest[kind]]
        if target < before:
            self.shrunk = max(self.shrunk, (before - target) / before)
        elif target > before:
            self._raise_to(kind, target)
            demands, rose = self._demands, self._rose
            row = kind * len(rose)
            for r in range(len(rose)):
                if demands[row + r]:
                    rose[r] = max(rose[r], target)

    def _raise_to(self, kind: i64, target: float) -> None:
        """Raise to a level all agents of a kind that are below it."""
        level, use, width = self._level, self._use, len(self._used)
        stair = self._lowest[kind]
        while True:
            higher = self._higher[stair]
            meets = higher != NONE and level[higher] <= target
            end = level[higher] if meets else target
            self._add_use(stair * width, end - level[stair])
            level[stair] = end
            if not meets:
                self._lowest[kind] = stair
                return
            for r in range(width):
                use[higher * width + r] += use[stair * width + r]
            stair = higher

    def _add_use(self, row: i64, rise: float) -> None:
        """Add the use of a stair's rise, >= 0, with compensation for rounding (Neumaier)."""
        use, used, lost = self._use, self._used, self._lost
        for r in range(len(used)):
            before, amount = used[r], use[row + r] * rise
            total = before + amount
            if before >= amount:
                lost[r] += (before - total) + amount
            else:
                lost[r] += (amount - total) + before
            used[r] = total

    def _measure_step(self, step: i64, budget: float) -> float:
        """Measure the violations after a step; return the lowest level."""
        demands, left, rose, lowest = self._demands, self._left, self._rose, self._lowest
        overuse = could_rise = 0.0
        least = INFINITE
        for r in range(len(left)):
            left[r] = 1.0 - (self._used[r] + self._lost[r]) / budget
            overuse = max(overuse, -left[r])
        for kind in range(len(lowest)):
            if lowest[kind] == NONE:
                continue
            level = self._level[lowest[kind]]
            least = min(least, level)
            distance = 1.0
            row = kind * len(rose)
            for r in range(len(rose)):
                if demands[row + r]:
                    below = (rose[r] - level) / rose[r] if rose[r] > level else 0.0
                    distance = min(distance, max(left[r], below))
            could_rise = max(could_rise, distance)
        self.overuse = max(self.overuse, overuse)
        self.could_rise = max(self.could_rise, could_rise)
        worst = max(overuse, could_rise)
        if worst > self.worst:
            self.worst, self.worst_step = worst, step
        return least
