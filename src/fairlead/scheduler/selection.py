"""Where tasks go: one object per selection, each holding what its kernel keeps beside the state.

All answer to the same calls, so that whoever feeds them events need not know which it is.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.model.problem import Problem
from fairlead.model.quanta import Quanta
from fairlead.scheduler import (
    best_fit_first,
    entries,
    joint,
    placing,
    queue,
    residual_joint,
    residual_users,
    rounds,
)
from fairlead.scheduler.criteria import RESIDUAL_TSF
from fairlead.scheduler.policy import Policy
from fairlead.scheduler.ratio_index import build_ratio_index, check_ratio_index
from fairlead.scheduler.scoring import count_headroom
from fairlead.scheduler.searching import BEST_FIT, FIRST_FIT
from fairlead.scheduler.state import State


class Selection(Protocol):
    """Places tasks on servers, and keeps track while both come and go."""

    def place(self, users: IntArray, servers: IntArray) -> int:
        """Place tasks until nothing more fits or the (P,) arrays are full; return how many."""

    def forget(self, server: int) -> None:
        """Prepare for a change of what the server has free, or of its being closed."""

    def note(self, server: int) -> None:
        """Take in what the server has free now."""

    def wake(self, server: int) -> None:
        """Look again for those whose tasks may fit on the server now."""

    def requeue(self, user: int) -> None:
        """Take in that the user has a lesser score than before."""

    def submit(self, user: int, tasks: int) -> None:
        """Take in that so many more tasks of the user wait."""

    def check(self) -> None:
        """Assert the invariants of what is kept beside the state."""


def make_selection(
    problem: Problem,
    quanta: Quanta,
    policy: Policy,
    state: State,
    random: np.random.Generator,
) -> Selection:
    """Return the selection of a policy, for a state in which no server holds anything."""
    if policy.select == "rrr":
        return _InRounds(state, random)
    if policy.select == "joint" and not policy.residual:
        return _Jointly(state)
    if policy.select == "joint":
        return _ByRoom(problem, quanta, state)
    if policy.select == "best-fit-first":
        return _BestFitFirst(problem, quanta, state)
    # With one resource every server fits alike, and the earliest is the best.
    best_fit = policy.select == "best-fit" and problem.n_resources > 1
    if policy.residual:
        return _ByResidual(problem, quanta, state, best_fit)
    return _UsersFirst(problem, quanta, state, best_fit)


class _UsersFirst:
    """First-fit and best-fit, by scores that do not depend on what is free."""

    def __init__(self, problem: Problem, quanta: Quanta, state: State, best_fit: bool) -> None:
        self._select = BEST_FIT if best_fit else FIRST_FIT
        self._state = state
        self._index = build_ratio_index(problem, quanta, state)
        self._queue = queue.fill_queue(state)

    def place(self, users: IntArray, servers: IntArray) -> int:
        sets, is_over = np.empty(len(users), dtype=np.int64), np.zeros(1, dtype=np.int64)
        starts = placing.Starts(users, servers, sets, is_over, len(users))
        return entries.serve_by_key(self._state, self._queue, self._index, self._select, starts)

    def forget(self, server: int) -> None:
        entries.detach(self._state, self._queue, self._index, self._select, server)

    def note(self, server: int) -> None:
        entries.attach(self._state, self._queue, self._index, self._select, server)

    def wake(self, server: int) -> None:
        entries.wake(self._state, self._queue, server)

    def requeue(self, user: int) -> None:
        entries.rerank(self._state, self._queue, user)

    def submit(self, user: int, tasks: int) -> None:
        entries.submit_kind(self._state, self._queue, user, tasks)

    def check(self) -> None:
        if self._select == BEST_FIT:
            check_ratio_index(self._state, self._index)


class _ByResidual:
    """First-fit and best-fit, by residual scores."""

    def __init__(self, problem: Problem, quanta: Quanta, state: State, best_fit: bool) -> None:
        self._best_fit = best_fit
        self._state = state
        self._index = build_ratio_index(problem, quanta, state)
        self._seekers = residual_users.find_seekers(state)

    def place(self, users: IntArray, servers: IntArray) -> int:
        return residual_users.place_by_residual(
            self._state, self._seekers, self._index, self._best_fit, users, servers
        )

    def forget(self, server: int) -> None:
        residual_users.forget_free(self._state, self._seekers, self._index, self._best_fit, server)

    def note(self, server: int) -> None:
        residual_users.note_free(self._state, self._seekers, self._index, self._best_fit, server)

    def wake(self, server: int) -> None:
        residual_users.seek_again(self._state, self._seekers, server)

    def requeue(self, user: int) -> None:
        """Do nothing: scores are computed afresh for every placement."""

    def submit(self, user: int, tasks: int) -> None:  # noqa: ARG002 (more tasks wait already)
        self._seekers.waiting[user] = True

    def check(self) -> None:
        if self._best_fit:
            check_ratio_index(self._state, self._index)


class _BestFitFirst:
    def __init__(self, problem: Problem, quanta: Quanta, state: State) -> None:
        self._state = state
        self._index = build_ratio_index(problem, quanta, state, every_server=True)
        self._favourites = best_fit_first.find_favourites(state, self._index)

    def place(self, users: IntArray, servers: IntArray) -> int:
        return best_fit_first.place_on_favourites(
            self._state, self._index, self._favourites, users, servers
        )

    def forget(self, server: int) -> None:
        best_fit_first.forget_server(self._state, self._index, self._favourites, server)

    def note(self, server: int) -> None:
        best_fit_first.note_server(self._state, self._index, self._favourites, server)
        best_fit_first.reconsider(self._state, self._index, self._favourites, server)

    def wake(self, server: int) -> None:
        """Do nothing: noting the server has done it."""

    def requeue(self, user: int) -> None:
        best_fit_first.refresh_favourite(self._state, self._index, self._favourites, user)

    def submit(self, user: int, tasks: int) -> None:  # noqa: ARG002 (more tasks wait already)
        self.requeue(user)

    def check(self) -> None:
        check_ratio_index(self._state, self._index)


class _InRounds:
    def __init__(self, state: State, random: np.random.Generator) -> None:
        self._state = state
        self._random = random
        self._round = rounds.first_round(state)

    def place(self, users: IntArray, servers: IntArray) -> int:
        n_placed = 0
        while n_placed < len(users):
            if self._round.position[0] == len(self._round.order):
                rounds.begin_round(self._round, self._random)
            n_placed += rounds.offer_round(
                self._state, self._round, users[n_placed:], servers[n_placed:]
            )
            is_over = self._round.position[0] == len(self._round.order)
            if is_over and self._round.placed[0] == 0:
                break
        return n_placed

    def forget(self, server: int) -> None:
        if self._state.scoring == RESIDUAL_TSF:
            count_headroom(
                self._state, server, -1.0, self._round.headroom, self._round.headroom_low
            )

    def note(self, server: int) -> None:
        if self._state.scoring == RESIDUAL_TSF:
            count_headroom(self._state, server, 1.0, self._round.headroom, self._round.headroom_low)

    def wake(self, server: int) -> None:
        self._round.refused[server] = False

    def requeue(self, user: int) -> None:
        allowed = self._state.eligible[user, self._state.group]
        self._round.refused[allowed] = False

    def submit(self, user: int, tasks: int) -> None:  # noqa: ARG002 (more tasks wait already)
        self.requeue(user)

    def check(self) -> None:
        """Do nothing: nothing is kept that could be wrong."""


class _Jointly:
    def __init__(self, state: State) -> None:
        self._state = state
        self._queues = joint.fill_group_queues(state)

    def place(self, users: IntArray, servers: IntArray) -> int:
        return joint.place_jointly(self._state, self._queues, users, servers)

    def forget(self, server: int) -> None:
        """Do nothing: nothing is kept of what a server has free."""

    def note(self, server: int) -> None:
        """Do nothing: nothing is kept of what a server has free."""

    def wake(self, server: int) -> None:
        joint.wake_group(self._state, self._queues, server)

    def requeue(self, user: int) -> None:
        joint.wait_for_groups(self._state, self._queues, user)

    def submit(self, user: int, tasks: int) -> None:  # noqa: ARG002 (more tasks wait already)
        self.requeue(user)

    def check(self) -> None:
        """Do nothing: nothing is kept that could be wrong."""


class _ByRoom:
    def __init__(self, problem: Problem, quanta: Quanta, state: State) -> None:
        self._state = state
        self._index = build_ratio_index(problem, quanta, state, buckets_per_server=16)
        self._queue = residual_joint.fill_room_queue(state, self._index)

    def place(self, users: IntArray, servers: IntArray) -> int:
        return residual_joint.place_by_room(self._state, self._queue, self._index, users, servers)

    def forget(self, server: int) -> None:
        entries.leave(self._state, self._index, server)

    def note(self, server: int) -> None:
        entries.enter(self._state, self._index, server)

    def wake(self, server: int) -> None:
        residual_joint.wake_for_room(self._state, self._queue, server)

    def requeue(self, user: int) -> None:
        residual_joint.wait_for_room(self._state, self._queue, user)

    def submit(self, user: int, tasks: int) -> None:  # noqa: ARG002 (more tasks wait already)
        self.requeue(user)

    def check(self) -> None:
        check_ratio_index(self._state, self._index)
