"""The server on which a queue's share is least, of those that take its task."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.optimize.bits import lowest_bit
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.optimize.double_double import compare
from fairlead.scheduler.fit_index import ONE, WORD, FitIndex
from fairlead.scheduler.kind_tree import KindTree, first_of_kind
from fairlead.scheduler.order_heaps import precedes
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.servers import fits, may_take
from fairlead.scheduler.shares_at_hand import share_of

# Shares in plain floats that differ by more than this, relative, differ in truth.
ROUGH = 1e-14


class Bounds(NamedTuple):
    """For one search; `FitIndex` has W words.

    Attributes
    ----------
    word : (W,) float
        No server there has a lesser share, by R resources.
    over : (R,) float
        What the queue holds of what the task takes, otherwise 0.
    """

    word: FloatArray
    over: FloatArray


def no_bounds(index: FitIndex) -> Bounds:
    """Return space for one search."""
    return Bounds(np.zeros(index.filled.size), np.zeros(index.most_free.shape[0]))


@inner_kernel
def rough_share(core: Core, residual: bool, q: int, k: int, s: int) -> float:
    """Return a queue's share of a server, times its weight, in plain floats."""
    share = 0.0
    for r in range(core.held.shape[1]):
        if core.demand[k, r] > 0:
            over = core.free[s, r] if residual else core.capacity[s, r]
            if over <= 0:
                return np.inf
            share = max(share, float(core.held[q, r]) / float(over))
    return share


@separate_kernel
def has_less(
    core: Core, residual: bool, q: int, k: int, s: int, share: float, other: int, least: float
) -> bool:
    """Return whether a share is less on a server than on another one, or the same and earlier."""
    if share < least * (1.0 - ROUGH):
        return True
    if share > least * (1.0 + ROUGH):
        return False
    if residual:
        a, a_low = share_of(core, core.free, s, q, k)
        b, b_low = share_of(core, core.free, other, q, k)
    else:
        a, a_low = share_of(core, core.capacity, s, q, k)
        b, b_low = share_of(core, core.capacity, other, q, k)
    order = compare(a, a_low, b, b_low)
    return order < 0 or (order == 0 and precedes(core.server_node, s, other))


@separate_kernel
def least_fresh(core: Core, residual: bool, q: int, k: int) -> int:
    """Return the server with the least share among the fresh ones, or NONE."""
    best, least = NONE, np.inf
    for f in range(core.numbers[0].fresh):
        s = core.fresh[f]
        if may_take(core, k, s):
            share = rough_share(core, residual, q, k, s)
            if best == NONE or has_less(core, residual, q, k, s, share, best, least):
                best, least = s, share
    return best


@separate_kernel
def least_by_kind(core: Core, tree: KindTree, q: int, k: int) -> int:
    """Return the server with the least share of what servers have, or NONE. Cost O(C R)."""
    best, least, where = NONE, np.inf, core.shapes[k].where
    for c in range(tree.begin.size - 1):
        begin = tree.begin[c]
        if begin == tree.begin[c + 1] or not core.may[where, core.kinds[c].klass]:
            continue
        share = rough_share(core, False, q, k, tree.server[begin])
        if best == NONE or share <= least * (1.0 + ROUGH):
            s = first_of_kind(core, tree, k, c)
            if s != NONE and (best == NONE or has_less(core, False, q, k, s, share, best, least)):
                best, least = s, share
    return best


@separate_kernel
def bound_words(core: Core, index: FitIndex, bounds: Bounds, q: int, k: int) -> float:
    """Bound a queue's share of what is free, word by word, and return the least, times its weight.

    A word where nothing is has the bound infinity.
    """
    n_words = bounds.word.size
    for word in range(n_words):
        bounds.word[word] = 0.0
    for r in range(core.held.shape[1]):
        demand, held = float(core.demand[k, r]), float(core.held[q, r])
        if demand > 0.0:
            for word in range(n_words):
                most = index.most_free[r, word]
                bound = held / most if most >= demand else np.inf
                bounds.word[word] = max(bounds.word[word], bound)
    least = np.inf
    for word in range(n_words):
        least = min(least, bounds.word[word])
    return least


@separate_kernel
def least_of_free(core: Core, index: FitIndex, bounds: Bounds, q: int, k: int) -> int:
    """Return the server with the least share of what is free, or NONE.

    Takes what `bound_words` found. Servers in a word have almost the same ratio of free amounts, so
    with two resources one of them meets the bound, and where it is least is looked first.
    """
    best, least, where = NONE, np.inf, core.shapes[k].where
    while True:
        word = 0
        for w in range(1, bounds.word.size):
            if bounds.word[w] < bounds.word[word]:
                word = w
        if bounds.word[word] > least * (1.0 + ROUGH) or bounds.word[word] == np.inf:
            return best
        bounds.word[word] = np.inf
        for r in range(core.held.shape[1]):
            index.most_free[r, word] = 0.0
        bits = index.filled[word]
        while bits:
            number = index.first[word * WORD + lowest_bit(bits)]
            bits &= bits - ONE
            while number != NONE:
                s = index.lots[number].first
                number = index.lots[number].after
                for r in range(core.held.shape[1]):
                    index.most_free[r, word] = max(index.most_free[r, word], float(core.free[s, r]))
                if fits(core, k, s) and core.may[where, core.servers[s].klass]:
                    share = rough_share(core, True, q, k, s)
                    if best == NONE or has_less(core, True, q, k, s, share, best, least):
                        best, least = s, share
        index.loose[word] = False
