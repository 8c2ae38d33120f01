"""Kinds of tasks, and the tasks of a workload that can never run.

The tasks of a kind are of one user, with the same eligible servers and demanded resources. Fair
shares take the mean demand of the tasks of a kind. Tasks of different kinds are not averaged,
because the mean might fit on servers where none of the tasks fits, or on no server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.model.cluster import BoolArray, FloatArray, IntArray, Users, fitting_by_device
from fairlead.model.problem import Problem
from fairlead.model.quanta import to_quanta
from fairlead.model.workload import Workload


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


def amounts_by(owner: NDArray[np.integer[Any]], amounts: FloatArray, length: int) -> FloatArray:
    """Return (length, R) the sums of the rows of `amounts` (K, R) by their `owner` (K,)."""
    columns = [np.bincount(owner, column, minlength=length) for column in amounts.T]
    return np.stack(columns, axis=1)


def dominant_share(taken: FloatArray, capacity: FloatArray) -> FloatArray:
    """Return the dominant shares of rows `taken` (K, R); resources of capacity 0 do not count."""
    is_there: BoolArray = capacity > 0
    share: FloatArray = (taken[:, is_there] / capacity[is_there]).max(axis=1, initial=0.0)
    return share


@dataclass(frozen=True, eq=False)
class WorkloadKinds:
    """The N kinds of tasks (user, demand, placement constraint) of the K sets of a workload.

    These are finer than `TaskKinds`, whose tasks may differ in amounts.
    """

    problem: Problem  # servers, and one row for each kind
    of_set: IntArray  # (K,): kind of each set
    gang: IntArray  # (K,): job of each set if it is a gang of several tasks, else -1


def kinds_of(workload: Workload) -> WorkloadKinds:
    """Return the kinds of a workload, in O(K log K + N G)."""
    job = workload.set_job
    user = workload.job_user[job].astype(np.int64)
    is_gang = workload.job_gang[job] & (workload.job_tasks[job] > 1)
    n_shapes, n_places = len(workload.shapes), len(workload.places)
    key = (user * n_shapes + workload.set_shape) * n_places + workload.set_place
    _, first, of_set = np.unique(key, return_index=True, return_inverse=True)
    n_kinds = len(first)
    users = Users(
        names=tuple(map(str, range(n_kinds))),
        demand=workload.shapes[workload.set_shape[first]],
        weight=workload.weight[user[first]],
        eligible=workload.places[workload.set_place[first]],
        task_limit=np.full(n_kinds, np.inf),
    )
    gang = np.where(is_gang, job, -1).astype(np.int64)
    return WorkloadKinds(Problem(workload.cluster, users), of_set.astype(np.int64), gang)


def unplaceable_sets(
    workload: Workload, kinds: WorkloadKinds | None = None, problem: Problem | None = None
) -> BoolArray:
    """Return (K,) bool: sets that cannot run even on the empty cluster of all servers.

    A set is unplaceable if

    - its task fits on no server where it may run, or
    - its gang has more tasks of one shape than fit together on the servers where they may run, or
    - another set of its gang is unplaceable.

    Amounts are in the scheduler's quanta. `problem`, by default ``kinds.problem``, may have other
    amounts of the kinds, such as slots. O(N G R + K).
    """
    kinds = kinds_of(workload) if kinds is None else kinds
    problem = kinds.problem if problem is None else problem
    quanta = to_quanta(problem)
    # Tasks on a server are counted up to those of the workload, so that no sum overflows.
    n_tasks = max(int(workload.set_tasks.sum()), 1)
    fit = np.zeros((problem.n_users, problem.n_groups), dtype=np.int64)
    for g, capacity in enumerate(quanta.capacity):
        tasks = capacity // np.maximum(quanta.demand, 1)  # (N, R): by each resource alone
        for r, unit in quanta.device.items():
            tasks[:, r] = fitting_by_device(int(capacity[r]), quanta.demand[:, r], unit)
        tasks[quanta.demand == 0] = np.iinfo(np.int64).max
        fit[:, g] = np.minimum(tasks.min(axis=1), n_tasks)
    room = fit * problem.count
    too_large: BoolArray = (room * problem.users.eligible).sum(axis=1)[kinds.of_set] < np.where(
        kinds.gang >= 0, workload.set_tasks, 1
    )
    members = np.flatnonzero(kinds.gang >= 0)
    if len(members):
        too_large[members] |= _too_large_together(workload, kinds, members, room)
    gangs_too_large = np.unique(kinds.gang[too_large & (kinds.gang >= 0)])
    return too_large | np.isin(kinds.gang, gangs_too_large)


def _too_large_together(
    workload: Workload, kinds: WorkloadKinds, members: IntArray, room: IntArray
) -> BoolArray:
    """Return, for each set of a gang, whether the gang has more tasks of its shape than fit.

    `members` are the sets of gangs. `room` (N, G) is the number of tasks of each kind that fit on
    all servers of each group.
    """
    key = kinds.gang[members] * len(workload.shapes) + workload.set_shape[members]
    _, first, of_key = np.unique(key, return_index=True, return_inverse=True)
    needed = np.bincount(of_key, workload.set_tasks[members])
    # Groups on which some set of the gang and shape may run.
    allowed = np.zeros((len(first), room.shape[1]), dtype=bool)
    np.logical_or.at(allowed, of_key, workload.places[workload.set_place[members]])
    enough = (room[kinds.of_set[members[first]]] * allowed).sum(axis=1) >= needed
    too_large: BoolArray = ~enough[of_key]
    return too_large
