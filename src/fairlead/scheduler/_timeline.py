"""The free amounts of servers in the future, as running tasks end and reserved ones start."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._devices import summarise_devices
from fairlead.scheduler._entities import UNLIMITED, Server, Shape, restore_columns, take_from
from fairlead.scheduler._state import PlannedStart, State


class Step:
    """A task whose amounts are taken from a server (1) or returned to it (-1) at a time."""

    def __init__(
        self, time: float, server: Server, shape: Shape, devices: vec[i64], sign: i64
    ) -> None:
        self.time = time  # in seconds
        self.server = server
        self.shape = shape
        self.devices = devices
        self.sign = sign

    def apply(self, free: vec[i64]) -> None:
        take_from(free, self.shape, self.devices, self.sign)

    def undo(self, free: vec[i64]) -> None:
        take_from(free, self.shape, self.devices, -self.sign)


class Timeline:
    """The free amounts of servers with reservations, from now on."""

    def __init__(self, state: State, reserved: list[PlannedStart]) -> None:
        self.now = state.now
        self.devices = state.counting.devices
        self.servers: dict[str, Server] = {}  # servers with reservations, by name
        self.steps: list[Step] = []  # of reserved tasks, by time
        for planned in reserved:
            for (index, server), devices in zip(planned.plan, planned.devices, strict=True):
                self.servers[server.name] = server
                restore_columns(server, devices)
                shape = planned.group.shape_of(index)
                self.steps.append(Step(planned.at, server, shape, devices, 1))
                end = planned.at + planned.group.time_limit
                if end < UNLIMITED:
                    self.steps.append(Step(end, server, shape, devices, -1))
        self.steps.sort(key=order_of)
        self.free = {name: server.free[:] for name, server in self.servers.items()}
        self.of_server: dict[str, list[Step]] = {}  # of reserved and running tasks, by time
        for name, server in self.servers.items():
            steps: list[Step] = []
            for end, _, task in state.ends_on.get(name, []):
                steps.append(Step(max(end, self.now), server, task.shape, task.devices, -1))
            self.of_server[name] = steps
        for step in self.steps:
            self.of_server[step.server.name].append(step)
        for steps in self.of_server.values():
            steps.sort(key=order_of)

    def min_free(self, server: Server, since: float, until: float) -> vec[i64]:
        """Return the minimum of each free amount of a server from `since` until before `until`."""
        free = self.free[server.name][:]
        steps = self.of_server[server.name]
        at = 0
        while at < len(steps) and steps[at].time <= since:
            steps[at].apply(free)
            at += 1
        minimum = free[:]
        while at < len(steps) and steps[at].time < until:
            steps[at].apply(free)
            at += 1
            for r in range(len(free)):
                minimum[r] = min(minimum[r], free[r])
        summarise_devices(minimum, self.devices)
        return minimum


def order_of(step: Step) -> tuple[float, int]:
    """Return the sort key of a step: by time, and at one time amounts are freed first."""
    return (step.time, int(step.sign))
