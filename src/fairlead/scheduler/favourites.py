"""Best-fit-first: a shape has a best server, full or not, and waits for that one.

This is the order in which the printed BF-DRF of Kesidis et al. (Table II) comes out. Best is what
has the least H (`best_fitting`) of all open servers where the task may run. A shape is blocked if
its best server is full; each server that changes since may become its best one, or cease to be.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import entry_kernel, inner_kernel, separate_kernel
from fairlead.scheduler.best_fitting import ROUGH, is_nearer, may_be_nearer, nearest, rough_misfit
from fairlead.scheduler.cycle import start
from fairlead.scheduler.fit_index import FitIndex
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.servers import end_round, fits
from fairlead.scheduler.waiting import block, park, wake


@entry_kernel
def place_on_best(core: Core, index: FitIndex, limit: int, out: IntArray) -> int:
    """Place tasks until nobody's best server takes one; see `cycle.place`.

    Between calls a freed server costs O(R) for each blocked shape; what else changes servers, a
    search for each of them.
    """
    reconsider_fresh(core, index)
    n, numbers = 0, core.numbers[0]
    while n < limit and numbers.turn > 0:
        number = core.queues[core.turn[0]].first
        s = best_or_block(core, index, core.lines[number].task_shape)
        if s == NONE:
            park(core, number, None)
            continue
        out[n] = start(core, index, None, None, None, core.lines[number].first, s)
        n += 1
        if numbers.blocked > 0:
            reconsider(core, index, s)
    return n


@separate_kernel
def reconsider_fresh(core: Core, index: FitIndex) -> None:
    """Take in what was freed, or changed otherwise, since one last looked."""
    numbers = core.numbers[0]
    if numbers.changed:
        while numbers.blocked > 0:
            wake(core, core.blocked[numbers.blocked - 1], None)
        numbers.changed = 0
    else:
        for f in range(numbers.fresh):
            reconsider(core, index, core.fresh[f])
    end_round(core)


@inner_kernel
def best_or_block(core: Core, index: FitIndex, k: int) -> int:
    """Return a shape's best server; if it is full, block the shape and return NONE."""
    if core.shapes[k].blocked:
        return NONE
    s = nearest(core, index, k)
    if s != NONE and fits(core, k, s):
        return s
    _wait_for(core, k, s)
    block(core, k)
    return NONE


@inner_kernel
def _wait_for(core: Core, k: int, s: int) -> None:
    """Have a shape wait for a server, or NONE."""
    shape = core.shapes[k]
    shape.favourite, shape.misfit, shape.misfit_of = s, np.inf, 0.0
    if s != NONE:
        shape.misfit, shape.misfit_of = rough_misfit(core, k, s)


@separate_kernel
def reconsider(core: Core, index: FitIndex, s: int) -> None:
    """Take in that a server changed; shapes whose best one takes a task now are woken."""
    b = core.numbers[0].blocked - 1
    while b >= 0:
        k = core.blocked[b]
        b -= 1
        shape = core.shapes[k]
        best = shape.favourite
        if s == best:
            best = nearest(core, index, k)
        elif core.servers[s].open and core.may[shape.where, core.servers[s].klass]:
            least, size = shape.misfit, shape.misfit_of
            if not may_be_nearer(core, k, s, least, size):
                continue
            misfit, its = rough_misfit(core, k, s)
            if not (misfit < np.inf and misfit <= least + ROUGH * (size + its)):
                continue
            if not is_nearer(core, k, s, misfit, its, best, least, size):
                continue
            best = s
        else:
            continue
        _wait_for(core, k, best)
        if best != NONE and fits(core, k, best):
            wake(core, k, None)
