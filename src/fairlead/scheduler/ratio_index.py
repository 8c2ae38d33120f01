"""Servers by the ratio of their free amounts, to find the best fit without a scan; compiled.

One ratio F[b] / F[a] of a pair of resources bounds the misfit H (`misfit`) from below for every
user whose first demanded resource is one of the pair. Servers that hold tasks are kept in buckets
by that ratio, those that are alike as one (`lots`). A bitmap says which buckets are not empty; per
word of the bitmap there is the most that any server in it has free. Servers that hold nothing are
kept per group, in another bitmap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.model.quanta import Quanta
from fairlead.optimize.bits import lowest_bit
from fairlead.optimize.compiling import inner_kernel, kernel
from fairlead.scheduler.lots import Lots, check_lots, join_lot, leave_lot, no_lots
from fairlead.scheduler.misfit import Proportions, find_proportions, rough_misfit
from fairlead.scheduler.state import State, fits

FEWEST_BUCKETS, MOST_BUCKETS = 2**12, 2**20

_WORD = 64
_ONE = np.uint64(1)


WordArray = np.ndarray[tuple[int], np.dtype[np.uint64]]


class RatioIndex(NamedTuple):
    """Servers by the ratio of their free amounts of two resources, a and b.

    Attributes
    ----------
    pair : (2,) int
        Resources a and b.
    proportions : Proportions
        Of the users' demands.
    idle_fit : (N, G) float
        H on a server of the group that holds nothing; infinite where the user may not run.
    idle : (words,) uint
        A bit per server that holds nothing and is open.
    idle_from : (G,) int
        No earlier server of the group holds nothing.
    lots : Lots
        The other servers, unless they are closed or fit nobody.
    bucket, following, preceding : (S,) int
        The bucket of each lot, and its neighbours there, or -1.
    first : (buckets,) int
        First lot of each bucket, or -1.
    filled : (buckets / 64,) uint
        A bit per bucket with a lot in it.
    filled_words : (buckets / 4096,) uint
        A bit per word of `filled` that is not zero.
    most_free : (R, buckets / 64) float
        No server in the word's buckets has more free; rounded as any amount there would be.
    loose : (buckets / 64,) bool
        Whether `most_free` may be more than any server there has.
    most_free_outer : (R, buckets / 4096) float
        The same per word of `filled_words`.
    loose_outer : (buckets / 4096,) bool
        Whether that may be more than any server there has.
    least_demand : (R,) int
        A server with less than this of a resource fits nobody, and is in no lot.
    """

    pair: IntArray
    proportions: Proportions
    idle_fit: FloatArray
    idle: WordArray
    idle_from: IntArray
    lots: Lots
    bucket: IntArray
    following: IntArray
    preceding: IntArray
    first: IntArray
    filled: WordArray
    filled_words: WordArray
    most_free: FloatArray
    loose: BoolArray
    most_free_outer: FloatArray
    loose_outer: BoolArray
    least_demand: IntArray


def build_ratio_index(
    problem: Problem,
    quanta: Quanta,
    state: State,
    *,
    every_server: bool = False,
    buckets_per_server: int = 1,
) -> RatioIndex:
    """Return the index of a state in which no server holds anything.

    Parameters
    ----------
    problem, quanta, state
        What is scheduled.
    every_server : bool
        Whether servers are looked for on which the task may not fit.
    buckets_per_server : int
        How fine the buckets are, roughly.

    Notes
    -----
    O(S + N G R).
    """
    n_servers, n_resources = state.free.shape
    wanted = n_servers * buckets_per_server
    n_buckets = int(2 ** np.ceil(np.log2(min(max(wanted, FEWEST_BUCKETS), MOST_BUCKETS))))
    proportions = find_proportions(problem, quanta)
    words = n_buckets // _WORD
    index = RatioIndex(
        pair=_choose_pair(state.demand, proportions.lead),
        proportions=proportions,
        idle_fit=np.full((problem.n_users, problem.n_groups), np.inf),
        idle=np.zeros(n_servers // _WORD + 1, dtype=np.uint64),
        idle_from=state.first_server[:-1].copy(),
        lots=no_lots(n_servers),
        bucket=np.full(n_servers, -1, dtype=np.int64),
        following=np.full(n_servers, -1, dtype=np.int64),
        preceding=np.full(n_servers, -1, dtype=np.int64),
        first=np.full(n_buckets, -1, dtype=np.int64),
        filled=np.zeros(words, dtype=np.uint64),
        filled_words=np.zeros(words // _WORD, dtype=np.uint64),
        most_free=np.zeros((n_resources, words)),
        loose=np.zeros(words, dtype=bool),
        most_free_outer=np.zeros((n_resources, words // _WORD)),
        loose_outer=np.zeros(words // _WORD, dtype=bool),
        least_demand=np.zeros(n_resources, dtype=np.int64)
        if every_server
        else state.demand.min(axis=0),
    )
    _enter_idle(state, index, every_server)
    return index


def _choose_pair(demand: IntArray, lead: IntArray) -> IntArray:
    """Choose the resource that leads most often, and the one most often demanded beside it."""
    a = int(np.bincount(lead, minlength=demand.shape[1]).argmax())
    beside = (demand[lead == a] > 0).sum(axis=0)
    beside[a] = -1
    return np.array([a, int(beside.argmax())])


@kernel
def _enter_idle(state: State, index: RatioIndex, every_server: bool) -> None:
    for server in range(state.free.shape[0]):
        enter(state, index, server)
    for n in range(state.demand.shape[0]):
        for g in range(state.capacity.shape[0]):
            server = state.first_server[g]
            if state.eligible[n, g] and (every_server or fits(state, n, server)):
                index.idle_fit[n, g], _ = rough_misfit(state, index.proportions, n, server)


@inner_kernel
def enter(state: State, index: RatioIndex, server: int) -> None:
    """Put a server where its free amounts belong, after they changed or it was opened."""
    if state.closed[server]:
        return
    n_resources = state.free.shape[1]
    g = state.group[server]
    is_idle, is_useful = True, True
    for r in range(n_resources):
        is_idle &= state.free[server, r] == state.capacity[g, r]
        is_useful &= state.free[server, r] >= index.least_demand[r]
    if is_idle:
        index.idle[server // _WORD] |= _ONE << np.uint64(server % _WORD)
        index.idle_from[g] = min(index.idle_from[g], server)
        return
    if is_useful and join_lot(state, index.lots, server):
        _enter_lot(state, index, server)


@inner_kernel
def _enter_lot(state: State, index: RatioIndex, server: int) -> None:
    """Put the new lot of a server into its bucket."""
    lot, bucket = index.lots.lot[server], _bucket_of(state, index, server)
    follower = index.first[bucket]
    index.bucket[lot] = bucket
    index.following[lot] = follower
    index.preceding[lot] = -1
    if follower >= 0:
        index.preceding[follower] = lot
    index.first[bucket] = lot
    word = bucket // _WORD
    index.filled[word] |= _ONE << np.uint64(bucket % _WORD)
    index.filled_words[word // _WORD] |= _ONE << np.uint64(word % _WORD)
    outer = word // _WORD
    for r in range(state.free.shape[1]):
        free = float(state.free[server, r])
        index.most_free[r, word] = max(index.most_free[r, word], free)
        index.most_free_outer[r, outer] = max(index.most_free_outer[r, outer], free)


@inner_kernel
def leave(state: State, index: RatioIndex, server: int) -> None:
    """Take a server out, before its free amounts change or after it was closed."""
    lot = index.lots.lot[server]
    if lot < 0:
        index.idle[server // _WORD] &= ~(_ONE << np.uint64(server % _WORD))
    elif leave_lot(state, index.lots, server):
        _leave_lot(state, index, lot)


@inner_kernel
def _leave_lot(state: State, index: RatioIndex, lot: int) -> None:
    """Take a lot that has ended out of its bucket."""
    bucket, follower, leader = index.bucket[lot], index.following[lot], index.preceding[lot]
    index.bucket[lot] = -1
    if follower >= 0:
        index.preceding[follower] = leader
    word = bucket // _WORD
    index.loose[word] = index.loose_outer[word // _WORD] = True
    if leader >= 0:
        index.following[leader] = follower
        return
    index.first[bucket] = follower
    if follower >= 0:
        return
    index.filled[word] &= ~(_ONE << np.uint64(bucket % _WORD))
    if index.filled[word] == 0:
        index.filled_words[word // _WORD] &= ~(_ONE << np.uint64(word % _WORD))
        for r in range(state.free.shape[1]):
            index.most_free[r, word] = 0.0
        index.loose[word] = False


@kernel
def _bucket_of(state: State, index: RatioIndex, server: int) -> int:
    a, b = index.pair[0], index.pair[1]
    free_a = float(state.free[server, a])
    free_b = float(state.free[server, b]) * index.proportions.scale[a, b]
    share = free_b / (free_a + free_b) if free_a + free_b > 0.0 else 0.5
    return min(int(share * index.first.size), index.first.size - 1)


@inner_kernel
def first_idle(state: State, index: RatioIndex, g: int) -> int:
    """Return the first server of the group that holds nothing and is open, or -1."""
    end = state.first_server[g + 1]
    server = index.idle_from[g]
    while server < end:
        word = index.idle[server // _WORD] >> np.uint64(server % _WORD)
        if word:
            server += lowest_bit(word)
            break
        server = (server // _WORD + 1) * _WORD
    index.idle_from[g] = min(server, end)
    return server if server < end else -1


@inner_kernel
def tighten(state: State, index: RatioIndex, word: int) -> None:
    """Recompute the most that any server in the word's buckets has free."""
    for r in range(state.free.shape[1]):
        index.most_free[r, word] = 0.0
    bits = index.filled[word]
    while bits:
        bit = lowest_bit(bits)
        bits &= bits - _ONE
        lot = index.first[word * _WORD + bit]
        while lot >= 0:
            server = index.lots.first[lot]
            for r in range(state.free.shape[1]):
                free = float(state.free[server, r])
                index.most_free[r, word] = max(index.most_free[r, word], free)
            lot = index.following[lot]
    index.loose[word] = False


