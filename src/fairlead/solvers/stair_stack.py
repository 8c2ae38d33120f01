"""Stacks of stairs: raise levels within a budget that grows as participants arrive.

At each step one participant arrives, at level 0, and the budget of every resource grows. Then the
participants of least level rise together. When a resource is used up, the participants that demand
it stop; the others continue, until none can rise. No level ever falls.

Participants that demand the same set of resources are of one *kind*. They stop together, so a later
one is never above an earlier one: their levels are a staircase, and only its lowest stairs move.
Each kind has a stack of stairs, which merge as they meet. A step costs amortised O(R) if all
participants are of one kind; with K kinds each stair that is reached costs O(K R).

The log has the least level of each kind after each step in which it rose; see
`fairlead.solvers.level_log`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from librt.vecs import append, pop, vec
from mypy_extensions import i64

# A rise also uses up the resources that would be used up by a rise larger by at most this fraction.
ROUNDING: Final = 4e-16
INFINITE: Final = float("inf")


class ParticipantKind:
    """The participants that demand the same resources; a stair is all of them at one level."""

    number: i64  # by first arrival
    demands: vec[bool]  # (R,)
    levels: vec[float]  # (S,) level of each stair, the lowest last
    use: vec[float]  # use of each stair per unit of level, S rows of R amounts; then unused rows
    can_rise: bool  # in the current step: no demanded resource is used up
    rises: bool  # in the current step: the rising level has reached the kind's lowest stair

    def __init__(self, number: i64, demands: vec[bool]) -> None:
        self.number = number
        self.demands = demands
        self.levels = vec[float]()
        self.use = vec[float]()
        self.can_rise = False
        self.rises = False


# The attributes of `StairStacks` as plain values.
State = tuple[
    list[tuple[list[bool], list[float], list[float]]],  # demands, levels and use of each kind
    list[float],  # `used`
    list[int],  # `kind_of`
    list[int],  # `log_step`
    list[int],  # `log_kind`
    list[float],  # `log_level`
]


class StairStacks:
    """The stairs of every kind, and the log of levels. R resources."""

    kinds: list[ParticipantKind]
    used: vec[float]  # (R,) used fraction of each resource
    kind_of: vec[i64]  # (P,) number of the kind of each participant
    log_step: vec[i64]  # (L,) steps, counted from 1, in which a kind rose
    log_kind: vec[i64]  # (L,) number of the kind that rose
    log_level: vec[float]  # (L,) its lowest level afterwards
    _rate: vec[float]  # (R,) use by the rising kinds per unit of level
    _limits: vec[float]  # (R,) rise that uses up each resource; only where the rate is > 0
    _exhausted: vec[bool]  # (R,) the resources that the last rise used up

    def __init__(self, n_resources: int) -> None:
        self.kinds = []
        self.used = vec[float]([0.0] * n_resources)
        self.kind_of = vec[i64]()
        self.log_step = vec[i64]()
        self.log_kind = vec[i64]()
        self.log_level = vec[float]()
        self._rate = vec[float]([0.0] * n_resources)
        self._limits = vec[float]([0.0] * n_resources)
        self._exhausted = vec[bool]([False] * n_resources)

    def state(self) -> State:
        """Return the state as plain values, for copies."""
        kinds = [(list(kind.demands), list(kind.levels), list(kind.use)) for kind in self.kinds]
        log_step, log_kind = [int(step) for step in self.log_step], [int(k) for k in self.log_kind]
        used, level = list(self.used), list(self.log_level)
        return kinds, used, [int(number) for number in self.kind_of], log_step, log_kind, level

    def restore(self, state: State) -> None:
        """Replace the state by one that `state` returned."""
        kinds, used, kind_of, log_step, log_kind, log_level = state
        self.used = vec[float](used)
        self.kind_of = vec[i64](kind_of)
        self.log_step, self.log_kind = vec[i64](log_step), vec[i64](log_kind)
        self.log_level = vec[float](log_level)
        self.kinds = []
        for demands, levels, use in kinds:
            kind = self._find_or_add_kind(
                vec[float]([1.0 if demanded else 0.0 for demanded in demands]), 0
            )
            kind.levels, kind.use = vec[float](levels), vec[float](use)

    def add(
        self, demand: Iterable[float], weight: Iterable[float], budget: Iterable[float]
    ) -> vec[float]:
        """Add P participants one after another; return (P,) the least level after each.

        Parameters
        ----------
        demand : (P * R,) float
            Demand per unit of a participant's share, a row of R numbers for each participant.
        weight : (P,) float
            Share per unit of level.
        budget : (P,) float
            Fraction of every resource that may be used after each arrival; it never falls.

        Notes
        -----
        With K kinds O(R + K) per arrival and O(K R) per stair reached; every arrival adds one
        stair. Contiguous arrays are copied at once, lists number by number.
        """
        demands, weights, budgets = vec[float](demand), vec[float](weight), vec[float](budget)
        width: i64 = len(self.used)
        least = vec[float](capacity=len(weights))
        for p in range(len(weights)):
            row = p * width
            kind = self._find_or_add_kind(demands, row)
            self.kind_of = append(self.kind_of, kind.number)
            self._add_stair(kind, demands, row, weights[p])
            self._rise(budgets[p])
            lowest = INFINITE
            for kind in self.kinds:
                lowest = min(lowest, kind.levels[-1])
            least = append(least, lowest)
        return least

    def _find_or_add_kind(self, demands: vec[float], row: i64) -> ParticipantKind:
        """Return the kind that demands the resources of a row; add it if it is new.

        A row begins at the index `row` of `demands`.
        """
        for kind in self.kinds:
            r: i64 = 0
            while r < len(kind.demands) and kind.demands[r] == (demands[row + r] > 0.0):
                r += 1
            if r == len(kind.demands):
                return kind
        demand = demands[row : row + len(self.used)]
        kind = ParticipantKind(len(self.kinds), vec[bool]([amount > 0.0 for amount in demand]))
        self.kinds.append(kind)
        return kind

    def _add_stair(
        self, kind: ParticipantKind, demands: vec[float], row: i64, weight: float
    ) -> None:
        """Add a participant of a kind, with the demands of a row, at level 0."""
        use, width = kind.use, len(self.used)
        lowest = len(kind.levels) * width
        kind.levels = append(kind.levels, 0.0)
        for r in range(width):
            amount = demands[row + r] * weight
            if lowest + r < len(use):
                use[lowest + r] = amount
            else:
                use = append(use, amount)
        kind.use = use

    def _rise(self, budget: float) -> None:
        """Raise the lowest stairs together, from level 0, until no kind can rise.

        Each pass of the loop raises them to the next stair, or until a resource is used up.
        """
        used, rate, limits = self.used, self._rate, self._limits
        for kind in self.kinds:
            kind.can_rise, kind.rises = True, False
        for r in range(len(rate)):
            rate[r] = 0.0
        level = 0.0
        while True:
            self._meet_stairs(level)
            next_stair = self._next_stair(level)
            largest_rise = INFINITE
            for r in range(len(used)):
                if rate[r] > 0.0:
                    limits[r] = max(0.0, budget - used[r]) / rate[r]
                    largest_rise = min(largest_rise, limits[r])
            if level + largest_rise > next_stair:
                for r in range(len(used)):
                    used[r] += rate[r] * (next_stair - level)
                level = next_stair
                continue
            if largest_rise == INFINITE:  # demands so small that their use is rounded to 0
                for kind in self.kinds:
                    if kind.rises:
                        self._stop(kind, level)
                return
            level += largest_rise
            self._use_up(budget, largest_rise)
            if not self._stop_exhausted(level):
                return

    def _meet_stairs(self, level: float) -> None:
        """Let the stairs at this level rise with those that rise already."""
        for kind in self.kinds:
            if not kind.can_rise:
                continue
            if not kind.rises:
                if kind.levels[-1] > level:
                    continue
                kind.rises = True
                self._add_rate(kind)
            while len(kind.levels) > 1 and kind.levels[-2] <= level:
                self._merge_lowest(kind)

    def _add_rate(self, kind: ParticipantKind) -> None:
        """Add the use by the lowest stair of a kind to the rate."""
        rate, use = self._rate, kind.use
        lowest = (len(kind.levels) - 1) * len(rate)
        for r in range(len(rate)):
            rate[r] += use[lowest + r]

    def _merge_lowest(self, kind: ParticipantKind) -> None:
        """Merge the two lowest stairs of a rising kind."""
        rate, use = self._rate, kind.use
        kind.levels, _level = pop(kind.levels)
        lowest = len(kind.levels) * len(rate)
        higher = lowest - len(rate)
        for r in range(len(rate)):
            rate[r] += use[higher + r]
            use[higher + r] += use[lowest + r]

    def _next_stair(self, level: float) -> float:
        """Return the level at which another stair is reached, or infinity."""
        reached = INFINITE
        for kind in self.kinds:
            if not kind.can_rise:
                continue
            levels = kind.levels
            if not kind.rises:
                reached = min(reached, levels[-1])
            elif len(levels) > 1:
                reached = min(reached, levels[-2])
        return max(reached, level)

    def _use_up(self, budget: float, rise: float) -> None:
        """Add the use of a rise, and note the resources that are used up."""
        used, rate, limits, exhausted = self.used, self._rate, self._limits, self._exhausted
        for r in range(len(used)):
            exhausted[r] = False
            if rate[r] > 0.0:
                exhausted[r] = limits[r] <= rise * (1.0 + ROUNDING)
                # Set exactly, so that rounding errors do not accumulate over the steps.
                used[r] = budget if exhausted[r] else used[r] + rate[r] * rise

    def _stop_exhausted(self, level: float) -> bool:
        """Stop kinds that demand an exhausted resource; return whether other kinds can rise."""
        can_go_on = False
        rate, exhausted = self._rate, self._exhausted
        for r in range(len(rate)):
            rate[r] = 0.0
        for kind in self.kinds:
            if not kind.can_rise:
                continue
            lacks = False
            for r in range(len(rate)):
                lacks = lacks or (exhausted[r] and kind.demands[r])
            if lacks:
                if kind.rises:
                    self._stop(kind, level)
                kind.can_rise = False
                continue
            can_go_on = True
            if kind.rises:
                self._add_rate(kind)
        return can_go_on

    def _stop(self, kind: ParticipantKind, level: float) -> None:
        """Stop a rising kind at a level, and log it."""
        kind.rises = False
        kind.levels[-1] = level
        self.log_step = append(self.log_step, len(self.kind_of))
        self.log_kind = append(self.log_kind, kind.number)
        self.log_level = append(self.log_level, level)
