"""Choose user and server together by free amounts (rPS-DSF); compiled.

A user's score x[n] / (phi gamma) is least on the server whose free amounts would take most of its
tasks, gamma, whatever x and phi are. So each user keeps the best server it knows of; placing a task
elsewhere leaves that the best. Scores only rise while tasks are placed, and a user's best server is
looked for again when the user comes to the top and its server has changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.optimize.bits import lowest_bit
from fairlead.optimize.compiling import inner_kernel, kernel
from fairlead.optimize.double_double import compare
from fairlead.optimize.keyed_heap import Heaps, empty_heaps, push, raise_least, take_out
from fairlead.scheduler.ratio_index import RatioIndex, enter, first_idle, leave, tighten_outer
from fairlead.scheduler.scoring import roughly_fit, score, tasks_that_fit
from fairlead.scheduler.state import State, fits, may_take, take

# Tasks that fit, in plain floats, differ in truth when they differ by more than this, relative.
ROUGH = 1e-14

_WORD = 64
_ONE = np.uint64(1)


class RoomQueue(NamedTuple):
    """Who waits, and the best server that each knows of.

    Attributes
    ----------
    heaps : Heaps
        One heap of the users with tasks left of which one may fit somewhere, by score.
    server : (N,) int
        The server that would take most tasks of the user, or -1 where it has to be looked for.
    seen : (N,) int
        How often that server had changed when it was found to be the best.
    changes : (S,) int
        How often each server's free amounts have changed.
    first : (N,) int
        No earlier server takes a task of the user; for those that have none placed.
    inverse : (N, R) float
        One over the demands; 0 where nothing is demanded.
    outer_bound : (buckets / 4096,) float
        Workspace.
    word_bound : (64,) float
        Workspace.
    """

    heaps: Heaps
    server: IntArray
    seen: IntArray
    changes: IntArray
    first: IntArray
    inverse: FloatArray
    outer_bound: FloatArray
    word_bound: FloatArray


def fill_room_queue(state: State, index: RatioIndex) -> RoomQueue:
    """Return the queue in which everybody with tasks waits. Cost O(N log N)."""
    n_users = len(state.placed)
    queue = RoomQueue(
        empty_heaps(1, n_users),
        np.full(n_users, -1, dtype=np.int64),
        np.zeros(n_users, dtype=np.int64),
        np.zeros(len(state.group), dtype=np.int64),
        np.zeros(n_users, dtype=np.int64),
        np.divide(1.0, state.demand, out=np.zeros(state.demand.shape), where=state.demand > 0),
        np.zeros(len(index.filled_words)),
        np.zeros(_WORD),
    )
    _let_all_wait(state, queue)
    return queue


@kernel
def _let_all_wait(state: State, queue: RoomQueue) -> None:
    for user in range(state.placed.size):
        wait_for_room(state, queue, user)


@kernel
def wait_for_room(state: State, queue: RoomQueue, user: int) -> None:
    """Have a user with tasks left wait; its score is looked into when it comes to the top."""
    queue.server[user] = -1
    queue.first[user] = 0
    if state.pending[user] > 0:
        push(queue.heaps, 0, state.placed.size, user, 0.0, 0.0)


@inner_kernel
def _first_fit(state: State, queue: RoomQueue, user: int) -> int:
    """Return the first server that takes a task of the user, or -1."""
    server = queue.first[user]
    n_servers = state.free.shape[0]
    while server < n_servers and not may_take(state, user, server):
        server += 1
    queue.first[user] = server
    return server if server < n_servers else -1


@inner_kernel
def _roomier(state: State, user: int, server: int, other: int) -> bool:
    """Return whether a server would take more tasks than another, or as many and is earlier."""
    a, a_low = tasks_that_fit(state, user, server)
    b, b_low = tasks_that_fit(state, user, other)
    order = compare(a, a_low, b, b_low)
    return order > 0 or (order == 0 and server < other)


@inner_kernel
def _improve(state: State, user: int, server: int, best: int, most: float) -> tuple[int, float]:
    """Return the roomier of a server and the best one met, and the tasks that it would take."""
    tasks = roughly_fit(state, user, server)
    if best < 0 or tasks > most * (1.0 + ROUGH):
        return server, tasks
    if tasks >= most * (1.0 - ROUGH) and _roomier(state, user, server, best):
        return server, tasks
    return best, most


@inner_kernel
def _bound_rooms(
    most_free: FloatArray, inverse: FloatArray, user: int, begin: int, bound: FloatArray
) -> None:
    """Bound the tasks that servers with at most so much free would take.

    Parameters
    ----------
    most_free : (R, K) float
        Quanta.
    inverse : (N, R) float
        One over the demands; 0 where nothing is demanded.
    user : int
        Whose tasks.
    begin : int
        The first column of `most_free` that counts.
    bound : (B,) float
        On return the tasks for that column and those after it.
    """
    bound[:] = np.inf
    for r in range(most_free.shape[0]):
        if inverse[user, r] > 0.0:
            for k in range(bound.size):
                tasks = most_free[r, begin + k] * inverse[user, r]
                bound[k] = tasks if tasks < bound[k] else bound[k]


@inner_kernel
def _bound_outers(state: State, index: RatioIndex, queue: RoomQueue, user: int) -> int:
    """Bound the tasks that a server in each word of words would take; return the most promising.

    The words of words that have the highest bound are tight afterwards.
    """
    while True:
        _bound_rooms(index.most_free_outer, queue.inverse, user, 0, queue.outer_bound)
        first, highest = 0, 0.0
        for outer in range(index.filled_words.size):
            if queue.outer_bound[outer] > highest:
                first, highest = outer, queue.outer_bound[outer]
        if not index.loose_outer[first]:
            return first
        tighten_outer(state, index, first)


@inner_kernel
def _find_roomiest_idle(state: State, index: RatioIndex, user: int) -> tuple[int, float]:
    """Return the best server among those that hold nothing, or -1, and the tasks it would take."""
    best, most = int(-1), 0.0  # noqa: RUF046, UP018 (a plain -1 is compiled for apart)
    for g in range(state.capacity.shape[0]):
        if state.eligible[user, g]:
            server = first_idle(state, index, g)
            if server >= 0 and fits(state, user, server):
                best, most = _improve(state, user, server, best, most)
    return best, most


@inner_kernel
def _find_roomiest(
    state: State,
    index: RatioIndex,
    queue: RoomQueue,
    user: int,
    first: int,
    best: int,
    most: float,
) -> int:
    """Return the server that would take most tasks of the user, the earlier of equals, or -1.

    Takes what `_bound_outers` and `_find_roomiest_idle` found. Servers in a word have almost the
    same ratio of free amounts, so with two resources the bound of a word is met by one of them, and
    where the bound is highest is looked first.
    """
    if queue.outer_bound[first] >= max(most, 1.0) * (1.0 - ROUGH):
        best, most = _search_outer(state, index, queue, user, first, best, most)
    for outer in range(index.filled_words.size):
        if outer != first and queue.outer_bound[outer] >= max(most, 1.0) * (1.0 - ROUGH):
            best, most = _search_outer(state, index, queue, user, outer, best, most)
    return best


@inner_kernel
def _search_outer(
    state: State, index: RatioIndex, queue: RoomQueue, user: int, outer: int, best: int, most: float
) -> tuple[int, float]:
    """Look into the words of a word of words, those with the highest bounds first."""
    if index.loose_outer[outer]:
        tighten_outer(state, index, outer)
    bound = queue.word_bound
    _bound_rooms(index.most_free, queue.inverse, user, outer * _WORD, bound)
    while True:
        promising = 0
        for k in range(_WORD):
            if bound[k] > bound[promising]:
                promising = k
        if bound[promising] < max(most, 1.0) * (1.0 - ROUGH):
            return best, most
        bound[promising] = 0.0
        best, most = _search_word(state, index, user, outer * _WORD + promising, best, most)


@inner_kernel
def _search_word(
    state: State, index: RatioIndex, user: int, word: int, best: int, most: float
) -> tuple[int, float]:
    bits = index.filled[word]
    while bits:
        lot = index.first[word * _WORD + lowest_bit(bits)]
        bits &= bits - _ONE
        while lot >= 0:
            server = index.lots.first[lot]
            if may_take(state, user, server):
                best, most = _improve(state, user, server, best, most)
            lot = index.following[lot]
    return best, most


@kernel
def place_by_room(
    state: State,
    queue: RoomQueue,
    index: RatioIndex,
    placed_user: IntArray,
    placed_server: IntArray,
) -> int:
    """Place tasks until nothing more fits or the arrays are full; return how many were placed.

    Of equal pairs the earlier user's goes first, then the one with the earlier server.

    Notes
    -----
    A placement costs O(log N + G) and about one search for a roomiest server.
    """
    n_users = state.placed.size
    heaps = queue.heaps
    n_placed = 0
    while n_placed < placed_user.size and heaps.size[0] > 0:
        user = heaps.item[0]
        if state.pending[user] == 0:
            take_out(heaps, 0, n_users, user)
            continue
        if not _settle_server(state, queue, index, user):
            continue
        server = queue.server[user]
        if server < 0:
            take_out(heaps, 0, n_users, user)
            continue
        key, key_low = score(state, user, server)
        if key != heaps.key[user] or key_low != heaps.key_low[user]:
            raise_least(heaps, 0, n_users, key, key_low)
            continue
        leave(state, index, server)
        take(state, user, server)
        enter(state, index, server)
        queue.changes[server] += 1
        placed_user[n_placed], placed_server[n_placed] = user, server
        n_placed += 1
    return n_placed


@inner_kernel
def _settle_server(state: State, queue: RoomQueue, index: RatioIndex, user: int) -> bool:
    """Settle the best server of the user at the top; false if it is not at the top any more.

    A bound on the room that it can find is cheap. If the score with that much room is already
    above somebody else's, the search is put off until the user is at the top again.
    """
    server = queue.server[user]
    if state.placed[user] == 0:
        server = _first_fit(state, queue, user)  # every score is 0: the first server is taken
    elif server < 0 or queue.changes[server] != queue.seen[user]:
        idle, most = _find_roomiest_idle(state, index, user)
        first = _bound_outers(state, index, queue, user)
        room = max(most, queue.outer_bound[first]) * (1.0 + ROUGH)
        least = state.placed[user] * state.inverse_weight[user] / room * (1.0 - ROUGH)
        if least > _second_key(queue.heaps):
            raise_least(queue.heaps, 0, state.placed.size, least, 0.0)
            return False
        server = _find_roomiest(state, index, queue, user, first, idle, most)
    queue.server[user] = server
    if server >= 0:
        queue.seen[user] = queue.changes[server]
    return True


@inner_kernel
def _second_key(heaps: Heaps) -> float:
    """Return the least key but one of the first heap, without its low part."""
    second = np.inf
    for position in range(1, min(3, heaps.size[0])):
        second = min(second, heaps.key[heaps.item[position]])
    return second


@kernel
def wake_for_room(state: State, queue: RoomQueue, server: int) -> None:
    """Have users look again at a server that has more free now. O(N R)."""
    queue.changes[server] += 1
    n_users = state.placed.size
    heaps = queue.heaps
    for user in range(n_users):
        queue.first[user] = min(queue.first[user], server)
        if state.pending[user] == 0 or not may_take(state, user, server):
            continue
        queue.server[user] = -1
        key, key_low = score(state, user, server)
        waits = heaps.place[user] >= 0
        if not waits or compare(key, key_low, heaps.key[user], heaps.key_low[user]) < 0:
            push(heaps, 0, n_users, user, key, key_low)
