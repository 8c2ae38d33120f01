"""What a fair mechanism would give everybody of a cluster as it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.mechanisms.catalogue import solve
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.problem import Problem


class FairShare(NamedTuple):
    """What is fair."""

    share: FloatArray  # (N,): the weighted dominant share of each user
    # The mechanism's answer, for each kind of a user's tasks, with its certificate; None where
    # nothing there can serve anybody.
    allocation: Allocation | None


class FairShares:
    """Divides a cluster as it is at an instant among those who want something of it then.

    A user counts with the tasks that wait or run: it has as many tasks, and each takes the mean of
    what they take; the mechanism may give it any part of that. A user whose tasks differ in where
    they may run, or in which resources they take at all, counts as several, one for each such
    *kind* of tasks, since a mean of them would fit where none of them does, or nowhere. The
    weights of a user's kinds are those under which they are served in proportion to their tasks
    when the user is at its own level: ``phi s[k] / S``, with s[k] the dominant share of the kind's
    tasks all together and S that of all of the user's. (That is phi for a user with one kind.)

    Parameters
    ----------
    user, place : (K,) int
        Of K sets of alike tasks: whose they are, and where they may run, a row of `places`.
    demand : (K, R) float
        What a task takes.
    places : (P, G) bool
        Groups of servers where tasks may run; rows differ.
    weight : (N,) float
        A user of weight 0 is due nothing; what it holds is counted as of weight 1.
    mechanism : str
        A name of the catalogue.
    """

    def __init__(
        self,
        user: NDArray[np.integer[Any]],
        place: NDArray[np.integer[Any]],
        demand: FloatArray,
        places: BoolArray,
        weight: FloatArray,
        mechanism: str,
    ) -> None:
        self._weight = np.where(weight > 0, weight, 1.0)
        self._is_due: BoolArray = weight[user] > 0
        self._places, self._mechanism = places, mechanism
        pattern = np.zeros(len(demand), dtype=np.int64)  # of resources that are taken at all
        for takes in (demand > 0).T:
            _, pattern = np.unique(2 * pattern + takes, return_inverse=True)
        sizes = (len(weight), len(places), int(pattern.max(initial=0)) + 1)
        keys = np.ravel_multi_index((user, place, pattern), sizes)
        kinds, kind_of_set = np.unique(keys, return_inverse=True)
        self._demand, self._user = demand, user.astype(np.int64)
        self._kind_of_set: IntArray = kind_of_set
        self._kind_user, self._kind_place, _ = np.unravel_index(kinds, sizes)

    def held(self, running: IntArray, amount: FloatArray) -> FloatArray:
        """Return (N,) weighted dominant shares of `running` (K,) tasks in all of `amount` (R,)."""
        taken = self._sums(running, self._user, len(self._weight))
        share: FloatArray = _share(taken, amount) / self._weight
        return share

    def fair(self, active: IntArray, capacity: FloatArray, servers: IntArray) -> FairShare:
        """Return what the mechanism would give each user: 0 for those that nothing there can serve.

        `active` (K,) tasks wait or run; `capacity` (G, R) is that of one of `servers` (G,). Raises
        RefusalError or CertificateError as `solve` does. O(K R), and the cost of the mechanism.
        """
        fair = np.zeros(len(self._weight))
        active = np.where(self._is_due, active, 0)
        n_kinds = len(self._kind_user)
        tasks = np.bincount(self._kind_of_set, active, minlength=n_kinds)
        wanted = self._sums(active, self._kind_of_set, n_kinds)
        here = servers > 0
        capacity = capacity[here]
        eligible = self._places[self._kind_place][:, here]
        lacks = (wanted > 0).astype(np.float32) @ (capacity <= 0).T.astype(np.float32) > 0
        kinds = np.flatnonzero((tasks > 0) & (eligible & ~lacks).any(axis=1))
        if not len(kinds):
            return FairShare(fair, None)
        amount = servers[here] @ capacity
        of, demand = self._kind_user[kinds], wanted[kinds] / tasks[kinds, None]
        problem = Problem.from_arrays(
            capacity,
            demand,
            count=servers[here],
            weight=self._weights(wanted[kinds], of, amount),
            eligible=eligible[kinds],
            task_limit=tasks[kinds],
        )
        allocation = solve(problem, self._mechanism)
        taken = _by(of, allocation.user_tasks[:, None] * demand, len(self._weight))
        fair[:] = _share(taken, amount) / self._weight
        return FairShare(fair, allocation)

    def _weights(self, wanted: FloatArray, of: IntArray, amount: FloatArray) -> FloatArray:
        whole = _share(_by(of, wanted, len(self._weight)), amount)[of]
        weights: FloatArray = self._weight[of] * _share(wanted, amount) / whole
        return weights

    def _sums(self, tasks: IntArray, of: IntArray, length: int) -> FloatArray:
        """Return (length, R) what `tasks` (K,) of each set take, by user or by kind."""
        sets = np.flatnonzero(tasks)
        return _by(of[sets], tasks[sets, None] * self._demand[sets], length)


def _by(of: Any, amounts: FloatArray, length: int) -> FloatArray:
    columns = [np.bincount(of, column, minlength=length) for column in amounts.T]
    return np.stack(columns, axis=1)


def _share(taken: FloatArray, amount: FloatArray) -> FloatArray:
    """Return the dominant share of each row; a resource that is not there is nobody's."""
    there: BoolArray = amount > 0
    share: FloatArray = (taken[:, there] / amount[there]).max(axis=1, initial=0.0)
    return share
