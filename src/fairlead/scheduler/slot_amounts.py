"""Slots: the largest server is cut into equal parts; servers have, and tasks take, whole ones.

The largest server has the most of each resource that any server has. Resources that some server
lacks are no part of slots: tasks take them in amounts beside. (Wang, Liang and Li 2014, VI.)

Slots are one more column of amounts, the last one. Where a task fits by slots it fits by amounts
too: those of its slots are enough.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import entry_kernel
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.servers import note_freed

# No task is counted as more slots than that, nor a server: it fits nowhere, and sums never wrap.
MOST = 2**31


class Slot:
    """What a slot holds: one of `slots` parts of a server with the amounts of `largest`."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.largest: dict[int, int] = {}

    def cut(self, rows: Sequence[Sequence[int]]) -> bool:
        """Cut the largest of servers with such amounts; return whether that changed anything."""
        columns = list(enumerate(zip(*rows, strict=True)))
        largest = {r: max(column) for r, column in columns if all(column)}
        changed, self.largest = largest != self.largest, largest
        return changed

    def of_server(self, row: Sequence[int]) -> int:
        """Return how many whole slots a server has."""
        parts = [row[r] * self.slots // most for r, most in self.largest.items()]
        return min([*parts, MOST]) if parts else 0

    def of_task(self, row: Sequence[int]) -> int:
        """Return how many slots hold a task."""
        parts = [-(-row[r] * self.slots // most) for r, most in self.largest.items()]
        return min(max(parts, default=1), MOST)


def recount(core: Core, kinds: int, slot: Slot) -> None:
    """Count all slots anew, after another server is the largest one. O(C + K + S + T)."""
    numbers = core.numbers[0]
    n_lines, there = int(numbers.lines), core.sequence[: numbers.servers]
    for c, row in enumerate(core.kind_capacity[:kinds, :-1].tolist()):
        core.kind_capacity[c, -1] = slot.of_server(row)
    for k, row in enumerate(core.demand[: numbers.shapes, :-1].tolist()):
        core.demand[k, -1] = slot.of_task(row)
    core.capacity[there, -1] = core.kind_capacity[core.servers["kind"][there], -1]
    taken = core.demand[core.lines["task_shape"][:n_lines], -1]
    held = np.flatnonzero(core.lines["running"][:n_lines])  # spare lines are of no queue
    amounts = core.lines["running"][held] * taken[held]
    core.held[:, -1] = _sums(core.lines["queue"][held], amounts, len(core.held))
    _count_above(core)
    running = np.flatnonzero(core.tasks["runs"])
    lines = core.groups["line"][core.tasks["group"][running]]
    on = _sums(core.tasks["server"][running], taken[lines], len(core.free))
    core.free[there, -1] = core.capacity[there, -1] - on[there]
    free_all(core)


def _count_above(core: Core) -> None:
    """Count the slots that queues hold as held by those above them, too."""
    own, parent = core.held[:, -1].copy(), core.queues["parent"]
    for q in np.flatnonzero(own).tolist():
        above = int(parent[q])
        while above != NONE:
            core.held[above, -1] += own[q]
            above = int(parent[above])


def _sums(rows: IntArray, amounts: IntArray, n_rows: int) -> IntArray:
    total = np.zeros(n_rows, dtype=np.int64)
    np.add.at(total, rows, amounts)
    return total


@entry_kernel
def free_all(core: Core) -> None:
    """Note that all open servers may have more to offer than before."""
    for position in range(core.numbers[0].servers):
        s = core.sequence[position]
        if core.servers[s].open:
            note_freed(core, s)
