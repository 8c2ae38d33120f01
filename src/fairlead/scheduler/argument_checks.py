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

LARGEST: Final = 2**62  # the largest sum of quanta or tasks, so that 64-bit integers suffice
MIN_WEIGHT: Final = Fraction(1, 10**100)
QUANTUM: Final = Fraction(1, 1_024_000_000)


def parse_number(value: object, what: str) -> Fraction:
    """Return a finite number as a fraction; `exact` converts floats."""
    # Floats are checked first, because checks of abstract classes are slow.
    if type(value) is float and isfinite(value):
        return exact(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"must be a number, not {value!r:.60}", what)
    if isinstance(value, (Integral, Fraction)):
        return Fraction(int(value.numerator), int(value.denominator))  # without NumPy's integers
    if not isfinite(value):
        raise InputError(f"must be finite, not {value!r}", what)
    return exact(float(value))


def parse_float(value: object, what: str) -> float:
    """Return a finite number as a float."""
    if isinstance(value, float) and isfinite(value):
        return value
    try:
        return float(parse_number(value, what))
    except OverflowError:
        raise InputError("is more than can be counted", what) from None


def parse_positive(value: object, what: str) -> Fraction:
    """Return a number above 0."""
    found = parse_number(value, what)
    if found <= 0:
        raise InputError(f"must be positive, not {value!r:.60}", what)
    return found


def parse_weight(value: object) -> tuple[int, int]:
    """Return a weight as numerator and denominator: 0, or from 1e-100 to 1e100."""
    found = parse_number(value, "weight")
    if found < 0:
        raise InputError(f"must not be negative, not {value!r:.60}", "weight")
    if found > 0 and not MIN_WEIGHT <= found <= 1 / MIN_WEIGHT:
        raise InputError("must be 0, or from 1e-100 to 1e100", "weight")
    return found.numerator, found.denominator


def parse_name(value: object, what: str) -> str:
    """Return a name: text that is not empty, without control characters."""
    if not isinstance(value, str) or not value:
        raise InputError(f"must be a name, not {value!r:.60}", what)
    return check_name(value, what)


def parse_names(values: object, what: str) -> list[str]:
    """Return a list of distinct names, at least one."""
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise InputError("must be a list of names", what)
    names = [parse_name(value, what) for value in values]
    if len(set(names)) < len(names):
        raise InputError("has a name twice", what)
    return names


def parse_members(values: object, where: object) -> list[tuple[object, object, object]]:
    """Return demand, tasks and constraint of each member of a gang; `where` if it has none."""
    message = "must be a list of (demand, tasks) or (demand, tasks, where)"
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise InputError(message, "members")
    members: list[tuple[object, object, object]] = []
    for value in values:
        if not isinstance(value, Sequence) or len(value) not in {2, 3}:
            raise InputError(message, "members")
        members.append((value[0], value[1], value[2] if len(value) == 3 else where))
    return members


def parse_labels(labels: object) -> Labels:
    """Return labels as pairs of key and value; no labels for None."""
    if labels is None:
        return frozenset()
    if not isinstance(labels, Mapping):
        raise InputError("must be a mapping of keys to values, all text", "labels")
    return frozenset(
        [(parse_name(key, "labels"), parse_name(value, "labels")) for key, value in labels.items()]
    )


def parse_constraint(where: object) -> ConstraintKey:
    """Return a constraint: labels that a server must have, and allowed names (None for all)."""
    if where is None:
        return frozenset(), None
    if isinstance(where, Mapping):
        return parse_labels(where), None
    if isinstance(where, str) or not isinstance(where, (Sequence, set, frozenset)) or not where:
        raise InputError("must be labels, or a list of names", "where")
    return frozenset(), frozenset([parse_name(name, "where") for name in where])


class Amounts:
    """Converts amounts by resource to whole quanta; `quanta` are the smallest amounts."""

    def __init__(self, resources: list[str], quanta: object) -> None:
        self.resources = resources
        self.quanta = [QUANTUM] * len(resources)
        given = self.parse_amounts({} if quanta is None else quanta, "quanta")
        for r, quantum in given.items():
            if quantum == 0:
                raise InputError("must be positive", "quanta")
            self.quanta[r] = quantum
        # Quanta of one device, by the index of each resource that comes in devices.
        self.device_quanta: dict[int, int] = {}

    def set_devices(self, names: object) -> dict[int, int]:
        """Set the resources that come in devices; return the quanta of one device, by index."""
        is_empty = isinstance(names, Sequence) and not isinstance(names, str) and not names
        for name in [] if is_empty else parse_names(names, "devices"):
            if name not in self.resources:
                raise InputError(f"there is no resource {name!r:.60}", "devices")
            r = self.resources.index(name)
            unit = 1 / self.quanta[r]
            if unit.denominator != 1 or unit > LARGEST:
                message = f"one {name} must be a whole number of quanta, at most 2**62"
                raise InputError(message, "devices")
            self.device_quanta[r] = unit.numerator
        return self.device_quanta

    def count_server(self, amounts: object) -> list[int]:
        """Return the capacity of a server in quanta; only whole devices are accepted."""
        counted = self.count(amounts, "capacity")
        for r, unit in self.device_quanta.items():
            if counted[r] % unit or counted[r] // unit > MOST_DEVICES:
                message = f"must be a whole number of devices, at most {MOST_DEVICES}"
                raise InputError(message, f"capacity {self.resources[r]}")
        return counted

    def count_task(self, amounts: object) -> list[int]:
        """Return the demand of a task in quanta: a fraction of one device, or whole devices."""
        counted = self.count(amounts, "demand")
        for r, unit in self.device_quanta.items():
            if counted[r] > unit and counted[r] % unit:
                message = "must be a part of one device, or a whole number of devices"
                raise InputError(message, f"demand {self.resources[r]}")
        return counted

    def parse_amounts(self, amounts: object, what: str) -> dict[int, Fraction]:
        """Return the given amounts by the index of their resource; refuse negative ones."""
        if not isinstance(amounts, Mapping):
            raise InputError("must give amounts by resource", what)
        found: dict[int, Fraction] = {}
        for name, given in amounts.items():
            if not isinstance(name, str) or name not in self.resources:
                raise InputError(f"there is no resource {name!r:.60}", what)
            amount = parse_number(given, f"{what} {name}")
            if amount < 0:
                raise InputError("must not be negative", what)
            found[self.resources.index(name)] = amount
        return found

    def count(self, amounts: object, what: str) -> list[int]:
        """Return amounts in quanta, rounded down; positive ones are at least one quantum.

        Thus equal amounts stay equal, and k tasks of 1/k fit on 1.
        """
        counted = [0] * len(self.resources)
        for r, amount in self.parse_amounts(amounts, what).items():
            quantum = self.quanta[r]
            numerator = amount.numerator * quantum.denominator
            quanta = numerator // (amount.denominator * quantum.numerator)
            if quanta > LARGEST:
                message = "is more than can be counted; give larger quanta"
                raise InputError(message, f"{what} {self.resources[r]}")
            counted[r] = quanta if quanta > 0 or amount == 0 else 1
        return counted
