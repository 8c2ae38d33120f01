"""Check the arrays of a workload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairlead.errors import ProblemError
from fairlead.model.cluster import BoolArray, Cluster, FloatArray, device_names
from fairlead.model.frames import read_numbers
from fairlead.model.names import check_name, check_names
from fairlead.model.quantity import LARGEST_AMOUNT, out_of_range

IndexArray = NDArray[np.int32]
Rows = TypeVar("Rows", FloatArray, BoolArray)

# Numbers of servers are int32.
LARGEST_COUNT = 2**31 - 1
# A workload keeps arrays with an entry for each server.
MOST_SERVERS = 10**7


def fail_at(wrong: BoolArray, values: NDArray[Any], what: str, field: str, fault: str) -> None:
    """Raise ProblemError if an entry is wrong, such as ``jobs[3].submit: must be a time, not nan``.

    `what` is ``jobs`` here, `field` ``submit``, and `fault` the text before the value.
    """
    if wrong.any():
        first = int(np.argmax(wrong))
        raise ProblemError(f"{fault} {values[first]}", f"{what}[{first}].{field}")


def read_vector(
    values: ArrayLike | None, length: int | None, name: str, default: float | None = None
) -> FloatArray:
    """Return a (length,) float array, or raise ProblemError; `default` stands for None."""
    if values is None and default is not None:
        return np.full(length or 0, default)
    found = read_numbers(values, name)
    if found.ndim != 1 or (length is not None and len(found) != length):
        expected = "one dimension" if length is None else f"shape ({length},)"
        raise ProblemError(f"must have {expected}, not shape {found.shape}", name)
    return found


def read_times(values: ArrayLike, length: int | None, what: str, field: str) -> FloatArray:
    """Return finite times from 0 that never descend; ProblemError for the first wrong entry."""
    times = read_vector(values, length, f"{what} {field}")
    usable = (times >= 0) & np.isfinite(times)
    fail_at(~usable, times, what, field, "must be a number of seconds from 0, not")
    fail_at(np.diff(times, prepend=0.0) < 0, times, what, field, "time runs backwards to")
    return times


def read_indices(
    values: ArrayLike, length: int | None, bound: int, what: str, field: str
) -> IndexArray:
    """Return whole numbers from 0 up to `bound`, exclusive, as int32, or raise ProblemError."""
    found = np.asarray(values)
    if found.ndim != 1 or (length is not None and len(found) != length):
        expected = "one dimension" if length is None else f"shape ({length},)"
        raise ProblemError(f"must have {expected}, not shape {found.shape}", f"{what} {field}")
    if not len(found):
        return np.zeros(0, dtype=np.int32)
    if found.dtype.kind not in "iu":
        number = read_vector(found, length, f"{what} {field}")
        fail_at(number != np.floor(number), number, what, field, "must be a whole number, not")
        found = number
    wrong = ~((found >= 0) & (found < bound))
    fail_at(wrong, found, what, field, f"must be from 0 to {bound - 1}, not")
    return found.astype(np.int32)


def usable_amounts(values: FloatArray) -> BoolArray:
    """Return whether each number is 0, or positive and within the range of amounts."""
    usable: BoolArray = (values == 0) | ((values > 1 / LARGEST_AMOUNT) & (values < LARGEST_AMOUNT))
    return usable


def check_amounts(rows: FloatArray, resources: Sequence[str], place: str) -> None:
    """Raise ProblemError for an unusable amount; `place` has ``{}`` for the index of a row."""
    for row, r in np.argwhere(~usable_amounts(rows))[:1]:
        raise out_of_range(float(rows[row, r]), f"{place.format(row)}.{resources[r]}")


def read_amounts(values: ArrayLike, resources: Sequence[str], what: str) -> FloatArray:
    """Return usable amounts (rows, R), of which no row is all 0, or raise ProblemError."""
    rows = read_numbers(values, what)
    if rows.ndim != 2 or rows.shape[1] != len(resources):
        raise ProblemError(f"must have shape (rows, {len(resources)}), not {rows.shape}", what)
    check_amounts(rows, resources, f"{what}[{{}}]")
    nothing = np.flatnonzero(~(rows > 0).any(axis=1))
    if len(nothing):
        raise ProblemError("takes nothing of any resource", f"{what}[{nothing[0]}]")
    # Adding turns -0.0 into 0.0, so that equal rows have equal bytes.
    return rows + 0.0


def check_unlike_names(given: Sequence[str], what: str) -> None:
    """Raise ProblemError if there is no name, or for the first malformed or duplicate one."""
    if not len(given):
        raise ProblemError(f"there are no {what}", what)
    check_names(given, what)
    names = np.array(given, dtype=np.str_)
    fail_at(names == "", names, what, "name", "is empty")
    if len(set(given)) == len(given):
        return
    order = np.argsort(names, kind="stable")
    twice = order[1:][names[order[1:]] == names[order[:-1]]]
    row = int(twice.min())
    raise ProblemError(f"duplicate name {str(names[row])!r}", f"{what}[{row}].name")


def check_cluster(cluster: Cluster) -> None:
    """Raise ProblemError, with the group, for unusable shapes, names, amounts or counts."""
    n_groups, n_resources = len(cluster.groups), len(cluster.resources)
    check_unlike_names(cluster.groups, "groups")
    check_unlike_names(cluster.resources, "resources")
    read_amounts(cluster.capacity, cluster.resources, "groups")
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "capacity": (cluster.capacity.shape, (n_groups, n_resources)),
        "count": (np.shape(cluster.count), (n_groups,)),
        "units": ((len(cluster.units),), (n_resources,)),
        "labels": ((len(cluster.labels),), (n_groups,)),
    }
    for name, (found, expected) in shapes.items():
        if found != expected:
            raise ProblemError(f"must have shape {expected}, not {found}", name)
    device_names(cluster.devices, cluster.resources)
    for g, labels in enumerate(cluster.labels):
        for key, value in labels.items():
            check_name(key, f"groups[{g}].labels")
            check_name(value, f"groups[{g}].labels.{key}")
    read_indices(cluster.count, n_groups, LARGEST_COUNT, "groups", "count")
    fail_at(cluster.count < 1, cluster.count, "groups", "count", "must be a positive number, not")
    total = np.cumsum(cluster.count, dtype=np.int64)
    fault = f"there are more than {MOST_SERVERS:,} servers, with"
    fail_at(total > MOST_SERVERS, cluster.count, "groups", "count", fault)


def check_weights(weight: ArrayLike | None, n_users: int) -> FloatArray:
    """Return the (N,) weights, by default 1; ProblemError for an unusable one."""
    found = read_vector(weight, n_users, "weight", 1.0)
    fault = "must be a number from 0, not"
    fail_at(~usable_amounts(found), found, "users", "weight", fault)
    return found


def check_server_events(server: IndexArray, event: IndexArray, names: Sequence[str]) -> None:
    """Raise ProblemError for the first impossible event, such as a leave of an absent server."""
    join, leave, drain = range(3)
    order = np.argsort(server, kind="stable")
    before, after = event[order][:-1], event[order][1:]
    same = np.diff(server[order]) == 0
    # A join is followed by a leave or drain, a leave by a join, a drain by a join or leave.
    possible = np.where(
        before == join,
        after != join,
        np.where(before == leave, after == join, after != drain),
    )
    wrong = np.flatnonzero(same & ~possible)
    if len(wrong):
        later = order[1:][wrong]
        earliest = int(np.argmin(later))
        row, previous = int(later[earliest]), int(before[wrong[earliest]])
        fault = f"a {names[event[row]]} cannot follow a {names[previous]} of the same server"
        raise ProblemError(fault, f"server events[{row}]")


def distinct_rows(rows: Rows, row_of_set: IndexArray) -> tuple[Rows, IndexArray]:
    """Return the distinct rows, and each set's row (K,) among them; O(M log M) for M rows."""
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    is_new = np.ones(len(rows), dtype=bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    number = np.empty(len(rows), dtype=np.int32)
    number[order] = np.cumsum(is_new) - 1
    return ordered[is_new], number[row_of_set]


def used_rows(rows: Rows, row_of_set: IndexArray) -> tuple[Rows, IndexArray]:
    """Remove unused rows and order the others by first use; O(K + M log M) for M rows."""
    n_sets = len(row_of_set)
    first_use = np.full(len(rows), n_sets, dtype=np.int64)
    np.minimum.at(first_use, row_of_set, np.arange(n_sets))
    kept = np.flatnonzero(first_use < n_sets)
    kept = kept[np.argsort(first_use[kept])]
    number = np.empty(len(rows), dtype=np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    return rows[kept], number[row_of_set]
