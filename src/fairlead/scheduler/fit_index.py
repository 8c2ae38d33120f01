"""Servers by what they have free, to find the best fit without a scan.

Servers of one class with equal free amounts are a lot; no selection tells more of them apart than
the first in order. One ratio F[b] / F[a] of a pair of resources bounds the fit score H from below
for every shape that leads with one of the pair. Lots are kept in buckets by that ratio. A bitmap
says which buckets are not empty; per word of it there is the most that any server in it has free.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.optimize.bits import lowest_bit, mixed
from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.scheduler.order_heaps import add_node, take_node
from fairlead.scheduler.records import NONE, Core, Records, record, records

WORD = 64
ONE = np.uint64(1)
_FEWEST_BUCKETS, _MOST_BUCKETS = 2**12, 2**20

LOT = record(whole="first hashed bucket after before")
WordArray = np.ndarray[tuple[int], np.dtype[np.uint64]]


@by_address
class FitIndex(NamedTuple):
    """Lots of S servers at most, in B buckets.

    Attributes
    ----------
    pair : (2,) int
        Resources a and b.
    scale : (1,) float
        Turns free quanta of b over free quanta of a into shares of a pool, roughly.
    lots : (S,) LOT
        First server; next lot with the same hash; bucket, and neighbours there.
    spare : (S,) int
        Numbers without a lot; the first `n_spare` count.
    n_spare : (1,) int
    lot : (S,) int
        The lot of each server, or NONE.
    hashed : (slots,) int
        First lot with each hash, or NONE; the number of slots is a power of 2.
    first : (B,) int
        First lot of each bucket, or NONE.
    filled : (B / 64,) uint
        A bit per bucket with a lot in it.
    filled_words : (B / 4096,) uint
        A bit per word of `filled` that is not zero.
    most_free : (R, B / 64) int
        No server in the word's buckets has more free.
    loose : (B / 64,) bool
        Whether that may be more than any server there has.
    least : (R,) int
        A server with less than this fits nobody, and is in no lot.
    """

    pair: IntArray
    scale: FloatArray
    lots: Records
    spare: IntArray
    n_spare: IntArray
    lot: IntArray
    hashed: IntArray
    first: IntArray
    filled: WordArray
    filled_words: WordArray
    most_free: IntArray
    loose: BoolArray
    least: IntArray


def empty_index(
    servers: int, pair: tuple[int, int], scale: float, least: IntArray, buckets_per_server: int = 1
) -> FitIndex:
    """Return an index without servers, with room for a number of them."""
    wanted = min(max(servers * buckets_per_server, _FEWEST_BUCKETS), _MOST_BUCKETS)
    buckets = 2 ** (wanted - 1).bit_length()
    words = buckets // WORD
    return FitIndex(
        pair=np.array(pair),
        scale=np.array([scale]),
        lots=records(LOT, servers),
        spare=np.arange(servers)[::-1].copy(),
        n_spare=np.array([servers]),
        lot=np.full(servers, NONE),
        hashed=np.full(2 ** max(servers - 1, 1).bit_length(), NONE),
        first=np.full(buckets, NONE),
        filled=np.zeros(words, dtype=np.uint64),
        filled_words=np.zeros(words // WORD, dtype=np.uint64),
        most_free=np.zeros((len(least), words), dtype=np.int64),
        loose=np.zeros(words, dtype=bool),
        least=least,
    )


@inner_kernel
def _slot_of(core: Core, index: FitIndex, s: int) -> int:
    word = np.uint64(core.servers[s].klass)
    for r in range(core.free.shape[1]):
        word = mixed(word, core.free[s, r])
    return int(word & np.uint64(index.hashed.size - 1))


@inner_kernel
def _are_alike(core: Core, s: int, other: int) -> bool:
    alike = core.servers[s].klass == core.servers[other].klass
    for r in range(core.free.shape[1]):
        alike &= core.free[s, r] == core.free[other, r]
    return bool(alike)


@inner_kernel
def bucket_of(core: Core, index: FitIndex, s: int) -> int:
    """Return the bucket of a server's free amounts."""
    free_a = float(max(core.free[s, index.pair[0]], 0))
    free_b = float(max(core.free[s, index.pair[1]], 0)) * index.scale[0]
    share = free_b / (free_a + free_b) if free_a + free_b > 0.0 else 0.5
    return min(int(share * index.first.size), index.first.size - 1)