def check_ratio_index(state: State, index: RatioIndex) -> None:
    """Assert that every server is where it belongs, once, and that nothing is understated."""
    capacity = state.capacity[state.group]
    idle = (state.free == capacity).all(axis=1) & ~state.closed
    useful = (state.free >= index.least_demand).all(axis=1) & ~state.closed & ~idle
    assert (_bits(index.idle)[: len(idle)] == idle).all(), "the idle servers are wrong"
    assert ((index.lots.lot >= 0) == useful).all(), "a server is missing or left over"
    check_lots(state, index.lots)
    assert (_bits(index.filled) == (index.first >= 0)).all(), "a bucket is wrongly empty or not"
    assert (_bits(index.filled_words) == (index.filled != 0)).all(), "a word is wrongly zero or not"
    lots_met = 0
    for bucket in np.flatnonzero(index.first >= 0).tolist():
        word, lot = bucket // _WORD, int(index.first[bucket])
        while lot >= 0:
            lots_met += 1
            server = int(index.lots.first[lot])
            assert index.bucket[lot] == bucket == _bucket_of(state, index, server)
            free = state.free[server].astype(np.float64)
            assert (index.most_free[:, word] >= free).all(), "a server is overlooked"
            assert (index.most_free_outer[:, word // _WORD] >= free).all(), "a server is overlooked"
            lot = int(index.following[lot])
    assert lots_met == (index.lots.first >= 0).sum(), "a lot is in no bucket"
    for g, hint in enumerate(index.idle_from.tolist()):
        members = slice(int(state.first_server[g]), hint)
        assert not idle[members].any(), "an idle server would be passed over"


def _bits(words: WordArray) -> BoolArray:
    """Return the bits of all words, the lowest of each first."""
    places = np.arange(_WORD, dtype=np.uint64)
    bits: BoolArray = (words[:, np.newaxis] >> places & _ONE).astype(bool).ravel()
    return bits
