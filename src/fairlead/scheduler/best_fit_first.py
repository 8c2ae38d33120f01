"""Choose each user's best server before asking whether the task fits there; compiled.

This is the order in which the printed BF-DRF of Kesidis et al. (Table II) comes out: users by
score, of equal ones the later first; each has a best server by misfit, full or not; a user whose
task does not fit on its best server is passed over. It ends when that is so for all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.optimize.compiling import kernel
from fairlead.scheduler.best_fit import find_best_fit, is_better_fit
from fairlead.scheduler.criteria import RESIDUAL_TSF
from fairlead.scheduler.ratio_index import RatioIndex, enter, leave
from fairlead.scheduler.scoring import count_all_headroom, count_headroom, least_user
from fairlead.scheduler.state import State, fits, take


class Favourites(NamedTuple):
    """The best server of every user, full or not.

    Attributes
    ----------
    server : (N,) int
        Each user's best server, or -1 if there is none that has any of its first resource.
    ready : (N,) bool
        Whether the user has tasks left and one fits there.
    headroom, headroom_low : (N,) float
        Tasks of each user that free amounts would take; only kept for residual tsf.
    rough : (N,) float
        Workspace.
    """

    server: IntArray
    ready: BoolArray
    headroom: FloatArray
    headroom_low: FloatArray
    rough: FloatArray


def find_favourites(state: State, index: RatioIndex) -> Favourites:
    """Return every user's best server. Cost that of N searches; O(S N R) for residual tsf."""
    n_users = len(state.placed)
    favourites = Favourites(
        np.full(n_users, -1, dtype=np.int64),
        np.zeros(n_users, dtype=bool),
        np.zeros(n_users),
        np.zeros(n_users),
        np.zeros(n_users),
    )
    _refresh_all(state, index, favourites)
    count_all_headroom(state, favourites.headroom, favourites.headroom_low)
    return favourites


@kernel
def _refresh_all(state: State, index: RatioIndex, favourites: Favourites) -> None:
    for user in range(state.placed.size):
        refresh_favourite(state, index, favourites, user)


@kernel
def refresh_favourite(state: State, index: RatioIndex, favourites: Favourites, user: int) -> None:
    """Look for a user's best server among all."""
    server = find_best_fit(state, index, user, False)
    favourites.server[user] = server
    favourites.ready[user] = server >= 0 and state.pending[user] > 0 and fits(state, user, server)


@kernel
def reconsider(state: State, index: RatioIndex, favourites: Favourites, server: int) -> None:
    """Bring every user's best server up to date after one server changed. Cost O(N R) at least."""
    for user in range(state.placed.size):
        if state.pending[user] == 0:
            favourites.ready[user] = False
        elif favourites.server[user] == server:
            refresh_favourite(state, index, favourites, user)
        elif not state.closed[server] and is_better_fit(
            state, index, user, server, favourites.server[user]
        ):
            favourites.server[user] = server
            favourites.ready[user] = fits(state, user, server)


@kernel
def place_on_favourites(
    state: State,
    index: RatioIndex,
    favourites: Favourites,
    placed_user: IntArray,
    placed_server: IntArray,
) -> int:
    """Place tasks until nobody's best server takes one; return how many were placed.

    Notes
    -----
    A placement costs O(N R) and a search for each user whose best server it changed.
    """
    for k in range(placed_user.size):
        user = least_user(state, favourites.headroom, favourites.ready, 0, favourites.rough, True)
        if user < 0:
            return k
        server = favourites.server[user]
        forget_server(state, index, favourites, server)
        take(state, user, server)
        note_server(state, index, favourites, server)
        reconsider(state, index, favourites, server)
        placed_user[k], placed_server[k] = user, server
    return placed_user.size


@kernel
def forget_server(state: State, index: RatioIndex, favourites: Favourites, server: int) -> None:
    """Forget what a server has free, before that changes."""
    leave(state, index, server)
    if state.scoring == RESIDUAL_TSF:
        count_headroom(state, server, -1.0, favourites.headroom, favourites.headroom_low)


@kernel
def note_server(state: State, index: RatioIndex, favourites: Favourites, server: int) -> None:
    """Note what a server has free, after that changed."""
    if state.scoring == RESIDUAL_TSF:
        count_headroom(state, server, 1.0, favourites.headroom, favourites.headroom_low)
    enter(state, index, server)
