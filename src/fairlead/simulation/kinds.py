"""The kinds of tasks of a workload: whose they are, what they take and where they may run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import BoolArray, IntArray, Users
from fairlead.model.problem import Problem
from fairlead.model.quanta import to_quanta
from fairlead.model.workload import Workload
from fairlead.simulation.slots import in_slots


@dataclass(frozen=True, eq=False)
class Kinds:
    """Kinds of tasks, N of them, of the sets of a workload.

    Attributes
    ----------
    problem : Problem
        Servers, and one row for each kind.
    owner : (N,) int
        Whose kind it is, numbered through the users that have jobs, in the workload's order.
    of_set : (K,) int
        The kind of each set.
    gang : (K,) int
        The job of each set if it is a gang with something to be placed together, else -1.
    """

    problem: Problem
    owner: IntArray
    of_set: IntArray
    gang: IntArray


def kinds_of(workload: Workload) -> Kinds:
    """Return the kinds of a workload, in O(K log K + N G)."""
    job = workload.set_job
    user = workload.job_user[job].astype(np.int64)
    is_gang = workload.job_gang[job] & (workload.job_tasks[job] > 1)
    n_shapes, n_places = len(workload.shapes), len(workload.places)
    key = (user * n_shapes + workload.set_shape) * n_places + workload.set_place
    _, first, of_set = np.unique(key, return_index=True, return_inverse=True)
    _, owner = np.unique(user[first], return_inverse=True)
    n_kinds = len(first)
    users = Users(
        names=tuple(map(str, range(n_kinds))),
        demand=workload.shapes[workload.set_shape[first]],
        weight=workload.weight[user[first]],
        eligible=workload.places[workload.set_place[first]],
        task_limit=np.full(n_kinds, np.inf),
    )
    gang = np.where(is_gang, job, -1).astype(np.int64)
    return Kinds(Problem(workload.cluster, users), owner, of_set.astype(np.int64), gang)


def unplaceable_sets(workload: Workload, kinds: Kinds, slots: int = 0) -> BoolArray:
    """Return (K,) which sets cannot run even on the empty cluster of all servers.

    A task fits on no server that it may run on; or a gang has more tasks of one shape than all the
    servers hold at once on which they may run, which makes all its sets unplaceable. Decided in the
    amounts, or slots, that the scheduler counts in. Cost O(N G R + K).
    """
    problem = kinds.problem
    if slots:
        problem = in_slots(problem, slots)
    quanta = to_quanta(problem)
    enough = max(int(workload.set_tasks.sum()), 1)  # so that no sum over servers overflows
    fit = np.zeros((problem.n_users, problem.n_groups), dtype=np.int64)
    for g, capacity in enumerate(quanta.capacity):
        taken = np.maximum(quanta.demand, 1)
        tasks = np.where(quanta.demand > 0, capacity // taken, np.iinfo(np.int64).max)
        fit[:, g] = np.minimum(tasks.min(axis=1), enough)
    eligible = problem.users.eligible
    room = fit * problem.count
    too_large: BoolArray = (room * eligible).sum(axis=1)[kinds.of_set] < np.where(
        kinds.gang >= 0, workload.set_tasks, 1
    )
    too_large |= _alike_too_large(workload, kinds, room)
    gangs_too_large = np.unique(kinds.gang[too_large & (kinds.gang >= 0)])
    return too_large | np.isin(kinds.gang, gangs_too_large)


def _alike_too_large(workload: Workload, kinds: Kinds, room: IntArray) -> BoolArray:
    """Return (K,) sets of gangs whose sets of that shape have more tasks than fit at once.

    `room` (N, G) is how many tasks of each kind fit on all servers of each group.
    """
    too_large = np.zeros(workload.n_sets, dtype=bool)
    members = np.flatnonzero(kinds.gang >= 0)
    if not len(members):
        return too_large
    key = kinds.gang[members] * len(workload.shapes) + workload.set_shape[members]
    _, first, alike = np.unique(key, return_index=True, return_inverse=True)
    needed = np.bincount(alike, workload.set_tasks[members])
    somewhere = np.zeros((len(first), room.shape[1]), dtype=bool)
    np.logical_or.at(somewhere, alike, workload.places[workload.set_place[members]])
    enough = (room[kinds.of_set[members[first]]] * somewhere).sum(axis=1) >= needed
    too_large[members] = ~enough[alike]
    return too_large
