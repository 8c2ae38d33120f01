"""The scheduler of jobs: users with tasks of several kinds, in sets that arrive, run and finish.

Pure: no clock, no files, no threads. A placed task is never taken back.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.errors import InputError, RefusalError
from fairlead.model.cluster import IntArray
from fairlead.model.problem import Problem
from fairlead.model.quanta import to_quanta
from fairlead.scheduler.backlog import add_to_set, take_from_set
from fairlead.scheduler.criteria import prepare_scores
from fairlead.scheduler.policy import Policy
from fairlead.scheduler.ratio_index import build_ratio_index, check_ratio_index
from fairlead.scheduler.scheduler import PORTION, refuse_unplaceable
from fairlead.scheduler.state import check_state, empty_state, give_back
from fairlead.scheduler.users_first import (
    attach,
    detach,
    fill_queue,
    let_wait,
    place_users_first,
    rerank,
    wake,
    withdraw,
)


class JobScheduler:
    """Places tasks of jobs by a policy, in a decided order, while they come and go.

    Whoever has the least score is served next, by what it holds over all its tasks: of its sets of
    tasks the first, in order of their numbers, of which a task fits somewhere.

    Parameters
    ----------
    kinds : Problem
        Servers, and one row for each kind of task: what one takes, and where it may run; its weight
        is that of its owner. Nothing waits at first, whatever task limits say.
    owner : (N,) int
        Whose tasks each kind's are: users 0..U-1, each with a kind at least.
    set_kinds : (K,) int
        The kind of each set of tasks that will be submitted, in order of arrival.
    policy : Policy
        With first-fit or best-fit, and scores that do not depend on what is free.

    Raises
    ------
    InputError
        When owners or kinds are not numbered so, or a user's kinds differ in weight.
    RefusalError
        For other policies, and for what whole tasks do not define.

    Notes
    -----
    O(S R + N (G + R) + K) for S servers.
    """

    def __init__(
        self, kinds: Problem, owner: IntArray, set_kinds: IntArray, policy: Policy
    ) -> None:
        refuse_unplaceable(kinds, policy)
        if policy.residual or policy.select not in ("first-fit", "best-fit"):
            raise RefusalError(policy.name, "jobs are placed by first-fit and best-fit only")
        _check_owners(kinds, owner, set_kinds)
        self.kinds = kinds
        self.policy = policy
        quanta = to_quanta(kinds)
        scores = prepare_scores(kinds, quanta, policy, owner)
        self.state = empty_state(kinds, quanta, scores, owner)
        self.state.pending[:] = 0
        # With one resource every server fits alike, and the earliest is the best.
        self._best_fit = policy.select == "best-fit" and kinds.n_resources > 1
        self._index = build_ratio_index(kinds, quanta, self.state)
        self._queue = fill_queue(self.state, set_kinds)

    def submit(self, number: int, tasks: int) -> None:
        """Have so many more tasks of a set wait; also for tasks that failed and run again.

        Raises
        ------
        InputError
            When the number of tasks is not positive.
        """
        if tasks < 1:
            raise InputError(f"must be a positive whole number, not {tasks}", "tasks")
        kind = self._queue.backlog.kind[number]
        self.state.pending[kind] += tasks
        add_to_set(self._queue.backlog, number, tasks)
        let_wait(self.state, self._queue, kind)

    def withdraw(self, number: int) -> int:
        """Have no task of a set wait any more, and return how many did."""
        tasks = int(self._queue.backlog.left[number])
        if tasks:
            kind = self._queue.backlog.kind[number]
            take_from_set(self._queue.backlog, number, tasks)
            self.state.pending[kind] -= tasks
            withdraw(self.state, self._queue, kind)
        return tasks

    def place(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Place tasks until nothing more fits.

        Yields
        ------
        kinds, servers, sets : (P,) int
            The placements in order, in portions; servers counted through all groups.
        """
        while True:
            kinds, servers, sets = np.empty((3, PORTION), dtype=np.int64)
            placed = place_users_first(
                self.state, self._queue, self._index, self._best_fit, kinds, servers, sets
            )
            if placed:
                yield kinds[:placed], servers[:placed], sets[:placed]
            if placed < PORTION:
                return

    def finish(self, kind: int, server: int) -> None:
        """Free what one placed task of the kind holds on the server."""
        self._detach(server)
        give_back(self.state, kind, server)
        self._attach(server)
        rerank(self.state, self._queue, kind)
        wake(self.state, self._queue, server)

    def close(self, server: int) -> None:
        """Place no more tasks on the server; those that run there go on."""
        self._detach(server)
        self.state.closed[server] = True
        self._attach(server)

    def open(self, server: int) -> None:
        """Place tasks on a closed server again."""
        self._detach(server)
        self.state.closed[server] = False
        self._attach(server)
        wake(self.state, self._queue, server)

    def check(self) -> None:
        """Assert the invariants of the state and of what is kept beside it. Slow."""
        check_state(self.state)
        if self._best_fit:
            check_ratio_index(self.state, self._index)
        self._check_backlog()

    def _detach(self, server: int) -> None:
        detach(self.state, self._queue, self._index, self._best_fit, server)

    def _attach(self, server: int) -> None:
        attach(self.state, self._queue, self._index, self._best_fit, server)

    def _check_backlog(self) -> None:
        backlog, owner = self._queue.backlog, self.state.owner
        for kind, pending in enumerate(self.state.pending.tolist()):
            mine = backlog.kind == kind
            assert backlog.left[mine].sum() == pending, "sets do not add up to what waits"
            blocked = backlog.place_in_blocked[kind] >= 0
            assert (pending > 0) == (blocked or backlog.waiting[kind]), "a kind is nowhere"
            assert not (blocked and backlog.waiting[kind]), "a kind is in two places"
        for user, first in enumerate(backlog.first_kind.tolist()):
            line, kind = [], first
            while kind >= 0:
                assert owner[kind] == user, "a kind waits in another's line"
                line.append(int(backlog.first_set[kind]))
                kind = int(backlog.next_kind[kind])
            assert line == sorted(line), "kinds wait in a wrong order"
            assert (self._queue.heaps.place[user] >= 0) == bool(line), "a user is not in the heap"


def _check_owners(kinds: Problem, owner: IntArray, set_kinds: IntArray) -> None:
    if owner.shape != (kinds.n_users,) or set(owner.tolist()) != set(range(int(owner.max()) + 1)):
        raise InputError("must number the users of all kinds from 0", "owner")
    if set_kinds.size and not 0 <= set_kinds.min() <= set_kinds.max() < kinds.n_users:
        raise InputError("must be numbers of kinds", "set_kinds")
    _, first = np.unique(owner, return_index=True)
    if (kinds.weight != kinds.weight[first][owner]).any():
        raise InputError("must be the same for all kinds of a user", "weight")
