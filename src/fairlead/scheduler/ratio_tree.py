"""The server whose free amounts make a queue's share least: a tree over the buckets of `fit_index`.

A node has the most that any server in the buckets below has free. Those have almost the same ratio
of free amounts, so with two resources one of them nearly meets the bound that this gives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.scheduler.fit_index import FitIndex
from fairlead.scheduler.least_shares import has_less, rough_share
from fairlead.scheduler.records import NONE, Core, Records
from fairlead.scheduler.servers import fits
from fairlead.scheduler.shares_at_hand import ROUGH

LATER = -2


@by_address
class RatioTree(NamedTuple):
    """B buckets, a power of 2.

    Attributes
    ----------
    most : (2 B, R) float
        The root is node 1; node n is above 2 n and 2 n + 1; buckets are the nodes from B on.
    first : (B,) int
        Of the index that it is over.
    bucket : (1,) int
        Where the server that changes was, or NONE.
    ahead : (64,) int
        Nodes still to be looked at, in one search.
    bound : (64,) float
        No server below has more room.
    least, inverse : (R,) float
        What a task takes, and one over what its queue holds of that; infinite for what it does not.
    """

    most: FloatArray
    first: IntArray
    bucket: IntArray
    ahead: IntArray
    bound: FloatArray
    least: FloatArray
    inverse: FloatArray


def tree_over(core: Core, index: FitIndex) -> RatioTree:
    """Return the tree over an index. Cost O(S + B R)."""
    buckets, resources = len(index.first), core.free.shape[1]
    most, used = np.zeros((2 * buckets, resources)), np.zeros(len(index.lots), dtype=bool)
    used[index.lot[index.lot != NONE]] = True
    lots = index.lots[used]
    np.maximum.at(most, buckets + lots["bucket"], core.free[lots["first"]].astype(np.float64))
    level = buckets
    while level > 1:
        level //= 2
        most[level : 2 * level] = np.maximum(
            most[2 * level : 4 * level : 2], most[2 * level + 1 : 4 * level : 2]
        )
    return RatioTree(
        most,
        index.first,
        bucket=np.zeros(1, dtype=np.int64),
        ahead=np.zeros(64, dtype=np.int64),
        bound=np.zeros(64),
        least=np.zeros(resources),
        inverse=np.zeros(resources),
    )


@inner_kernel
def leave_bucket(index: FitIndex, tree: RatioTree, s: int) -> None:
    """Note where a server is that will change."""
    number = index.lot[s]
    tree.bucket[0] = NONE if number == NONE else index.lots[number].bucket


@inner_kernel
def enter_bucket(core: Core, index: FitIndex, tree: RatioTree, s: int) -> None:
    """Take in that a server has changed. Cost O(R log B)."""
    number, before = index.lot[s], tree.bucket[0]
    bucket = NONE if number == NONE else index.lots[number].bucket
    buckets = index.first.size
    if before != NONE:
        _set_nodes(core.free, index.lots, index.first, tree.most, before + buckets)
    if bucket not in (NONE, before):
        _set_nodes(core.free, index.lots, index.first, tree.most, bucket + buckets)


@separate_kernel
def _set_nodes(free: IntArray, lots: Records, first: IntArray, most: FloatArray, node: int) -> None:
    """Bring a bucket and what is above it up to date."""
    changed = True
    while changed and node > 0:
        changed = False
        for r in range(free.shape[1]):
            if node >= first.size:
                has = 0.0
                number = first[node - first.size]
                while number != NONE:
                    has = max(has, float(free[lots[number].first, r]))
                    number = lots[number].after
            else:
                has = max(most[2 * node, r], most[2 * node + 1, r])
            changed |= has != most[node, r]
            most[node, r] = has
        node //= 2


@inner_kernel
def _room(tree: RatioTree, node: int) -> float:
    """Return how often no server below a node has what the queue holds; 0 where no task fits."""
    room, fits_one = np.inf, True
    for r in range(tree.least.size):
        most = tree.most[node, r]
        times = most * tree.inverse[r]
        fits_one &= most >= tree.least[r]
        room = times if times < room else room
    return room if fits_one else 0.0


@inner_kernel
def least_of_free(
    core: Core, index: FitIndex, tree: RatioTree, q: int, k: int, limit: float
) -> tuple[int, float]:
    """Return the server with the least share of what is free; and how low others may be.

    Shares are those of a queue that holds something of what the task takes, times its weight. The
    server is NONE where no task of the shape fits, and LATER where the share is above the limit.
    """
    for r in range(core.held.shape[1]):
        tree.least[r], tree.inverse[r] = float(core.demand[k, r]), np.inf
        if core.demand[k, r] > 0 and core.held[q, r] > 0:
            tree.inverse[r] = 1.0 / float(core.held[q, r])
    best, least, where = NONE, limit, core.shapes[k].where
    enough, passed = (1.0 - ROUGH) / limit, 0.0
    tree.ahead[0], tree.bound[0], size = 1, _room(tree, 1), 1
    while size > 0:
        size -= 1
        node, bound = tree.ahead[size], tree.bound[size]
        if bound < enough or bound == 0.0:
            passed = max(passed, bound)
            continue
        while NONE < node < index.first.size:  # down to where there is most room
            node *= 2
            bound, other = _room(tree, node), _room(tree, node + 1)
            beside = node + 1
            if other > bound:
                node, beside, bound, other = beside, node, other, bound
            if other >= enough and other > 0.0:
                tree.ahead[size], tree.bound[size] = beside, other
                size += 1
            else:
                passed = max(passed, other)
            if bound < enough or bound == 0.0:
                passed, node = max(passed, bound), NONE
        if node == NONE:
            continue
        number = index.first[node - index.first.size]
        while number != NONE:
            s = index.lots[number].first
            number = index.lots[number].after
            if not fits(core, k, s) or not core.may[where, core.servers[s].klass]:
                continue
            share = rough_share(core, core.free, q, k, s)
            if best == NONE and share > limit:
                passed = max(passed, 1.0 / share)
            elif best == NONE or has_less(core, core.free, q, k, s, share, best, least):
                best, least = s, share
                enough = (1.0 - ROUGH) / least
    if best == NONE and passed > 0.0:
        return LATER, 1.0 / passed
    return best, least
