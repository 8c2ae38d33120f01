"""A plain scheduler that parks gangs: one without room waits until a server is freed for it.

`plain_scheduler` tries a gang for each placement. Mostly the starts are the same. They differ where
a gang fails because its first tasks take a server that only a later one fits on. With less free,
the first tasks may go elsewhere, and the gang fits although no server was freed.
"""

from __future__ import annotations

from typing import Any

from oracles.plain_scheduler import Scheduler


class ParkingScheduler(Scheduler):
    """Parks gangs without room, until a server with more free than before fits one of their tasks.

    A gang is also tried again when one of its tasks is reported running, as fewer wait then. Where
    scores do not depend on the next task, gangs are tried in the order of queues. Under easy gangs
    are not parked.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.parked: set[int] = set()  # ids of gangs

    def plan(self, group, first=None, held=None):
        if first is not None or self.criterion == "easy":
            return super().plan(group, first, held)
        plan = [] if group.id in self.parked else super().plan(group)
        if not plan and group.gang and sum(tasks for _, tasks, _ in group.members) > 1:
            self.parked.add(group.id)
        return plan

    def next_plan(self, server=None):
        if self.half_life:
            return self.plan_in_turn(None) if self.servers_in_order() else []
        tries_all = self.residual or self.select not in ("first-fit", "best-fit") or self.is_tree()
        if tries_all or not self.servers_in_order():  # without servers there are no scores
            return super().next_plan(server)
        groups = {q: self.groups_within_limits(q) for q in self.queues.values()}
        heads = [(q, found[0]) for q, found in groups.items() if found]
        heads.sort(key=lambda head: self.score(*head, next(head[1].waiting_indices()), None))
        plans = (self.first_plan(q) for q, _ in heads)
        return next((plan for plan in plans if plan), [])

    def plan_in_turn(self, queue):
        """Return the first plan below a queue, trying children by score, from the root down."""
        children = self.children(queue)
        for child in sorted(children, key=lambda q: (q.weight == 0, self.past_use_score(q))):
            inner = self.children(child)
            plan = self.plan_in_turn(child) if inner else self.first_plan(child)
            if plan:
                return plan
        return []

    def fits_when_empty(self, group):
        parked, self.parked = self.parked, set()
        try:
            return super().fits_when_empty(group)
        finally:
            self.parked = parked

    def assume(self, group, server, since=None):
        task = super().assume(group, server, since)
        self.parked.discard(self.running[task].group.id)  # fewer of its tasks wait
        return task

    def open_amounts(self):
        """Return the labels, slot and free amounts of each open server.

        The slot is included because free amounts in other slots cannot be compared.
        """
        slot = self.slot() if self.slots else None
        open_ = [s for s in self.servers_in_order() if not s.draining]
        return {s.name: ((s.labels, slot), self.free(s)) for s in open_}

    def unpark(self, before) -> None:
        """Unpark gangs of which a task fits on a server with more free, or other labels, now."""
        for name, (labels, free) in self.open_amounts().items():
            old_labels, old_free = before.get(name, (None, free))
            if labels != old_labels or any(f > o for f, o in zip(free, old_free, strict=True)):
                for id in self.parked & self.groups.keys():
                    gang = self.groups[id]
                    indices = gang.waiting_indices()
                    if any(self.fits(gang, index, self.servers[name]) for index in indices):
                        self.parked.discard(id)


def _unparking(event: str) -> Any:
    """Return the method of an event that also unparks gangs."""

    def call(self, *arguments: Any, **options: Any) -> Any:
        before = self.open_amounts()
        result = getattr(Scheduler, event)(self, *arguments, **options)
        self.unpark(before)
        return result

    return call


for _event in ("add_server", "set_server", "undrain", "remove_server", "finish", "fail", "evict"):
    setattr(ParkingScheduler, _event, _unparking(_event))