@inner_kernel
def enter(core: Core, index: FitIndex, s: int) -> None:
    """Put a server where its free amounts belong, after they changed or it was opened."""
    if not core.servers[s].open:
        return
    for r in range(core.free.shape[1]):
        if core.free[s, r] < index.least[r]:
            return
    slot = _slot_of(core, index, s)
    number = index.hashed[slot]
    while number != NONE and not _are_alike(core, s, index.lots[number].first):
        number = index.lots[number].hashed
    is_new = number == NONE
    if is_new:
        index.n_spare[0] -= 1
        number = index.spare[index.n_spare[0]]
        index.lots[number].first = NONE
        index.lots[number].hashed = index.hashed[slot]
        index.hashed[slot] = number
    lot = index.lots[number]
    index.lot[s] = number
    lot.first = add_node(core.server_node, lot.first, s)
    if not is_new:
        return
    bucket = bucket_of(core, index, s)
    lot.bucket, lot.after, lot.before = bucket, index.first[bucket], NONE
    if lot.after != NONE:
        index.lots[lot.after].before = number
    index.first[bucket] = number
    word = bucket // WORD
    index.filled[word] |= ONE << np.uint64(bucket % WORD)
    index.filled_words[word // WORD] |= ONE << np.uint64(word % WORD)
    for r in range(core.free.shape[1]):
        index.most_free[r, word] = max(index.most_free[r, word], core.free[s, r])


@inner_kernel
def leave(core: Core, index: FitIndex, s: int) -> None:
    """Take a server out, before its free amounts change or it is closed."""
    number = index.lot[s]
    if number == NONE:
        return
    lot = index.lots[number]
    index.lot[s] = NONE
    lot.first = take_node(core.server_node, lot.first, s)
    if lot.first != NONE:
        return
    slot = _slot_of(core, index, s)
    if index.hashed[slot] == number:
        index.hashed[slot] = lot.hashed
    else:
        other = index.hashed[slot]
        while index.lots[other].hashed != number:
            other = index.lots[other].hashed
        index.lots[other].hashed = lot.hashed
    index.spare[index.n_spare[0]] = number
    index.n_spare[0] += 1
    if lot.after != NONE:
        index.lots[lot.after].before = lot.before
    word = lot.bucket // WORD
    index.loose[word] = True
    if lot.before != NONE:
        index.lots[lot.before].after = lot.after
        return
    index.first[lot.bucket] = lot.after
    if lot.after != NONE:
        return
    index.filled[word] &= ~(ONE << np.uint64(lot.bucket % WORD))
    if index.filled[word] == 0:
        index.filled_words[word // WORD] &= ~(ONE << np.uint64(word % WORD))
        for r in range(core.free.shape[1]):
            index.most_free[r, word] = 0
        index.loose[word] = False


@separate_kernel
def tighten(core: Core, index: FitIndex, word: int) -> None:
    """Recompute the most that any server in the word's buckets has free."""
    for r in range(core.free.shape[1]):
        index.most_free[r, word] = 0
    bits = index.filled[word]
    while bits:
        number = index.first[word * WORD + lowest_bit(bits)]
        bits &= bits - ONE
        while number != NONE:
            s = index.lots[number].first
            for r in range(core.free.shape[1]):
                index.most_free[r, word] = max(index.most_free[r, word], core.free[s, r])
            number = index.lots[number].after
    index.loose[word] = False
