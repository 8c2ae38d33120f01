"""Kinds of tasks: the tasks of a user with the same eligible servers and demanded resources.

Tasks of different kinds have no common mean demand, because it might fit on servers where none of
the tasks fits, or on no server.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.model.cluster import BoolArray, Cluster, FloatArray, IntArray

WEIGHTS_OF_KINDS = (
    "user@servers: a user's tasks that may run on these servers. The weight of such a kind is the "
    "user's weight, times the dominant share of the kind's tasks, divided by that of all tasks of "
    "the user."
)
_NUMBERED = re.compile(r" \([0-9]+\)$")
_MORE = re.compile(r"[0-9]+ more")


class TaskKinds(NamedTuple):
    """The kinds of sets of equal tasks, in the order of users: M kinds, K sets."""

    of_set: IntArray  # (K,): the kind of each set
    user: IntArray  # (M,): the user of each kind
    place: IntArray  # (M,): the number of the kind's set of eligible servers


def kinds_of_tasks(
    user: NDArray[np.integer[Any]], place: NDArray[np.integer[Any]], demand: FloatArray
) -> TaskKinds:
    """Return the kinds of K sets of tasks; O(K R log K).

    `user` (K,) and `place` (K,), the number of a set of eligible servers, are those of each set;
    `demand` (K, R) is that of one task.
    """
    # Equal sets of demanded resources get equal numbers, one resource after the other.
    resources = np.zeros(len(demand), dtype=np.int64)
    for takes in (demand > 0).T:
        _, resources = np.unique(2 * resources + takes, return_inverse=True)
    columns = (user, place, resources)
    sizes = tuple(int(column.max(initial=0)) + 1 for column in columns)
    keys = np.ravel_multi_index(columns, sizes)
    kinds, of_set = np.unique(keys, return_inverse=True)
    of_user, of_place, _ = np.unravel_index(kinds, sizes)
    return TaskKinds(of_set, of_user, of_place)


def weights_of_kinds(
    weight: FloatArray, user: IntArray, wanted: FloatArray, capacity: FloatArray
) -> FloatArray:
    """Return the weight (M,) of each kind: ``phi s / S``.

    - phi: `weight` (N,) of the kind's `user` (M,);
    - s: dominant share of all tasks of the kind, which take `wanted` (M, R) of the cluster's
      `capacity` (R,);
    - S: dominant share of all tasks of the user.

    So the kinds of a user get tasks in proportion to their tasks; a single kind has weight phi.
    """
    whole = dominant_share(amounts_by(user, wanted, len(weight)), capacity)[user]
    weights: FloatArray = weight[user] * (dominant_share(wanted, capacity) / whole)
    return weights


def amounts_by(of: NDArray[np.integer[Any]], amounts: FloatArray, length: int) -> FloatArray:
    """Sum the rows of `amounts` (K, R) with the same number in `of` (K,); return (length, R)."""
    columns = [np.bincount(of, column, minlength=length) for column in amounts.T]
    return np.stack(columns, axis=1)


def dominant_share(taken: FloatArray, capacity: FloatArray) -> FloatArray:
    """Return the dominant shares of rows `taken` (K, R); resources of capacity 0 do not count."""
    is_there: BoolArray = capacity > 0
    share: FloatArray = (taken[:, is_there] / capacity[is_there]).max(axis=1, initial=0.0)
    return share


def rows_of_split_users(names: Sequence[str], cluster: Cluster) -> dict[str, list[int]]:
    """Return the rows of each user with several kinds of tasks, such as ``ana@big``, ``ana@old``.

    `fairlead.traces.problem_at_time` gives such names to kinds. Names whose text after the ``@``
    names no servers of the cluster are ignored.
    """
    rows: dict[str, list[int]] = {}
    for n, name in enumerate(names):
        user = _user_of_kind(name, cluster)
        if user:
            rows.setdefault(user, []).append(n)
    return {user: found for user, found in rows.items() if len(found) > 1}


def is_name_of_kind(name: str, cluster: Cluster) -> bool:
    """Return whether a name has the format of a kind of tasks, such as ``ana@big``."""
    return bool(_user_of_kind(name, cluster))


def _user_of_kind(name: str, cluster: Cluster) -> str:
    """Return the user in the name of a kind; an empty text for another name."""
    numbered = _NUMBERED.sub("", name)
    for at in _positions(numbered, "@"):
        user, where = numbered[:at], numbered[at + 1 :]
        parts = [(where[:k], where[k + 1 :]) for k in _positions(where, ":")]
        if _is_place(where, cluster) or any(
            _is_place(place, cluster) and set(taken.split("+")) <= set(cluster.resources)
            for place, taken in parts
        ):
            return user
    return ""


def _is_place(text: str, cluster: Cluster) -> bool:
    """Return whether a text names servers: ``all``, one or two groups, a group and ``3 more``."""
    groups = cluster.groups
    return (
        text == "all"
        or text in groups
        or any(
            text[:k] in groups and (text[k + 1 :] in groups or _MORE.fullmatch(text[k + 1 :]))
            for k in _positions(text, "+")
        )
    )


def _positions(text: str, sign: str) -> list[int]:
    return [k for k, character in enumerate(text) if character == sign]
