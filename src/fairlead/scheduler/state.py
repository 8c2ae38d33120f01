"""What the scheduler knows: servers, users and what is placed where, as plain arrays.

Amounts are whole quanta (`fairlead.model.quanta`), so that nothing is rounded when tasks come and
go. The kernels of this room read and change these arrays in place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.model.quanta import Quanta
from fairlead.optimize.compiling import inner_kernel, kernel
from fairlead.optimize.double_double import add, of_whole, times
from fairlead.scheduler.criteria import FIXED, SINGLE, SUMMED, Scores

# Stands for a user without a limit on its tasks.
UNLIMITED = 2**62
# Sums over servers are kept in two words, so that they are exact.
LOW_BITS = 31
_LOW_MASK = 2**LOW_BITS - 1


class State(NamedTuple):
    """Servers, users, scores and free amounts; S servers in G groups, N users, R resources.

    Attributes
    ----------
    group : (S,) int
        Group of each server; groups are contiguous.
    first_server : (G + 1,) int
        Where each group begins.
    capacity : (G, R) int
        Quanta of each resource on one server of each group.
    free : (S, R) int
        Quanta that are free.
    free_high, free_low : (R,) int
        Free quanta of all servers together: ``free_high * 2**31 + free_low``.
    closed : (S,) bool
        Servers that take no new tasks.
    demand : (N, R) int
        Quanta that one task takes.
    eligible : (N, G) bool
        Where each user may run.
    pending : (N,) int
        Tasks that wait to be placed; `UNLIMITED` or more for a user without a limit.
    placed : (N,) int
        Tasks that are placed.
    scoring : int
        How scores depend on free amounts: one of the codes of `criteria`.
    column : (G,) int
        Which column of `unit` holds for servers of the group.
    unit, unit_low : (N, K) float
        Score per placed task where it is fixed; one column, or one per group.
    per_weight, per_weight_low : (N, R) float
        Quanta of a task over the user's weight, for residual scores.
    inverse_weight, inverse_weight_low : (N,) float
        For residual scores.
    owner : (N,) int
        Whose tasks these are. Where every owner has tasks of one kind, as in a filling, each is a
        user of its own and `sharing` is ``SINGLE``; otherwise a row is one kind of task of its
        owner, of U owners in all, and scores are those of the owner.
    sharing : int
        How the score of an owner comes from what it holds: one of the codes of `criteria`.
    held_high, held_low : (U, R) int
        Quanta that each owner holds, over all servers: ``held_high * 2**31 + held_low``.
    placed_by : (U,) int
        Tasks that each owner has placed.
    share, share_low : (U, R) float
        Score of one quantum that is held, for drf.
    total, total_low : (U,) float
        Sums of the scores of placed tasks, for tsf and for ps-dsf summed over servers.
    """

    group: IntArray
    first_server: IntArray
    capacity: IntArray
    free: IntArray
    free_high: IntArray
    free_low: IntArray
    closed: BoolArray
    demand: IntArray
    eligible: BoolArray
    pending: IntArray
    placed: IntArray
    scoring: int
    column: IntArray
    unit: FloatArray
    unit_low: FloatArray
    per_weight: FloatArray
    per_weight_low: FloatArray
    inverse_weight: FloatArray
    inverse_weight_low: FloatArray
    owner: IntArray
    sharing: int
    held_high: IntArray
    held_low: IntArray
    placed_by: IntArray
    share: FloatArray
    share_low: FloatArray
    total: FloatArray
    total_low: FloatArray


def empty_state(
    problem: Problem, quanta: Quanta, scores: Scores, owner: IntArray | None = None
) -> State:
    """Return the state in which every server is free and every user waits with all its tasks.

    Parameters
    ----------
    problem : Problem
    quanta : Quanta
        Its amounts.
    scores : Scores
        The constants of the policy's scores.
    owner : (N,) int, optional
        Whose tasks each row's are; each row's own when absent.

    Notes
    -----
    O(S R + N (G + R)).
    """
    group = np.repeat(np.arange(problem.n_groups), problem.count)
    free = quanta.capacity[group]
    limit = np.minimum(np.floor(problem.task_limit), UNLIMITED)
    owners = np.arange(problem.n_users) if owner is None else owner
    n_owners = int(owners.max()) + 1
    return State(
        group=group,
        first_server=np.concatenate([[0], np.cumsum(problem.count)]),
        capacity=quanta.capacity,
        free=free,
        free_high=(free >> LOW_BITS).sum(axis=0),
        free_low=(free & _LOW_MASK).sum(axis=0),
        closed=np.zeros(len(group), dtype=bool),
        demand=quanta.demand,
        eligible=problem.users.eligible.copy(),
        pending=limit.astype(np.int64),
        placed=np.zeros(problem.n_users, dtype=np.int64),
        scoring=scores.scoring,
        column=scores.column,
        unit=scores.unit,
        unit_low=scores.unit_low,
        per_weight=scores.per_weight,
        per_weight_low=scores.per_weight_low,
        inverse_weight=scores.inverse_weight,
        inverse_weight_low=scores.inverse_weight_low,
        owner=owners,
        sharing=SINGLE if owner is None else scores.sharing,
        held_high=np.zeros((n_owners, problem.n_resources), dtype=np.int64),
        held_low=np.zeros((n_owners, problem.n_resources), dtype=np.int64),
        placed_by=np.zeros(n_owners, dtype=np.int64),
        share=scores.share,
        share_low=scores.share_low,
        total=np.zeros(n_owners),
        total_low=np.zeros(n_owners),
    )


@inner_kernel
def fits(state: State, user: int, server: int) -> bool:
    """Return whether one more task of the user fits on the server, wherever it may run."""
    if state.closed[server]:
        return False
    for r in range(state.free.shape[1]):  # noqa: SIM110 (numba knows no generators)
        if state.free[server, r] < state.demand[user, r]:
            return False
    return True


@inner_kernel
def may_take(state: State, user: int, server: int) -> bool:
    """Return whether the user may run on the server and one more of its tasks fits there."""
    return state.eligible[user, state.group[server]] and fits(state, user, server)


@inner_kernel
def take(state: State, user: int, server: int) -> None:
    """Place one waiting task of the user on the server."""
    for r in range(state.free.shape[1]):
        state.free[server, r] -= state.demand[user, r]
    if state.scoring != FIXED:
        _count_free(state, user, -1)
    state.placed[user] += 1
    state.pending[user] -= 1
    if state.sharing != SINGLE:
        _count_held(state, user, 1)


@inner_kernel
def give_back(state: State, user: int, server: int) -> None:
    """Free what one task of the user holds on the server."""
    for r in range(state.free.shape[1]):
        state.free[server, r] += state.demand[user, r]
    if state.scoring != FIXED:
        _count_free(state, user, 1)
    state.placed[user] -= 1
    if state.sharing != SINGLE:
        _count_held(state, user, -1)


@inner_kernel
def _count_held(state: State, kind: int, sign: int) -> None:
    owner = state.owner[kind]
    state.placed_by[owner] += sign
    for r in range(state.free.shape[1]):
        state.held_high[owner, r] += sign * (state.demand[kind, r] >> LOW_BITS)
        state.held_low[owner, r] += sign * (state.demand[kind, r] & _LOW_MASK)
    if state.sharing == SUMMED:
        high, low = sign * state.unit[kind, 0], sign * state.unit_low[kind, 0]
        high, low = add(state.total[owner], state.total_low[owner], high, low)
        if state.placed_by[owner] == 0:  # what is left is rounding
            high, low = 0.0, 0.0
        state.total[owner], state.total_low[owner] = high, low


@inner_kernel
def held_by(state: State, owner: int, r: int) -> tuple[float, float]:
    """Return the quanta of a resource that an owner holds, as a pair; 0 if it holds none."""
    high, rest = of_whole(state.held_high[owner, r])
    low, low_rest = of_whole(state.held_low[owner, r])
    unit = float(1 << LOW_BITS)
    return add(high * unit, rest * unit, low, low_rest)


@kernel
def recount_totals(state: State) -> None:
    """Sum the scores of placed tasks afresh, after the scores of single tasks changed. O(N)."""
    for owner in range(state.total.size):
        state.total[owner] = state.total_low[owner] = 0.0
    for kind in range(state.placed.size):
        if state.placed[kind] > 0:
            owner = state.owner[kind]
            high, low = state.unit[kind, 0], state.unit_low[kind, 0]
            high, low = times(float(state.placed[kind]), 0.0, high, low)
            high, low = add(state.total[owner], state.total_low[owner], high, low)
            state.total[owner], state.total_low[owner] = high, low


@kernel
def empty_server(state: State, server: int, to_capacity: bool) -> None:
    """Have a server on which nothing runs offer all that it has, or nothing as it is gone."""
    for r in range(state.free.shape[1]):
        there = state.capacity[state.group[server], r] if to_capacity else 0
        more = there - state.free[server, r]
        state.free[server, r] = there
        sign = 1 if more >= 0 else -1
        state.free_high[r] += sign * (abs(more) >> LOW_BITS)
        state.free_low[r] += sign * (abs(more) & _LOW_MASK)


@inner_kernel
def _count_free(state: State, user: int, sign: int) -> None:
    for r in range(state.free.shape[1]):
        demand = state.demand[user, r]
        state.free_high[r] += sign * (demand >> LOW_BITS)
        state.free_low[r] += sign * (demand & _LOW_MASK)


def check_state(state: State) -> None:
    """Assert what always holds: nothing is overbooked, and totals are the sums of their parts.

    Sums are those of Python's integers, which do not wrap.
    """
    capacity = state.capacity[state.group]
    assert (state.free >= 0).all(), "a server is overbooked"
    assert (state.free <= capacity).all(), "a server has more free than it has"
    assert (state.pending >= 0).all(), "a user waits with less than no task"
    assert (state.placed >= 0).all(), "a user has less than no task placed"
    placed, demand = state.placed.astype(object), state.demand.astype(object)
    if state.sharing != SINGLE:
        held = state.held_high.astype(object) * 2**LOW_BITS + state.held_low.astype(object)
        for u in range(len(state.placed_by)):
            kinds = state.owner == u
            assert state.placed_by[u] == placed[kinds].sum(), "tasks do not add up"
            assert (held[u] == placed[kinds] @ demand[kinds]).all(), "what is held does not add up"
    if state.scoring != FIXED:
        for r in range(state.free.shape[1]):
            counted = int(state.free_high[r]) * 2**LOW_BITS + int(state.free_low[r])
            assert counted == sum(state.free[:, r].tolist()), "free amounts do not add up"
