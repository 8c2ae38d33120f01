"""Gangs as replays have tried them: one that failed waits until a server is freed for it.

The open scheduler tries a gang whenever it looks at it. Mostly that is the same. It is not where a
gang fails because its first tasks go where only a later one could have gone: with less free, they
may go elsewhere, and all of it fits though nothing was freed.
"""

from __future__ import annotations

from typing import Any

from oracles.plain_scheduler import Scheduler


class RememberingScheduler(Scheduler):
    """Remembers which gangs failed, until a server takes one of their tasks that has more free.

    Or until one of their tasks is found running, as less of them waits then. Where a queue's score
    does not depend on what is at hand, a gang is tried, and may fail, when it is its queue's turn.
    Easy remembers nothing.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.failed: set[int] = set()

    def plan(self, group, first=None, held=None):
        if first is not None or self.criterion == "easy":
            return super().plan(group, first, held)
        plan = [] if group.id in self.failed else super().plan(group)
        if not plan and group.gang and sum(tasks for _, tasks, _ in group.members) > 1:
            self.failed.add(group.id)
        return plan

    def next_plan(self, server=None):
        if self.half_life:
            return self.plan_in_turn(None) if self.there() else []
        passes = self.residual or self.select not in ("first-fit", "best-fit") or self.is_tree()
        if passes or not self.there():  # without servers there are no scores
            return super().next_plan(server)
        heads = [(q, groups[0]) for q in self.queues.values() if (groups := self.in_order(q))]
        heads.sort(key=lambda head: self.score(*head, next(head[1].waiting()), None))
        plans = (self.first_plan(q) for q, _ in heads)
        return next((plan for plan in plans if plan), [])

    def plan_in_turn(self, queue):
        """From the root down, a gang of a queue is tried when it is that queue's turn."""
        for child in sorted(self.children(queue), key=lambda q: (q.weight == 0, self.use(q))):
            inner = self.children(child)
            plan = self.plan_in_turn(child) if inner else self.first_plan(child)
            if plan:
                return plan
        return []

    def fits_when_empty(self, group):
        failed, self.failed = self.failed, set()
        try:
            return super().fits_when_empty(group)
        finally:
            self.failed = failed

    def assume(self, group, server, since=None):
        task = super().assume(group, server, since)
        self.failed.discard(self.running[task].group.id)  # less of it waits
        return task

    def open_amounts(self):
        """Labels and free amounts; where slots are cut anew, amounts are not those of before."""
        slot = self.slot() if self.slots else None
        there = [s for s in self.there() if not s.draining]
        return {s.name: ((s.labels, slot), self.free(s)) for s in there}

    def hearten(self, before) -> None:
        for name, (marks, free) in self.open_amounts().items():
            old_marks, old_free = before.get(name, (None, free))
            if marks != old_marks or any(f > o for f, o in zip(free, old_free, strict=True)):
                server, groups = self.servers[name], self.groups
                takes = {
                    k
                    for k in self.failed & groups.keys()
                    if any(self.fits(groups[k], index, server) for index in groups[k].waiting())
                }
                self.failed -= takes


def _heartening(event: str) -> Any:
    def call(self, *arguments: Any, **options: Any) -> Any:
        before = self.open_amounts()
        result = getattr(Scheduler, event)(self, *arguments, **options)
        self.hearten(before)
        return result

    return call


for _event in ("add_server", "set_server", "undrain", "remove_server", "finish", "fail", "evict"):
    setattr(RememberingScheduler, _event, _heartening(_event))
