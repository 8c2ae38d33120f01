"""Check whether an order of placements is the filling of a policy, by scans for each placement.

Scores count units of 2**-64, H of best-fit is a double, and equal numbers are ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor, inf

from fairlead.model.problem import Problem
from fairlead.model.quanta import to_quanta
from fairlead.model.quantity import exact


class PlainFilling:
    """The placements so far, and a policy's next one."""

    def __init__(self, problem: Problem, criterion: str, select: str, residual: bool) -> None:
        self.criterion, self.select, self.residual = criterion, select, residual
        quanta = to_quanta(problem)
        self.group = [g for g, count in enumerate(problem.count.tolist()) for _ in range(count)]
        self.capacity = [quanta.capacity[g].tolist() for g in self.group]
        self.free = [list(row) for row in self.capacity]
        self.demand = quanta.demand.tolist()
        self.weight = [exact(weight) for weight in problem.weight.tolist()]
        self.eligible = problem.users.eligible.tolist()
        self.limit = problem.task_limit.tolist()
        self.placed = [0] * problem.n_users
        self.servers = range(len(self.group))
        self.pool = [sum(column) for column in zip(*self.capacity, strict=True)]

    def may_run(self, n: int, i: int) -> bool:
        return self.eligible[n][self.group[i]]

    def fits(self, n: int, i: int) -> bool:
        amounts = zip(self.free[i], self.demand[n], strict=True)
        return (
            self.placed[n] + 1 <= self.limit[n]
            and self.may_run(n, i)
            and all(f >= d for f, d in amounts)
        )

    def tasks(self, n: int, amounts: Sequence[int]) -> Fraction:
        """Return the number of a user's tasks, whole or not, that fit in some amounts."""
        return min(Fraction(a, d) for a, d in zip(amounts, self.demand[n], strict=True) if d > 0)

    def score(self, n: int, i: int) -> tuple[bool, int]:
        """Return the score of a user on a server: weight 0 last, then share over weight."""
        share = self.placed[n] * self.share_of_task(n, i) if self.placed[n] else Fraction(0)
        return self.weight[n] == 0, floor(share / (self.weight[n] or 1) * 2**64)

    def share_of_task(self, n: int, i: int) -> Fraction:
        amounts = self.free if self.residual else self.capacity
        if self.criterion == "drf":
            pool = [sum(column) for column in zip(*amounts, strict=True)]
            return 1 / self.tasks(n, pool)
        if self.criterion == "tsf":
            return 1 / sum(self.tasks(n, row) for row in amounts)
        if self.select in ("joint", "rrr"):
            return 1 / self.tasks(n, amounts[i])
        tasks = [self.tasks(n, self.capacity[j]) for j in self.servers if self.may_run(n, j)]
        return sum((1 / t for t in tasks if t > 0), Fraction(0))

    def fit_score(self, n: int, i: int) -> float:
        demand, free = self.demand[n], self.free[i]
        q = [d > 0 for d in demand].index(True)
        if free[q] == 0:
            return inf
        h = 0.0
        for d, f, t in zip(demand, free, self.pool, strict=True):
            if t > 0:
                off = abs(float(d) / float(demand[q]) - float(f) / float(free[q]))
                h += off * (float(self.pool[q]) / float(t))
        return h

    def server(self, n: int) -> int | None:
        """Return the server that the selection chooses for a user's task, of equals the first."""
        if self.select == "best-fit-first":
            servers = [i for i in self.servers if self.may_run(n, i)]
            best = min(servers, key=lambda i: self.fit_score(n, i), default=None)
            return best if best is not None and self.fits(n, best) else None
        servers = [i for i in self.servers if self.fits(n, i)]
        if self.select == "first-fit":
            return min(servers, default=None)
        key = self.fit_score if self.select == "best-fit" else self.score
        return min(servers, key=lambda i: key(n, i), default=None)

    def next_placement(self) -> tuple[int, int] | None:
        """Return the next user and server, of equal users the first; best-fit-first: the last."""
        users = range(len(self.placed))
        pairs = [(n, i) for n in users if (i := self.server(n)) is not None]
        if self.select == "best-fit-first":
            pairs.reverse()
        return min(pairs, key=lambda pair: self.score(*pair), default=None)

    def next_on(self, i: int) -> int | None:
        """Return the user that is served on a visited server of a round."""
        users = [n for n in range(len(self.placed)) if self.fits(n, i)]
        return min(users, key=lambda n: self.score(n, i), default=None)

    def place(self, n: int, i: int) -> None:
        self.free[i] = [f - d for f, d in zip(self.free[i], self.demand[n], strict=True)]
        self.placed[n] += 1

    def roomy(self) -> set[int]:
        """Return the servers on which some user's task fits."""
        return {i for i in self.servers if self.next_on(i) is not None}


def is_filling(
    problem: Problem, criterion: str, select: str, residual: bool, order: Sequence[tuple[int, int]]
) -> bool:
    """Return whether a policy makes these placements; in rounds, for some orders of servers."""
    plain = PlainFilling(problem, criterion, select, residual)
    roomy = [plain.roomy()]
    for n, i in order:
        expected = (plain.next_on(i), i) if select == "rrr" else plain.next_placement()
        if expected != (n, i):
            return False
        plain.place(n, i)
        roomy.append(plain.roomy())
    if select != "rrr":
        return plain.next_placement() is None
    # A round visits no server twice, and each server with room for a task at the round's end.
    ends = {0}
    for end in range(1, len(order) + 1):
        for begin in sorted(ends):
            visited = [i for _, i in order[begin:end]]
            if len(set(visited)) == len(visited) and roomy[end] <= set(visited):
                ends.add(end)
    return len(order) in ends and not roomy[-1]
