"""What runs where, and numbers that mean something: what callers say is checked against these."""

from __future__ import annotations

from collections import Counter
from operator import index

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import BoolArray, IntArray
from fairlead.scheduler.state import State

# More tasks than this do not wait of one kind.
MOST_WAITING = 2**63 - 1


class Running:
    """Counts the tasks of each kind on each server; only pairs of which something runs."""

    def __init__(self) -> None:
        self._tasks: Counter[tuple[int, int]] = Counter()

    def start(self, kinds: IntArray, servers: IntArray) -> None:
        """Take in placements. O(P)."""
        self._tasks.update(zip(kinds.tolist(), servers.tolist(), strict=True))

    def finish(self, kind: int, server: int) -> None:
        """Take in that a task ended.

        Raises
        ------
        InputError
            When none of the kind runs on the server.
        """
        tasks = self._tasks.get((kind, server), 0)
        if not tasks:
            raise InputError(f"no task of kind {kind} runs there", f"server {server}")
        if tasks == 1:
            del self._tasks[kind, server]
        else:
            self._tasks[kind, server] = tasks - 1

    def check(self, state: State, present: BoolArray) -> None:
        """Assert that each server has free what nothing that runs there takes. Slow."""
        free = (state.capacity[state.group] * present[:, None]).astype(object)
        placed = np.zeros(len(state.placed), dtype=object)
        for (kind, server), tasks in self._tasks.items():
            free[server] -= state.demand[kind].astype(object) * tasks
            placed[kind] += tasks
        assert (free == state.free).all(), "a server has more or less free than runs there"
        assert (placed == state.placed).all(), "more or fewer tasks are placed than run"


def checked_number(number: int, end: int, what: str) -> int:
    """Return a number from 0 to ``end - 1``, or raise `InputError` that says what it is of."""
    try:
        whole = index(number)
    except TypeError:
        whole = -1
    if not 0 <= whole < end:
        raise InputError(f"must be a whole number from 0 to {end - 1:,}, not {number!r}", what)
    return whole


def checked_tasks(tasks: int, waiting: int) -> int:
    """Return a number of tasks that may wait beside others, or raise `InputError`."""
    try:
        whole = index(tasks)
    except TypeError:
        whole = 0
    if whole < 1:
        raise InputError(f"must be a positive whole number, not {tasks!r}", "tasks")
    if whole > MOST_WAITING - waiting:
        raise InputError(f"{tasks:,} are too many beside {waiting:,} that wait", "tasks")
    return whole
