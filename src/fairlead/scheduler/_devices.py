"""Devices: a task takes a part of one device of a server, or one or more whole devices.

The amounts of a server have columns for each resource that comes in devices: the free amount of
each device, the largest of them, and the number of devices that are wholly free. A task of 0.6
needs a device with that much free; a task of 2 needs two that are wholly free. So whether a task
fits is a comparison by columns, as for other amounts, and all indexes of servers stay as they are.

A part is taken of the fullest device with room, whole devices in the order of their numbers. A task
keeps its devices until it ends.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from fairlead.model.quantity import MOST_DEVICES

NO_DEVICES: Final = vec[i64]()


class DeviceColumns:
    """The columns of a server's amounts that are about the devices of one resource."""

    def __init__(self, resource: i64, unit: i64, largest_at: i64, first: i64) -> None:
        self.resource = resource  # its index
        self.unit = unit  # quanta of one device
        self.largest_at = largest_at  # the column of the largest free amount of a device
        self.whole_at = largest_at + 1  # the column of the number of wholly free devices
        self.first = first  # the column of the first device
        self.end = first + MOST_DEVICES

    def is_part(self, demand: i64) -> bool:
        return demand < self.unit

    def has_room(self, demand: i64, free: vec[i64]) -> bool:
        if self.is_part(demand):
            return free[self.largest_at] >= demand
        return free[self.whole_at] >= demand // self.unit

    def settle(self, free: vec[i64]) -> None:
        """Compute the largest free amount and the number of wholly free devices."""
        largest: i64 = 0
        whole: i64 = 0
        for column in range(self.first, self.end):
            largest = max(largest, free[column])
            if free[column] >= self.unit:
                whole += 1
        free[self.largest_at] = largest
        free[self.whole_at] = whole

    def choose(self, demand: i64, free: vec[i64]) -> list[i64]:
        """Return the columns of the devices for a task, even where it has no room."""
        if not self.is_part(demand):
            wanted = demand // self.unit
            whole = [c for c in range(self.first, self.end) if free[c] >= self.unit]
            others = [c for c in range(self.first, self.end) if free[c] < self.unit]
            return (whole + others)[:wanted]
        best: i64 = -1
        for column in range(self.first, self.end):
            amount = free[column]
            if amount >= demand and (best < 0 or amount < free[best]):
                best = column
        return [self.first if best < 0 else best]

    def take(self, demand: i64, devices: vec[i64], free: vec[i64], sign: i64) -> None:
        """Take a task's devices (1), or return them (-1)."""
        amount = min(demand, self.unit)
        for column in devices:
            if self.first <= column < self.end:
                free[column] -= sign * amount
        self.settle(free)

    def count_fitting(self, demand: i64, free: vec[i64]) -> i64:
        """Return the number of equal tasks that the devices hold."""
        if not self.is_part(demand):
            return free[self.whole_at] * self.unit // demand
        fitting: i64 = 0
        for column in range(self.first, self.end):
            if free[column] > 0:
                fitting += free[column] // demand
        return fitting

    def fitting_amount(self, free: vec[i64], least: int) -> int:
        """Return the largest demand above `least` that has room; 0 without one."""
        whole = int(free[self.whole_at] * self.unit)
        most = whole if whole > 0 else int(free[self.largest_at])
        return most if most > least else 0

    def numbers(self, devices: vec[i64]) -> list[int]:
        """Return the numbers of a task's devices on its server, from 0."""
        return [int(c - self.first) for c in devices if self.first <= c < self.end]


def settle(free: vec[i64], devices: list[DeviceColumns]) -> None:
    """Compute the derived columns after free amounts were changed by columns."""
    for columns in devices:
        columns.settle(free)


def with_columns(amounts: vec[i64], devices: list[DeviceColumns]) -> vec[i64]:
    """Return the amounts of an idle server with the columns of its devices."""
    if not devices:
        return amounts
    found = amounts[:]
    while len(found) < devices[-1].end:
        found = append(found, 0)
    for columns in devices:
        for device in range(min(amounts[columns.resource] // columns.unit, MOST_DEVICES)):
            found[columns.first + device] = columns.unit
        columns.settle(found)
    return found
