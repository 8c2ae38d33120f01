"""The server on which a queue's share is least, of those that take its task."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.optimize.double_double import compare
from fairlead.scheduler.kind_tree import KindTree, first_of_kind
from fairlead.scheduler.order_heaps import precedes
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.servers import may_take
from fairlead.scheduler.shares_at_hand import share_of

# Shares in plain floats that differ by more than this, relative, differ in truth.
ROUGH = 1e-14


@inner_kernel
def rough_share(core: Core, amounts: IntArray, q: int, k: int, s: int) -> float:
    """Return a queue's share of a server's amounts, times its weight, in plain floats."""
    share = 0.0
    for r in range(core.held.shape[1]):
        if core.demand[k, r] > 0:
            if amounts[s, r] <= 0:
                return np.inf
            share = max(share, float(core.held[q, r]) / float(amounts[s, r]))
    return share


@separate_kernel
def has_less(
    core: Core, amounts: IntArray, q: int, k: int, s: int, share: float, other: int, least: float
) -> bool:
    """Return whether a share is less on a server than on another one, or the same and earlier."""
    if share < least * (1.0 - ROUGH):
        return True
    if share > least * (1.0 + ROUGH):
        return False
    a, a_low = share_of(core, amounts, s, q, k)
    b, b_low = share_of(core, amounts, other, q, k)
    order = compare(a, a_low, b, b_low)
    return order < 0 or (order == 0 and precedes(core.server_node, s, other))


@separate_kernel
def least_fresh(core: Core, amounts: IntArray, q: int, k: int) -> int:
    """Return the server with the least share among the fresh ones, or NONE."""
    best, least = NONE, np.inf
    for f in range(core.numbers[0].fresh):
        s = core.fresh[f]
        if may_take(core, k, s):
            share = rough_share(core, amounts, q, k, s)
            if best == NONE or has_less(core, amounts, q, k, s, share, best, least):
                best, least = s, share
    return best


@inner_kernel
def least_by_kind(core: Core, tree: KindTree | None, q: int, k: int) -> int:
    """Return the server with the least share of what servers have, or NONE. Cost O(C R)."""
    if tree is None:
        return NONE
    best, least, where = NONE, np.inf, core.shapes[k].where
    for c in range(tree.begin.size - 1):
        begin = tree.begin[c]
        if begin == tree.begin[c + 1] or not core.may[where, core.kinds[c].klass]:
            continue
        share = rough_share(core, core.capacity, q, k, tree.server[begin])
        if best == NONE or share <= least * (1.0 + ROUGH):
            s = first_of_kind(core, tree, k, c)
            if s != NONE and (
                best == NONE or has_less(core, core.capacity, q, k, s, share, best, least)
            ):
                best, least = s, share
    return best
