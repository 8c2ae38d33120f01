"""Serve the user with the least score, then choose the server: first-fit and best-fit; compiled.

Scores that do not depend on what is free are kept in a heap. Residual ones change for everybody
with every placement; for them the least is looked for among all who wait. Of a user's jobs the
first is served of which a task fits somewhere; those before it are passed over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.optimize.compiling import inner_kernel, kernel
from fairlead.optimize.keyed_heap import Heaps, empty_heaps, push, take_out
from fairlead.scheduler.backlog import (
    NONE,
    Backlog,
    add_to_set,
    block,
    empty_backlog,
    line_up,
    step_out,
    take_from_set,
    unblock,
)
from fairlead.scheduler.best_fit import find_best_fit
from fairlead.scheduler.criteria import FIXED, RESIDUAL_TSF
from fairlead.scheduler.freed import Freed, first_freed_since, note_freed, nothing_freed
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
        One heap of the owners of waiting tasks by score; only kept where scores are fixed.
    backlog : Backlog
        What waits.
    pointer : (N,) int
        No earlier server takes a task of the kind, but for those freed since; for first-fit.
    looked : (N,) int
        The moment from which on freed servers are not reckoned in `pointer`.
    freed : Freed
        The servers that were freed.
    headroom, headroom_low : (N,) float
        Tasks of each kind that free amounts would take; only kept for residual tsf.
    rough : (N,) float
        Workspace.
    """

    heaps: Heaps
    backlog: Backlog
    pointer: IntArray
    looked: IntArray
    freed: Freed
    headroom: FloatArray
    headroom_low: FloatArray
    rough: FloatArray


def fill_queue(state: State, set_kinds: IntArray | None = None) -> Queue:
    """Return the queue of a state.

    Parameters
    ----------
    state : State
    set_kinds : (K,) int, optional
        The kind of each set of tasks that will be submitted; when absent everybody waits with all
        its tasks, one set each.

    Notes
    -----
    O(N log N), O(S N R) for residual tsf.
    """
    n_kinds, n_owners = len(state.placed), len(state.placed_by)
    queue = Queue(
        heaps=empty_heaps(1, n_owners),
        backlog=empty_backlog(
            np.arange(n_kinds) if set_kinds is None else set_kinds, n_kinds, n_owners
        ),
        pointer=np.zeros(n_kinds, dtype=np.int64),
        looked=np.zeros(n_kinds, dtype=np.int64),
        freed=nothing_freed(len(state.free)),
        headroom=np.zeros(n_kinds),
        headroom_low=np.zeros(n_kinds),
        rough=np.zeros(n_kinds),
    )
    if set_kinds is None:
        _let_all_wait(state, queue)
    count_all_headroom(state, queue.headroom, queue.headroom_low)
    return queue


@kernel
def _let_all_wait(state: State, queue: Queue) -> None:
    for kind in range(state.placed.size):
        if state.pending[kind] > 0:
            add_to_set(queue.backlog, kind, state.pending[kind])
            let_wait(state, queue, kind)


@kernel
def let_wait(state: State, queue: Queue, kind: int) -> None:
    """Have a kind with tasks left wait, where its first set belongs."""
    if state.pending[kind] == 0:
        return
    owner = state.owner[kind]
    if queue.backlog.waiting[kind]:
        step_out(queue.backlog, owner, kind)
    unblock(queue.backlog, kind)
    line_up(queue.backlog, owner, kind)
    _rank(state, queue, owner, kind)


@inner_kernel
def _rank(state: State, queue: Queue, owner: int, kind: int) -> None:
    """Put an owner where its score belongs; `kind` is any of its kinds."""
    if state.scoring == FIXED:
        key, key_low = fixed_score(state, kind, 0)
        push(queue.heaps, 0, state.placed_by.size, owner, key, key_low)


@kernel
def rerank(state: State, queue: Queue, kind: int) -> None:
    """Put the owner of a kind where its changed score belongs, if anything of it waits."""
    owner = state.owner[kind]
    if queue.backlog.first_kind[owner] != NONE:
        _rank(state, queue, owner, kind)


