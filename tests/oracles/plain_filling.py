"""Progressive filling as it is defined, in fractions and with nothing but scans.

Servers are counted one by one through the groups. The states are tiny and the loops are naive: this
is what the scheduler has to place, task for task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor, inf, isinf

from fairlead.model.problem import Problem
from fairlead.model.quantity import exact

Placement = tuple[int, int]
Orders = Callable[[int], Sequence[int]]


def over(room: Fraction) -> Fraction | float:
    """One over the tasks that fit; infinite if nothing does."""
    return 1 / room if room > 0 else inf


class PlainScheduler:
    """Places tasks by a policy, looking at everybody and everything each time.

    Parameters
    ----------
    problem : Problem
        Users with a limit have the whole part of it as tasks.
    criterion, select, residual
        The policy.
    orders : callable
        For rounds: the number of servers -> the order of the next round.
    """

    def __init__(
        self,
        problem: Problem,
        criterion: str,
        select: str,
        residual: bool = False,
        orders: Orders = range,
    ) -> None:
        self.criterion, self.select, self.residual, self.orders = (
            criterion,
            select,
            residual,
            orders,
        )
        self.group = [g for g, count in enumerate(problem.count.tolist()) for _ in range(count)]
        capacity = [[exact(a) for a in row] for row in problem.cluster.capacity.tolist()]
        self.capacity = [list(capacity[g]) for g in self.group]
        self.free = [list(capacity[g]) for g in self.group]
        self.demand = [[exact(a) for a in row] for row in problem.demand.tolist()]
        self.weight = [exact(w) for w in problem.weight.tolist()]
        self.eligible = problem.users.eligible.tolist()
        self.pending = [inf if isinf(t) else floor(t) for t in problem.task_limit.tolist()]
        self.placed = [0] * problem.n_users
        self.closed = [False] * len(self.group)
        self.total = [sum(column) for column in zip(*self.capacity, strict=True)]

    # What is defined

    def allowed(self, n: int, i: int) -> bool:
        return self.eligible[n][self.group[i]] and not self.closed[i]

    def fits(self, n: int, i: int) -> bool:
        return self.allowed(n, i) and all(
            f >= d for f, d in zip(self.free[i], self.demand[n], strict=True)
        )

    def room(self, n: int, amounts: Sequence[Fraction]) -> Fraction:
        """Tasks of user `n` that these amounts would take, whole or not."""
        return min(a / d for a, d in zip(amounts, self.demand[n], strict=True) if d > 0)

    def score(self, n: int, i: int) -> Fraction | float:
        """The score of user `n` on server `i`; the server matters to ps-dsf in pairs only."""
        if self.placed[n] == 0:
            return Fraction(0)
        amounts = self.free if self.residual else self.capacity
        if self.criterion == "drf":
            pool = [sum(column) for column in zip(*amounts, strict=True)]
            per_task = over(self.room(n, pool))
        elif self.criterion == "tsf":
            per_task = over(sum((self.room(n, row) for row in amounts), Fraction(0)))
        elif self.select in ("joint", "rrr"):
            per_task = over(self.room(n, amounts[i]))
        else:
            rooms = [
                self.room(n, row)
                for g, row in zip(self.group, self.capacity, strict=True)
                if self.eligible[n][g]
            ]
            per_task = sum((1 / room for room in rooms if room > 0), Fraction(0))
        return self.placed[n] * per_task / self.weight[n]

    def misfit(self, n: int, i: int) -> Fraction | float:
        """H of Wang, Liang and Li, over shares of the pool; infinite without the first resource."""
        here = [d > 0 for d in self.demand[n]].index(True)
        if self.free[i][here] == 0:
            return inf
        pool = self.total
        wanted = self.demand[n][here] / pool[here]
        there = self.free[i][here] / pool[here]
        return sum(
            abs(d / t / wanted - f / t / there)
            for d, f, t in zip(self.demand[n], self.free[i], pool, strict=True)
            if t > 0
        )

    # Who and where

    def waiting(self) -> list[int]:
        return [n for n, pending in enumerate(self.pending) if pending > 0]

    def choose(self) -> Placement | None:
        """The next placement of a selection without rounds."""
        servers = range(len(self.group))
        if self.select == "joint":
            pairs = [(n, i) for n in self.waiting() for i in servers if self.fits(n, i)]
            return min(pairs, key=lambda p: (self.score(*p), *p), default=None)
        if self.select == "best-fit-first":
            for n in sorted(self.waiting(), key=lambda n: (self.score(n, 0), -n)):
                candidates = [i for i in servers if self.allowed(n, i)]
                best = min(candidates, key=lambda i: (self.misfit(n, i), i), default=None)
                if best is not None and self.fits(n, best):
                    return n, best
            return None
        users = [n for n in self.waiting() if any(self.fits(n, i) for i in servers)]
        if not users:
            return None
        n = min(users, key=lambda n: (self.score(n, 0), n))
        fitting = [i for i in servers if self.fits(n, i)]
        if self.select == "first-fit":
            return n, fitting[0]
        return n, min(fitting, key=lambda i: (self.misfit(n, i), i))

    def run_round(self) -> list[Placement]:
        placed = []
        for i in self.orders(len(self.group)):
            users = [n for n in self.waiting() if self.fits(n, i)]
            if users:
                n = min(users, key=lambda n: (self.score(n, i), n))
                self.take(n, i)
                placed.append((n, i))
        return placed

    # What happens

    def take(self, n: int, i: int) -> None:
        self.free[i] = [f - d for f, d in zip(self.free[i], self.demand[n], strict=True)]
        self.placed[n] += 1
        self.pending[n] -= 1

    def place_all(self) -> list[Placement]:
        """Place until nothing more can be placed."""
        placements: list[Placement] = []
        if self.select == "rrr":
            while placed := self.run_round():
                placements += placed
            return placements
        while (choice := self.choose()) is not None:
            self.take(*choice)
            placements.append(choice)
        return placements

    def finish(self, n: int, i: int) -> None:
        self.free[i] = [f + d for f, d in zip(self.free[i], self.demand[n], strict=True)]
        self.placed[n] -= 1

    def submit(self, n: int, tasks: int) -> None:
        self.pending[n] += tasks

    def close(self, i: int) -> None:
        self.closed[i] = True

    def open(self, i: int) -> None:
        self.closed[i] = False


def fill_plainly(
    problem: Problem, criterion: str, select: str, residual: bool = False, orders: Orders = range
) -> list[Placement]:
    """Fill by the definition; see `PlainScheduler`."""
    return PlainScheduler(problem, criterion, select, residual, orders).place_all()
