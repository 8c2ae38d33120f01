"""The first server of a kind that takes a task: a tree of the most that any server below has free.

Leaves are servers by kind, then by order. What may be placed on is in them, with what it has free.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.scheduler.records import NONE, Core, Records, record, records

# What a search found: no earlier leaf of the kind takes the shape until it has risen again.
FOUND = record(whole="asked risen leaf")
# The kind where a queue's share is least, while servers of it take the shape, a resource leads
# in that share, and nothing has risen. `unit`: the share for one quantum of that, by the weight.
SURE = record(whole="task_shape kind lead rises", real="unit unit_low weight weight_low")


@by_address
class KindTree(NamedTuple):
    """C kinds, S servers, Q queues, and M leaves, a power of 2.

    Attributes
    ----------
    most : (2 M, R) int
        The root is node 1; node n is above 2 n and 2 n + 1; leaves are the nodes from M on.
    server : (M,) int
        The server of each leaf.
    leaf : (S,) int
        The leaf of each server.
    begin : (C + 1,) int
        The first leaf of each kind.
    stale : (1,) bool
        Whether other servers are there than in the leaves.
    risen : (C,) int
        How often servers of each kind came to have more free.
    found : (M,) FOUND
        The last searches, by shape and kind; a later one may be in the place of an earlier one.
    inverse : (C, R) float
        One over what a server of each kind has.
    held : (R,) float
        What the queue at hand holds of what its task takes.
    sure : (Q,) SURE
    rises : (1,) int
        How often servers of any kind came to have more free, or others were there.
    """

    most: IntArray
    server: IntArray
    leaf: IntArray
    begin: IntArray
    stale: IntArray
    risen: IntArray
    found: Records
    inverse: FloatArray
    held: FloatArray
    sure: Records
    rises: IntArray


def stale_tree(core: Core) -> KindTree:
    """Return a tree to be planted."""
    servers, resources = core.free.shape
    leaves = 2 ** max(servers - 1, 1).bit_length()
    return KindTree(
        most=np.full((2 * leaves, resources), NONE),
        server=np.full(leaves, NONE),
        leaf=np.full(servers, NONE),
        begin=np.zeros(len(core.kinds) + 1, dtype=np.int64),
        stale=np.ones(1, dtype=np.int64),
        risen=np.zeros(len(core.kinds) + 1, dtype=np.int64),
        found=records(FOUND, leaves),
        inverse=np.zeros((len(core.kinds), resources)),
        held=np.zeros(resources),
        sure=records(SURE, len(core.queues)),
        rises=np.zeros(1, dtype=np.int64),
    )


@separate_kernel
def plant(core: Core, tree: KindTree | None) -> None:
    """Fill the leaves with the servers that are there, if they are not. Cost O(S R + C)."""
    if tree is None:
        return
    if not tree.stale[0]:
        return
    begin, leaves = tree.begin, tree.server.size
    for c in range(begin.size):
        begin[c] = 0
    for position in range(core.numbers[0].servers):
        begin[core.servers[core.sequence[position]].kind] += 1
    total = 0
    for c in range(begin.size):
        begin[c], total = total, total + begin[c]
    for position in range(core.numbers[0].servers):  # a kind's begin is where its next one goes
        s = core.sequence[position]
        leaf = begin[core.servers[s].kind]
        begin[core.servers[s].kind] += 1
        tree.server[leaf], tree.leaf[s] = s, leaf
    for c in range(begin.size - 1, 0, -1):
        begin[c] = begin[c - 1]
    begin[0] = 0
    for node in range(2 * leaves - 1, 0, -1):
        _set_node(core, tree, node)
    for c in range(tree.inverse.shape[0]):
        for r in range(core.free.shape[1]):
            has = core.kind_capacity[c, r]
            tree.inverse[c, r] = 1.0 / float(has) if has > 0 else np.inf
    for slot in range(leaves):
        tree.found[slot].asked = NONE
    tree.rises[0] += 1
    tree.stale[0] = 0


@inner_kernel
def _set_node(core: Core, tree: KindTree, node: int) -> bool:
    """Bring a node up to date; return whether it changed."""
    leaves, changed, is_open = tree.server.size, False, False
    if leaves <= node < leaves + core.numbers[0].servers:
        is_open = core.servers[tree.server[node - leaves]].open
    for r in range(core.free.shape[1]):
        if node < leaves:
            most = max(tree.most[2 * node, r], tree.most[2 * node + 1, r])
        elif is_open:
            most = core.free[tree.server[node - leaves], r]
        else:
            most = NONE
        changed |= most != tree.most[node, r]
        tree.most[node, r] = most
    return bool(changed)


@inner_kernel
def set_leaf(core: Core, tree: KindTree, s: int, rises: bool) -> None:
    """Take in what a server has free now. O(R log S)."""
    if tree.stale[0]:
        return
    if rises:
        tree.risen[core.servers[s].kind] += 1
        tree.rises[0] += 1
    node = tree.leaf[s] + tree.server.size
    while node > 0 and _set_node(core, tree, node):
        node //= 2


@inner_kernel
def first_of_kind(core: Core, tree: KindTree, k: int, c: int) -> int:
    """Return the first server of a kind that takes a task of a shape, wherever it may, or NONE.

    A search goes on from where the last one for the shape ended, unless anything has risen since.
    """
    asked, leaves, risen = k * tree.risen.size + c, tree.server.size, tree.risen[c]
    found = tree.found[asked % leaves]
    if found.asked != asked or found.risen != risen:
        found.asked, found.risen, found.leaf = asked, risen, tree.begin[c]
    node, width, end = leaves + found.leaf, 1, leaves + tree.begin[c + 1]
    while node * width < end:
        fits = True
        for r in range(core.free.shape[1]):
            fits &= tree.most[node, r] >= core.demand[k, r]
        if fits and node >= leaves:
            found.leaf = node - leaves
            return int(tree.server[node - leaves])
        if fits:
            node, width = 2 * node, width // 2
            continue
        node += 1
        while node % 2 == 0 and node > 1:  # the next one is the first below what is above it
            node, width = node // 2, 2 * width
    found.leaf = end - leaves
    return NONE
