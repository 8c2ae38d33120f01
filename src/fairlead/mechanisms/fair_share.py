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

    share: FloatArray  # (N,): the weighted dominant share of each user
    amounts: FloatArray  # (N, R): the amounts of its tasks
    allocation: Allocation | None  # of the kinds of tasks; None if no server fits any of them


class FairDivider:
    """Divides a cluster at an instant among the users with waiting or running tasks.

    The mechanism divides all waiting and running tasks anew, as if they were divisible. Each kind
    of tasks (`fairlead.model.task_kinds`) is a user of the mechanism, with the mean demand of its
    tasks, and a part of the user's weight.

    Parameters
    ----------
    user : (K,) int
        User of each of K sets of equal tasks.
    place : (K,) int
        Row of `places` of each set.
    demand : (K, R) float
        Demand of one task.
    places : (P, G) bool
        Groups of servers where tasks may run; rows differ.
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
        """Return (N,) weighted dominant shares of `running` (K,) tasks of a total `amount` (R,)."""
        share: FloatArray = dominant_share(self.amounts(running), amount) / self._weight
        return share

    def amounts(self, running: IntArray) -> FloatArray:
        """Return (N, R) the amounts of `running` (K,) tasks of each user."""
        return self._sums(running, self._user, len(self._weight))

    def fair(self, active: IntArray, capacity: FloatArray, servers: IntArray) -> SharesAtInstant:
        """Return the fair share of each user: 0 for users whose tasks fit no server.

        `active` (K,) tasks wait or run; `capacity` (G, R) is that of one of `servers` (G,). Raises
        RefusalError or CertificateError as `solve` does. O(K R), and the cost of the mechanism.
        """
        fair = np.zeros(len(self._weight))
        active = np.where(self._is_due, active, 0)
        n_kinds = len(self._kinds.user)
        tasks = np.bincount(self._kinds.of_set, active, minlength=n_kinds)
        wanted = self._sums(active, self._kinds.of_set, n_kinds)
        here = servers > 0
        capacity = capacity[here]
        eligible = self._places[self._kinds.place][:, here]
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
        """Return (length, R) the amounts of `tasks` (K,) of each set, by user or by kind."""
        sets = np.flatnonzero(tasks)
        return amounts_by(of[sets], tasks[sets, None] * self._demand[sets], length)


def _with_kinds(queues: Queues, weight: FloatArray, of: IntArray) -> Queues:
    """Return the tree with users as queues; `of` (K,) is the user of each kind below them."""
    n_queues = len(queues.names)
    users = tuple(f"user {n}" for n in range(len(weight)))
    parent = np.concatenate([queues.parent, queues.of_user])
    weights = np.concatenate([queues.weight, weight])
    return Queues((*queues.names, *users), weights, parent, n_queues + of)
