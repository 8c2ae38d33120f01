"""Jobs placed as it is defined, in fractions and with nothing but scans."""

from __future__ import annotations

from fractions import Fraction

from fairlead.model.problem import Problem
from oracles.plain_filling import PlainScheduler

Placement = tuple[int, int, int]


class PlainJobScheduler(PlainScheduler):
    """Places tasks of sets of several kinds per user, looking at everything each time.

    A user's score is that of all it holds: of DRF the largest share of any resource of the pool, of
    TSF and of PS-DSF summed over servers the sum over its tasks; by its weight.
    """

    def __init__(
        self, kinds: Problem, owner: list[int], set_kinds: list[int], criterion: str, select: str
    ) -> None:
        super().__init__(kinds, criterion, select)
        self.pending = [0] * kinds.n_users
        self.owner, self.set_kinds = owner, set_kinds
        self.left = [0] * len(set_kinds)

    def kinds_of(self, user: int) -> list[int]:
        return [k for k, owner in enumerate(self.owner) if owner == user]

    def users_score(self, user: int) -> Fraction:
        kinds = self.kinds_of(user)
        if self.criterion != "drf":
            return sum((Fraction(self.score(k, 0)) for k in kinds), Fraction(0))
        held = [
            sum(self.placed[k] * self.demand[k][r] for k in kinds) for r in range(len(self.total))
        ]
        shares = [h / t for h, t in zip(held, self.total, strict=True) if t > 0]
        return max(shares) / self.weight[kinds[0]]

    def first_set_that_fits(self, user: int) -> int | None:
        for number, kind in enumerate(self.set_kinds):
            mine = self.owner[kind] == user and self.left[number] > 0
            if mine and any(self.fits(kind, i) for i in range(len(self.group))):
                return number
        return None

    def place_sets(self) -> list[Placement]:
        """Place until nothing more can be placed: kind, server and set of each."""
        placements = []
        while True:
            found = {u: self.first_set_that_fits(u) for u in range(max(self.owner) + 1)}
            users = [u for u, number in found.items() if number is not None]
            if not users:
                return placements
            user = min(users, key=lambda u: (self.users_score(u), u))
            number = found[user]
            kind = self.set_kinds[number]
            fitting = [i for i in range(len(self.group)) if self.fits(kind, i)]
            server = fitting[0]
            if self.select == "best-fit":
                server = min(fitting, key=lambda i: (self.misfit(kind, i), i))
            self.take(kind, server)
            self.left[number] -= 1
            placements.append((kind, server, number))

    def submit_set(self, number: int, tasks: int) -> None:
        self.left[number] += tasks
        self.pending[self.set_kinds[number]] += tasks

    def withdraw(self, number: int) -> int:
        tasks, self.left[number] = self.left[number], 0
        self.pending[self.set_kinds[number]] -= tasks
        return tasks
