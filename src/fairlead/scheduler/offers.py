"""Servers offered one after the other in random order, while jobs come and go; compiled.

A round visits, in a fresh random order, every server of which somebody takes something at its
beginning; each visit is one offer. Servers of which nobody takes anything would not matter: left
out or visited, the order of the others is evenly random.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.optimize.double_double import compare
from fairlead.optimize.shuffling import shuffle
from fairlead.scheduler.backlog import NONE
from fairlead.scheduler.criteria import FIXED, RESIDUAL_PS_DSF
from fairlead.scheduler.placing import (
    FAILED,
    Starts,
    first_member,
    note_placed,
    place_unit,
    take_back,
)
from fairlead.scheduler.queue import Queue, dismiss
from fairlead.scheduler.ratio_index import RatioIndex
from fairlead.scheduler.scoring import owners_score
from fairlead.scheduler.searching import FIRST_FIT, share_of_server
from fairlead.scheduler.serving import score_at_hand
from fairlead.scheduler.state import State, may_take
from fairlead.scheduler.waking import end_round, is_woken, wake_all

# As many freed servers are sorted by insertion; with more, all servers are looked through.
FEW = 64


class Round(NamedTuple):
    """A round of offers under way.

    Attributes
    ----------
    order : (S,) int
        The servers to visit, in order.
    size : (1,) int
        How many they are.
    position : (1,) int
        How many have been visited.
    seed : (1,) uint
        Of the orders to come.
    by_server : bool
        Whether scores are the owners' on the server that is offered.
    """

    order: IntArray
    size: IntArray
    position: IntArray
    seed: NDArray[np.uint64]
    by_server: bool


def no_round(n_servers: int, seed: int, by_server: bool) -> Round:
    """Return the end of a round, before the first."""
    return Round(
        order=np.zeros(n_servers, dtype=np.int64),
        size=np.zeros(1, dtype=np.int64),
        position=np.zeros(1, dtype=np.int64),
        seed=np.array([seed], dtype=np.uint64),
        by_server=by_server,
    )


@separate_kernel
def serve_in_rounds(
    state: State, queue: Queue, index: RatioIndex, round_: Round, starts: Starts
) -> int:
    """Offer servers until nothing more fits or the room is used up; return how many were placed.

    An offer goes to the owner with the least score among those of whom anything fits on the server:
    of each owner the first set of which a task fits there. One task of it is placed, or all of a
    gang, whose other tasks go by first-fit.

    Notes
    -----
    O(U R) per visit and what the search along the owners' waiting kinds costs. A round looks at all
    servers if something new waits, and else at those that were freed. Gangs are tried on every
    server that takes their first task, every time.
    """
    n = int(0)  # noqa: RUF046, UP018 (a plain 0 is compiled for apart)
    wake_all(state, queue)
    while True:
        if n >= starts.limit:  # a new round tries gangs beyond what is placed
            starts.is_over[0] = 0
            return n
        if round_.position[0] == round_.size[0]:
            _begin_round(state, queue, index, round_, starts, n)
            if round_.size[0] == 0:
                break
        while round_.position[0] < round_.size[0]:
            if n >= starts.limit:
                starts.is_over[0] = 0
                return n
            server = round_.order[round_.position[0]]
            kind = _least_taker(state, queue, index, round_, server, starts, n, False)
            if kind != NONE:
                n = place_unit(state, queue, index, FIRST_FIT, kind, server, False, starts, n)
                note_placed(state, queue, kind)
            round_.position[0] += 1
    _block_all(state, queue)
    end_round(queue)
    starts.is_over[0] = 1
    return n


@inner_kernel
def _begin_round(
    state: State, queue: Queue, index: RatioIndex, round_: Round, starts: Starts, n: int
) -> None:
    size = 0
    if queue.heaps.size[0] > 0:
        n_seen = servers_to_see(queue, round_, _all_are_woken(state, queue))
        for k in range(n_seen):
            server = round_.order[k]
            if not state.closed[server]:
                kind = _least_taker(state, queue, index, round_, server, starts, n, True)
                if kind != NONE:
                    round_.order[size] = server
                    size += 1
    round_.size[0], round_.position[0] = size, 0
    shuffle(round_.order, size, round_.seed)


@inner_kernel
def servers_to_see(queue: Queue, round_: Round, only_fresh: bool) -> int:
    """Put the servers that were freed, or all, into the order, ascending; return how many."""
    size = round_.order.size
    few = only_fresh and queue.n_fresh[0] <= FEW
    if few:
        size = 0
        for k in range(queue.n_fresh[0]):
            place, server = size, queue.fresh[k]
            while place > 0 and round_.order[place - 1] > server:
                round_.order[place] = round_.order[place - 1]
                place -= 1
            round_.order[place] = server
            size += 1
        return size
    seen = 0
    for server in range(size):
        if not only_fresh or queue.fresh_in[server] == queue.round[0]:
            round_.order[seen] = server
            seen += 1
    return seen


@inner_kernel
def _all_are_woken(state: State, queue: Queue) -> bool:
    """Return whether everything to be looked at fits on fresh servers only."""
    for owner in range(state.placed_by.size):
        if queue.heaps.place[owner] >= 0:
            kind = queue.backlog.first_kind[owner]
            while kind != NONE:
                if not is_woken(queue, kind):
                    return False
                kind = queue.backlog.next_kind[kind]
    return True


@inner_kernel
def _least_taker(
    state: State,
    queue: Queue,
    index: RatioIndex,
    round_: Round,
    server: int,
    starts: Starts,
    n: int,
    any_will_do: bool,
) -> int:
    """Return the kind of which a task goes on the server, of the least owner or of any, or -1."""
    chosen, key, key_low = int(-1), 0.0, 0.0  # noqa: RUF046, UP018 (see best_fit)
    for owner in range(state.placed_by.size):
        if queue.heaps.place[owner] < 0:
            continue
        kind = _first_that_fits(state, queue, index, owner, server, starts, n)
        if kind == NONE:
            continue
        if any_will_do:
            return int(kind)
        at_hand = first_member(state, queue, kind)
        if round_.by_server or state.scoring == RESIDUAL_PS_DSF:
            high, low = share_of_server(state, at_hand, server)
        elif state.scoring == FIXED:
            high, low = owners_score(state, owner)
        else:
            high, low = score_at_hand(state, queue, at_hand)
        if chosen == NONE or compare(high, low, key, key_low) < 0:
            chosen, key, key_low = kind, high, low
    return chosen


@inner_kernel
def _first_that_fits(
    state: State,
    queue: Queue,
    index: RatioIndex,
    owner: int,
    server: int,
    starts: Starts,
    n: int,
) -> int:
    """Return the owner's first kind of which a task fits on the server, or -1."""
    kind = queue.backlog.first_kind[owner]
    while kind != NONE:
        if may_take(state, first_member(state, queue, kind), server):
            if not queue.gangs.is_head[kind]:
                return int(kind)
            end = place_unit(state, queue, index, FIRST_FIT, kind, server, False, starts, n)
            if end != FAILED:
                take_back(state, queue, index, FIRST_FIT, starts, n, end)
                return int(kind)
        if queue.strict:
            break
        kind = queue.backlog.next_kind[kind]
    return -1


@inner_kernel
def _block_all(state: State, queue: Queue) -> None:
    """Have what waits be looked at again only when a server is freed that takes it; not gangs."""
    for owner in range(state.placed_by.size):
        kind = queue.backlog.first_kind[owner] if queue.heaps.place[owner] >= 0 else NONE
        while kind != NONE:
            following = queue.backlog.next_kind[kind]
            if not queue.gangs.is_head[kind]:
                dismiss(state, queue, kind)
            if queue.strict:
                break
            kind = following
