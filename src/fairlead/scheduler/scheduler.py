"""The scheduler: tasks are submitted, placed and finish; servers close and open.

Pure: no clock, no files, no threads. A placed task is never taken back.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.errors import RefusalError
from fairlead.model.cluster import IntArray
from fairlead.model.problem import Problem
from fairlead.model.quanta import Quanta, to_quanta
from fairlead.scheduler import entries
from fairlead.scheduler.criteria import prepare_scores
from fairlead.scheduler.policy import Policy
from fairlead.scheduler.running import Running, checked_number, checked_tasks
from fairlead.scheduler.selection import make_selection
from fairlead.scheduler.state import State, check_state, empty_state

# Placements are handed over in portions, so that an interruption is heard.
PORTION = 2**18


class Scheduler:
    """Places whole tasks by a policy, one at a time, in a decided order.

    Parameters
    ----------
    problem : Problem
        Servers and users. Everybody waits with all its tasks: the whole part of its limit, or
        without end.
    policy : Policy
        Who is next and where.
    seed : int or SeedSequence
        For policies that are random.

    Raises
    ------
    RefusalError
        When the problem has given rates or weights per resource, or counts that 64 bits do not
        hold.

    Notes
    -----
    O(S R + N (G + R)) for S servers, and N heap operations.
    """

    def __init__(
        self, problem: Problem, policy: Policy, seed: int | np.random.SeedSequence = 0
    ) -> None:
        refuse_unplaceable(problem, policy)
        self.problem = problem
        self.policy = policy
        self.quanta: Quanta = to_quanta(problem)
        self.state: State = empty_state(
            problem, self.quanta, prepare_scores(problem, self.quanta, policy)
        )
        self._running = Running()
        self._selection = make_selection(
            problem, self.quanta, policy, self.state, np.random.default_rng(seed)
        )

    def place(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Place tasks until nothing more fits.

        Yields
        ------
        users, servers : (P,) int
            The placements in order, in portions; servers counted through all groups.
        """
        for users, servers in self.fill():
            self._running.start(users, servers)
            yield users, servers

    def fill(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Place tasks of which none will finish; otherwise the same as `place`."""
        while True:
            users = np.empty(PORTION, dtype=np.int64)
            servers = np.empty(PORTION, dtype=np.int64)
            placed = self._selection.place(users, servers)
            if placed:
                yield users[:placed], servers[:placed]
            if placed < PORTION:
                return

    def finish(self, user: int, server: int) -> None:
        """Free what one placed task of the user holds on the server.

        Raises
        ------
        InputError
            When no task of the user runs there.
        """
        user = checked_number(user, len(self.state.placed), "user")
        server = self._server(server)
        self._running.finish(user, server)
        self._selection.forget(server)
        entries.give_back(self.state, user, server)
        self._selection.note(server)
        self._selection.requeue(user)
        self._selection.wake(server)

    def submit(self, user: int, tasks: int) -> None:
        """Add tasks to those that wait.

        Raises
        ------
        InputError
            When there is no such user, or the number is not positive, or too large.
        """
        user = checked_number(user, len(self.state.placed), "user")
        tasks = checked_tasks(tasks, int(self.state.pending[user]))
        self.state.pending[user] += tasks
        self._selection.submit(user, tasks)

    def close(self, server: int) -> None:
        """Place no more tasks on the server; those that run there go on.

        Raises
        ------
        InputError
            When there is no such server.
        """
        server = self._server(server)
        self._selection.forget(server)
        self.state.closed[server] = True
        self._selection.note(server)

    def open(self, server: int) -> None:
        """Place tasks on a closed server again.

        Raises
        ------
        InputError
            When there is no such server.
        """
        server = self._server(server)
        self._selection.forget(server)
        self.state.closed[server] = False
        self._selection.note(server)
        self._selection.wake(server)

    def check(self) -> None:
        """Assert the invariants of the state and of what is kept beside it. Slow."""
        check_state(self.state)
        self._running.check(self.state, np.ones(len(self.state.group), dtype=bool))
        self._selection.check()

    def _server(self, server: int) -> int:
        return checked_number(server, len(self.state.group), "server")


def refuse_unplaceable(problem: Problem, policy: Policy) -> None:
    """Raise `RefusalError` for what whole tasks on whole servers do not define."""
    if problem.users.rates is not None:
        raise RefusalError(policy.name, "given rates divide a server's time; tasks take amounts")
    if problem.users.resource_weight is not None:
        raise RefusalError(policy.name, "weights per resource are defined on one pool only")
