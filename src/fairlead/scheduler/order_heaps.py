"""Pairing heaps of rows: the least (rank, time, serial) first, and any row may be taken out.

A heap is named by its root, or NONE; a node needs no room beyond three links (Fredman, Sedgewick,
Sleator and Tarjan, 1986). Adding costs O(1), taking out O(log n) amortised.
"""

from __future__ import annotations

from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.scheduler.records import NONE, Records


@inner_kernel
def precedes(nodes: Records, a: int, b: int) -> bool:
    """Return whether a row comes before another one."""
    x, y = nodes[a], nodes[b]
    if x.rank != y.rank:
        return bool(x.rank < y.rank)
    if x.time != y.time:
        return bool(x.time < y.time)
    return bool(x.serial < y.serial)


@inner_kernel
def meld(nodes: Records, root: int, other: int) -> int:
    """Join two heaps and return the root: the later root becomes the earlier one's first child."""
    if root == NONE:
        return other
    if precedes(nodes, other, root):
        root, other = other, root
    child = nodes[root].child
    nodes[other].sibling = child
    if child != NONE:
        nodes[child].before = other
    nodes[other].before = root
    nodes[root].child = other
    return root


@inner_kernel
def add_node(nodes: Records, root: int, row: int) -> int:
    """Put a row into a heap and return the root."""
    nodes[row].child = nodes[row].sibling = nodes[row].before = NONE
    return meld(nodes, root, row)


@separate_kernel
def take_node(nodes: Records, root: int, row: int) -> int:
    """Take a row out of a heap and return the root."""
    pairs, child = NONE, nodes[row].child
    while child != NONE:  # pair by pair, and back
        other = nodes[child].sibling
        follower = NONE
        if other != NONE:
            follower = nodes[other].sibling
            child = meld(nodes, child, other)
        nodes[child].sibling = pairs
        pairs, child = child, follower
    rest = pairs
    if rest != NONE:
        pairs = nodes[rest].sibling
        while pairs != NONE:
            follower = nodes[pairs].sibling
            rest = meld(nodes, rest, pairs)
            pairs = follower
        nodes[rest].sibling = nodes[rest].before = NONE
    if row != root:
        before, follower = nodes[row].before, nodes[row].sibling
        if nodes[before].child == row:
            nodes[before].child = follower
        else:
            nodes[before].sibling = follower
        if follower != NONE:
            nodes[follower].before = before
        if rest != NONE:
            root = meld(nodes, root, rest)
    else:
        root = rest
    nodes[row].child = nodes[row].sibling = nodes[row].before = NONE
    return root
