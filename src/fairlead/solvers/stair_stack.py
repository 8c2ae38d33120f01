"""Stacks of stairs: raise levels within a budget that grows as participants arrive.

At each step one participant arrives, at level 0, and the budget of every resource grows. Then the
participants of least level rise together until a resource that they demand is used up; the others
continue, until none can rise. No level ever falls. Participants that demand the same set of
resources (of one *kind*) stop together, so a later one is never above an earlier one: their levels
are a staircase, and only its lowest stairs move. Each kind has a stack of stairs, which merge as
they meet. A step costs amortised O(R) where all are of one kind; with K kinds each stair that is
reached costs O(K R).

The log has the least level of each kind after each step in which it rose; see
`fairlead.solvers.level_log`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

# When a resource is used up, resources with at most this relative remainder are, too.
ROUNDING: Final = 4e-16
INFINITE: Final = float("inf")


class Stair:
    """The participants of one kind at one level."""

    level: float
    use: vec[float]  # (R,) use of each resource per unit of level

    def __init__(self, use: vec[float]) -> None:
        self.level = 0.0
        self.use = use


class Kind:
    """The participants that demand the same resources."""

    number: i64  # by first arrival
    demands: vec[bool]  # (R,)
    stairs: list[Stair]  # the lowest last
    can_rise: bool  # in the current step
    rises: bool  # in the current step

    def __init__(self, number: i64, demands: vec[bool]) -> None:
        self.number = number
        self.demands = demands
        self.stairs = []
        self.can_rise = False
        self.rises = False


# The level of each stair with its use, the lowest last.
StairRows = list[tuple[float, list[float]]]
# Demands and stairs of each kind, used amounts, kinds of participants, and the log's columns.
State = tuple[
    list[tuple[list[bool], StairRows]],
    list[float],
    list[int],
    list[int],
    list[int],
    list[float],
]


class StairStacks:
    """The stairs of every kind, and the log of levels. R resources."""

    kinds: list[Kind]
    used: vec[float]  # (R,) used amount of each resource
    kind: vec[i64]  # (P,) kind of each participant
    log_step: vec[i64]  # (L,) steps, counted from 1, in which a kind rose
    log_kind: vec[i64]
    log_level: vec[float]  # (L,) its least level afterwards
    _kinds: dict[int, Kind]
    _rate: vec[float]  # (R,) use by the rising kinds per unit of level
    _exhausted: vec[bool]  # (R,) the resources that the last rise used up

    def __init__(self, n_resources: int) -> None:
        self.kinds = []
        self.used = vec[float]([0.0] * n_resources)
        self.kind = vec[i64]()
        self.log_step = vec[i64]()
        self.log_kind = vec[i64]()
        self.log_level = vec[float]()
        self._kinds = {}
        self._rate = vec[float]([0.0] * n_resources)
        self._exhausted = vec[bool]([False] * n_resources)

    def state(self) -> State:
        """Return the state as plain values, for copies."""
        kinds: list[tuple[list[bool], StairRows]] = []
        for kind in self.kinds:
            rows = [(stair.level, list(stair.use)) for stair in kind.stairs]
            kinds.append((list(kind.demands), rows))
        log_step, log_kind = [int(step) for step in self.log_step], [int(k) for k in self.log_kind]
        used, level = list(self.used), list(self.log_level)
        return kinds, used, [int(kind) for kind in self.kind], log_step, log_kind, level

    def restore(self, state: State) -> None:
        """Restore a state."""
        kinds, used, kind_of, log_step, log_kind, log_level = state
        self.used = vec[float](used)
        self.kind = vec[i64](kind_of)
        self.log_step, self.log_kind = vec[i64](log_step), vec[i64](log_kind)
        self.log_level = vec[float](log_level)
        self.kinds = []
        self._kinds = {}
        for demands, rows in kinds:
            kind = self._kind_of(vec[float]([1.0 if demanded else 0.0 for demanded in demands]))
            for level, use in rows:
                stair = Stair(vec[float](use))
                stair.level = level
                kind.stairs.append(stair)

    def add(
        self, demand: Iterable[float], weight: Iterable[float], budget: Iterable[float]
    ) -> vec[float]:
        """Add P participants one after another; return (P,) the least level after each.

        Parameters
        ----------
        demand : (P R,) float
            Demand per unit of a participant's share, row after row.
        weight : (P,) float
            Share per unit of level.
        budget : (P,) float
            The part of every resource that may be used after each arrival; it never falls.

        Notes
        -----
        With K kinds O(R + K) per arrival and O(K R) per stair reached; every arrival adds one.
        Contiguous arrays are copied at once, lists number by number.
        """
        demands, weights, budgets = vec[float](demand), vec[float](weight), vec[float](budget)
        width: i64 = len(self.used)
        least = vec[float](capacity=len(weights))
        for k in range(len(weights)):
            use = demands[k * width : (k + 1) * width]
            kind = self._kind_of(use)
            self.kind = append(self.kind, kind.number)
            for r in range(width):
                use[r] *= weights[k]
            kind.stairs.append(Stair(use))
            self._rise(budgets[k])
            lowest = INFINITE
            for kind in self.kinds:
                lowest = min(lowest, kind.stairs[-1].level)
            least = append(least, lowest)
        return least

    def _kind_of(self, demand: vec[float]) -> Kind:
        """Return the kind that demands the same resources; create a missing one."""
        key = 0
        for r in range(len(demand)):
            key = 2 * key + (1 if demand[r] > 0.0 else 0)
        kind = self._kinds.get(key)
        if kind is None:
            kind = Kind(len(self.kinds), vec[bool]([amount > 0.0 for amount in demand]))
            self._kinds[key] = kind
            self.kinds.append(kind)
        return kind

    def _rise(self, budget: float) -> None:
        """Raise the lowest stairs together, from level 0, until no kind can rise."""
        used, rate = self.used, self._rate
        for kind in self.kinds:
            kind.can_rise, kind.rises = True, False
        for r in range(len(rate)):
            rate[r] = 0.0
        level = 0.0
        while True:
            self._meet_stairs(level)
            event = self._next_event(level)
            limit = INFINITE
            for r in range(len(used)):
                if rate[r] > 0.0:
                    limit = min(limit, max(0.0, budget - used[r]) / rate[r])
            if level + limit > event:
                for r in range(len(used)):
                    used[r] += rate[r] * (event - level)
                level = event
                continue
            if limit == INFINITE:  # the total use underflows
                for kind in self.kinds:
                    if kind.rises:
                        self._stop(kind, level)
                return
            level += limit
            self._use_up(budget, limit)
            if not self._stop_exhausted(level):
                return

    def _meet_stairs(self, level: float) -> None:
        """Add the participants at this level to the rising ones."""
        rate = self._rate
        for kind in self.kinds:
            if not kind.can_rise:
                continue
            stairs = kind.stairs
            lowest = stairs[-1]
            if not kind.rises:
                if lowest.level > level:
                    continue
                kind.rises = True
                for r in range(len(rate)):
                    rate[r] += lowest.use[r]
            while len(stairs) > 1 and stairs[-2].level <= level:
                stairs.pop()
                higher = stairs[-1]
                for r in range(len(rate)):
                    rate[r] += higher.use[r]
                    higher.use[r] += lowest.use[r]
                lowest = higher

    def _next_event(self, level: float) -> float:
        """Return the level at which another stair is reached, or infinity."""
        event = INFINITE
        for kind in self.kinds:
            if not kind.can_rise:
                continue
            stairs = kind.stairs
            if not kind.rises:
                event = min(event, stairs[-1].level)
            elif len(stairs) > 1:
                event = min(event, stairs[-2].level)
        return max(event, level)

    def _use_up(self, budget: float, limit: float) -> None:
        """Add the use of a rise by `limit`, and note the resources that are used up."""
        used, rate, exhausted = self.used, self._rate, self._exhausted
        for r in range(len(used)):
            exhausted[r] = False
            if rate[r] > 0.0:
                # The same test as in `_rise`, so that the resource that set the limit is included.
                room = max(0.0, budget - used[r]) / rate[r]
                exhausted[r] = room <= limit * (1.0 + ROUNDING)
                # Set exactly, so that rounding errors do not accumulate over the steps.
                used[r] = budget if exhausted[r] else used[r] + rate[r] * limit

    def _stop_exhausted(self, level: float) -> bool:
        """Stop kinds that demand an exhausted resource; return whether another can still rise."""
        goes_on = False
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
            goes_on = True
            if kind.rises:
                lowest = kind.stairs[-1]
                for r in range(len(rate)):
                    rate[r] += lowest.use[r]
        return goes_on

    def _stop(self, kind: Kind, level: float) -> None:
        """Stop a rising kind at a level, and log it."""
        kind.rises = False
        kind.stairs[-1].level = level
        self.log_step = append(self.log_step, len(self.kind))
        self.log_kind = append(self.log_kind, kind.number)
        self.log_level = append(self.log_level, level)
