"""The scheduler of jobs: users with tasks of several kinds, in sets that arrive, run and finish.

Pure: no clock, no files, no threads. A placed task is never taken back.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.errors import InputError, RefusalError
from fairlead.model.cluster import BoolArray, IntArray
from fairlead.model.problem import Problem
from fairlead.model.quanta import Quanta, exact, to_quanta
from fairlead.optimize.double_double import to_pairs
from fairlead.scheduler import entries
from fairlead.scheduler.criteria import FIXED, SUMMED, Scores, prepare_scores, weights_of
from fairlead.scheduler.declining import (
    Refusals,
    no_refusals,
)
from fairlead.scheduler.gangs import gangs_of
from fairlead.scheduler.jobs_check import check_backlog
from fairlead.scheduler.offers import Round, no_round
from fairlead.scheduler.online_policy import OnlinePolicy
from fairlead.scheduler.placing import Starts, room_for_starts
from fairlead.scheduler.queue import Queue, fill_queue
from fairlead.scheduler.ratio_index import RatioIndex, build_ratio_index, check_ratio_index
from fairlead.scheduler.running import Running, checked_number, checked_tasks
from fairlead.scheduler.searching import BEST_FIT, BEST_FIT_FIRST, FIRST_FIT, SELECT_CODES
from fairlead.scheduler.slots import in_slots
from fairlead.scheduler.state import (
    State,
    check_state,
    empty_server,
    empty_state,
    recount_totals,
)

# Placements are handed over in portions.
PORTION = 2**12
# For how long Mesos does not offer again what was declined, unless it is told otherwise.
REFUSE_SECONDS = 5.0
# Users times servers, of which an oblivious policy keeps 16 bytes each.
MOST_REFUSALS = 10**8


class JobScheduler:
    """Places tasks of jobs by a policy, in a decided order, while they come and go.

    Whoever has the least score is served next, by what it holds over all its tasks: of its sets of
    tasks the first, in order of their numbers, of which a task fits somewhere (of a gang: all of
    it).

    Parameters
    ----------
    kinds : Problem
        Servers, and one row for each kind of task: what one takes, and where it may run; its weight
        is that of its owner. Nothing waits at first, whatever task limits say.
    owner : (N,) int
        Whose tasks each kind's are: users 0..U-1, each with a kind at least.
    set_kinds : (K,) int
        The kind of each set of tasks that will be submitted, in order of arrival.
    policy : OnlinePolicy
        Who is next and where.
    set_gang : (K,) int, optional
        Which gang each set is of, adjacent sets for one gang, -1 for none. A gang's sets have a
        kind each, that no other set has. No gangs when absent.
    strict_fifo : bool
        Whether nothing of a user passes over its first waiting set (of a gang: all of it).
    there : (S,) bool, optional
        Which servers are there at first; all when absent.
    seed : int
        For policies that are random.
    refuse_seconds : float
        How long a declined offer is not made again, where offers are oblivious.

    Raises
    ------
    InputError
        When owners or kinds are not numbered so, or a user's kinds differ in weight.
    RefusalError
        For what whole tasks do not define.

    Notes
    -----
    O(S R + N (G + R) + K) for S servers. Scores relate to the servers that are there, draining
    ones included; best-fit's H to all servers that are ever there.
    """

    def __init__(
        self,
        kinds: Problem,
        owner: IntArray,
        set_kinds: IntArray,
        policy: OnlinePolicy,
        *,
        set_gang: IntArray | None = None,
        strict_fifo: bool = False,
        there: BoolArray | None = None,
        seed: int = 0,
        refuse_seconds: float = REFUSE_SECONDS,
    ) -> None:
        if kinds.users.rates is not None:
            raise RefusalError(policy.name, "given rates divide a server's time")
        if kinds.users.resource_weight is not None:
            raise RefusalError(policy.name, "weights per resource are defined on one pool only")
        gang = np.full(len(set_kinds), -1) if set_gang is None else set_gang
        _check_owners(kinds, owner, set_kinds)
        _check_gangs(set_kinds, gang)
        self.kinds = kinds if policy.slots is None else in_slots(kinds, policy.slots)
        self.policy = policy
        self.owner = owner
        self.select = SELECT_CODES[policy.fill.select]
        if self.select == BEST_FIT and kinds.n_resources == 1:
            # With one resource every server fits alike, and the earliest is the best.
            self.select = FIRST_FIT
        self._quanta: Quanta = to_quanta(self.kinds)
        self._weights = weights_of(self.kinds)
        self._count = self.kinds.count.copy()
        self.state: State = empty_state(self.kinds, self._quanta, self._scores(), owner)
        self.state.pending[:] = 0
        self.index: RatioIndex = build_ratio_index(
            self.kinds, self._quanta, self.state, every_server=self.select == BEST_FIT_FIRST
        )
        gangs = gangs_of(set_kinds, gang, kinds.n_users)
        self.by_key = not policy.fill.residual and self.select != BEST_FIT_FIRST
        self.by_key |= policy.fill.select == "joint"
        exact_keys = self.by_key and policy.fill.select not in ("joint", "rrr")
        self.queue: Queue = fill_queue(
            self.state, set_kinds, gangs, strict=strict_fifo, exact_keys=exact_keys
        )
        self.round: Round = no_round(len(self.state.group), seed, policy.fill.criterion == "ps-dsf")
        self.refusals: Refusals = self._no_refusals(refuse_seconds)
        self._running = Running()
        self.present = np.ones(len(self.state.group), dtype=bool)
        if there is not None and there.shape != self.present.shape:
            raise InputError(f"must have shape {self.present.shape}, not {there.shape}", "there")
        for server in [] if there is None else np.flatnonzero(~there).tolist():
            self._remove(server)
        if not self.present.all():
            self._rescore()

    def submit(self, number: int, tasks: int) -> None:
        """Have so many more tasks of a set wait; also for tasks that failed and run again.

        All sets of a gang are submitted before anything is placed.

        Raises
        ------
        InputError
            When there is no such set, or the number of tasks is not positive, or too large.
        """
        number = checked_number(number, len(self.queue.backlog.kind), "set")
        waiting = int(self.state.pending[self.queue.backlog.kind[number]])
        tasks = checked_tasks(tasks, waiting)
        entries.submit_set(self.state, self.queue, number, tasks)
        if self.policy.oblivious:
            entries.revive(self.refusals, self.state.owner[self.queue.backlog.kind[number]])

    def withdraw(self, number: int) -> int:
        """Have no task of a set wait any more, and return how many did; of a gang: of all sets.

        Raises
        ------
        InputError
            When there is no such set.
        """
        number = checked_number(number, len(self.queue.backlog.kind), "set")
        return entries.withdraw_set(self.state, self.queue, number)

    def place(self, now: float = 0.0) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Place tasks until nothing more fits.

        Parameters
        ----------
        now : float
            The moment, in seconds, for policies that remember for a while what was declined.

        Yields
        ------
        kinds, servers, sets : (P,) int
            The placements in order, in portions; servers counted through all groups. All are taken
            before anything else happens.
        """
        largest_gang = int(self.state.pending[self.queue.gangs.set_of >= 0].sum())
        while True:
            starts = room_for_starts(PORTION, largest_gang)
            placed = self._serve(starts, now)
            if placed:
                self._running.start(starts.kind[:placed], starts.server[:placed])
                yield starts.kind[:placed], starts.server[:placed], starts.number[:placed]
            if starts.is_over[0]:
                return

    def _serve(self, starts: Starts, now: float) -> int:
        parts = (self.state, self.queue, self.index)
        if self.policy.oblivious:
            return entries.serve_by_offers(*parts, self.round, self.refusals, starts, now)
        if self.policy.is_random:
            return entries.serve_in_rounds(*parts, self.round, starts)
        serve = entries.serve_by_key if self.by_key else entries.serve_by_scan
        return serve(*parts, self.select, starts)

    def finish(self, kind: int, server: int, now: float = 0.0) -> None:
        """Free what one placed task of the kind holds on the server.

        Raises
        ------
        InputError
            When no task of the kind runs there.
        """
        kind = checked_number(kind, len(self.state.placed), "kind")
        server = self._server(server)
        self._running.finish(kind, server)
        self.free(kind, server, now)

    def free(self, kind: int, server: int, now: float = 0.0) -> None:
        """Free what a task holds of which the caller knows that it runs there, as a replay does."""
        entries.finish_task(self.state, self.queue, self.index, self.select, kind, server)
        self._note_more(server, now)

    def drain(self, server: int) -> None:
        """Place no more tasks on the server; those that run there go on.

        Raises
        ------
        InputError
            When there is no such server.
        """
        server = self._server(server)
        self._detach(server)
        self.state.closed[server] = True
        self._attach(server)

    def leave(self, server: int) -> None:
        """Take a server away on which nothing runs any more.

        Raises
        ------
        InputError
            When there is no such server, or something runs there.
        """
        server = self._server(server)
        capacity = self.state.capacity[self.state.group[server]]
        if self.present[server] and (self.state.free[server] != capacity).any():
            raise InputError("tasks run there still", f"server {server}")
        if self.present[server]:
            self._remove(server)
            self._rescore()

    def join(self, server: int, now: float = 0.0) -> None:
        """Place tasks on a server that was gone or drained.

        Raises
        ------
        InputError
            When there is no such server.
        """
        server = self._server(server)
        self._detach(server)
        if not self.present[server]:
            empty_server(self.state, server, True)
            self.present[server] = True
            self._count[self.state.group[server]] += 1
        self.state.closed[server] = False
        self._attach(server)
        self._rescore()
        entries.wake(self.state, self.queue, server)
        self._note_more(server, now)

    def set_weight(self, user: int, weight: float) -> None:
        """Give a user another weight from now on.

        Raises
        ------
        InputError
            When it is not a positive number, or there is no such user.
        """
        user = checked_number(user, len(self.state.placed_by), "user")
        if not (weight > 0 and np.isfinite(weight)):
            raise InputError(f"must be a positive number, not {weight}", "weight")
        high, low = to_pairs([exact(weight), 1 / exact(weight)])
        mine = self.owner == user
        self._weights[0][mine], self._weights[1][mine] = high[0], low[0]
        self.state.inverse_weight[mine], self.state.inverse_weight_low[mine] = high[1], low[1]
        self._rescore()

    def check(self) -> None:
        """Assert the invariants of the state and of what is kept beside it. Slow."""
        check_state(self.state)
        self._running.check(self.state, self.present)
        if self.select in (BEST_FIT, BEST_FIT_FIRST):
            check_ratio_index(self.state, self.index)
        check_backlog(self.state, self.queue)
        counted = np.bincount(self.state.group[self.present], minlength=len(self._count))
        assert (counted == self._count).all(), "servers are counted that are not there"

    def _server(self, server: int) -> int:
        return checked_number(server, len(self.state.group), "server")

    def _no_refusals(self, seconds: float) -> Refusals:
        if not self.policy.oblivious:
            return no_refusals(0, 0, -1.0)
        n_users, n_servers = len(self.state.placed_by), len(self.state.group)
        if n_users * n_servers > MOST_REFUSALS:
            fault = f"{n_users:,} users and {n_servers:,} servers are too many pairs to remember"
            raise RefusalError(self.policy.name, fault)
        return no_refusals(n_users, n_servers, seconds)

    def _note_more(self, server: int, now: float) -> None:
        if self.policy.oblivious:
            entries.note_more_to_offer(self.refusals, self.queue, server, now)

    def _detach(self, server: int) -> None:
        entries.detach(self.state, self.queue, self.index, self.select, server)

    def _attach(self, server: int) -> None:
        entries.attach(self.state, self.queue, self.index, self.select, server)

    def _remove(self, server: int) -> None:
        self._detach(server)
        self.state.closed[server] = True
        empty_server(self.state, server, False)
        self._attach(server)
        self.present[server] = False
        self._count[self.state.group[server]] -= 1

    def _scores(self) -> Scores:
        """Return the constants of the scores for the servers that are there."""
        scores = prepare_scores(
            self.kinds,
            self._quanta,
            self.policy.fill,
            self.owner,
            count=self._count,
            weights=self._weights,
        )
        if self.policy.slots is not None:
            # Only slots are shared fairly, whatever else a task takes.
            scores.share[:, 1:] = scores.share_low[:, 1:] = 0.0
        return scores

    def _rescore(self) -> None:
        """Take in that other servers are there, or that a weight changed."""
        if self.state.scoring != FIXED:
            return
        scores = self._scores()
        for name in ("unit", "unit_low", "share", "share_low"):
            getattr(self.state, name)[:] = getattr(scores, name)
        if self.state.sharing == SUMMED:
            recount_totals(self.state)
        entries.rerank_all(self.state, self.queue)


def _check_owners(kinds: Problem, owner: IntArray, set_kinds: IntArray) -> None:
    if owner.shape != (kinds.n_users,) or set(owner.tolist()) != set(range(int(owner.max()) + 1)):
        raise InputError("must number the users of all kinds from 0", "owner")
    if set_kinds.size and not 0 <= set_kinds.min() <= set_kinds.max() < kinds.n_users:
        raise InputError("must be numbers of kinds", "set_kinds")
    _, first = np.unique(owner, return_index=True)
    if (kinds.weight != kinds.weight[first][owner]).any():
        raise InputError("must be the same for all kinds of a user", "weight")


def _check_gangs(set_kinds: IntArray, gang: IntArray) -> None:
    if gang.shape != set_kinds.shape:
        raise InputError(f"must have shape {set_kinds.shape}, not {gang.shape}", "set_gang")
    of_gangs = set_kinds[gang >= 0]
    times_used = np.bincount(set_kinds, minlength=1)
    if (times_used[of_gangs] > 1).any():
        raise InputError("must be those of one set each, in gangs", "set_kinds")
