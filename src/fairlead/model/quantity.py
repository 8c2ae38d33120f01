"""Amounts of a resource: plain numbers, Kubernetes quantities, units, and exact ratios.

A plain number (``0.5``, ``16``, ``1e3``, in quotes or not) is in the declared unit of the
resource. A number with a suffix (``500m``, ``4Gi``, ``100M``) is absolute, in the base unit of the
resource: cores, pieces, bytes, or bytes or bits a second, as the declared unit has it. An exponent
is not a suffix: as in Kubernetes, ``1E3`` is a thousand and ``1E`` an exa.

Source: the serialisation format of ``resource.Quantity`` in the Kubernetes API. Arithmetic is exact
and rounds once, so that ``500m`` is 0.5. Unlike in Kubernetes, amounts are not rounded up to
nano-units.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from fairlead.errors import ProblemError

# Products of three amounts up to this one, or down to its inverse, are within the range of floats.
LARGEST_AMOUNT = 1e100
MOST_DEVICES = 100_000  # of one resource on one server

_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

# Longer texts are not real amounts, and take quadratic time to convert.
_LONGEST_TEXT = 300
_LARGEST_EXPONENT = 400

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[KMGTPE]i|[numkMGTPE]))?"
)


def _unit_sizes() -> dict[str, Fraction]:
    """Return the size of each unit in its base unit."""
    sizes = {"millicores": Fraction(1, 1000), "millicore": Fraction(1, 1000)}
    for word in ("core", "cpu", "vcpu", "gpu", "device", "piece", "byte", "bit"):
        sizes[word] = sizes[f"{word}s"] = Fraction(1)
    for word in ("B", "B/s", "b/s", "bps"):
        sizes[word] = Fraction(1)
        for suffix, power in _DECIMAL.items():
            if power > 0:
                sizes[suffix + word] = Fraction(10**power)
    sizes["KB"] = sizes["kB"]
    for suffix, power in _BINARY.items():
        for ending in ("", "B", "B/s"):
            sizes[suffix + ending] = Fraction(2**power)
    return sizes


_UNITS = _unit_sizes()


def unit_size(unit: str) -> Fraction | None:
    """Return the size of a unit in the base unit; None if the unit has no absolute size."""
    if not unit:
        return Fraction(1)
    return _UNITS.get(unit) or _UNITS.get(unit.lower() if len(unit) > 3 else unit)


@lru_cache(maxsize=65536)
def parse_quantity(text: str, unit: str = "") -> tuple[float, bool]:
    """Return a quantity such as ``500m`` in a unit, correctly rounded; and whether it has a suffix.

    The quantity may be negative. Raises ProblemError for other text, a size out of range, or a
    suffix if the unit has no absolute size. Refuses long texts and large exponents before any
    arithmetic.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None or not (match["whole"] or match["fraction"]):
        raise ProblemError(f"must be a number or a quantity such as 500m or 4Gi, not {show(text)}")
    fraction, suffix, exponent = match["fraction"] or "", match["suffix"], match["exponent"] or "0"
    digits = int(match["whole"] + fraction)
    if digits and (len(exponent) > 8 or abs(int(exponent)) > _LARGEST_EXPONENT):
        raise out_of_range(text)
    power = (int(exponent) if digits else 0) - len(fraction) + _DECIMAL.get(suffix or "", 0)
    exactly = Fraction(-digits if match["sign"] == "-" else digits) * Fraction(10) ** power
    if suffix:
        size = unit_size(unit)
        if size is None:
            raise ProblemError(
                f"must be a plain number, not {show(text)}: "
                f"an absolute quantity has no meaning in the unit {show(unit)}"
            )
        exactly *= 2 ** _BINARY.get(suffix, 0) / size
    try:
        amount = float(exactly)
    except OverflowError:
        raise out_of_range(text) from None
    _check_range(amount, text)
    return amount, suffix is not None


def read_amount(value: object, unit: str = "") -> tuple[float, bool]:
    """Return a non-negative number or quantity of a file, in a unit; and whether it has a suffix.

    Raises ProblemError for anything else, also for a bool.
    """
    if isinstance(value, str):
        amount, suffixed = parse_quantity(value, unit)
    else:
        amount, suffixed = read_number(value, "a number or a quantity such as 500m or 4Gi"), False
    if amount < 0:
        raise ProblemError(f"must not be negative, not {show(value)}")
    return amount, suffixed


def number_from_text(text: str) -> float:
    """Read a number from the command line; raise ValueError for other text.

    Unlike ``float``, this refuses ``1_0``, digits of other scripts, and blanks around a number.
    """
    if "_" in text or not text.isascii() or text != text.strip():
        raise ValueError(f"is not a plain number: {text!r:.60}")
    return float(text)


def read_number(value: object, wanted: str = "a number", place: str = "") -> float:
    """Return a finite number of usable size; raise ProblemError for anything else.

    The error names `wanted` if the value is not a number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ProblemError(f"must be {wanted}, not {show(value)}", place)
    try:
        number = float(value)
    except OverflowError:
        raise out_of_range(value, place) from None
    if not math.isfinite(number):
        raise ProblemError(f"must be a finite number, not {number}", place)
    _check_range(number, value, place)
    return number


def number_at(value: object, place: str, owner: str = "") -> float:
    """Read a number of at least 0; raise ProblemError with its key path for any other value.

    `owner` is appended to the error.
    """
    wanted = "a number from 0"
    try:
        number = read_number(value, wanted)
    except ProblemError as error:
        raise ProblemError(f"{error.fault}{owner}", place) from None
    if number < 0:
        raise ProblemError(f"must be {wanted}, not {show(value)}{owner}", place)
    return number


def out_of_range(value: object, place: str = "") -> ProblemError:
    """Return the error for an extremely large or small number."""
    return ProblemError(
        f"must be 0 or a number between {1 / LARGEST_AMOUNT:g} and {LARGEST_AMOUNT:g}, "
        f"not {show(value)}",
        place,
    )


def show(value: object) -> str:
    """Describe an invalid value on one short line, for an error message."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple | set | frozenset):
        return "a list"
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a whole number of more than 40 digits"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 45 else f"{text[:40]}..."


def printable(text: str) -> str:
    """Escape the characters that would move a terminal's cursor or change its colours."""
    text = text.replace("\u00a0", " ")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _check_range(number: float, value: object, place: str = "") -> None:
    if number != 0 and not 1 / LARGEST_AMOUNT < abs(number) < LARGEST_AMOUNT:
        raise out_of_range(value, place)


# A float that prints with at most this many digits stands for the printed decimal.
DECIMAL_DIGITS = 12


def exact(amount: float) -> Fraction:
    """Return the number that a finite, non-negative float stands for.

    This is the printed decimal if it has at most twelve digits (0.1 is 1/10); otherwise the exact
    binary fraction of the float (a third of a GiB, a measurement).
    """
    return Fraction(*ratio(float(amount)))


def ratio(amount: float) -> tuple[int, int]:
    """Return the number that a float stands for, as numerator and denominator."""
    shortest = repr(amount)
    digits = shortest.partition("e")[0].replace(".", "").strip("0")
    number = Decimal(shortest) if len(digits) <= DECIMAL_DIGITS else amount
    return number.as_integer_ratio()
