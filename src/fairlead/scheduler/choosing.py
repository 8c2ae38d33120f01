"""Where a task goes, by the selection, and what that changes of the server."""

from __future__ import annotations

from typing import Any

from fairlead.optimize.compiling import inner_kernel
from fairlead.scheduler.at_hand import after_change, before_change
from fairlead.scheduler.best_fitting import best_fit
from fairlead.scheduler.fit_index import enter, leave
from fairlead.scheduler.records import Core
from fairlead.scheduler.servers import first_fit

Index = Any  # FitIndex, or None for first-fit: then nothing of best-fit is compiled
Kept = Any  # AtHand, for scores with a task at hand, or None


@inner_kernel
def find(core: Core, index: Index, k: int) -> int:
    """Return the server for a task of a shape, or NONE."""
    if index is None:
        return first_fit(core, k)
    return best_fit(core, index, k)


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
