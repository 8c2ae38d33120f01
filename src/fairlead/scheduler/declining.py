"""Offers to users whose demands are unknown: they take what they can use and decline the rest.

An offer is all that one server has free. It goes to the user that waits and has the least score by
what it holds; the user places as many of its tasks as fit, in its order, and refuses what is left.
It is not offered that server again before the server has more free and some seconds have passed;
new tasks of the user end its refusals. This is how Mesos offers resources (Kesidis et al., VI).
Compiled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.optimize.double_double import compare, divide, of_whole, times
from fairlead.optimize.keyed_heap import Heaps, empty_heaps, push, take_out
from fairlead.optimize.shuffling import shuffle
from fairlead.scheduler.backlog import NONE
from fairlead.scheduler.offers import Round, servers_to_see
from fairlead.scheduler.placing import FAILED, Starts, note_placed, place_unit
from fairlead.scheduler.queue import Queue
from fairlead.scheduler.ratio_index import RatioIndex
from fairlead.scheduler.scoring import owners_score
from fairlead.scheduler.searching import FIRST_FIT
from fairlead.scheduler.state import State, held_by
from fairlead.scheduler.waking import end_round


class Refusals(NamedTuple):
    """What users have refused; U users, S servers.

    Attributes
    ----------
    seconds : float
        How long a refusal holds.
    until : (U, S) float
        Until when each user refuses what each server had free; minus infinity where it does not.
    moment : (U, S) int
        The moment of the refusal, counted in servers that were freed.
    last_freed : (S,) int
        The moment when each server was last freed.
    revived : (1,) bool
        Whether a user submitted anything since offers were last made.
    due : Heaps
        Servers that are to be offered again, by the time when a refusal ends.
    next_time : (1,) float
        The earliest of those times; infinite if there is none.
    taker : (1,) int
        Who takes from the offer that was interrupted as the limit was reached, or -1.
    """

    seconds: float
    until: FloatArray
    moment: IntArray
    last_freed: IntArray
    revived: IntArray
    due: Heaps
    next_time: FloatArray
    taker: IntArray


def no_refusals(n_users: int, n_servers: int, seconds: float) -> Refusals:
    """Return what is refused at first: nothing. Memory for 16 U S bytes, where it is used."""
    return Refusals(
        seconds=seconds,
        until=np.full((n_users, n_servers), -np.inf),
        moment=np.zeros((n_users, n_servers), dtype=np.int64),
        last_freed=np.full(n_servers, -1, dtype=np.int64),
        revived=np.zeros(1, dtype=np.int64),
        due=empty_heaps(1, n_servers),
        next_time=np.full(1, np.inf),
        taker=np.full(1, NONE, dtype=np.int64),
    )


@inner_kernel
def revive(refusals: Refusals, owner: int) -> None:
    """Have a user refuse nothing, as it has submitted tasks. O(S)."""
    for server in range(refusals.until.shape[1]):
        refusals.until[owner, server] = -np.inf
    refusals.revived[0] = 1


@inner_kernel
def note_more_to_offer(refusals: Refusals, queue: Queue, server: int, now: float) -> None:
    """Note that a server was freed, after `wake`, and when those who refuse it hear of that."""
    refusals.last_freed[server] = queue.freed.now[0] - 1
    _schedule(refusals, queue, server, now)


@inner_kernel
def _schedule(refusals: Refusals, queue: Queue, server: int, now: float) -> None:
    """Put the next time at which a waiting user hears of the server where it belongs. O(U)."""
    n_servers, earliest = refusals.last_freed.size, np.inf
    for owner in range(refusals.until.shape[0]):
        until = refusals.until[owner, server]
        is_news = refusals.last_freed[server] >= refusals.moment[owner, server]
        if until > now and is_news and queue.heaps.place[owner] >= 0:
            earliest = min(earliest, until)
    if earliest < np.inf:
        push(refusals.due, 0, n_servers, server, earliest, 0.0)
    else:
        take_out(refusals.due, 0, n_servers, server)
    _note_next(refusals)


@inner_kernel
def _note_next(refusals: Refusals) -> None:
    due = refusals.due
    refusals.next_time[0] = due.key[due.item[0]] if due.size[0] > 0 else np.inf


@inner_kernel
def _hears(refusals: Refusals, queue: Queue, owner: int, server: int, now: float) -> bool:
    """Return whether a user that waits is offered the server."""
    if queue.heaps.place[owner] < 0:
        return False
    until = refusals.until[owner, server]
    if until == -np.inf:
        return True
    return bool(until <= now and refusals.last_freed[server] >= refusals.moment[owner, server])


@separate_kernel
def serve_by_offers(
    state: State,
    queue: Queue,
    index: RatioIndex,
    round_: Round,
    refusals: Refusals,
    starts: Starts,
    now: float,
) -> int:
    """Make offers until everybody refuses all; return how many tasks were placed.

    Stops before that when the room is used up. A gang starts if all of it fits into one offer.

    Notes
    -----
    O(U R) per offer and what the user's search along its waiting kinds costs. A round looks at all
    servers if anything was submitted, and else at those freed and those no longer refused.
    """
    _collect_due(refusals, queue, now)
    n = int(0)  # noqa: RUF046, UP018 (a plain 0 is compiled for apart)
    while True:
        if round_.position[0] == round_.size[0]:
            _begin_offers(state, queue, round_, refusals, now)
            if round_.size[0] == 0:
                break
        while round_.position[0] < round_.size[0]:
            server, owner = round_.order[round_.position[0]], refusals.taker[0]
            if owner == NONE:
                owner = _least_listener(state, queue, round_, refusals, server, now)
            if owner != NONE:
                while True:
                    if n >= starts.limit:
                        refusals.taker[0], starts.is_over[0] = owner, 0
                        return n
                    kind, end = _place_first(state, queue, index, owner, server, starts, n)
                    if kind == NONE:
                        break
                    note_placed(state, queue, kind)
                    n = end
                refusals.taker[0] = NONE
                refusals.until[owner, server] = now + refusals.seconds
                refusals.moment[owner, server] = queue.freed.now[0]
            round_.position[0] += 1
    for k in range(queue.n_fresh[0]):
        _schedule(refusals, queue, queue.fresh[k], now)
    refusals.revived[0] = 0
    end_round(queue)
    starts.is_over[0] = 1
    return n


@inner_kernel
def _collect_due(refusals: Refusals, queue: Queue, now: float) -> None:
    """Count servers among the fresh ones of which a refusal has ended."""
    due = refusals.due
    while due.size[0] > 0 and due.key[due.item[0]] <= now:
        server = due.item[0]
        take_out(due, 0, refusals.last_freed.size, server)
        if queue.fresh_in[server] != queue.round[0]:
            queue.fresh_in[server] = queue.round[0]
            queue.fresh[queue.n_fresh[0]] = server
            queue.n_fresh[0] += 1
    _note_next(refusals)


@inner_kernel
def _begin_offers(
    state: State, queue: Queue, round_: Round, refusals: Refusals, now: float
) -> None:
    size = 0
    if queue.heaps.size[0] > 0:
        n_seen = servers_to_see(queue, round_, refusals.revived[0] == 0)
        for k in range(n_seen):
            server = round_.order[k]
            if not state.closed[server] and _anybody_hears(state, queue, refusals, server, now):
                round_.order[size] = server
                size += 1
    round_.size[0], round_.position[0] = size, 0
    shuffle(round_.order, size, round_.seed)


@inner_kernel
def _anybody_hears(state: State, queue: Queue, refusals: Refusals, server: int, now: float) -> bool:
    if not _has_free(state, server):
        return False
    for owner in range(state.placed_by.size):  # noqa: SIM110 (numba knows no generators)
        if _hears(refusals, queue, owner, server, now):
            return True
    return False


@inner_kernel
def _has_free(state: State, server: int) -> bool:
    for r in range(state.free.shape[1]):  # noqa: SIM110 (numba knows no generators)
        if state.free[server, r] > 0:
            return True
    return False


@inner_kernel
def _least_listener(
    state: State, queue: Queue, round_: Round, refusals: Refusals, server: int, now: float
) -> int:
    """Return the user with the least score of those that hear of the server, or -1."""
    chosen, key, key_low = int(-1), 0.0, 0.0  # noqa: RUF046, UP018 (see best_fit)
    if not _has_free(state, server):
        return chosen
    for owner in range(state.placed_by.size):
        if _hears(refusals, queue, owner, server, now):
            if round_.by_server:
                high, low = _share_of_server(state, owner, queue.backlog.first_kind[owner], server)
            else:
                high, low = owners_score(state, owner)
            if chosen == NONE or compare(high, low, key, key_low) < 0:
                chosen, key, key_low = owner, high, low
    return chosen


@inner_kernel
def _share_of_server(state: State, owner: int, kind: int, server: int) -> tuple[float, float]:
    """Return the owner's share of the server by all that it holds, for no task is known."""
    g = state.group[server]
    largest, largest_low = 0.0, 0.0
    for r in range(state.free.shape[1]):
        high, low = held_by(state, owner, r)
        if high > 0.0 and state.capacity[g, r] > 0:
            over, over_low = of_whole(state.capacity[g, r])
            high, low = divide(high, low, over, over_low)
            if compare(high, low, largest, largest_low) > 0:
                largest, largest_low = high, low
    return times(largest, largest_low, state.inverse_weight[kind], state.inverse_weight_low[kind])


@inner_kernel
def _place_first(
    state: State,
    queue: Queue,
    index: RatioIndex,
    owner: int,
    server: int,
    starts: Starts,
    n: int,
) -> tuple[int, int]:
    """Place the owner's first task that fits on the server, or gang of which all tasks do.

    Returns the kind, or -1, and where `starts` ends then.
    """
    kind = queue.backlog.first_kind[owner]
    while kind != NONE:
        end = place_unit(state, queue, index, FIRST_FIT, kind, server, True, starts, n)
        if end != FAILED:
            return int(kind), end
        if queue.strict:
            break
        kind = queue.backlog.next_kind[kind]
    return -1, n
