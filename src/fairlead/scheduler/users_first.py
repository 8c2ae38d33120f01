"""Serve the user with the least score, then choose the server: first-fit and best-fit; compiled.

Scores that do not depend on what is free are kept in a heap. Residual ones change for everybody
with every placement; for them the least is looked for among all who wait.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.optimize.compiling import inner_kernel, kernel
from fairlead.optimize.keyed_heap import Heaps, empty_heaps, push, raise_least, take_out
from fairlead.scheduler.best_fit import find_best_fit
from fairlead.scheduler.criteria import FIXED, RESIDUAL_TSF
from fairlead.scheduler.ratio_index import RatioIndex, enter, leave
from fairlead.scheduler.scoring import (
    count_all_headroom,
    count_headroom,
    fixed_score,
    least_user,
)
from fairlead.scheduler.state import State, fits, may_take, take


class Queue(NamedTuple):
    """Who waits, and from where each is to be looked for.

    Attributes
    ----------
    heaps : Heaps
        One heap of the waiting users by score; only kept where scores are fixed.
    waiting : (N,) bool
        Users with tasks left of which one may fit somewhere.
    pointer : (N,) int
        No earlier server takes a task of the user; only kept for first-fit.
    headroom, headroom_low : (N,) float
        Tasks of each user that free amounts would take; only kept for residual tsf.
    rough : (N,) float
        Workspace.
    """

    heaps: Heaps
    waiting: BoolArray
    pointer: IntArray
    headroom: FloatArray
    headroom_low: FloatArray
    rough: FloatArray


def fill_queue(state: State) -> Queue:
    """Return the queue in which everybody with tasks waits. Cost O(N log N), O(S N R) for tsf."""
    n_users = len(state.placed)
    queue = Queue(
        heaps=empty_heaps(1, n_users),
        waiting=np.zeros(n_users, dtype=bool),
        pointer=np.zeros(n_users, dtype=np.int64),
        headroom=np.zeros(n_users),
        headroom_low=np.zeros(n_users),
        rough=np.zeros(n_users),
    )
    _let_all_wait(state, queue)
    count_all_headroom(state, queue.headroom, queue.headroom_low)
    return queue


@kernel
def _let_all_wait(state: State, queue: Queue) -> None:
    for user in range(state.placed.size):
        let_wait(state, queue, user)


@kernel
def let_wait(state: State, queue: Queue, user: int) -> None:
    """Have a user with tasks left wait, or put it where its changed score belongs."""
    if state.pending[user] == 0:
        return
    queue.waiting[user] = True
    if state.scoring == FIXED:
        key, key_low = fixed_score(state, user, 0)
        push(queue.heaps, 0, state.placed.size, user, key, key_low)


@inner_kernel
def _dismiss(state: State, queue: Queue, user: int) -> None:
    queue.waiting[user] = False
    take_out(queue.heaps, 0, state.placed.size, user)


@inner_kernel
def first_fit(state: State, pointer: IntArray, user: int) -> int:
    """Return the first server that takes a task of the user, or -1, and point at it."""
    server = pointer[user]
    n_servers = state.free.shape[0]
    while server < n_servers:
        g = state.group[server]
        end = state.first_server[g + 1]
        if state.eligible[user, g]:
            while server < end and not fits(state, user, server):
                server += 1
            if server < end:
                break
        server = end
    pointer[user] = server
    return server if server < n_servers else -1


@kernel
def place_users_first(
    state: State,
    queue: Queue,
    index: RatioIndex,
    best_fit: bool,
    placed_user: IntArray,
    placed_server: IntArray,
) -> int:
    """Place tasks until nothing more fits or the arrays are full; return how many were placed.

    Parameters
    ----------
    state, queue, index
        Changed in place.
    best_fit : bool
        Whether to take the best server, or else the first.
    placed_user, placed_server : (P,) int
        Receive the placements in order.

    Notes
    -----
    A placement costs O(log N) for the user, O(N R) under residual scores, and what the search for
    a server costs. First-fit passes each server once per user until something is freed.
    """
    for k in range(placed_user.size):
        while True:
            if state.scoring == FIXED:
                user = queue.heaps.item[0] if queue.heaps.size[0] > 0 else -1
            else:
                user = least_user(state, queue.headroom, queue.waiting, 0, queue.rough, False)
            if user < 0:
                return k
            if best_fit:
                server = find_best_fit(state, index, user, True)
            else:
                server = first_fit(state, queue.pointer, user)
            if server >= 0:
                break
            _dismiss(state, queue, user)
        _place(state, queue, index, best_fit, user, server)
        placed_user[k], placed_server[k] = user, server
    return placed_user.size


@inner_kernel
def _place(
    state: State, queue: Queue, index: RatioIndex, best_fit: bool, user: int, server: int
) -> None:
    detach(state, queue, index, best_fit, server)
    take(state, user, server)
    attach(state, queue, index, best_fit, server)
    if state.pending[user] == 0:
        _dismiss(state, queue, user)
    elif state.scoring == FIXED:
        key, key_low = fixed_score(state, user, 0)
        raise_least(queue.heaps, 0, state.placed.size, key, key_low)


@kernel
def detach(state: State, queue: Queue, index: RatioIndex, best_fit: bool, server: int) -> None:
    """Forget what a server has free, before that changes."""
    if best_fit:
        leave(state, index, server)
    if state.scoring == RESIDUAL_TSF:
        count_headroom(state, server, -1.0, queue.headroom, queue.headroom_low)


@kernel
def attach(state: State, queue: Queue, index: RatioIndex, best_fit: bool, server: int) -> None:
    """Note what a server has free, after that changed."""
    if state.scoring == RESIDUAL_TSF:
        count_headroom(state, server, 1.0, queue.headroom, queue.headroom_low)
    if best_fit:
        enter(state, index, server)


@kernel
def wake(state: State, queue: Queue, server: int) -> None:
    """Have those wait again whose tasks fit on a server that has more free now. O(N R)."""
    for user in range(state.placed.size):
        queue.pointer[user] = min(queue.pointer[user], server)
        if not queue.waiting[user] and may_take(state, user, server):
            let_wait(state, queue, user)
