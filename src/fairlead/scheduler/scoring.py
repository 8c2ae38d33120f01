"""Scores at this moment, and the user with the least of them; compiled.

`criteria` says what the scores are. A score is 0 for a user without placed tasks, whatever is free.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.optimize.compiling import inner_kernel, kernel
from fairlead.optimize.double_double import add, compare, divide, of_whole, times
from fairlead.scheduler.criteria import FIXED, RESIDUAL_DRF, RESIDUAL_TSF, SINGLE, SUMMED
from fairlead.scheduler.state import LOW_BITS, State, held_by

# Scores computed in plain floats that differ by more than this, relative, differ in truth.
ROUGH = 1e-12


@inner_kernel
def tasks_that_fit(state: State, user: int, server: int) -> tuple[float, float]:
    """Return how many tasks, whole or not, the server's free amounts would take, as a pair."""
    least, least_low = np.inf, 0.0
    for r in range(state.free.shape[1]):
        if state.demand[user, r] > 0:
            free, free_low = of_whole(state.free[server, r])
            demand, demand_low = of_whole(state.demand[user, r])
            tasks, tasks_low = divide(free, free_low, demand, demand_low)
            if compare(tasks, tasks_low, least, least_low) < 0:
                least, least_low = tasks, tasks_low
    return least, least_low


@inner_kernel
def roughly_fit(state: State, user: int, server: int) -> float:
    """Return the same as one float, right to a few units in the last place."""
    least = np.inf
    for r in range(state.free.shape[1]):
        if state.demand[user, r] > 0:
            least = min(least, float(state.free[server, r]) / float(state.demand[user, r]))
    return least


@inner_kernel
def owners_score(state: State, owner: int) -> tuple[float, float]:
    """Return the score of an owner of several kinds of tasks, as a pair.

    The largest share of the pool that it holds of any resource (drf), or the sum of the scores of
    its tasks.
    """
    if state.sharing == SUMMED:
        return state.total[owner], state.total_low[owner]
    largest, largest_low = 0.0, 0.0
    for r in range(state.share.shape[1]):
        high, low = held_by(state, owner, r)
        if high > 0.0:
            high, low = times(high, low, state.share[owner, r], state.share_low[owner, r])
            if compare(high, low, largest, largest_low) > 0:
                largest, largest_low = high, low
    return largest, largest_low


@inner_kernel
def fixed_score(state: State, user: int, g: int) -> tuple[float, float]:
    """Return the user's score on servers of a group, as a pair, where scores are fixed."""
    if state.sharing != SINGLE:
        return owners_score(state, state.owner[user])
    k = state.column[g]
    placed = float(state.placed[user])
    return times(placed, 0.0, state.unit[user, k], state.unit_low[user, k])


@inner_kernel
def score(state: State, user: int, server: int) -> tuple[float, float]:
    """Return the user's score on the server, as a pair; the server matters to ps-dsf only."""
    placed = float(state.placed[user])
    if placed == 0.0:
        return 0.0, 0.0
    if state.scoring == FIXED:
        return fixed_score(state, user, state.group[server])
    if state.scoring == RESIDUAL_TSF:
        total, total_low = 0.0, 0.0
        for i in range(state.free.shape[0]):
            tasks, tasks_low = tasks_that_fit(state, user, i)
            total, total_low = add(total, total_low, tasks, tasks_low)
        high, low = divide(placed, 0.0, total, total_low)
        return times(high, low, state.inverse_weight[user], state.inverse_weight_low[user])
    share, share_low = 0.0, 0.0
    for r in range(state.free.shape[1]):
        if state.demand[user, r] > 0:
            if state.scoring == RESIDUAL_DRF:
                high, low = of_whole(state.free_high[r])
                high, low = times(high, low, float(1 << LOW_BITS), 0.0)
                free, free_low = of_whole(state.free_low[r])
                free, free_low = add(high, low, free, free_low)
            else:
                free, free_low = of_whole(state.free[server, r])
            high, low = divide(
                state.per_weight[user, r], state.per_weight_low[user, r], free, free_low
            )
            if compare(high, low, share, share_low) > 0:
                share, share_low = high, low
    return times(placed, 0.0, share, share_low)


@inner_kernel
def rough_score(state: State, would_fit: FloatArray, user: int, server: int) -> float:
    """Return the score as one float, right to `ROUGH`.

    `would_fit` (N,) holds the tasks that would still fit over all servers, for residual tsf.
    """
    placed = float(state.placed[user])
    if placed == 0.0:
        return 0.0
    if state.scoring == FIXED:
        return placed * float(state.unit[user, state.column[state.group[server]]])
    if state.scoring == RESIDUAL_TSF:
        return float(placed * state.inverse_weight[user] / would_fit[user])
    share = 0.0
    for r in range(state.free.shape[1]):
        if state.demand[user, r] > 0:
            if state.scoring == RESIDUAL_DRF:
                free = float(state.free_high[r]) * float(1 << LOW_BITS) + float(state.free_low[r])
            else:
                free = float(state.free[server, r])
            share = max(share, state.per_weight[user, r] / free)
    return placed * share


@kernel
def count_headroom(
    state: State, server: int, sign: float, total: FloatArray, low: FloatArray
) -> None:
    """Add what would fit on the server to (N,) sums of pairs, or take it off again.

    The same free amounts give the same floats, so what was added is taken off exactly.
    """
    for n in range(total.size):
        tasks = sign * roughly_fit(state, n, server)
        total[n], low[n] = add(total[n], low[n], tasks, 0.0)
