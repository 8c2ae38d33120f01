"""What is kept to find scores with a task at hand, and how it takes in what changes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import entry_kernel, inner_kernel, separate_kernel
from fairlead.scheduler.fit_index import FitIndex
from fairlead.scheduler.kind_tree import KindTree, set_leaf, stale_tree
from fairlead.scheduler.pool_shares import PoolShares, count_pool, no_shares
from fairlead.scheduler.ratio_tree import RatioTree, enter_bucket, leave_bucket, tree_over
from fairlead.scheduler.records import Core
from fairlead.scheduler.rooms import Rooms, log_after, log_before, no_rooms
from fairlead.scheduler.watching import Watch, doubt_watchers, no_watch


@by_address
class AtHand(NamedTuple):
    """What a policy does not use is None, and nothing of it is compiled.

    Attributes
    ----------
    watch : Watch
    changes : (S,) int
        How often each server's free amounts have changed.
    seen : (Q,) int
        For residual joint, how often the watched server's had when a queue's score was found; for
        tsf, how often any had.
    freed : (S,) int
        Servers that have had more to offer since scores were last found; the first `n_freed`.
    is_freed : (S,) bool
    n_freed : (1,) int
    tree : KindTree or None
        For joint.
    ratios : RatioTree or None
        For residual joint.
    shares : PoolShares or None
        For residual drf.
    rooms : Rooms or None
        For residual tsf.
    """

    watch: Watch
    changes: IntArray
    seen: IntArray
    freed: IntArray
    is_freed: IntArray
    n_freed: IntArray
    tree: Any
    ratios: Any
    shares: Any
    rooms: Any


def nothing_at_hand(core: Core, criterion: str, select: str, index: FitIndex | None) -> AtHand:
    """Return what a policy keeps; every score has to be found. Cost O((S + Q + K) R)."""
    queues, servers = len(core.queues), len(core.servers)
    joint = select == "joint"
    return AtHand(
        watch=no_watch(queues, servers),
        changes=np.zeros(servers, dtype=np.int64),
        seen=np.zeros(queues, dtype=np.int64),
        freed=np.zeros(servers, dtype=np.int64),
        is_freed=np.zeros(servers, dtype=np.int64),
        n_freed=np.zeros(1, dtype=np.int64),
        tree=stale_tree(core) if joint and index is None else None,
        ratios=None if not joint or index is None else tree_over(core, index),
        shares=no_shares(core) if criterion == "drf" else None,
        rooms=no_rooms(core) if criterion == "tsf" else None,
    )


def has_room(at_hand: AtHand | None, core: Core, index: Any) -> bool:
    """Return whether it is for all that there is."""
    if at_hand is None or len(at_hand.seen) < len(core.queues):
        return False
    if len(at_hand.changes) < len(core.servers):
        return False
    if at_hand.tree is not None and (
        index is not None or len(at_hand.tree.begin) <= len(core.kinds)
    ):
        return False
    if at_hand.rooms is not None and len(at_hand.rooms.seen) < len(core.shapes):
        return False
    return at_hand.ratios is None or at_hand.ratios.first is index.first


@inner_kernel
def before_change(
    core: Core,
    index: Any,
    ratios: RatioTree | None,
    shares: PoolShares | None,
    rooms: Rooms | None,
    s: int,
) -> None:
    """Prepare for a change of what a server has free."""
    if ratios is not None:
        leave_bucket(index, ratios, s)
    if shares is not None:
        count_pool(core, shares, s, -1)
    if rooms is not None:
        log_before(core, rooms, s, True)


@inner_kernel
def after_change(
    core: Core,
    index: Any,
    at_hand: AtHand,
    tree: KindTree | None,
    ratios: RatioTree | None,
    shares: PoolShares | None,
    rooms: Rooms | None,
    s: int,
    rises: bool,
) -> None:
    """Take in that what a server has free has changed."""
    if shares is not None:
        count_pool(core, shares, s, 1)
    if rooms is not None:
        log_after(core, rooms, s, True, rises)
    if tree is not None:
        set_leaf(core, tree, s, rises)
    if ratios is not None:
        enter_bucket(core, index, ratios, s)
    at_hand.changes[s] += 1
    if rises:
        _note_freed(at_hand, s)
    else:
        doubt_watchers(core, at_hand.watch, s)


@inner_kernel
def _note_freed(at_hand: AtHand, s: int) -> None:
    if not at_hand.is_freed[s]:
        at_hand.is_freed[s] = 1
        at_hand.freed[at_hand.n_freed[0]] = s
        at_hand.n_freed[0] += 1


@inner_kernel
def before_opening(index: Any, ratios: RatioTree | None, s: int) -> None:
    """Prepare for a server's opening or closing."""
    if ratios is not None:
        leave_bucket(index, ratios, s)


@separate_kernel
def note_opening(
    core: Core,
    index: Any,
    at_hand: AtHand,
    tree: KindTree | None,
    ratios: RatioTree | None,
    s: int,
) -> None:
    """Take in that a server has opened or closed."""
    if tree is not None:
        tree.stale[0] = 1
    if ratios is not None:
        enter_bucket(core, index, ratios, s)
    at_hand.changes[s] += 1
    if core.servers[s].open:
        _note_freed(at_hand, s)
    doubt_watchers(core, at_hand.watch, s)


@entry_kernel
def count_free(
    core: Core, shares: PoolShares | None, rooms: Rooms | None, s: int, sign: int
) -> None:
    """Take in that a server is there (1), or no more (-1), with what it has free."""
    if shares is not None:
        count_pool(core, shares, s, sign)
    if rooms is not None:
        log_before(core, rooms, s, sign < 0)
        log_after(core, rooms, s, sign > 0, True)
