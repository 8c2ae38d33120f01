"""Kinds of tasks: the tasks of a user with the same eligible servers and demanded resources.

Fair shares take the mean demand of the tasks of a kind. Tasks of different kinds are not averaged,
because the mean might fit on servers where none of the tasks fits, or on no server.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.model.cluster import BoolArray, FloatArray, IntArray


class TaskKinds(NamedTuple):
    """The kinds of sets of equal tasks, in the order of users: M kinds, K sets."""

    of_set: IntArray  # (K,): the kind of each set
    user: IntArray  # (M,): the user of each kind
    place: IntArray  # (M,): the number of the kind's set of eligible servers


def kinds_of_tasks(
    user: NDArray[np.integer[Any]], place: NDArray[np.integer[Any]], demand: FloatArray
) -> TaskKinds:
    """Return the kinds of K sets of tasks; O(K R log K).

    For each set, `user` (K,) is the user, `place` (K,) the number of its eligible servers, and
    `demand` (K, R) the demand of one task.
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

    So at equal levels each kind of a user gets the same fraction of its tasks; a single kind has
    weight phi.
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
