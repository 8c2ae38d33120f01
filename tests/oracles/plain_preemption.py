"""Check the rules of preemption for each start of a round: takers, started in place of victims.

Of the choice of victims, two rules are checked: no victim could be left out, and a round without
starts leaves no task waiting for which one victim would be enough. Of the order of takers, only
the first is checked, for queues without parents and quotas: no queue with a lower score could have
started a task in place of one victim.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

from oracles.plain_choosing import Group, Queue, Server, Task
from oracles.plain_scheduler import Scheduler

TRIED = 4  # first groups of different shapes of a queue that a round tries


class PlainRound:
    """A round of preemption on the state of a plain scheduler, which `follow` changes."""

    def __init__(self, s: Scheduler) -> None:
        mode, _, seconds = s.preempts.partition(":")
        self.s, self.by_share, self.min_run = s, mode == "over-share", float(seconds or 0)

    # Holdings, without tasks that are to stop

    def lasting(self, without: list[Task] = ()) -> list[Task]:
        """Return the running tasks that go on, without some tasks."""
        gone = {*self.s.stopping, *(t.id for t in without)}
        return [t for t in self.s.running.values() if t.id not in gone]

    def amounts(self, tasks: list[Task]) -> list[int]:
        rows = [self.s.demand(t.group, t.index) for t in tasks]
        return [sum(row[r] for row in rows) for r in range(len(self.s.pool()))]

    def in_queue(self, queue: Queue, tasks: list[Task]) -> list[int]:
        return self.amounts([t for t in tasks if t.group.queue.is_in(queue)])

    def score(self, queue: Queue, tasks: list[Task], asked: list[int]) -> int:
        """Return the score of a queue that holds tasks; inner queues count resources of `asked`."""
        held, pool = self.in_queue(queue, tasks), self.s.pool()
        counted = [r for r in self.s.counted() if pool[r]]
        if self.s.children(queue):
            counted = [r for r in counted if asked[r]]
        parts = max((held[r] * 2**64 // pool[r] for r in counted), default=0)
        return floor(parts / Fraction(queue.weight or 1))

    def of_quota(self, where: object, queue: Queue, tasks: list[Task]) -> list[int]:
        """Return the amounts of a queue's tasks on the servers of a quota."""
        on = [t for t in tasks if self.s.matches(where, t.server)]
        return self.in_queue(queue, on)

    # The rules

    def objection(self, taker: list[Task], victims: list[Task]) -> str:
        """Return why the rules forbid to start the taker's tasks in place of victims; "" if not.

        `taker` has the tasks of one group on their servers.
        """
        before, after = self.lasting(), [*self.lasting(victims), *taker]
        asked = self.amounts(taker)
        own = taker[0].group.queue.path()[::-1]
        for victim in victims:
            if victim.id in self.s.fresh or victim.id in self.s.stopping:
                return "it has just started, or is to stop"
            if victim.since + self.min_run > self.s.now:
                return "it has not run long enough"
            other = victim.group.queue.path()[::-1]
            pairs = enumerate(zip(own, other, strict=False))
            depth = next((k for k, (a, b) in pairs if a is not b), None)
            if depth is None:
                return "it is of the same queue"
            for queue in other:
                for where, amounts in queue.quotas:
                    had = self.of_quota(where, queue, before)
                    has = self.of_quota(where, queue, after)
                    if any(has[r] < min(had[r], most) for r, most in amounts.items()):
                        return "a queue falls below its quota"
            if self.is_guaranteed(own[depth:], after, taker):
                continue
            a, b = own[depth], other[depth]
            if not self.by_share:
                return "the taker is beyond its quota"
            if (a.weight == 0) != (b.weight == 0):
                if b.weight == 0:
                    continue
                return "the taker has weight 0"
            if self.score(b, after, asked) < self.score(a, after, asked):
                return "the other queue would have less"
        return ""

    def is_guaranteed(self, queues: list[Queue], after: list[Task], taker: list[Task]) -> bool:
        """Return whether the first queue whose quotas name resources of the taker stays within."""
        for queue in queues:
            named = [
                self.of_quota(where, queue, after)[r] <= most
                for where, amounts in queue.quotas
                for r, most in amounts.items()
                if self.of_quota(where, queue, taker)[r] > 0
            ]
            if named:
                return all(named)
        return False

    def has_room(self, taker: list[Task], victims: list[Task]) -> bool:
        """Return whether a taker fits once victims, and tasks that are to stop, have ended."""
        s = self.s
        for server in {t.server.name: t.server for t in taker}.values():
            ending = [self.s.running[id] for id in self.s.stopping]
            freed = self.amounts([t for t in [*victims, *ending] if t.server is server])
            taken = self.amounts([t for t in taker if t.server is server])
            rows = zip(s.free(server), freed, taken, strict=True)
            if any(free + back < asked for free, back, asked in rows if asked):
                return False
        return True

    def units(self, victims: list[Task]) -> list[list[Task]]:
        """Return the victims in units that stop together: single tasks, and gangs."""
        units: dict[object, list[Task]] = {}
        for task in victims:
            units.setdefault(("gang", task.group.id) if task.group.gang else task.id, []).append(
                task
            )
        return list(units.values())

    def follow(self, found: list[Any], *, is_complete: bool) -> None:
        """Assert the rules for each start of a round, and apply the starts to the plain state.

        `found` has the starts and victims of each taker. `is_complete` is whether the round had no
        limit of starts.
        """
        s = self.s
        if found and not any(q.parent or q.quotas for q in s.queues.values()):
            first = s.groups[found[0][0][0].group].queue
            for queue in s.queues.values():
                if self.order(queue) < self.order(first):
                    self.check_none_left(queue)
        for starts, victims in found:
            stopped = [s.running[id] for id in victims]
            group = s.groups[starts[0].group]
            taker = [Task(-1, group, p.index, s.servers[p.server], float(s.now)) for p in starts]
            assert sorted(t.index for t in taker) == sorted(s.next_indices(group))
            assert s.is_within_limits(group)
            assert not s.strict or s.waiting_groups(group.queue)[0] is group
            for task in taker:
                assert not task.server.draining
                assert s.admits(group, task.index, task.server)
            assert victims == sorted(set(victims))
            on = {p.server for p in starts}
            assert victims or on & {s.running[id].server.name for id in s.stopping}
            assert self.objection(taker, stopped) == ""
            assert self.has_room(taker, stopped)
            for unit in self.units(stopped):
                assert len(unit) == 1 or unit == [
                    t for t in s.running.values() if t.group is unit[0].group
                ]
                assert not self.has_room(taker, [t for t in stopped if t not in unit])
                self.check_priorities(unit, stopped)
            started = s.start([(group, p.index, s.servers[p.server]) for p in starts], float(s.now))
            assert [tuple(p) for p in started] == [
                (p.task, p.group, p.queue, p.server, p.attempt, p.index) for p in starts
            ]
            s.parked.discard(group.id)
            s.fresh |= {p.task for p in started}
            s.stopping |= set(victims)
        if is_complete and not found:
            for queue in s.queues.values():
                self.check_none_left(queue)

    def order(self, queue: Queue) -> tuple[bool, int, int]:
        """Return the sort key of a queue among takers."""
        return queue.weight == 0, self.score(queue, self.lasting(), []), queue.serial

    def check_priorities(self, unit: list[Task], victims: list[Task]) -> None:
        """Assert that no equal task of the queue there has lower priority, or started later."""
        if len(unit) > 1 or unit[0].group.gang:
            return
        victim = unit[0]
        for other in self.lasting(victims):
            if other.server is not victim.server or other.group.queue is not victim.group.queue:
                continue
            if other.group.gang or other.id in self.s.fresh:
                continue
            if other.since + self.min_run > self.s.now:
                continue
            alike = self.amounts([other]) == self.amounts([victim])
            worse = (other.group.priority, -other.since) < (victim.group.priority, -victim.since)
            assert not (alike and worse)

    def check_none_left(self, queue: Queue) -> None:
        """Assert that no waiting task of a queue could start in place of one victim."""
        s = self.s
        firsts: dict[object, Group] = {}
        for group in s.waiting_groups(queue):
            (demand, tasks, where), *more = group.members
            is_gang = group.gang and (tasks > 1 or more)
            firsts.setdefault(group.id if is_gang else (*demand, str(where)), group)
        for group in list(firsts.values())[: 1 if s.strict else TRIED]:
            if group.gang or not s.is_within_limits(group):
                continue
            asked = s.demand(group, next(group.waiting_indices()))
            if not any(asked[r] for r in s.counted()):
                continue  # it takes no resource that counts in shares, so nothing is due to it
            for server in s.servers_in_order():
                if s.fits(group, next(group.waiting_indices()), server):
                    break
            else:
                for server in s.servers_in_order():
                    self.check_not_left(group, server)

    def check_not_left(self, group: Group, server: Server) -> None:
        s, index = self.s, next(group.waiting_indices())
        if server.draining or not s.admits(group, index, server):
            return
        taker = [Task(-1, group, index, server, float(s.now))]
        for victim in self.lasting():
            if victim.server is server and not victim.group.gang and self.has_room(taker, [victim]):
                assert self.objection(taker, [victim]), (group, server, victim)
