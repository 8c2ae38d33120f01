"""Kinds of tasks of a workload, and the sets of tasks that can never run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import BoolArray, IntArray, Users
from fairlead.model.devices import fitting_by_device
from fairlead.model.problem import Problem
from fairlead.model.quanta import to_quanta
from fairlead.model.workload import Workload


@dataclass(frozen=True, eq=False)
class WorkloadKinds:
    """The N kinds of tasks (user, demand, placement constraint) of the K sets of a workload.

    These are finer than those of `fairlead.model.task_kinds`, whose tasks may differ in amounts.
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
    # No server counts with more tasks than the workload has, so that no sum overflows.
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
