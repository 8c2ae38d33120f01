"""Checks of arguments: exact numbers, names, labels and constraints, or an `InputError`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import isfinite
from numbers import Integral, Real
from typing import Final

from fairlead.errors import InputError
from fairlead.model.names import check_name
from fairlead.model.quantity import MOST_DEVICES, exact
from fairlead.scheduler._entities import ConstraintKey, Labels

LARGEST: Final = 2**62  # the largest sum of quanta or tasks, so that nothing wraps
LEAST_WEIGHT: Final = Fraction(1, 10**100)
QUANTUM: Final = Fraction(1, 1_024_000_000)


def number(value: object, what: str) -> Fraction:
    """Return a finite number exactly as written."""
    if type(value) is float and isfinite(
        value
    ):  # the usual case; checks of abstract classes are slow
        return exact(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"must be a number, not {value!r:.60}", what)
    if isinstance(value, (Integral, Fraction)):
        return Fraction(value)
    if not isfinite(value):
        raise InputError(f"must be finite, not {value!r}", what)
    return exact(float(value))


def real(value: object, what: str) -> float:
    """Return a finite number as a float."""
    if isinstance(value, float) and isfinite(value):
        return value
    try:
        return float(number(value, what))
    except OverflowError:
        raise InputError("is more than can be counted", what) from None


def positive(value: object, what: str) -> Fraction:
    """Return a number above 0."""
    found = number(value, what)
    if found <= 0:
        raise InputError(f"must be positive, not {value!r:.60}", what)
    return found


def weight_of(value: object) -> tuple[int, int]:
    """Return a weight as numerator and denominator: 0, or from 1e-100 to 1e100."""
    found = number(value, "weight")
    if found < 0:
        raise InputError(f"must not be negative, not {value!r:.60}", "weight")
    if found > 0 and not LEAST_WEIGHT <= found <= 1 / LEAST_WEIGHT:
        raise InputError("must be 0, or from 1e-100 to 1e100", "weight")
    return found.numerator, found.denominator


def name_of(value: object, what: str) -> str:
    """Return a name: text that is not empty, without control characters."""
    if not isinstance(value, str) or not value:
        raise InputError(f"must be a name, not {value!r:.60}", what)
    return check_name(value, what)


def names_of(values: object, what: str) -> list[str]:
    """Return a list of distinct names, at least one."""
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise InputError("must be a list of names", what)
    names = [name_of(value, what) for value in values]
    if len(set(names)) < len(names):
        raise InputError("has a name twice", what)
    return names


def members_of(values: object, where: object) -> list[tuple[object, object, object]]:
    """Return the members of a gang as demand, tasks and constraint, `where` by default."""
    fault = "must be a list of (demand, tasks) or (demand, tasks, where)"
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise InputError(fault, "members")
    members: list[tuple[object, object, object]] = []
    for value in values:
        if not isinstance(value, Sequence) or len(value) not in {2, 3}:
            raise InputError(fault, "members")
        members.append((value[0], value[1], value[2] if len(value) == 3 else where))
    return members


def labels_of(labels: object) -> Labels:
    """Return labels; none for None."""
    if labels is None:
        return frozenset()
    if not isinstance(labels, Mapping):
        raise InputError("must be a mapping of names to names", "labels")
    return frozenset(
        [(name_of(key, "labels"), name_of(value, "labels")) for key, value in labels.items()]
    )


def constraint_of(where: object) -> ConstraintKey:
    """Return labels that must all match, and names of which one must, or None for any name."""
    if where is None:
        return frozenset(), None
    if isinstance(where, Mapping):
        return labels_of(where), None
    if isinstance(where, str) or not isinstance(where, (Sequence, set, frozenset)) or not where:
        raise InputError("must be labels, or a list of names", "where")
    return frozenset(), frozenset([name_of(name, "where") for name in where])


class Amounts:
    """Reads amounts by resource as whole quanta; `quanta` are the smallest amounts."""

    def __init__(self, resources: list[str], quanta: object) -> None:
        self.resources = resources
        self.quanta = [QUANTUM] * len(resources)
        given = self.by_resource({} if quanta is None else quanta, "quanta")
        for r, quantum in given.items():
            if quantum == 0:
                raise InputError("must be positive", "quanta")
            self.quanta[r] = quantum
        self.device: dict[int, int] = {}  # quanta of one device, by resources in devices

    def set_devices(self, names: object) -> dict[int, int]:
        """Set which resources come in devices; return the quanta of one by their numbers."""
        is_none = isinstance(names, Sequence) and not isinstance(names, str) and not names
        for name in [] if is_none else names_of(names, "devices"):
            if name not in self.resources:
                raise InputError(f"there is no resource {name!r:.60}", "devices")
            r = self.resources.index(name)
            unit = 1 / self.quanta[r]
            if unit.denominator != 1 or unit > LARGEST:
                fault = f"one {name} must be a whole number of quanta, at most 2**62"
                raise InputError(fault, "devices")
            self.device[r] = unit.numerator
        return self.device

    def count_server(self, amounts: object) -> list[int]:
        """Return the capacity of a server in quanta; devices are whole."""
        counted = self.count(amounts, "capacity")
        for r, unit in self.device.items():
            if counted[r] % unit or counted[r] // unit > MOST_DEVICES:
                fault = f"must be a whole number of devices, at most {MOST_DEVICES}"
                raise InputError(fault, f"capacity {self.resources[r]}")
        return counted

    def count_task(self, amounts: object) -> list[int]:
        """Return the demand of a task in quanta; a part of one device, or whole devices."""
        counted = self.count(amounts, "demand")
        for r, unit in self.device.items():
            if counted[r] > unit and counted[r] % unit:
                fault = "must be a part of one device, or a whole number of devices"
                raise InputError(fault, f"demand {self.resources[r]}")
        return counted

    def by_resource(self, amounts: object, what: str) -> dict[int, Fraction]:
        """Return the given amounts by the number of the resource."""
        if not isinstance(amounts, Mapping):
            raise InputError("must give amounts by resource", what)
        found: dict[int, Fraction] = {}
        for name, given in amounts.items():
            if not isinstance(name, str) or name not in self.resources:
                raise InputError(f"there is no resource {name!r:.60}", what)
            amount = number(given, f"{what} {name}")
            if amount < 0:
                raise InputError("must not be negative", what)
            found[self.resources.index(name)] = amount
        return found

    def count(self, amounts: object, what: str) -> list[int]:
        """Return amounts in quanta, rounded down; positive ones are at least one quantum.

        Thus equal amounts stay equal, and k tasks of 1/k fit on 1.
        """
        counted = [0] * len(self.resources)
        for r, amount in self.by_resource(amounts, what).items():
            quantum = self.quanta[r]
            over = amount.numerator * quantum.denominator
            quanta = over // (amount.denominator * quantum.numerator)
            if quanta > LARGEST:
                fault = "is more than can be counted; give larger quanta"
                raise InputError(fault, f"{what} {self.resources[r]}")
            counted[r] = quanta if quanta > 0 or amount == 0 else 1
        return counted
