"""Where a task goes, by the selection, and what that changes of the server."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.scheduler.at_hand import after_change, before_change
from fairlead.scheduler.best_fitting import best_fit, nearest
from fairlead.scheduler.fit_index import enter, leave
from fairlead.scheduler.kind_tree import KindTree
from fairlead.scheduler.least_shares import least_by_kind, least_fresh
from fairlead.scheduler.ratio_tree import RatioTree, least_of_free
from fairlead.scheduler.records import NONE, Core, Switch
from fairlead.scheduler.servers import first_fit, fits
from fairlead.scheduler.shares_at_hand import holds_any

Index = Any  # FitIndex, or None for first-fit: then nothing of best-fit is compiled
Kept = Any  # AtHand, for scores with a task at hand, or None


@inner_kernel
def find(core: Core, index: Index, k: int) -> int:
    """Return the server for a task of a shape, or NONE."""
    if index is None:
        return first_fit(core, k)
    return best_fit(core, index, k)


@separate_kernel
def find_best(core: Core, index: Index, k: int) -> int:
    """Return the best server of a shape, full or not, if it takes a task; or NONE."""
    s = nearest(core, index, k)
    return s if s != NONE and fits(core, k, s) else NONE


@separate_kernel
def find_least(
    core: Core, index: Index, tree: KindTree | None, ratios: RatioTree | None, q: int, k: int
) -> int:
    """Return the server with the least share of a queue that takes a task, for joint, or NONE.

    Without a tree, the one that the selection names.
    """
    is_woken = core.shapes[k].woken_in == core.numbers[0].epoch
    if tree is not None:
        if not holds_any(core, q, k):
            return first_fit(core, k)
        if is_woken:
            return least_fresh(core, core.capacity, q, k)
        return least_by_kind(core, tree, q, k)[0]
    if ratios is not None:
        if not holds_any(core, q, k):
            return first_fit(core, k)
        if is_woken:
            return least_fresh(core, core.free, q, k)
        return least_of_free(core, index, ratios, q, k, np.inf)[0]
    return find(core, index, k)


@inner_kernel
def find_for(core: Core, index: Index, at_hand: Kept, favourite: Switch, q: int, k: int) -> int:
    """Return the server for a task of a shape by any selection; `favourite`: best-fit-first."""
    if favourite is not None:
        return find_best(core, index, k)
    if at_hand is not None:
        return find_least(core, index, at_hand.tree, at_hand.ratios, q, k)
    return find(core, index, k)


@inner_kernel
def change_free(core: Core, index: Index, at_hand: Kept, k: int, s: int, sign: int) -> None:
    """Take what a task of a shape takes from a server (-1), or give it back (1)."""
    if at_hand is not None:
        before_change(core, index, at_hand.ratios, at_hand.shares, at_hand.rooms, s)
    if index is not None:
        leave(core, index, s)
    for r in range(core.free.shape[1]):
        core.free[s, r] += sign * core.demand[k, r]
    if index is not None:
        enter(core, index, s)
    if at_hand is not None:
        parts = (at_hand.tree, at_hand.ratios, at_hand.shares, at_hand.rooms)
        after_change(core, index, at_hand, *parts, s, sign > 0)
