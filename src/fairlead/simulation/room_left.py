"""The amounts that one more task of each user lacks after a filling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairlead.model.cluster import IntArray, choose_devices
from fairlead.model.quanta import to_quanta
from fairlead.simulation.filling import Filling


@dataclass(frozen=True)
class Lack:
    """Why no further task of a user fits."""

    user: str
    left: float  # tasks without a server; infinite for a user without a limit
    servers: int  # number of servers that the user may use
    lacking: dict[str, int]  # number of these servers that lack each resource
    nearest: (
        str  # the server with the largest fraction of the demand free, in its scarcest resource
    )
    # Free and demanded amount on `nearest`, by column of each resource that it lacks; empty if the
    # task fits. Free are, for a task with a part of a device, the largest part free on one device;
    # for a task with whole devices, those that are wholly free.
    amounts: dict[int, tuple[float, float]]


class RoomLeft:
    """The free amounts of S servers after the P placements of a filling."""

    def __init__(self, filling: Filling) -> None:
        problem = self._problem = filling.problem
        self._left = np.floor(problem.task_limit) - filling.user_tasks
        self._quanta = to_quanta(problem)
        self._group = np.repeat(np.arange(problem.n_groups), problem.count)  # (S,)
        self._first = np.cumsum(problem.count) - problem.count
        self._order = filling.order

    @cached_property
    def _free(self) -> IntArray:
        """(S, R): free amounts in quanta."""
        free = self._quanta.capacity[self._group]
        np.subtract.at(free, self._order[:, 1], self._quanta.demand[self._order[:, 0]])
        return free

    @cached_property
    def _free_devices(self) -> dict[int, list[list[int]]]:
        """By column of a resource: the free quanta of each server's devices."""
        quanta, found = self._quanta, {}
        for r, unit in quanta.device.items():
            free = [[unit] * (k // unit) for k in quanta.capacity[self._group, r].tolist()]
            for user, server in self._order.tolist():
                asked = int(quanta.demand[user, r])
                numbers = choose_devices(free[server], asked, unit) if asked else []
                for number in numbers:
                    free[server][number] -= min(asked, unit)
            found[r] = free
        return found

    @property
    def unfinished(self) -> list[int]:
        """Users with tasks left, those with the most tasks left first."""
        return [int(n) for n in np.argsort(-self._left, kind="stable") if self._left[n] > 0]

    def lack(self, n: int) -> Lack:
        """Return why no server can take another task of a user; O(S R)."""
        problem, quanta = self._problem, self._quanta
        where = np.flatnonzero(problem.users.eligible[n][self._group])
        asked = quanta.demand[n]
        free = self._usable(asked)[where]
        lacks = free < asked
        columns = np.flatnonzero(lacks.any(axis=0))
        parts = np.where(lacks, free / np.maximum(asked, 1), 1.0).min(axis=1)
        best = int(parts.argmax())
        names, units = problem.cluster.resources, quanta.per_unit
        return Lack(
            problem.users.names[n],
            float(self._left[n]),
            len(where),
            {names[r]: int(lacks[:, r].sum()) for r in columns},
            self._server_name(int(where[best])),
            {
                int(r): (float(int(free[best, r]) / units[r]), float(int(asked[r]) / units[r]))
                for r in np.flatnonzero(lacks[best])
            },
        )

    def _usable(self, asked: IntArray) -> IntArray:
        """Return (S, R) free amounts that a task with this demand could take, in quanta."""
        usable = self._free.copy()
        for r, free in self._free_devices.items():
            unit = self._quanta.device[r]
            is_part = 0 < asked[r] < unit  # of one device
            for server, amounts in enumerate(free):
                usable[server, r] = (
                    max(amounts, default=0) if is_part else unit * amounts.count(unit)
                )
        return usable

    def _server_name(self, server: int) -> str:
        g = int(self._group[server])
        name = self._problem.cluster.groups[g]
        return name if self._problem.count[g] == 1 else f"{name}-{server - self._first[g]}"
