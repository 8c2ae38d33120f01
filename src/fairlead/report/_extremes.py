"""Name the users of a run that are furthest from their fair shares, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.workload import Workload
from fairlead.report._against_today import short_name
from fairlead.report.numbers import change, duration, number, percent
from fairlead.simulation.log_audit import worst_time
from fairlead.simulation.metrics.fairness_error import FairnessError

ROUNDED = 9  # digits of cluster-hours, beyond which they are rounding


def extremes_text(
    fairness: FairnessError, waits: Mapping[str, float], workload: Workload | None = None
) -> str:
    """Name the users that were owed most, held most beyond their share, and waited longest.

    `waits` maps each user to the longest time in seconds in which its tasks waited and none ran.
    With a `workload` the sentence says when most of the owed hours arose.
    """
    names, owed, due = list(waits), fairness.owed.round(ROUNDED), fairness.due_hours
    longest = np.fromiter(waits.values(), dtype=float)
    parts = []
    if owed.max() > 0:
        n = int(owed.argmax())
        part = f"{percent(owed[n] / due[n])} of its fair share"
        if workload is not None and (worst := worst_time(fairness, n)) is not None:
            begin, end = (short_time(workload, time) for time in worst)
            part += f", most of it from {begin} to {end}"
        hours = f"{number(owed[n])} hours of the whole cluster"
        parts.append(f"owed most: {_first(names, owed)}, {hours} ({part})")
    if owed.min() < 0:
        n = int(owed.argmin())
        part = f" ({change(-owed[n] / due[n])})" if due[n] > 0 else ""
        hours = f"{number(-owed[n])} {'such hours' if parts else 'hours of the whole cluster'}"
        parts.append(f"held most beyond its fair share: {_first(names, -owed)}, {hours}{part}")
    if longest.max() > 0:
        wait = duration(float(longest.max()))
        parts.append(f"waited longest with nothing running: {_first(names, longest)}, {wait}")
    if fairness.has_no_answer:
        parts.insert(0, "no fair shares are known")
    return "; ".join(parts) or "every user held its fair share all the time"


def short_time(workload: Workload, seconds: float) -> str:
    """Write a time as a date without seconds, if the log has dates."""
    date = workload.date_of(seconds)
    return duration(seconds) if date is None else f"{date:%Y-%m-%d %H:%M}"


def _first(names: list[str], values: FloatArray) -> str:
    """Name the first user with the largest value, and count further users with that value."""
    users = np.flatnonzero(values == values.max())
    equal = f" and {len(users) - 1} more, each" if len(users) > 1 else ""
    return f"{short_name(names[users[0]])}{equal}"
