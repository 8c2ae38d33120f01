"""Servers offered one by one in random order: rounds, and offers to users of unknown demands."""

from __future__ import annotations

from math import inf

from fairlead.model.workload import Workload
from oracles.plain_simulation import PlainSimulation

MASK = 2**64 - 1


def shuffled(items: list[int], seed: list[int]) -> list[int]:
    """Fisher and Yates, from the end, with SplitMix64 (Steele, Lea and Flood 2014)."""
    items = list(items)
    for k in range(len(items) - 1, 0, -1):
        seed[0] = (seed[0] + 0x9E3779B97F4A7C15) & MASK
        z = seed[0]
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        other = (z ^ (z >> 31)) % (k + 1)
        items[k], items[other] = items[other], items[k]
    return items


class PlainOffers(PlainSimulation):
    """Round-robin, characterised or oblivious."""

    def __init__(
        self,
        workload: Workload,
        policy: str,
        *,
        strict: bool = False,
        seed: int = 0,
        refuse: float = 5.0,
    ) -> None:
        super().__init__(workload, policy, strict=strict)
        self.seed, self.refuse = [seed], refuse
        self.refused: dict[tuple[int, int], float] = {}  # user and server: until when
        self.freed: set[tuple[int, int]] = set()  # refused pairs whose server has more free now

    def place_all(self, now: float) -> None:
        while servers := [i for i in range(len(self.free)) if self.offer(i, now, look=True)]:
            for i in shuffled(servers, self.seed):
                self.offer(i, now)

    def submit(self, job: int) -> None:
        super().submit(job)
        if any(self.waiting[k] for k in self.sets(job)):
            self.revive(int(self.w.job_user[job]))

    def revive(self, user: int) -> None:
        mine = {pair for pair in self.refused if pair[0] == user}
        self.refused = {pair: t for pair, t in self.refused.items() if pair not in mine}
        self.freed -= mine

    def free_up(self, i: int) -> None:
        super().free_up(i)
        self.freed |= {pair for pair in self.refused if pair[1] == i}

    def next_offer(self) -> float:
        times = [self.refused[p] for p in self.freed if self.units(p[0]) and self.open[p[1]]]
        return min((t for t in times if t > self.now), default=inf)

    def offer(self, i: int, now: float, look: bool = False) -> bool:
        """Offer a server to the least user that takes anything (or refuses nothing of it)."""
        users = [u for u in range(len(self.phi)) if self.units(u) and self.open[i]]
        if not self.oblivious:
            plans = {u: plan for u in users if (plan := self.first_plan(u, i))}
            if plans and not look:
                u = min(plans, key=lambda u: (self.score(u, plans[u][0][0], i), u))
                self.start(u, plans[u], now)
            return bool(plans)
        users = [u for u in users if any(self.free[i]) and self.hears(u, i, now)]
        if users and not look:
            u = min(users, key=lambda u: (self.score(u, 0, i), u))
            while plan := self.first_plan(u, i, only=True):
                self.start(u, plan, now)
            self.refused[u, i] = now + self.refuse
            self.freed.discard((u, i))
        return bool(users)

    def hears(self, u: int, i: int, now: float) -> bool:
        pair = (u, i)
        return pair not in self.refused or (pair in self.freed and self.refused[pair] <= now)
