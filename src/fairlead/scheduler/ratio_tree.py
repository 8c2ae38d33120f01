"""The server whose free amounts make a queue's share least: a tree over the buckets of `fit_index`.

A node has four children, and for each the most that any server in the buckets below has free. Those
have almost the same ratio of free amounts, so with two resources one of them nearly meets the bound
that this gives.
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
WIDTH = 4  # children of a node: with two resources 64 bytes, which a processor reads at once


@by_address
class RatioTree(NamedTuple):
    """B buckets at most below M nodes, in full levels of 1, 4, 16, ...

    Attributes
    ----------
    most : (M, R, 4) float
        The most that any server below each child of a node has free. The root is node 0; the
        children of node n are the nodes from 4 n + 1 on, and those of the last level buckets.
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
    used = np.zeros(len(index.lots), dtype=bool)
    used[index.lot[index.lot != NONE]] = True
    lots = index.lots[used]
    width = WIDTH
    while width < buckets:
        width *= WIDTH
    below, levels = np.zeros((width, resources)), []
    np.maximum.at(below, lots["bucket"], core.free[lots["first"]].astype(np.float64))
    while len(below) > 1:
        levels.append(below.reshape(-1, WIDTH, resources).swapaxes(1, 2))
        below = levels[-1].max(axis=2)
    return RatioTree(
        most=np.concatenate(levels[::-1]),
        first=index.first,
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
    if before != NONE:
        _set_nodes(core.free, index.lots, index.first, tree.most, before)
    if bucket not in (NONE, before):
        _set_nodes(core.free, index.lots, index.first, tree.most, bucket)


@separate_kernel
def _set_nodes(
    free: IntArray, lots: Records, first: IntArray, most: FloatArray, bucket: int
) -> None:
    """Bring what is above a bucket up to date."""
    nodes = most.shape[0]
    child, changed = nodes + bucket, True  # as if a level of buckets followed
    while changed and child > 0:
        node, place = (child - 1) // WIDTH, (child - 1) % WIDTH
        changed = False
        for r in range(free.shape[1]):
            has = 0.0
            if child >= nodes:
                number = first[bucket]
                while number != NONE:
                    has = max(has, float(free[lots[number].first, r]))
                    number = lots[number].after
            else:
                for c in range(WIDTH):
                    has = max(has, most[child, r, c])
            changed |= has != most[node, r, place]
            most[node, r, place] = has
        child = node


@inner_kernel
def _rooms(tree: RatioTree, node: int) -> tuple[float, float, float, float]:
    """Return how often no server below each child has what the queue holds; 0: no task fits."""
    a = b = c = d = np.inf
    for r in range(tree.least.size):
        least, times = tree.least[r], tree.inverse[r]
        a = _less(a, tree.most[node, r, 0], least, times)
        b = _less(b, tree.most[node, r, 1], least, times)
        c = _less(c, tree.most[node, r, 2], least, times)
        d = _less(d, tree.most[node, r, 3], least, times)
    return a, b, c, d


@inner_kernel
def _less(room: float, most: float, least: float, times: float) -> float:
    has = most * times if most >= least else 0.0
    return has if has < room else room  # not a number: nothing is free of what is not wanted


@inner_kernel
def _by_room(a: int, room: float, b: int, other: float) -> tuple[int, float, int, float]:
    """Return two nodes and the room below each, the one with more first."""
    if room < other:
        return b, other, a, room
    return a, room, b, other


@inner_kernel
def _put_aside(
    tree: RatioTree, size: int, passed: float, node: int, room: float, enough: float
) -> tuple[int, float]:
    """Have a node be looked at later if there is enough room below it, or note what was passed."""
    tree.ahead[size], tree.bound[size] = node, room
    passed = max(passed, room if room < enough else 0.0)
    return (size + 1 if room >= enough and room > 0.0 else size), passed


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
    enough, passed, nodes = (1.0 - ROUGH) / limit, 0.0, tree.most.shape[0]
    tree.ahead[0], tree.bound[0], size = 0, np.inf, 1
    while size > 0:
        size -= 1
        node, bound = tree.ahead[size], tree.bound[size]
        while node < nodes and bound >= enough and bound > 0.0:  # down to where is most room
            at = WIDTH * node + 1
            a, b, c, d = _rooms(tree, node)
            one, bound, two, second = _by_room(at, a, at + 1, b)
            three, third, four, fourth = _by_room(at + 2, c, at + 3, d)
            node, bound, three, third = _by_room(one, bound, three, third)
            size, passed = _put_aside(tree, size, passed, two, second, enough)
            size, passed = _put_aside(tree, size, passed, three, third, enough)
            size, passed = _put_aside(tree, size, passed, four, fourth, enough)
        if bound < enough or bound == 0.0:
            passed = max(passed, bound)
            continue
        number = index.first[node - nodes]
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
