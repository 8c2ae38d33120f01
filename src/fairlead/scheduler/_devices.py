"""Devices: a task takes a fraction of one device of a server, or one or more whole devices.

The amounts of a server have more columns for each resource that comes in devices: the largest free
amount of a device, the number of wholly free devices, and the free amount of each device. A task of
0.6 needs a device with that much free; a task of 2 needs two wholly free ones. So whether a task
fits is a comparison by columns, as for other amounts, and indexes of servers need no code for
devices.

A fraction is taken from the fullest device with room, whole devices in the order of their numbers.
A task keeps its devices until it ends. `Scheduler.assume` may put a task on a server without room;
it may then have fewer devices than it demands, or none.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from fairlead.model.quantity import MOST_DEVICES

NO_DEVICES: Final = vec[i64]()


class DeviceColumns:
    """The positions of the columns for one resource's devices among a server's amounts.

    The devices of several resources alternate: device 0 of each, then device 1 of each. So a server
    needs only the columns up to its last device, and a later device gets a column at the end.
    """

    def __init__(self, resource: i64, unit: i64, largest_at: i64, first: i64, step: i64) -> None:
        self.resource = resource  # the index of the resource
        self.unit = unit  # quanta of one device
        self.largest_at = largest_at  # the column of the largest free amount of a device
        self.whole_at = largest_at + 1  # the column of the number of wholly free devices
        self.first = first  # the column of the first device
        self.step = step  # columns from one device to the next

    def is_fraction(self, demand: i64) -> bool:
        return demand < self.unit

    def are_enough(self, demand: int, numbers: list[int]) -> bool:
        """Return whether `numbers` name each device that a task takes, without repetition."""
        wanted = max(demand // int(self.unit), 1)
        return len(numbers) == wanted == len(set(numbers))

    def has_room(self, demand: i64, free: vec[i64]) -> bool:
        if self.is_fraction(demand):
            return free[self.largest_at] >= demand
        return free[self.whole_at] >= demand // self.unit

    def summarise(self, free: vec[i64]) -> None:
        """Update the columns of the largest free amount and the number of wholly free devices."""
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
        """Choose devices for a task; return their columns, too few if the task has no room."""
        is_fraction = self.is_fraction(demand)
        wanted = 1 if is_fraction else demand // self.unit
        found: list[i64] = []
        column = self.first
        while column < len(free) and (is_fraction or len(found) < wanted):
            amount = free[column]
            if is_fraction and amount >= demand and (not found or amount < free[found[0]]):
                found = [column]
            elif not is_fraction and amount >= self.unit:
                found.append(column)
            column += self.step
        return found

    def take(self, demand: i64, devices: vec[i64], free: vec[i64], sign: i64) -> None:
        """Take a task's devices (1), or return them (-1)."""
        amount = min(demand, self.unit)
        for column in devices:
            if self.has_column(column):
                free[column] -= sign * amount
        self.summarise(free)

    def has_column(self, column: i64) -> bool:
        """Return whether a device's column belongs to this resource."""
        return (column - self.first) % self.step == 0

    def count_fitting(self, demand: i64, free: vec[i64]) -> i64:
        """Return how many tasks with a demand fit on the free devices."""
        if not self.is_fraction(demand):
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
        """Return the largest demand up to an amount: a fraction of a device, or whole devices."""
        unit = int(self.unit)
        return amount if amount < unit else amount // unit * unit

    def numbers(self, devices: vec[i64]) -> list[int]:
        """Return the numbers of a task's devices on its server, from 0."""
        return [int((c - self.first) // self.step) for c in devices if self.has_column(c)]

    def columns_of(self, numbers: list[int]) -> list[int]:
        """Return the columns of devices by their numbers; the inverse of `numbers`."""
        return [int(self.first + number * self.step) for number in numbers]


def columns_of(width: i64, device_quanta: dict[int, int], compared: i64) -> list[DeviceColumns]:
    """Return the columns of each resource that comes in devices.

    `device_quanta` has the quanta of one device, by resource. After the `width` amounts (W) come
    the two summary columns of each such resource, up to `compared` (C), and then the devices.
    """
    resources = sorted(device_quanta.items())
    return [
        DeviceColumns(resource, quanta, width + 2 * k, compared + k, len(resources))
        for k, (resource, quanta) in enumerate(resources)
    ]


def summarise_devices(free: vec[i64], devices: list[DeviceColumns]) -> None:
    """Update the summary columns after the columns of single devices were changed."""
    for columns in devices:
        columns.summarise(free)


def with_columns(amounts: vec[i64], devices: list[DeviceColumns]) -> vec[i64]:
    """Return the amounts of an empty server with the columns of its devices."""
    if not devices:
        return amounts
    found = amounts[:]
    width = len(amounts)
    for columns in devices:
        number = min(amounts[columns.resource] // columns.unit, MOST_DEVICES)
        if number > 0:
            found = extend_to(found, columns.first + (number - 1) * columns.step)
    found = extend_to(found, width + 2 * len(devices) - 1)
    for columns in devices:
        for device in range(min(amounts[columns.resource] // columns.unit, MOST_DEVICES)):
            found[columns.first + device * columns.step] = columns.unit
        columns.summarise(found)
    return found


def extend_to(amounts: vec[i64], column: i64) -> vec[i64]:
    """Append zeros to amounts until they have a column; a server that shrank may lack it."""
    while len(amounts) <= column:
        amounts = append(amounts, 0)
    return amounts
