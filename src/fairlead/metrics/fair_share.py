"""What a fair mechanism would give everybody at one instant of a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.mechanisms.catalogue import solve
from fairlead.metrics.snapshots import Snapshot
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.model.workload import Workload


class FairShares:
    """Divides the cluster as it is at an instant among those who want something of it then.

    A user counts with the tasks that wait or run: it has as many tasks, and each takes the mean of
    what they take, of which the mechanism gives it any part. A user whose tasks differ in where
    they may run, or in which resources they take at all, counts as several, one for each such
    *kind* of tasks, since a mean of them would fit where none of them does, or nowhere. The
    weights of a user's kinds are those under which they are served in proportion to their tasks
    when the user is at its own level: ``phi s[k] / S``, with s[k] the dominant share of the kind's
    tasks all together and S that of all of the user's. (That is phi for a user with one kind.)

    Parameters
    ----------
    workload : Workload
    mechanism : str
        A name of the catalogue.
    """

    def __init__(self, workload: Workload, mechanism: str) -> None:
        self._workload, self._mechanism = workload, mechanism
        demand = workload.shapes[workload.set_shape]
        user = workload.job_user[workload.set_job]
        patterns, pattern_of_shape = np.unique(workload.shapes > 0, axis=0, return_inverse=True)
        pattern = pattern_of_shape.reshape(-1)[workload.set_shape]
        sizes = (workload.n_users, len(workload.places), len(patterns))
        keys = np.ravel_multi_index((user, workload.set_place, pattern), sizes)
        kinds, kind_of_set = np.unique(keys, return_inverse=True)
        self._demand, self._user = demand, user.astype(np.int64)
        self._kind_of_set: IntArray = kind_of_set
        self._kind_user, self._kind_place, _ = np.unravel_index(kinds, sizes)

    def held(self, snapshot: Snapshot, amount: FloatArray) -> FloatArray:
        """Return (N,) the weighted dominant share that each user holds.

        Parameters
        ----------
        snapshot : Snapshot
        amount : (R,) float
            What there is of each resource.
        """
        taken = self._sums(snapshot.running, self._user, self._workload.n_users)
        share: FloatArray = _share(taken, amount) / self._workload.weight
        return share

    def fair(self, snapshot: Snapshot, servers: IntArray) -> FloatArray:
        """Return (N,) the weighted dominant share that the mechanism would give each user.

        Parameters
        ----------
        snapshot : Snapshot
        servers : (G,) int
            Servers of each group that are there.

        Raises
        ------
        RefusalError
            When the mechanism's definition does not admit the problem.
        CertificateError
            When no answer was found that could be proved.

        Notes
        -----
        0 for users that nothing there can serve. Cost O(K R), and that of the mechanism.
        """
        workload = self._workload
        fair = np.zeros(workload.n_users)
        n_kinds = len(self._kind_user)
        tasks = np.bincount(self._kind_of_set, snapshot.active, minlength=n_kinds)
        wanted = self._sums(snapshot.active, self._kind_of_set, n_kinds)
        here = servers > 0
        capacity = workload.cluster.capacity[here]
        eligible = workload.places[self._kind_place][:, here]
        lacks = (wanted > 0).astype(np.float32) @ (capacity <= 0).T.astype(np.float32) > 0
        kinds = np.flatnonzero((tasks > 0) & (eligible & ~lacks).any(axis=1))
        if not len(kinds):
            return fair
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
        given = solve(problem, self._mechanism).user_tasks
        taken = _by(of, given[:, None] * demand, workload.n_users)
        fair[:] = _share(taken, amount) / workload.weight
        return fair

    def _weights(self, wanted: FloatArray, of: IntArray, amount: FloatArray) -> FloatArray:
        n_users = self._workload.n_users
        whole = _share(_by(of, wanted, n_users), amount)[of]
        weights: FloatArray = self._workload.weight[of] * _share(wanted, amount) / whole
        return weights

    def _sums(self, tasks: IntArray, of: IntArray, length: int) -> FloatArray:
        """Return (length, R) what so many tasks of each set take, by user or by kind."""
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
