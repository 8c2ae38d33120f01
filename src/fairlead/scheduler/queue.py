"""Who waits: owners by their scores, and the kinds of tasks of which none fits anywhere; compiled.

A kind of which no task fits is blocked until a server is freed that takes one. While tasks are
placed, such a kind need only be looked for on the servers freed since (`waking`): it fits on no
other. When nothing fits any more, every kind is blocked again, and those servers are forgotten.

With `strict`, nothing of an owner is placed before its first waiting set; then the kind of that set
is blocked in the place of everything of its owner.
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
    unblock,
)
from fairlead.scheduler.criteria import FIXED
from fairlead.scheduler.freed import Freed, nothing_freed
from fairlead.scheduler.gangs import Gangs, no_gangs
from fairlead.scheduler.scoring import fixed_score, owners_score
from fairlead.scheduler.state import State

# Where a gang would go that is at hand.
MANY = -2
# More quanta than any server has free.
NOTHING = 2**63 - 1


class Queue(NamedTuple):
    """Who waits, and from where each is to be looked for.

    Attributes
    ----------
    heaps : Heaps
        One heap of the owners of waiting tasks, by a lower bound of their scores.
    backlog : Backlog
        What waits.
    gangs : Gangs
        Which kinds start together.
    strict : bool
        Whether nothing of an owner passes over its first waiting set.
    exact_keys : bool
        Whether keys are scores, as they are where no score depends on the server.
    aim : (U,) int
        Where keys are bounds, the server on which the task at hand has the score that the key is;
        `MANY` for a gang.
    pointer : (N,) int
        No earlier server takes a task of the kind, but for those freed since; for first-fit.
    looked : (N,) int
        The moment from which on freed servers are not reckoned in `pointer`.
    freed : Freed
        The servers that were freed.
    fresh : (S,) int
        Servers freed since nothing fitted any more.
    n_fresh : (1,) int
        How many there are.
    fresh_in : (S,) int
        The round in which each server was last put there.
    woken_in : (N,) int
        The round in which each kind was last woken; in this one it fits on fresh servers only.
    round : (1,) int
        A round ends when nothing fits any more.
    frees : (1,) int
        How often a server was freed.
    seen_frees : (U,) int
        How often it had been when the owner's blocked kinds were last looked through.
    counted : (N,) int
        The kinds of which `headroom` is kept, in any order; for residual tsf.
    n_counted : (1,) int
        How many there are.
    counted_in : (N,) int
        The round in which each was last put there.
    headroom, headroom_low : (N,) float
        Tasks of each of them that free amounts would take.
    """

    heaps: Heaps
    backlog: Backlog
    gangs: Gangs
    strict: bool
    exact_keys: bool
    aim: IntArray
    pointer: IntArray
    looked: IntArray
    freed: Freed
    fresh: IntArray
    n_fresh: IntArray
    fresh_in: IntArray
    woken_in: IntArray
    round: IntArray
    frees: IntArray
    seen_frees: IntArray
    counted: IntArray
    n_counted: IntArray
    counted_in: IntArray
    headroom: FloatArray
    headroom_low: FloatArray


def fill_queue(
    state: State,
    set_kinds: IntArray | None = None,
    gangs: Gangs | None = None,
    *,
    strict: bool = False,
    exact_keys: bool | None = None,
) -> Queue:
    """Return the queue of a state.

    Parameters
    ----------
    state : State
    set_kinds : (K,) int, optional
        The kind of each set of tasks that will be submitted; when absent everybody waits with all
        its tasks, one set each.
    gangs : Gangs, optional
        None when absent.
    strict : bool
        Whether nothing of an owner passes over its first waiting set.
    exact_keys : bool, optional
        Whether scores depend neither on what is free nor on the server; when absent, whether they
        do not depend on what is free.

    Notes
    -----
    O(S + N log N).
    """
    n_kinds, n_owners, n_servers = len(state.placed), len(state.placed_by), len(state.free)
    queue = Queue(
        heaps=empty_heaps(1, n_owners),
        backlog=empty_backlog(
            np.arange(n_kinds) if set_kinds is None else set_kinds,
            n_kinds,
            n_owners,
            state.free.shape[1],
        ),
        gangs=no_gangs(n_kinds) if gangs is None else gangs,
        strict=strict,
        exact_keys=state.scoring == FIXED if exact_keys is None else exact_keys,
        aim=np.full(n_owners, NONE, dtype=np.int64),
        pointer=np.zeros(n_kinds, dtype=np.int64),
        looked=np.zeros(n_kinds, dtype=np.int64),
        freed=nothing_freed(n_servers),
        fresh=np.zeros(n_servers, dtype=np.int64),
        n_fresh=np.zeros(1, dtype=np.int64),
        fresh_in=np.zeros(n_servers, dtype=np.int64),
        woken_in=np.zeros(n_kinds, dtype=np.int64),
        round=np.ones(1, dtype=np.int64),
        frees=np.zeros(1, dtype=np.int64),
        seen_frees=np.zeros(n_owners, dtype=np.int64),
        counted=np.zeros(n_kinds, dtype=np.int64),
        n_counted=np.zeros(1, dtype=np.int64),
        counted_in=np.zeros(n_kinds, dtype=np.int64),
        headroom=np.zeros(n_kinds),
        headroom_low=np.zeros(n_kinds),
    )
    if set_kinds is None:
        _let_all_wait(state, queue)
    return queue


@kernel
def _let_all_wait(state: State, queue: Queue) -> None:
    for kind in range(state.placed.size):
        if state.pending[kind] > 0:
            add_to_set(queue.backlog, kind, state.pending[kind])
            let_wait(state, queue, kind)


@inner_kernel
def let_wait(state: State, queue: Queue, kind: int) -> None:
    """Have a kind with a set that waits be looked at, where its first set belongs."""
    backlog = queue.backlog
    if backlog.first_set[kind] == NONE:
        return
    owner = state.owner[kind]
    if backlog.waiting[kind]:
        step_out(backlog, owner, kind)
    unblock(backlog, owner, kind)
    line_up(backlog, owner, kind)
    face_first(queue, owner)
    rank(state, queue, owner)


@inner_kernel
def rank(state: State, queue: Queue, owner: int) -> None:
    """Put an owner with a waiting kind where its score belongs, or a bound of it."""
    key, key_low = 0.0, 0.0
    queue.aim[owner] = NONE
    if queue.exact_keys:
        key, key_low = fixed_score(state, queue.backlog.first_kind[owner], 0)
    push(queue.heaps, 0, state.placed_by.size, owner, key, key_low)


@inner_kernel
def rerank(state: State, queue: Queue, kind: int) -> None:
    """Put the owner of a kind where its changed score belongs, if it is to be looked at."""
    owner = state.owner[kind]
    if queue.heaps.place[owner] >= 0:
        rank(state, queue, owner)
    else:
        note_key(state, queue, kind)


@inner_kernel
def rerank_all(state: State, queue: Queue) -> None:
    """Put every owner of several kinds where its changed score belongs. O(U (R + log U))."""
    if not queue.exact_keys:
        return
    heaps, n_owners = queue.heaps, state.placed_by.size
    for owner in range(n_owners):
        key, key_low = owners_score(state, owner)
        if heaps.place[owner] >= 0:
            push(heaps, 0, n_owners, owner, key, key_low)
        else:
            heaps.key[owner], heaps.key_low[owner] = key, key_low


@inner_kernel
def note_key(state: State, queue: Queue, kind: int) -> None:
    """Keep the changed score of the owner of a kind, for when its blocked kinds may be woken."""
    if queue.exact_keys:
        owner = state.owner[kind]
        key, key_low = fixed_score(state, kind, 0)
        queue.heaps.key[owner], queue.heaps.key_low[owner] = key, key_low


@inner_kernel
def dismiss(state: State, queue: Queue, kind: int) -> None:
    """Have a kind wait no longer: it has nothing left, or what it has fits nowhere."""
    backlog, owner = queue.backlog, state.owner[kind]
    has_left = backlog.first_set[kind] != NONE
    if has_left:
        _block(state, queue, owner, kind)
    if has_left and queue.strict:
        take_out(queue.heaps, 0, state.placed_by.size, owner)
        return
    step_out(backlog, owner, kind)
    if backlog.first_kind[owner] == NONE:
        take_out(queue.heaps, 0, state.placed_by.size, owner)
        return
    face_first(queue, owner)
    if not queue.exact_keys:  # the bound was that of the kind that is out, and may not hold
        rank(state, queue, owner)


@inner_kernel
def face_first(queue: Queue, owner: int) -> None:
    """Have the first waiting kind of an owner that is looked at be looked at, under strict order.

    Behind another one it may have been blocked, and what is blocked is never blocked again.
    """
    if queue.strict:
        unblock(queue.backlog, owner, queue.backlog.first_kind[owner])


@inner_kernel
def withdraw(state: State, queue: Queue, kind: int) -> None:
    """Take in that sets of a kind wait no longer, all or some of them."""
    backlog, owner = queue.backlog, state.owner[kind]
    if queue.strict:
        # Whatever is first of the owner now was behind what was withdrawn.
        unblock(backlog, owner, kind)
        if backlog.waiting[kind]:
            step_out(backlog, owner, kind)
        if backlog.first_set[kind] != NONE:
            line_up(backlog, owner, kind)
        first = backlog.first_kind[owner]
        if first == NONE:
            take_out(queue.heaps, 0, state.placed_by.size, owner)
        else:
            unblock(backlog, owner, first)
            rank(state, queue, owner)
    elif backlog.first_set[kind] != NONE:
        if backlog.waiting[kind]:
            let_wait(state, queue, kind)
    elif backlog.waiting[kind]:
        dismiss(state, queue, kind)
    else:
        unblock(backlog, owner, kind)


@inner_kernel
def _block(state: State, queue: Queue, owner: int, kind: int) -> None:
    backlog = queue.backlog
    is_first = backlog.first_blocked[owner] == NONE
    block(backlog, owner, kind)
    if is_first:
        forget_least(queue, owner)
    note_least(state, queue, owner, kind)


@inner_kernel
def forget_least(queue: Queue, owner: int) -> None:
    """Take it that no kind of the owner is blocked, and so none takes anything at least."""
    for r in range(queue.backlog.least_blocked.shape[1]):
        queue.backlog.least_blocked[owner, r] = NOTHING


@inner_kernel
def note_least(state: State, queue: Queue, owner: int, kind: int) -> None:
    """Take a blocked kind into what its owner's kinds take at least; of gangs, see `wake`."""
    if queue.gangs.is_head[kind]:
        return
    least = queue.backlog.least_blocked
    for r in range(least.shape[1]):
        least[owner, r] = min(least[owner, r], state.demand[kind, r])
