"""Devices: a task takes a part of one device of a server, or one or more whole devices.

The amounts of a server have columns for each resource that comes in devices: the largest free
amount of a device, the number of devices that are wholly free, and the free amount of each device.
A task of 0.6 needs a device with that much free; a task of 2 needs two that are wholly free. So
whether a task fits is a comparison by columns, as for other amounts, and all indexes of servers
stay as they are.

A part is taken of the fullest device with room, whole devices in the order of their numbers. A task
keeps its devices until it ends. Where tasks are assumed to run without room, they have no device.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from fairlead.model.quantity import MOST_DEVICES

NO_DEVICES: Final = vec[i64]()


class DeviceColumns:
    """The columns of a server's amounts that are about the devices of one resource.

    The devices of several resources alternate, so that a server has as many columns as it needs.
    """

    def __init__(self, resource: i64, unit: i64, largest_at: i64, first: i64, step: i64) -> None:
        self.resource = resource  # its index
        self.unit = unit  # quanta of one device
        self.largest_at = largest_at  # the column of the largest free amount of a device
        self.whole_at = largest_at + 1  # the column of the number of wholly free devices
        self.first = first  # the column of the first device
        self.step = step  # from one device to the next

    def is_part(self, demand: i64) -> bool:
        return demand < self.unit

    def is_number(self, demand: int, numbers: list[int]) -> bool:
        """Return whether numbers name as many different devices as the task takes."""
        wanted = max(demand // int(self.unit), 1)
        return len(numbers) == wanted == len(set(numbers))

    def has_room(self, demand: i64, free: vec[i64]) -> bool:
        if self.is_part(demand):
            return free[self.largest_at] >= demand
        return free[self.whole_at] >= demand // self.unit

    def settle(self, free: vec[i64]) -> None:
        """Compute the largest free amount and the number of wholly free devices."""
        largest: i64 = 0
        whole: i64 = 0
        column = self.first
        while column < len(free):
            largest = max(largest, free[column])
            if free[column] >= self.unit:
                whole += 1
            column += self.step
        free[self.largest_at] = largest
        free[self.whole_at] = whole

    def choose(self, demand: i64, free: vec[i64]) -> list[i64]:
        """Return the columns of the devices for a task; fewer where it has no room."""
        is_part = self.is_part(demand)
        wanted = 1 if is_part else demand // self.unit
        found: list[i64] = []
        column = self.first
        while column < len(free) and (is_part or len(found) < wanted):
            amount = free[column]
            if is_part and amount >= demand and (not found or amount < free[found[0]]):
                found = [column]
            elif not is_part and amount >= self.unit:
                found.append(column)
            column += self.step
        return found

    def take(self, demand: i64, devices: vec[i64], free: vec[i64], sign: i64) -> None:
        """Take a task's devices (1), or return them (-1)."""
        amount = min(demand, self.unit)
        for column in devices:
            if self.has_column(column):
                free[column] -= sign * amount
        self.settle(free)

    def has_column(self, column: i64) -> bool:
        return (column - self.first) % self.step == 0

    def count_fitting(self, demand: i64, free: vec[i64]) -> i64:
        """Return the number of equal tasks that the devices hold."""
        if not self.is_part(demand):
            return free[self.whole_at] * self.unit // demand
        fitting: i64 = 0
        column = self.first
        while column < len(free):
            if free[column] > 0:
                fitting += free[column] // demand
            column += self.step
        return fitting

    def fitting_amount(self, free: vec[i64]) -> int:
        """Return the largest demand that has room."""
        whole = int(free[self.whole_at] * self.unit)
        return whole if whole > 0 else int(free[self.largest_at])

    def admissible(self, amount: int) -> int:
        """Return the largest demand up to an amount: a part of a device, or whole ones."""
        unit = int(self.unit)
        return amount if amount < unit else amount // unit * unit

    def is_overcommitted(self, free: vec[i64]) -> bool:
        column = self.first
        while column < len(free):
            if free[column] < 0:
                return True
            column += self.step
        return False

    def numbers(self, devices: vec[i64]) -> list[int]:
        """Return the numbers of a task's devices on its server, from 0."""
        return [int((c - self.first) // self.step) for c in devices if self.has_column(c)]

    def columns_of(self, numbers: list[int]) -> list[int]:
        """Return the columns of devices by their numbers; the inverse of `numbers`."""
        return [int(self.first + number * self.step) for number in numbers]


def columns_of(width: i64, units: dict[int, int], compared: i64) -> list[DeviceColumns]:
    """Return the columns of the resources in devices, after the first `width` amounts.

    `units` are the quanta of one device; the first `compared` columns are no devices.
    """
    by_device = sorted(units.items())
    return [
        DeviceColumns(resource, unit, width + 2 * k, compared + k, len(by_device))
        for k, (resource, unit) in enumerate(by_device)
    ]


def settle(free: vec[i64], devices: list[DeviceColumns]) -> None:
    """Compute the derived columns after free amounts were changed by columns."""
    for columns in devices:
        columns.settle(free)


def with_columns(amounts: vec[i64], devices: list[DeviceColumns]) -> vec[i64]:
    """Return the amounts of an idle server with the columns of its devices."""
    if not devices:
        return amounts
    found = amounts[:]
    width = len(amounts)
    for columns in devices:
        number = min(amounts[columns.resource] // columns.unit, MOST_DEVICES)
        if number > 0:
            found = long_enough(found, columns.first + (number - 1) * columns.step)
    found = long_enough(found, width + 2 * len(devices) - 1)
    for columns in devices:
        for device in range(min(amounts[columns.resource] // columns.unit, MOST_DEVICES)):
            found[columns.first + device * columns.step] = columns.unit
        columns.settle(found)
    return found


def long_enough(amounts: vec[i64], column: i64) -> vec[i64]:
    """Return amounts that have a column, as a server has that shrank below a task's devices."""
    while len(amounts) <= column:
        amounts = append(amounts, 0)
    return amounts
