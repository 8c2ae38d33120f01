"""Compiled loop of `dynamic_levels`: replay a log of levels and measure each step's faults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

INFINITE: Final = float("inf")


class AgentsOfALevel:
    """The agents of one kind at one level."""

    level: float
    use: vec[float]  # (R,) per unit of level

    def __init__(self, use: vec[float]) -> None:
        self.level = 0.0
        self.use = use


class ArrivalReplay:
    """A replay of a log, with agents of K kinds and R resources."""

    overuse: float  # the largest of any step, relative to the budget
    could_rise: float  # the largest relative rise that was still possible for an agent
    shrunk: float  # the largest relative fall of a level
    worst: float  # the largest overuse or possible rise
    worst_step: i64
    _arrived: i64
    _demands: list[vec[bool]]  # (K,) of (R,)
    _levels: list[list[AgentsOfALevel]]  # (K,) the lowest last
    _used: vec[float]  # (R,)
    _lost: vec[float]  # (R,) the compensation for rounding
    _rose: vec[float]  # (R,) the highest level of the demanding kinds that rose in the step

    def __init__(self, demands: Iterable[Iterable[bool]], resources: int) -> None:
        self.overuse = self.could_rise = self.shrunk = self.worst = 0.0
        self.worst_step = 0
        self._arrived = 0
        self._demands = [vec[bool](row) for row in demands]
        self._levels = [[] for _ in self._demands]
        self._used = vec[float]([0.0] * resources)
        self._lost = vec[float]([0.0] * resources)
        self._rose = vec[float]([0.0] * resources)

    def replay(
        self,
        kinds: Iterable[int],
        use: Iterable[float],
        budget: Iterable[float],
        log_step: Iterable[int],
        log_kind: Iterable[int],
        log_level: Iterable[float],
    ) -> vec[float]:
        """Replay the steps of P agents; return (P,) the least level after each.

        `use` (P R,) is that of each agent per unit of level, one row after the other; `budget` (P,)
        the part of every resource that may be used after each arrival. `log_step`, `log_kind` and
        `log_level` (L,) are the entries of these steps, counted from 1. O(R) amortised for each
        arrival and entry, and O(K R) a step.
        """
        steps, of_kind, levels = vec[i64](log_step), vec[i64](log_kind), vec[float](log_level)
        kind_of, uses, budgets = vec[i64](kinds), vec[float](use), vec[float](budget)
        width: i64 = len(self._used)
        entry: i64 = 0
        least = vec[float](capacity=len(kind_of))
        for k in range(len(kind_of)):
            agents = AgentsOfALevel(uses[k * width : (k + 1) * width])
            self._levels[kind_of[k]].append(agents)
            self._arrived += 1
            for r in range(width):
                self._rose[r] = 0.0
            while entry < len(steps) and steps[entry] == self._arrived:
                self._set_level(of_kind[entry], levels[entry])
                entry += 1
            least = append(least, self._measure_step(budgets[k]))
        return least

    def _set_level(self, kind: i64, target: float) -> None:
        """Raise the lowest agents of a kind to a level; record a level that falls."""
        before = self._levels[kind][-1].level
        if target < before:
            self.shrunk = max(self.shrunk, (before - target) / before)
        elif target > before:
            self._raise_to(self._levels[kind], target)
            demands, rose = self._demands[kind], self._rose
            for r in range(len(rose)):
                if demands[r]:
                    rose[r] = max(rose[r], target)

    def _raise_to(self, levels: list[AgentsOfALevel], target: float) -> None:
        """Raise all agents of a kind that are lower to a level."""
        lowest = levels[-1]
        while True:
            meets = len(levels) > 1 and levels[-2].level <= target
            end = levels[-2].level if meets else target
            rise = end - lowest.level
            for r in range(len(lowest.use)):
                self._add(r, lowest.use[r] * rise)
            lowest.level = end
            if not meets:
                return
            levels.pop()
            higher = levels[-1]
            for r in range(len(lowest.use)):
                higher.use[r] += lowest.use[r]
            lowest = higher

    def _add(self, r: i64, amount: float) -> None:
        """Add to the use of a resource with compensation for rounding (Neumaier)."""
        used = self._used[r]
        total = used + amount
        if abs(used) >= abs(amount):
            self._lost[r] += (used - total) + amount
        else:
            self._lost[r] += (amount - total) + used
        self._used[r] = total

    def _measure_step(self, budget: float) -> float:
        """Measure the faults after a step; return the least level."""
        rose = self._rose
        overuse = could_rise = 0.0
        least = INFINITE
        for r in range(len(rose)):
            overuse = max(overuse, (self._used[r] + self._lost[r]) / budget - 1.0)
        for kind in range(len(self._levels)):
            if not self._levels[kind]:
                continue
            level = self._levels[kind][-1].level
            demands = self._demands[kind]
            least = min(least, level)
            missing = 1.0
            for r in range(len(rose)):
                if demands[r]:
                    left = 1.0 - (self._used[r] + self._lost[r]) / budget
                    higher = (rose[r] - level) / rose[r] if rose[r] > level else 0.0
                    missing = min(missing, max(left, higher))
            could_rise = max(could_rise, missing)
        self.overuse = max(self.overuse, overuse)
        self.could_rise = max(self.could_rise, could_rise)
        worst = max(overuse, could_rise)
        if worst > self.worst:
            self.worst, self.worst_step = worst, self._arrived
        return least
