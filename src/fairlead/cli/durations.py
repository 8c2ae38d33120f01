"""Durations as people type them: seconds, a number with a unit, or Slurm's forms."""

from __future__ import annotations

import re
from math import inf, isfinite

from fairlead.errors import InputError

FORMS = (
    "seconds, a number with s, m, h or d, minutes:seconds, hours:minutes:seconds, or "
    "days-hours[:minutes[:seconds]]"
)
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
UNLIMITED = ("unlimited", "infinite")
_CLOCK = re.compile(
    r"(?P<days>[0-9]{1,6})-(?P<hours>[0-9]{1,6})"
    r"(?::(?P<minutes>[0-5][0-9])(?::(?P<seconds>[0-5][0-9]))?)?"
    r"|(?P<h>[0-9]{1,6}):(?P<m>[0-5][0-9]):(?P<s>[0-5][0-9])"
    r"|(?P<only_m>[0-9]{1,6}):(?P<only_s>[0-5][0-9])"
)

# Python alone reads 1_0, digits of other scripts and blanks around a number.
_NUMBER = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?P<unit>[smhd]?)"
)


def seconds_of(text: str, option: str = "--at") -> float:
    """Return a duration as seconds.

    ``1:30`` is one minute and a half, as in Slurm. A bare number is seconds, where Slurm has
    minutes. Raises InputError for anything else.
    """
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        part = {name: int(digits or 0) for name, digits in clock.groupdict().items()}
        hours = 24.0 * part["days"] + part["hours"] + part["h"]
        minutes = 60.0 * hours + part["minutes"] + part["m"] + part["only_m"]
        return 60.0 * minutes + part["seconds"] + part["s"] + part["only_s"]
    number = _NUMBER.fullmatch(text)
    found = inf if number is None else float(number["number"]) * SECONDS[number["unit"] or "s"]
    if not isfinite(found):
        raise InputError(f"must be {FORMS}, not {text!r:.60}", option)
    return found


def limit_of(text: str, option: str) -> float | None:
    """Return a limit as seconds, or None for ``UNLIMITED`` and ``INFINITE``.

    Raises InputError for anything that is no duration, and for 0.
    """
    if text.lower() in UNLIMITED:
        return None
    found = seconds_of(text, option)
    if not found:
        raise InputError("must be longer than that", option)
    return found


def is_bare_number(text: str) -> bool:
    """Return whether a duration is a number without a unit."""
    number = _NUMBER.fullmatch(text)
    return number is not None and not number["unit"]
