"""Who is served next and where, as it is defined: in fractions, with nothing but scans."""

from __future__ import annotations

from fractions import Fraction
from math import floor, inf

from fairlead.model.exact import exact
from fairlead.model.workload import Workload
from oracles.plain_slots import in_slots

Row = list[Fraction]
Plan = list[tuple[int, int]]  # set and server of each task
Start = tuple[int, int, float, float, bool]  # task, server, start, end, lost


class PlainScheduler:
    """Looks at everybody and everything each time; a unit is a task of a set, or a whole gang."""

    def __init__(self, workload: Workload, policy: str, *, strict: bool = False) -> None:
        self.w, self.strict = workload, strict
        self.gang = workload.job_gang & (workload.job_tasks > 1)
        capacity = [[exact(a) for a in row] for row in workload.cluster.capacity.tolist()]
        shapes = [[exact(a) for a in row] for row in workload.shapes.tolist()]
        self.name, self.slots = policy, policy.startswith("slots:")
        if self.slots:
            capacity, shapes = in_slots(capacity, shapes, int(policy[6:]))
            policy = "drf/first-fit"
        self.criterion, self.select, *forms = policy.split("/")
        self.residual, self.oblivious = "residual" in forms, "oblivious" in forms
        self.group = [g for g, k in enumerate(workload.cluster.count.tolist()) for _ in range(k)]
        self.capacity = [capacity[g] for g in self.group]
        self.there = workload.there_at_start.tolist()
        self.open = list(self.there)
        self.free = [list(c) for c in self.capacity]
        self.phi = [exact(p) for p in workload.weight.tolist()]
        self.held = [[Fraction(0)] * len(self.capacity[0]) for _ in self.phi]
        self.demand = [shapes[d] for d in workload.set_shape.tolist()]
        self.place = [workload.places[e].tolist() for e in workload.set_place.tolist()]
        self.user = [int(workload.job_user[j]) for j in workload.set_job]
        self.waiting: list[list[int]] = [[] for _ in self.demand]  # tasks of each set
        self.running: list[tuple[float, int, int, int]] = []  # end, position in log, set, server
        self.log: list[Start] = []
        self.tried: set[int] = set()  # gangs for which nothing of use was freed since they failed
        self.unplaceable = [self.set_unplaceable(k) for k in range(len(self.demand))]

    def set_unplaceable(self, k: int) -> bool:
        """A gang's sets of one shape need room at once, each where it may run and all together."""
        is_gang, job = self.gang[self.w.set_job[k]], self.w.set_job[k]
        sets = list(self.sets(job)) if is_gang else [k]
        shape = self.w.set_shape
        alike = [[t for t in sets if shape[t] == shape[s]] for s in sets]
        for together in [[s] for s in sets] + alike:
            room_for = sum(
                floor(room(self.demand[together[0]], c))
                for c, g in zip(self.capacity, self.group, strict=True)
                if any(self.place[s][g] for s in together)
            )
            needed = sum(int(self.w.set_tasks[s]) for s in together) if is_gang else 1
            if room_for < needed:
                return True
        return False

    def sets(self, job: int) -> range:
        return range(int(self.w.first_set[job]), int(self.w.first_set[job + 1]))

    def fits(self, k: int, i: int) -> bool:
        return (
            self.open[i]
            and self.place[k][self.group[i]]
            and all(f >= d for f, d in zip(self.free[i], self.demand[k], strict=True))
        )

    def score(self, u: int, k: int, i: int) -> Fraction:
        """The score of a user with a task of set `k` at hand and server `i` in view."""
        held, demand, pairs = self.held[u], self.demand[k], self.select in ("joint", "rrr")
        present = [s for s, there in enumerate(self.there) if there]
        if self.slots:
            slots = sum(self.capacity[s][0] for s in present)
            return held[0] / self.phi[u] / slots if slots else Fraction(0)
        if not any(held):
            return Fraction(0)
        wanted = [r for r, d in enumerate(demand) if d > 0 or self.oblivious]
        if self.criterion == "drf" and not self.residual:
            wanted, over = range(len(held)), total([self.capacity[s] for s in present])
        elif self.criterion == "drf":
            over = total([self.free[s] for s in present])
        elif self.criterion == "tsf" and self.residual:
            rooms = sum(room(demand, self.free[s]) for s in present)
            return max(held[r] / demand[r] for r in wanted) / rooms / self.phi[u]
        elif self.criterion == "ps-dsf" and pairs:
            over = self.free[i] if self.residual else self.capacity[i]
        else:
            mine = [k for _, _, k, _ in self.running if self.user[k] == u]
            return sum((self.per_task(k, present) for k in mine), Fraction(0)) / self.phi[u]
        shares = [held[r] / over[r] for r in wanted if held[r] and over[r]]
        return max(shares, default=Fraction(0)) / self.phi[u]

    def per_task(self, k: int, present: list[int]) -> Fraction:
        if self.criterion == "tsf":
            return 1 / sum(room(self.demand[k], self.capacity[s]) for s in present)
        seen = [s for s in present if self.place[k][self.group[s]]]
        rooms = [room(self.demand[k], self.capacity[s]) for s in seen]
        return sum((1 / r for r in rooms if r > 0), Fraction(0))

    def misfit(self, k: int, i: int) -> Fraction | float:
        demand, free = self.demand[k], self.free[i]
        q = [d > 0 for d in demand].index(True)
        if free[q] == 0:
            return inf
        pool = total([c for c, there in zip(self.capacity, self.there, strict=True) if there])
        shapes = zip(demand, free, pool, strict=True)
        unit = pool[q]
        return sum(abs(d / demand[q] - f / free[q]) * unit / t for d, f, t in shapes if t > 0)

    def choose_server(self, u: int, k: int) -> int | None:
        fitting = [i for i in range(len(self.free)) if self.fits(k, i)]
        if self.select == "best-fit":
            return min(fitting, key=lambda i: (self.misfit(k, i), i), default=None)
        if self.select == "best-fit-first":
            seen = [i for i, g in enumerate(self.group) if self.open[i] and self.place[k][g]]
            best = min(seen, key=lambda i: (self.misfit(k, i), i), default=None)
            return best if best is not None and self.fits(k, best) else None
        if self.select == "joint":
            return min(fitting, key=lambda i: (self.score(u, k, i), i), default=None)
        return fitting[0] if fitting else None

    def units(self, u: int) -> list[list[int]]:
        """What waits of a user, in order: the set of one task, or of every task of a gang."""
        found: dict[int, list[int]] = {}
        for k, tasks in enumerate(self.waiting):
            if tasks and self.user[k] == u:
                gang = self.gang[self.w.set_job[k]]
                head = int(self.w.first_set[self.w.set_job[k]]) if gang else k
                found.setdefault(head, []).extend([k] * (len(tasks) if gang else 1))
        units = list(found.values())
        return units[:1] if self.strict else units

    def plan(self, u: int, unit: list[int], server: int | None = None, only: bool = False) -> Plan:
        """Where each task of a unit would go, the first or only ones on `server`; or nothing."""
        job, servers = int(self.w.set_job[unit[0]]), []
        is_gang = bool(self.gang[job])
        if is_gang and server is None and job in self.tried:
            return []
        for n, k in enumerate(unit):
            given = server is not None and (n == 0 or only)
            i = server if given else self.choose_server(u, k)
            if i is None or not self.fits(k, i):
                break
            servers.append(i)
            self.hold(u, k, i, 1)
        for k, i in zip(unit, servers):  # noqa: B905 (as many as went well)
            self.hold(u, k, i, -1)
        if len(servers) == len(unit):
            return list(zip(unit, servers, strict=True))
        if is_gang and server is None:
            self.tried.add(job)
        return []

    def hold(self, u: int, k: int, i: int, sign: int) -> None:
        self.free[i] = [f - sign * d for f, d in zip(self.free[i], self.demand[k], strict=True)]
        self.held[u] = [h + sign * d for h, d in zip(self.held[u], self.demand[k], strict=True)]

    def start(self, u: int, plan: Plan, now: float) -> None:
        for k, i in plan:
            self.hold(u, k, i, 1)
            task = self.waiting[k].pop(0)
            end = now + float(self.w.task_duration[task])
            self.running.append((end, len(self.log), k, i))
            self.log.append((task, i, now, end, False))

    def first_plan(self, u: int, i: int | None = None, only: bool = False) -> Plan:
        plans = (self.plan(u, unit, i, only) for unit in self.units(u))
        return next((plan for plan in plans if plan), [])

    def place_all(self, now: float) -> None:
        last = -1 if self.select == "best-fit-first" else 1
        while True:
            plans = {u: plan for u in range(len(self.phi)) if (plan := self.first_plan(u))}
            if not plans:
                return
            u = min(plans, key=lambda u: (self.score(u, *plans[u][0]), last * u))
            self.start(u, plans[u], now)

    def free_up(self, i: int) -> None:
        for job in sorted(self.tried):
            if any(self.fits(k, i) for k in self.sets(job) if self.waiting[k]):
                self.tried.discard(job)


def room(demand: Row, amounts: Row) -> Fraction:
    """Tasks that the amounts would take, whole or not."""
    return min(a / d for a, d in zip(amounts, demand, strict=True) if d > 0)


def total(rows: list[Row]) -> Row:
    return [sum(column, Fraction(0)) for column in zip(*rows, strict=True)]
