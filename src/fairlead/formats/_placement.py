"""Read placement constraints and rates of users, and find the users that fit no server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairlead.errors import InputError, ProblemError
from fairlead.formats.file_faults import (
    did_you_mean,
    is_name,
    keyed_by_text,
    number_at,
    text_of,
)
from fairlead.model.cluster import BoolArray, Cluster, FloatArray
from fairlead.model.quantity import show

# Relative tolerance: a task of a server's size still fits if a conversion of units rounded it up.
_ROUNDING = 1e-12


def read_labels(rows: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, str], ...]:
    """Read the labels of groups; whole numbers, ``true`` and ``false`` become text."""
    return tuple(
        _read_labels(row.get("labels", {}), f"servers[{g}].labels") for g, row in enumerate(rows)
    )


def _read_labels(given: Mapping[Any, Any], place: str) -> dict[str, str]:
    labels = keyed_by_text(given, place)
    for key, value in labels.items():
        if not isinstance(value, str | int):
            quotes = "; put it in quotes" if isinstance(value, float) else ""
            raise InputError(f"must be text, not {show(value)}{quotes}", f"{place}.{key}")
        text = show(value) if isinstance(value, bool) else value
        labels[key] = text_of(text, f"{place}.{key}") if text != "" else ""
    return labels


class NamedGroups:
    """Groups of servers by name and by label, to read placement constraints and rates."""

    def __init__(self, groups: Sequence[str], labels: Sequence[Mapping[str, str]]) -> None:
        self.index = {name: g for g, name in enumerate(groups)}
        self.by_label: dict[str, dict[str, list[int]]] = {}  # groups by key and value of a label
        for g, group_labels in enumerate(labels):
            for key, value in group_labels.items():
                self.by_label.setdefault(key, {}).setdefault(value, []).append(g)

    def eligible(self, constraint: object, place: str) -> BoolArray:
        """Return (G,) bool: whether a constraint allows each group.

        The constraint is a list of names of groups, or a mapping of labels that must all match.
        Raises InputError for any other value, ProblemError for an unknown group or label.
        """
        allowed = np.zeros(len(self.index), dtype=bool)
        if isinstance(constraint, list):
            for position, name in enumerate(constraint):
                allowed[self._group(name, f"{place}[{position}]")] = True
            return allowed
        if not isinstance(constraint, dict):
            raise InputError(
                f"must be a list of names of groups, or a mapping of labels, "
                f"not {show(constraint)}",
                place,
            )
        allowed[:] = True
        for key, value in _read_labels(constraint, place).items():
            values = self.by_label.get(key)
            if values is None:
                raise ProblemError(
                    f"no group has a label {key!r}{did_you_mean(key, self.by_label)}", place
                )
            if value not in values:
                raise ProblemError(
                    f"no group has the label {key}: {value}{did_you_mean(value, values)}",
                    f"{place}.{key}",
                )
            matching = np.zeros_like(allowed)
            matching[values[value]] = True
            allowed &= matching
        return allowed

    def rates(self, given: Mapping[Any, Any], place: str) -> FloatArray:
        """Return (G,) rates of a user on one server of each group; 0 for groups not named."""
        rates = np.zeros(len(self.index))
        for name, value in keyed_by_text(given, place).items():
            here = f"{place}.{name}"
            g = self._group(name, here)
            rates[g] = number_at(value, here)
        return rates

    def _group(self, name: object, place: str) -> int:
        if not is_name(name):
            raise InputError(f"must be the name of a group, not {show(name)}", place)
        text = text_of(name, place)
        if text not in self.index:
            raise ProblemError(
                f"no group is named {show(text)}{did_you_mean(text, self.index)}", place
            )
        return self.index[text]


def find_unplaceable(
    cluster: Cluster, demand: FloatArray, eligible: BoolArray, rates: FloatArray | None
) -> dict[int, str]:
    """Return, for each user whose task fits no server, the reason.

    `demand` (N, R) is that of one task; `eligible` (N, G); `rates` (N, G) has NaN rows for users
    without rates. A user with rates fits if a rate is positive on an eligible group with servers,
    whatever its demand. O(N (G + K R)) for K distinct capacities.
    """
    open_to = eligible & (cluster.count > 0)
    capacity, kind = np.unique(cluster.capacity, axis=0, return_inverse=True)
    kind = kind.reshape(-1)  # a column in NumPy 2.0.0
    reasons = {}
    for n in range(len(demand)):
        if rates is not None and not np.isnan(rates[n, 0]):
            if not (open_to[n] & (rates[n] > 0)).any():
                reasons[n] = _no_rate(eligible[n])
            continue
        open_capacity = capacity  # distinct capacities of the groups open to the user
        if not open_to[n].all():
            open_capacity = capacity[np.bincount(kind[open_to[n]], minlength=len(capacity)) > 0]
        fits = (demand[n] <= open_capacity * (1 + _ROUNDING)).all(axis=1)
        if not fits.any():
            allowed = "" if len(open_capacity) == len(capacity) else " that its placement allows"
            if eligible[n].any() and not len(open_capacity):
                reasons[n] = "the groups that its placement allows have no server"
            else:
                reasons[n] = _no_room(cluster, demand[n], open_capacity, allowed)
    return reasons


def _no_rate(eligible: BoolArray) -> str:
    if not eligible.any():
        return "its placement constraint allows no group"
    allowed = "" if eligible.all() else " that its placement allows"
    return f"its rate is 0 on every group{allowed}"


def _no_room(cluster: Cluster, demand: FloatArray, open_capacity: FloatArray, allowed: str) -> str:
    """Return why a demand (R,) exceeds each open capacity; `allowed` follows the word *server*."""
    if not len(open_capacity):
        return "its placement constraint allows no group"
    largest = open_capacity.max(axis=0)
    reasons = []
    for r in np.flatnonzero(demand > largest * (1 + _ROUNDING)):
        name, unit = cluster.resources[r], cluster.units[r]
        if largest[r] == 0:
            reasons.append(f"no server{allowed} has {name}")
        else:
            reasons.append(
                f"one task needs {_amount(demand[r], unit)} of {name}, "
                f"and the largest server{allowed} has {_amount(largest[r], unit)}"
            )
    if reasons:
        return "; ".join(reasons)
    needs = [
        f"{_amount(demand[r], cluster.units[r])} of {cluster.resources[r]}"
        for r in np.flatnonzero(demand > 0)
    ]
    return f"no server{allowed} has {' and '.join(needs)} together"


def _amount(amount: float, unit: str) -> str:
    return f"{amount:.12g} {unit}".rstrip()