@inner_kernel
def _dismiss(state: State, queue: Queue, kind: int) -> None:
    """Have a kind wait no longer, for it has no tasks left or they fit nowhere."""
    owner = state.owner[kind]
    step_out(queue.backlog, owner, kind)
    if state.pending[kind] > 0:
        block(queue.backlog, kind)
    if queue.backlog.first_kind[owner] == NONE:
        take_out(queue.heaps, 0, state.placed_by.size, owner)


@kernel
def withdraw(state: State, queue: Queue, kind: int) -> None:
    """Take in that tasks of a kind wait no longer, all or the first of them."""
    if state.pending[kind] > 0:
        if queue.backlog.waiting[kind]:
            let_wait(state, queue, kind)
    elif queue.backlog.waiting[kind]:
        _dismiss(state, queue, kind)
    else:
        unblock(queue.backlog, kind)


@inner_kernel
def first_fit(state: State, queue: Queue, kind: int) -> int:
    """Return the first server that takes a task of the kind, or -1, and point at it."""
    server = queue.pointer[kind]
    freed = first_freed_since(queue.freed, queue.looked[kind])
    if freed >= 0:
        server = min(server, freed)
    queue.looked[kind] = queue.freed.now[0]
    n_servers = state.free.shape[0]
    while server < n_servers:
        g = state.group[server]
        end = state.first_server[g + 1]
        if state.eligible[kind, g]:
            while server < end and not fits(state, kind, server):
                server += 1
            if server < end:
                break
        server = end
    queue.pointer[kind] = server
    return server if server < n_servers else -1


@kernel
def place_users_first(
    state: State,
    queue: Queue,
    index: RatioIndex,
    best_fit: bool,
    placed_user: IntArray,
    placed_server: IntArray,
    placed_set: IntArray,
) -> int:
    """Place tasks until nothing more fits or the arrays are full; return how many were placed.

    Parameters
    ----------
    state, queue, index
        Changed in place.
    best_fit : bool
        Whether to take the best server, or else the first.
    placed_user, placed_server, placed_set : (P,) int
        Receive the placements in order: kind of task, server, and set of the kind.

    Notes
    -----
    A placement costs O(log U) for the owner, O(N R) under residual scores, and what the search for
    a server costs. First-fit passes each server once per kind until something is freed.
    """
    for k in range(placed_user.size):
        while True:
            if state.scoring == FIXED:
                kind = -1
                if queue.heaps.size[0] > 0:
                    kind = queue.backlog.first_kind[queue.heaps.item[0]]
            else:
                waiting = queue.backlog.waiting
                kind = least_user(state, queue.headroom, waiting, 0, queue.rough, False)
            if kind < 0:
                return k
            if best_fit:
                server = find_best_fit(state, index, kind, True)
            else:
                server = first_fit(state, queue, kind)
            if server >= 0:
                break
            _dismiss(state, queue, kind)
        placed_user[k], placed_server[k] = kind, server
        placed_set[k] = _place(state, queue, index, best_fit, kind, server)
    return placed_user.size


@inner_kernel
def _place(
    state: State, queue: Queue, index: RatioIndex, best_fit: bool, kind: int, server: int
) -> int:
    """Place a task of the kind's first set, and return the set."""
    detach(state, queue, index, best_fit, server)
    take(state, kind, server)
    attach(state, queue, index, best_fit, server)
    number = queue.backlog.first_set[kind]
    take_from_set(queue.backlog, number, 1)
    owner = state.owner[kind]
    if state.pending[kind] == 0:
        _dismiss(state, queue, kind)
    elif queue.backlog.first_set[kind] != number:
        step_out(queue.backlog, owner, kind)
        line_up(queue.backlog, owner, kind)
    if queue.backlog.first_kind[owner] != NONE:
        _rank(state, queue, owner, kind)
    return int(number)


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
    """Have those wait again whose tasks fit on a server that has more free now. O(blocked R)."""
    note_freed(queue.freed, server)
    backlog = queue.backlog
    k = backlog.n_blocked[0] - 1
    while k >= 0:
        kind = backlog.blocked[k]
        if may_take(state, kind, server):
            let_wait(state, queue, kind)
        k -= 1
