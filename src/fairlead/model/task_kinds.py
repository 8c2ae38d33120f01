"""Kinds of tasks: those of a user with the same eligible servers and the same demanded resources.

The mean demand of tasks of different kinds might fit where none of them fits, or nowhere. So each
kind has its own mean.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.model.cluster import BoolArray, FloatArray, IntArray


class TaskKinds(NamedTuple):
    """The M kinds of K sets of equal tasks, in the order of users."""

    of_set: IntArray  # (K,): the kind of each set
    user: IntArray  # (M,)
    place: IntArray  # (M,): number of the eligible servers


def kinds_of_tasks(
    user: NDArray[np.integer[Any]], place: NDArray[np.integer[Any]], demand: FloatArray
) -> TaskKinds:
    """Return the kinds of sets of tasks, by user, place (K,) and demand (K, R). O(K R log K)."""
    resources = np.zeros(len(demand), dtype=np.int64)  # a number of each set of resources
    for takes in (demand > 0).T:
        _, resources = np.unique(2 * resources + takes, return_inverse=True)
    columns = (user, place, resources)
    sizes = tuple(int(column.max(initial=0)) + 1 for column in columns)
    keys = np.ravel_multi_index(columns, sizes)
    kinds, of_set = np.unique(keys, return_inverse=True)
    of_user, of_place, _ = np.unravel_index(kinds, sizes)
    return TaskKinds(of_set, of_user, of_place)


def weights_of_kinds(
    weight: FloatArray, user: IntArray, wanted: FloatArray, amount: FloatArray
) -> FloatArray:
    """Return the weight (M,) of each kind: ``phi s / S``.

    phi is the `weight` (N,) of its `user` (M,); s the dominant share of all tasks of the kind,
    which take `wanted` (M, R) of the cluster's `amount` (R,); and S that of all tasks of the user.
    So the kinds of a user get tasks in proportion to their tasks; a single kind has weight phi.
    """
    whole = dominant_share(amounts_by(user, wanted, len(weight)), amount)[user]
    weights: FloatArray = weight[user] * (dominant_share(wanted, amount) / whole)
    return weights


def amounts_by(of: NDArray[np.integer[Any]], amounts: FloatArray, length: int) -> FloatArray:
    """Return the sums (length, R) of the rows of `amounts` (K, R) by their number `of` (K,)."""
    columns = [np.bincount(of, column, minlength=length) for column in amounts.T]
    return np.stack(columns, axis=1)


def dominant_share(taken: FloatArray, amount: FloatArray) -> FloatArray:
    """Return the dominant share of each row; a resource with amount 0 does not count."""
    there: BoolArray = amount > 0
    share: FloatArray = (taken[:, there] / amount[there]).max(axis=1, initial=0.0)
    return share
