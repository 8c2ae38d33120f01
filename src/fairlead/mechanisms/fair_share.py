"""The fair shares of all users of a cluster at an instant, by a mechanism."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.mechanisms.catalogue import solve
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.model.queues import Queues
from fairlead.model.task_kinds import (
    amounts_by,
    dominant_share,
    kinds_of_tasks,
    weights_of_kinds,
)


class SharesAtInstant(NamedTuple):
    """The fair shares of a cluster at an instant."""

    share: FloatArray  # (N,): the dominant share of each user, over its weight
    amounts: FloatArray  # (N, R): the amounts of each user's tasks
    # Its users are kinds of tasks; None if no kind has a server with all resources it demands.
    allocation: Allocation | None


class FairDivider:
    """Divides a cluster at an instant among the users with waiting or running tasks.

    The mechanism divides the cluster anew among all waiting and running tasks, as if they were
    divisible. Each kind of tasks (`fairlead.model.task_kinds`) is a user of the mechanism, with the
    mean demand of its tasks, and a part of its user's weight.

    Parameters
    ----------
    user : (K,) int
        User of each of K sets of equal tasks.
    place : (K,) int
        Row of `places` of each set.
    demand : (K, R) float
        Demand of one task.
    places : (P, G) bool
        Groups of servers where tasks may run; no two rows are equal.
    weight : (N,) float
        A user of weight 0 is due nothing; its share is computed with weight 1.
    mechanism : str
        A name of the catalogue.
    queues : Queues, optional
        The tree of the N users. Each user is then a queue of its kinds.
    """

    def __init__(
        self,
        user: NDArray[np.integer[Any]],
        place: NDArray[np.integer[Any]],
        demand: FloatArray,
        places: BoolArray,
        weight: FloatArray,
        mechanism: str,
        queues: Queues | None = None,
    ) -> None:
        self._weight = np.where(weight > 0, weight, 1.0)
        self._is_due: BoolArray = weight[user] > 0
        self._places, self._mechanism = places, mechanism
        self._queues = queues
        self._demand, self._user = demand, user.astype(np.int64)
        self._kinds = kinds_of_tasks(user, place, demand)

    def held(self, running: IntArray, amount: FloatArray) -> FloatArray:
        """Return (N,) the dominant share of each user's running tasks, over its weight.

        `running` (K,) is the number of running tasks of each set, `amount` (R,) that of each
        resource on all servers.
        """
        share: FloatArray = dominant_share(self.amounts(running), amount) / self._weight
        return share

    def amounts(self, running: IntArray) -> FloatArray:
        """Return (N, R) the amounts of each user's running tasks; `running` (K,) is by set."""
        return self._sums(running, self._user, len(self._weight))

    def fair(self, active: IntArray, capacity: FloatArray, servers: IntArray) -> SharesAtInstant:
        """Return the fair share of each user.

        It is 0 for a user if no server that its tasks may use has all resources they demand. Tasks
        count as divisible, so their size does not matter. `active` (K,) is the number of
        waiting and running tasks of each set, `servers` (G,) the number of servers of each group,
        `capacity` (G, R) that of one of them. Raises RefusalError or CertificateError as `solve`
        does. O(K R), and the cost of the mechanism.
        """
        fair = np.zeros(len(self._weight))
        active = np.where(self._is_due, active, 0)
        n_kinds = len(self._kinds.user)
        tasks = np.bincount(self._kinds.of_set, active, minlength=n_kinds)
        wanted = self._sums(active, self._kinds.of_set, n_kinds)  # amounts of each kind
        here = servers > 0
        capacity = capacity[here]
        eligible = self._places[self._kinds.place][:, here]
        # By kind and group: whether the group has nothing of a resource that the kind demands.
        lacks = (wanted > 0).astype(np.float32) @ (capacity <= 0).T.astype(np.float32) > 0
        kinds = np.flatnonzero((tasks > 0) & (eligible & ~lacks).any(axis=1))
        amount = servers[here] @ capacity
        if not len(kinds):
            return SharesAtInstant(fair, np.zeros((len(fair), len(amount))), None)
        of, demand = self._kinds.user[kinds], wanted[kinds] / tasks[kinds, None]
        problem = Problem.from_arrays(
            capacity,
            demand,
            count=servers[here],
            weight=weights_of_kinds(self._weight, of, wanted[kinds], amount),
            eligible=eligible[kinds],
            task_limit=tasks[kinds],
        )
        if self._queues is not None:
            problem = problem.in_tree(_with_kinds(self._queues, self._weight, of))
        allocation = solve(problem, self._mechanism)
        taken = amounts_by(of, allocation.user_tasks[:, None] * demand, len(self._weight))
        fair[:] = dominant_share(taken, amount) / self._weight
        return SharesAtInstant(fair, taken, allocation)

    def _sums(self, tasks: IntArray, of: IntArray, length: int) -> FloatArray:
        """Return (length, R) the amounts of tasks, summed by user or by kind.

        `tasks` (K,) is the number of tasks of each set, `of` (K,) the user or kind of the set.
        """
        sets = np.flatnonzero(tasks)
        return amounts_by(of[sets], tasks[sets, None] * self._demand[sets], length)


def _with_kinds(queues: Queues, weight: FloatArray, of: IntArray) -> Queues:
    """Return the tree with users as queues; `of` (K,) is the user of each kind below them."""
    n_queues = len(queues.names)
    users = tuple(f"user {n}" for n in range(len(weight)))
    parent = np.concatenate([queues.parent, queues.of_user])
    weights = np.concatenate([queues.weight, weight])
    return Queues((*queues.names, *users), weights, parent, n_queues + of)
