"""Where the next task of a kind goes: the choice of a server, by every selection; compiled."""

from __future__ import annotations

from fairlead.optimize.compiling import inner_kernel
from fairlead.optimize.double_double import compare, divide, of_whole, times
from fairlead.scheduler.best_fit import find_best_fit, is_better_fit
from fairlead.scheduler.criteria import RESIDUAL_PS_DSF
from fairlead.scheduler.freed import first_freed_since
from fairlead.scheduler.queue import Queue
from fairlead.scheduler.ratio_index import RatioIndex
from fairlead.scheduler.state import State, fits, held_by, may_take
from fairlead.scheduler.waking import is_woken

FIRST_FIT, BEST_FIT, BEST_FIT_FIRST, JOINT = 0, 1, 2, 3
SELECT_CODES = {
    "first-fit": FIRST_FIT,
    "best-fit": BEST_FIT,
    "best-fit-first": BEST_FIT_FIRST,
    "joint": JOINT,
    "rrr": FIRST_FIT,
}

# Ratios computed in plain floats that differ by more than this, relative, differ in truth.
ROUGH = 1e-14


@inner_kernel
def choose_server(state: State, queue: Queue, index: RatioIndex, select: int, kind: int) -> int:
    """Return the server for one more task of a kind, or -1.

    Parameters
    ----------
    state, queue, index
        The index is looked at by best-fit only.
    select : int
        ``FIRST_FIT``, ``BEST_FIT``, ``BEST_FIT_FIRST`` (the best server, or none if the task does
        not fit there) or ``JOINT`` (where the owner's score is least).
    kind : int

    Notes
    -----
    O(fresh R) for kinds that were woken in this round. Otherwise: first-fit passes each server
    once per kind until something is freed; best-fit as `find_best_fit`; joint O(S R).
    """
    if select != BEST_FIT_FIRST and is_woken(queue, kind):
        return _choose_fresh(state, queue, index, select, kind)
    if select == FIRST_FIT:
        return first_fit(state, queue, kind)
    if select != JOINT:
        server = find_best_fit(state, index, kind, select == BEST_FIT)
        return server if server >= 0 and fits(state, kind, server) else -1
    best = int(-1)  # noqa: RUF046, UP018 (a plain -1 is compiled for apart)
    for g in range(state.capacity.shape[0]):
        if state.eligible[kind, g]:
            for server in range(state.first_server[g], state.first_server[g + 1]):
                if fits(state, kind, server):
                    if is_lesser_share(state, kind, server, best):
                        best = server
                    if state.scoring != RESIDUAL_PS_DSF:
                        break
    return best


@inner_kernel
def _choose_fresh(state: State, queue: Queue, index: RatioIndex, select: int, kind: int) -> int:
    best = int(-1)  # noqa: RUF046, UP018 (a plain -1 is compiled for apart)
    for k in range(queue.n_fresh[0]):
        server = queue.fresh[k]
        if not may_take(state, kind, server):
            continue
        if (
            best < 0
            or (select == FIRST_FIT and server < best)
            or (select == BEST_FIT and is_better_fit(state, index, kind, server, best))
            or (select == JOINT and is_lesser_share(state, kind, server, best))
        ):
            best = server
    return best


@inner_kernel
def first_fit(state: State, queue: Queue, kind: int) -> int:
    """Return the first server that takes a task of the kind, or -1, and point at it."""
    server = queue.pointer[kind]
    freed = first_freed_since(queue.freed, queue.looked[kind])
    if freed >= 0:
        server = min(server, freed)
    queue.looked[kind] = queue.freed.now[0]
    n_servers = state.free.shape[0]
    while server < n_servers:
        g = state.group[server]
        end = state.first_server[g + 1]
        if state.eligible[kind, g]:
            while server < end and not fits(state, kind, server):
                server += 1
            if server < end:
                break
        server = end
    queue.pointer[kind] = server
    return server if server < n_servers else -1


@inner_kernel
def is_lesser_share(state: State, kind: int, server: int, other: int) -> bool:
    """Return whether the owner's share of a server is less than of another, or equal and earlier.

    Shares of the resources that a task of the kind takes; `other` is -1 for none. The task fits on
    both.
    """
    if other < 0:
        return True
    a, b = _rough_share(state, kind, server), _rough_share(state, kind, other)
    if abs(a - b) > ROUGH * max(a, b):
        return a < b
    high, low = share_of_server(state, kind, server)
    other_high, other_low = share_of_server(state, kind, other)
    order = compare(high, low, other_high, other_low)
    return order < 0 or (order == 0 and server < other)


@inner_kernel
def _rough_share(state: State, kind: int, server: int) -> float:
    owner, largest = state.owner[kind], 0.0
    for r in range(state.free.shape[1]):
        if state.demand[kind, r] > 0:
            over = _divisor(state, server, r)
            held, _ = held_by(state, owner, r)
            largest = max(largest, held / float(over))
    return largest


@inner_kernel
def _divisor(state: State, server: int, r: int) -> int:
    if state.scoring == RESIDUAL_PS_DSF:
        return int(state.free[server, r])
    return int(state.capacity[state.group[server], r])


@inner_kernel
def share_of_server(state: State, kind: int, server: int) -> tuple[float, float]:
    """Return the owner's virtual dominant share on a server with a task at hand, as a pair.

    The largest of what it holds anywhere over what the server has (or has free, for residual
    scores), over the resources that the task takes; by weight. 0 if it holds none of them.
    """
    owner = state.owner[kind]
    largest, largest_low = 0.0, 0.0
    for r in range(state.free.shape[1]):
        high, low = held_by(state, owner, r)
        if state.demand[kind, r] > 0 and high > 0.0:
            over, over_low = of_whole(_divisor(state, server, r))
            high, low = divide(high, low, over, over_low)
            if compare(high, low, largest, largest_low) > 0:
                largest, largest_low = high, low
    return times(largest, largest_low, state.inverse_weight[kind], state.inverse_weight_low[kind])
