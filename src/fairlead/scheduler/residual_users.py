"""Serve the user with the least residual score, then choose the server; compiled.

Residual scores change for everybody with every placement, so the least is looked for among all who
wait. Each user has tasks of one kind.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.optimize.compiling import kernel
from fairlead.scheduler.best_fit import find_best_fit
from fairlead.scheduler.criteria import RESIDUAL_TSF
from fairlead.scheduler.ratio_index import RatioIndex, enter, leave
from fairlead.scheduler.scoring import count_all_headroom, count_headroom, least_user
from fairlead.scheduler.state import State, may_take, take


class Seekers(NamedTuple):
    """Who waits, and from where each is to be looked for.

    Attributes
    ----------
    waiting : (N,) bool
        Users with tasks left of which one may fit somewhere.
    pointer : (N,) int
        No earlier server takes a task of the user; for first-fit.
    headroom, headroom_low : (N,) float
        Tasks of each user that free amounts would take; only kept for residual tsf.
    rough : (N,) float
        Workspace.
    """

    waiting: BoolArray
    pointer: IntArray
    headroom: FloatArray
    headroom_low: FloatArray
    rough: FloatArray


def find_seekers(state: State) -> Seekers:
    """Return everybody with tasks. Cost O(N), O(S N R) for residual tsf."""
    n_users = len(state.placed)
    seekers = Seekers(
        waiting=state.pending > 0,
        pointer=np.zeros(n_users, dtype=np.int64),
        headroom=np.zeros(n_users),
        headroom_low=np.zeros(n_users),
        rough=np.zeros(n_users),
    )
    count_all_headroom(state, seekers.headroom, seekers.headroom_low)
    return seekers


@kernel
def place_by_residual(
    state: State,
    seekers: Seekers,
    index: RatioIndex,
    best_fit: bool,
    placed_user: IntArray,
    placed_server: IntArray,
) -> int:
    """Place tasks until nothing more fits or the (P,) arrays are full; return how many were placed.

    Notes
    -----
    A placement costs O(N R) and what the search for a server costs. First-fit passes each server
    once per user until something is freed.
    """
    for k in range(placed_user.size):
        while True:
            user = least_user(state, seekers.headroom, seekers.waiting, 0, seekers.rough, False)
            if user < 0:
                return k
            if best_fit:
                server = find_best_fit(state, index, user, True)
            else:
                server = seekers.pointer[user]
                while server < state.free.shape[0] and not may_take(state, user, server):
                    server += 1
                seekers.pointer[user] = server
                server = server if server < state.free.shape[0] else -1
            if server >= 0:
                break
            seekers.waiting[user] = False
        placed_user[k], placed_server[k] = user, server
        forget_free(state, seekers, index, best_fit, server)
        take(state, user, server)
        note_free(state, seekers, index, best_fit, server)
        if state.pending[user] == 0:
            seekers.waiting[user] = False
    return placed_user.size


@kernel
def forget_free(
    state: State, seekers: Seekers, index: RatioIndex, best_fit: bool, server: int
) -> None:
    """Forget what a server has free, before that changes."""
    if best_fit:
        leave(state, index, server)
    if state.scoring == RESIDUAL_TSF:
        count_headroom(state, server, -1.0, seekers.headroom, seekers.headroom_low)


@kernel
def note_free(
    state: State, seekers: Seekers, index: RatioIndex, best_fit: bool, server: int
) -> None:
    """Note what a server has free, after that changed."""
    if state.scoring == RESIDUAL_TSF:
        count_headroom(state, server, 1.0, seekers.headroom, seekers.headroom_low)
    if best_fit:
        enter(state, index, server)


@kernel
def seek_again(state: State, seekers: Seekers, server: int) -> None:
    """Have those wait again whose tasks fit on a server that has more free now. O(N R)."""
    for user in range(state.placed.size):
        seekers.pointer[user] = min(seekers.pointer[user], server)
        if state.pending[user] > 0 and may_take(state, user, server):
            seekers.waiting[user] = True
