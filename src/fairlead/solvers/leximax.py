"""Lexicographic max-min of linear scores: one level after the other, by interior points.

The levels of all users rise together. A user leaves at its limit. Users that capacity stops leave
at that level, and the others continue. Each stop has prices that prove it, and by complementary
slackness they shrink the remaining problem: a user never runs again on a group that is not its
cheapest. So later stops cost less than the first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.solvers._level_interior_point import LevelProgramme, LevelSolution, raise_level

REACHED = 1e-12  # a level this close (relative) below a limit reaches it
# Of two complementary unknowns, one below this (relative to its scale) counts as zero if the other
# is above it.
ZERO = 1e-9
ROUNDING = 1e-10  # a smaller fraction of a user's total is a rounding error


@dataclass(frozen=True, eq=False)
class Leximax:
    """A lexicographic max-min division."""

    split: FloatArray  # (N, G): units of each user on each group
    # (K, G, R): for each of K stops the prices that prove it. At these prices the users at or below
    # the stop's level buy the whole capacity, each on its cheapest groups, and a unit of a user
    # that stopped costs more than 0.
    prices: FloatArray


class _Stops:
    """The users that still rise, and the capacity left for them."""

    def __init__(
        self,
        demand: FloatArray,
        allowed: BoolArray,
        need: FloatArray,
        limit: FloatArray,
        capacity: FloatArray,
    ) -> None:
        """Start with all users at level 0; for the arguments see `lexicographic_max_min`."""
        self.demand, self.need, self.limit, self.capacity = demand, need, limit, capacity
        self.eligible = allowed
        self.allowed = allowed.copy()  # without the entries that earlier stops excluded
        self.rising = np.ones(len(need), dtype=bool)
        self.fixed = np.zeros(len(need))  # units of users that left
        self.split = np.zeros(allowed.shape)
        self.prices: list[FloatArray] = []  # (G, R) of each stop
        self.earlier_prices = np.zeros(capacity.shape)  # their sum, each scaled to a largest of 1

    def run(self) -> Leximax:
        """Raise the level from stop to stop until no user rises; return the division."""
        while self.rising.any():
            solution = self._raise()
            if self.rising.any():
                before = int(self.rising.sum())
                self._stop(solution)
                if int(self.rising.sum()) == before:
                    raise NoConvergenceError("a level was reached at which capacity stops no user")
        prices = np.array(self.prices).reshape(-1, *self.capacity.shape)
        return Leximax(self.split, prices)

    def _raise(self) -> LevelSolution:
        """Return the level at which capacity stops it; users leave at their limits.

        The first level ignores limits, so it is too low. Fixing users at their limits frees
        capacity for a higher level. This is repeated until no further user reaches its limit.
        """
        while True:
            solution = self._solve()
            reached = self.rising & (self.limit <= self.need * solution.level * (1 + REACHED))
            self.fixed[reached] = self.limit[reached]
            self.rising[reached] = False
            self._record(solution)
            if not reached.any() or not self.rising.any():
                return solution

    def _solve(self) -> LevelSolution:
        """Return the largest level for the rising users.

        Users with only one group left are not in the programme: their fixed units reduce the
        group's capacity, and their needs add to its slope.
        """
        need = np.where(self.rising, self.need, 0.0)
        listed = self.allowed.sum(axis=1) > 1
        on_one_group = ~listed
        group = self.allowed.argmax(axis=1)
        capacity = self.capacity.copy()
        slope = np.zeros_like(capacity)
        np.subtract.at(
            capacity,
            group[on_one_group],
            self.demand[on_one_group] * self.fixed[on_one_group, None],
        )
        np.add.at(slope, group[on_one_group], self.demand[on_one_group] * need[on_one_group, None])
        inner = raise_level(
            LevelProgramme(
                demand=self.demand[listed],
                allowed=self.allowed[listed],
                need=need[listed],
                fixed=self.fixed[listed],
                capacity=capacity,
                slope=slope,
            )
        )
        split = np.zeros(self.allowed.shape)
        split[listed] = inner.split
        split[on_one_group, group[on_one_group]] = (need * inner.level + self.fixed)[on_one_group]
        cost = self.demand @ inner.prices.T
        value = np.empty(len(need))
        value[listed] = inner.value
        value[on_one_group] = cost[on_one_group, group[on_one_group]]
        return replace(inner, split=split, value=value, reduced_cost=cost - value[:, None])

    def _record(self, solution: LevelSolution) -> None:
        """Store the split without rounding errors, scaled so that each user's total is exact."""
        wanted = np.where(self.rising, self.need * solution.level, self.fixed)
        is_rounding = solution.split < ROUNDING * wanted[:, None]
        split = np.where(self.allowed & ~is_rounding, solution.split, 0.0)
        self.split = split * (wanted / split.sum(axis=1))[:, None]

    def _stop(self, solution: LevelSolution) -> None:
        """Fix the users that capacity stops, and drop entries by complementary slackness."""
        value = np.maximum(solution.value, 0.0)
        worth = value * self.need
        held = self.split.sum(axis=1)
        stopped = self.rising & (worth > ZERO * worth[self.rising].max())
        self.fixed[stopped] = held[stopped]
        self.rising[stopped] = False
        cost = np.abs(solution.value)[:, None] + np.abs(solution.reduced_cost)
        dearer = solution.reduced_cost > ZERO * cost.max(axis=1, keepdims=True)
        unused = self.split < ZERO * held[:, None]
        dropped = self.allowed & dearer & unused
        self._add_prices(solution)
        self.allowed &= ~dropped

    def _add_prices(self, solution: LevelSolution) -> None:
        """Make this stop's prices valid for entries that earlier stops excluded; store them.

        A multiple of the earlier stops' prices may be added: at those prices, too, the users at or
        below this level buy the whole capacity.
        """
        prices = solution.prices
        if self.prices:
            before = self.earlier_prices
            excluded = self.eligible & ~self.allowed
            missing = np.where(excluded, np.maximum(-solution.reduced_cost, 0.0), 0.0)
            cost = self.demand @ before.T
            cheapest = np.where(self.allowed, cost, np.inf).min(axis=1)
            margin = cost - cheapest[:, None]
            # Earlier prices without a margin cannot help.
            helped = excluded & (margin > ZERO**2 * cost)
            multiple = float((missing[helped] / margin[helped]).max(initial=0.0))
            prices = prices + 1.0001 * multiple * before
        self.prices.append(prices)
        self.earlier_prices += prices / prices.max()


def lexicographic_max_min(
    demand: FloatArray,
    allowed: BoolArray,
    need: FloatArray,
    limit: FloatArray,
    capacity: FloatArray,
) -> Leximax:
    """Divide capacity so that the sorted levels of the users are lexicographically largest.

    Parameters
    ----------
    demand : (N, R) float
        Demand of one unit of each user, the same on all groups.
    allowed : (N, G) bool
        Where each user may run; at least one group each, with all it demands.
    need : (N,) float
        Units that each user needs per unit of level, positive.
    limit : (N,) float
        Units at which a user leaves; infinite for none.
    capacity : (G, R) float
        Capacity of each whole group, in the units of `demand`.

    Raises
    ------
    NoConvergenceError
        When a level cannot be solved.

    Notes
    -----
    Wang, Liang and Li 2015, V-A (finite tasks), as a sequence of programmes for a level: K stops of
    a few programmes each; see `raise_level` for the cost of one.
    """
    return _Stops(demand, allowed, need, limit, capacity).run()
