"""Check the reserved starts in a snapshot of a scheduler by their definition.

Free amounts are checked on each server, at every time at which a task starts or ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import inf
from typing import Any, NamedTuple

MOST_CONSIDERED = 4  # first groups of different shapes of a queue that may get reservations


class Use(NamedTuple):
    """The amounts of a server that a task holds from one time up to another."""

    server: str
    demand: list[int]
    since: float
    until: float


class SnapshotState:
    """The tables of a snapshot, with the end of each running task."""

    def __init__(self, snapshot: bytes) -> None:
        body = json.loads(snapshot.split(b"\n")[1])
        self.now = body["now"]
        self.servers = {row["name"]: row for row in body["servers"] if not row["draining"]}
        self.shapes = body["shapes"]
        self.queues = {row["name"]: row for row in body["queues"]}
        self.groups = {row["id"]: row for row in body["groups"]}
        self.running = [self.use_of(row) for row in body["tasks"]]
        self.tasks = [row["id"] for row in body["tasks"]]  # running ones
        self.indices = [(row["group"], row["index"]) for row in body["tasks"]]
        self.reserved = {row["group"]: row for row in body.get("reserved", [])}

    def use_of(self, task: dict[str, Any]) -> Use:
        """Return the use of a running task, up to its limit or expected end; overdue, up to now."""
        group = self.groups[task["group"]]
        end = task["since"] + (inf if group["limit"] is None else group["limit"])
        end = max(task.get("expected_end", end), self.now)
        return Use(task["server"], self.demand(group, task["index"]), -inf, end)

    def demand(self, group: dict[str, Any], index: int) -> list[int]:
        return self.shape(group, index)["demand"]

    def shape(self, group: dict[str, Any], index: int) -> dict[str, Any]:
        for number, tasks in group["parts"]:
            if index < tasks or not group["gang"]:
                return self.shapes[number]
            index -= tasks
        raise IndexError(index)

    def reserved_uses(self, without: int | None = None) -> list[Use]:
        """Return the uses of all reserved tasks, but for those of one group."""
        return [
            use
            for id, row in self.reserved.items()
            if id != without
            for use in self.uses(id, row["plan"], row["at"])
        ]

    def uses(self, id: int, plan: list[tuple[int, str]], at: float) -> list[Use]:
        """Return the uses of a group's tasks that start at a time."""
        group = self.groups[id]
        until = at + (inf if group["limit"] is None else group["limit"])
        return [Use(name, self.demand(group, index), at, until) for index, name in plan]

    def fits(self, uses: list[Use], name: str) -> bool:
        """Return whether a server has enough for some uses and for running tasks at all times."""
        here = [use for use in uses if use.server == name]
        running = [use for use in self.running if use.server == name]
        capacity = self.servers[name]["capacity"]
        for time in {use.since for use in here}:
            for r, most in enumerate(capacity):
                # Amounts are free from the expected end of a task on, but not before now.
                taken = sum(use.demand[r] for use in running if use.until > time)
                taken += sum(use.demand[r] for use in here if use.since <= time < use.until)
                if taken > most and any(use.demand[r] for use in here if use.since <= time):
                    return False
        return True

    def fits_now(self, demand: list[int], name: str) -> bool:
        running = [use for use in self.running if use.server == name]
        rows = enumerate(zip(demand, self.servers[name]["capacity"], strict=True))
        return all(
            not asked or asked + sum(use.demand[r] for use in running) <= most
            for r, (asked, most) in rows
        )

    def admits(self, shape: dict[str, Any], name: str) -> bool:
        labels = {tuple(label) for label in self.servers[name]["labels"]}
        names = shape["names"]
        return {tuple(label) for label in shape["labels"]} <= labels and (
            names is None or name in names
        )

    def waiting(self, group: dict[str, Any]) -> list[int]:
        """Return the indices of the tasks that would start next, together for a gang."""
        indices = [index for index, _ in group["returned"]]
        indices += range(group["fresh"], group["end"])
        return sorted(indices) if group["gang"] else indices[:1]

    def earliest(self, id: int) -> float:
        """Return the earliest time at which a group fits, after tasks that run or are reserved end.

        For gangs of one shape, and for single tasks; infinite for never.
        """
        group, others = self.groups[id], self.reserved_uses(id)
        ends = {use.until for use in [*self.running, *others] if use.until < inf}
        starts = {use.since for use in others}
        indices = self.waiting(group)
        for time in sorted(ends | starts):
            rest = len(indices)
            for name in self.servers:
                plan: list[tuple[int, str]] = []
                while rest and self.admits(self.shape(group, indices[0]), name):
                    more = [*plan, (indices[len(plan)], name)]
                    if not self.fits([*self.uses(id, more, time), *others], name):
                        break
                    plan = more
                    rest -= 1
            if not rest:
                return time
        return inf

    # Checks

    def check_reservations(self, most: int, *, uses_all_room: bool = True) -> None:
        """Assert that reserved tasks fit, at the earliest time, and that no other task could start.

        At most `most` reserved groups may run on one server. If `most` is above 1, a reserved time
        may be later than the earliest, because another reservation has moved since.
        """
        assert all(self.reservations_of(name) <= most for name in self.servers)
        for id in self.unreserved_firsts():
            names = [name for name in self.servers if self.admits_any(id, name)]
            if all(self.reservations_of(name) < most for name in names):
                assert self.earliest(id) == inf
        uses = self.reserved_uses()
        for name in {use.server for use in uses}:
            assert self.fits(uses, name)
        for id, row in self.reserved.items():
            assert sorted(index for index, _ in row["plan"]) == self.waiting(self.groups[id])
            if len(self.groups[id]["parts"]) == 1:
                earliest = self.earliest(id)
                assert row["at"] == earliest or (most > 1 and row["at"] > earliest)
        if uses_all_room:
            for id, group in self.groups.items():
                if not group["gang"] and self.waiting(group):
                    assert not self.could_start(id)

    def reservations_of(self, name: str) -> int:
        """Return the number of reserved groups that may run on a server."""
        return sum(self.admits_any(id, name) for id in self.reserved)

    def admits_any(self, id: int, name: str) -> bool:
        """Return whether a server admits one of the next tasks of a group."""
        group = self.groups[id]
        return any(self.admits(self.shape(group, i), name) for i in self.waiting(group))

    def unreserved_firsts(self) -> list[int]:
        """Return the first groups of each queue that have one shape and no reservation."""
        found = [
            id for name in self.queues for id in list(self.unlike_groups(name))[:MOST_CONSIDERED]
        ]
        return [
            id for id in found if id not in self.reserved and len(self.groups[id]["parts"]) == 1
        ]

    def could_start(self, id: int) -> bool:
        """Return whether a group's next task could start now without delaying a reservation."""
        group = self.groups[id]
        (index,) = self.waiting(group)
        demand, others = self.demand(group, index), self.reserved_uses(id)
        for name in self.servers:
            if self.admits(self.shape(group, index), name) and self.fits_now(demand, name):
                uses = self.uses(id, [(index, name)], self.now)
                if all(self.fits([*uses, *others], server) for server in {name}):
                    return True
        return False

    def next_to_reserve(self) -> int | None:
        """Return the group that gets the next reservation under DRF without trees."""
        total = [sum(row["capacity"][r] for row in self.servers.values()) for r in range(2)]
        for place in range(MOST_CONSIDERED):
            for name in sorted(self.queues, key=lambda name: self.rank(name, total)):
                groups = list(self.unlike_groups(name))
                if place < len(groups) and self.earliest(groups[place]) < inf:
                    return groups[place]
        return None

    def rank(self, name: str, total: list[int]) -> tuple[bool, float, int]:
        """Return the sort key of a queue under DRF: weight 0 last, share over weight, serial."""
        row = self.queues[name]
        held = [
            self.demand(self.groups[group], index)
            for group, index in self.indices
            if self.groups[group]["queue"] == name
        ]
        shares = [sum(d[r] for d in held) / most for r, most in enumerate(total) if most]
        over, under = row["weight"]
        return over == 0, max(shares) * under / (over or under), row["serial"]

    def unlike_groups(self, queue: str) -> Iterator[int]:
        """Iterate over the first waiting group of each shape and limit, and all gangs, in order."""
        seen = set()
        groups = [row for row in self.groups.values() if row["queue"] == queue]
        for group in sorted(groups, key=lambda row: (-row["priority"], row["time"], row["id"])):
            kind = group["id"] if group["gang"] else (group["parts"][0][0], group["limit"])
            if self.waiting(group) and kind not in seen:
                seen.add(kind)
                yield group["id"]
