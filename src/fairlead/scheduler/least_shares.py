"""The server on which a queue's share is least, of those that take its task."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.optimize.double_double import compare, divide, of_whole, times
from fairlead.scheduler.kind_tree import KindTree, first_of_kind
from fairlead.scheduler.order_heaps import precedes
from fairlead.scheduler.queues import UNKNOWN
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.servers import may_take
from fairlead.scheduler.shares_at_hand import ROUGH, share_of


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


@inner_kernel
def has_less(
    core: Core, amounts: IntArray, q: int, k: int, s: int, share: float, other: int, least: float
) -> bool:
    """Return whether a share is less on a server than on another one, or the same and earlier."""
    if share < least * (1.0 - ROUGH):
        return True
    if share > least * (1.0 + ROUGH):
        return False
    alike, less = True, least * (1.0 - ROUGH)
    for r in range(core.held.shape[1]):  # what decides is the same amount of the same resource
        if core.demand[k, r] > 0 and amounts[s, r] != amounts[other, r]:
            held = float(core.held[q, r])
            alike &= held < less * float(amounts[s, r]) and held < less * float(amounts[other, r])
    if alike:
        return precedes(core.server_node, s, other)
    return _has_exactly_less(core, amounts, q, k, s, other)


@separate_kernel
def _has_exactly_less(core: Core, amounts: IntArray, q: int, k: int, s: int, other: int) -> bool:
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
def least_by_kind(core: Core, tree: KindTree | None, q: int, k: int) -> tuple[int, float, float]:
    """Return the server with the least share of what servers have, or NONE; and maybe the share.

    It is UNKNOWN unless it was at hand. Cost O(C R), O(R) where the server's kind is still sure.
    """
    if tree is None:
        return NONE, UNKNOWN, 0.0
    for r in range(core.held.shape[1]):
        tree.held[r] = float(core.held[q, r]) if core.demand[k, r] > 0 else 0.0
    sure = tree.sure[q]
    is_sure = sure.task_shape == k and sure.rises == tree.rises[0]
    if is_sure and _lead_of(tree, sure.kind) == sure.lead:
        s = first_of_kind(core, tree, k, sure.kind)
        if s != NONE:
            high, low = _sure_share(core, tree, q)
            return s, high, low
    best, least, where = NONE, np.inf, core.shapes[k].where
    for c in range(tree.begin.size - 1):
        if tree.begin[c] == tree.begin[c + 1] or not core.may[where, core.kinds[c].klass]:
            continue
        share = 0.0
        for r in range(core.held.shape[1]):
            part = tree.held[r] * tree.inverse[c, r]
            share = part if part > share else share
        if share > least * (1.0 + ROUGH):
            continue
        s = first_of_kind(core, tree, k, c)
        if s != NONE and (
            best == NONE or has_less(core, core.capacity, q, k, s, share, best, least)
        ):
            best, least = s, share
    sure.task_shape = NONE
    if best != NONE:
        c = core.servers[best].kind
        lead = _lead_of(tree, c)
        if lead != NONE and _is_sure(core, tree, k, c, lead):
            sure.task_shape, sure.kind, sure.lead, sure.rises = k, c, lead, tree.rises[0]
            sure.weight = 0.0
    return best, UNKNOWN, 0.0


@inner_kernel
def _sure_share(core: Core, tree: KindTree, q: int) -> tuple[float, float]:
    """Return a queue's share of the kind where it is sure to be least, by weight, as a pair."""
    sure, queue = tree.sure[q], core.queues[q]
    if sure.weight != queue.weight or sure.weight_low != queue.weight_low:
        sure.weight, sure.weight_low = queue.weight, queue.weight_low
        high, low = of_whole(core.kind_capacity[sure.kind, sure.lead])
        high, low = times(high, low, queue.weight, queue.weight_low)
        sure.unit, sure.unit_low = divide(1.0, 0.0, high, low)
    high, low = of_whole(core.held[q, sure.lead])
    return times(high, low, sure.unit, sure.unit_low)


@inner_kernel
def _lead_of(tree: KindTree, c: int) -> int:
    """Return the resource where a queue's share of a kind is largest, or NONE if it is close."""
    lead, share, second = NONE, 0.0, 0.0
    for r in range(tree.held.size):
        part = tree.held[r] * tree.inverse[c, r]
        if part > share:
            lead, share, second = r, part, share
        elif part > second:
            second = part
    return lead if second < share * (1.0 - ROUGH) else NONE


@inner_kernel
def _is_sure(core: Core, tree: KindTree, k: int, c: int, lead: int) -> bool:
    """Return whether the least share will be of a kind as long as its servers take the shape.

    No other kind that takes it has more of the resource that leads, or as much and comes earlier.
    """
    where, last = core.shapes[k].where, tree.server[tree.begin[c + 1] - 1]
    for other in range(tree.begin.size - 1):
        begin = tree.begin[other]
        if other == c or begin == tree.begin[other + 1]:
            continue
        more = core.kind_capacity[other, lead] - core.kind_capacity[c, lead]
        is_worse = more < 0 or (more == 0 and precedes(core.server_node, last, tree.server[begin]))
        is_rival = not is_worse and core.may[where, core.kinds[other].klass]
        if is_rival and first_of_kind(core, tree, k, other) != NONE:
            return False
    return True
