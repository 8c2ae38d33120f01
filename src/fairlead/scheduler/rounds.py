"""Offer the servers in random order, each to the user with the least score; compiled.

Randomised round-robin is what Mesos does by default with DRF (Kesidis et al., VI): each round
visits every server once, in a fresh order, and places at most one task per visit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.optimize.compiling import kernel
from fairlead.scheduler.criteria import RESIDUAL_TSF
from fairlead.scheduler.scoring import count_all_headroom, count_headroom, least_user
from fairlead.scheduler.state import State, may_take, take


class Round(NamedTuple):
    """A round under way.

    Attributes
    ----------
    order : (S,) int
        In which order the servers are visited.
    position : (1,) int
        How many have been visited.
    placed : (1,) int
        How many tasks the round has placed.
    refused : (S,) bool
        Servers that nobody takes anything of any more.
    candidate : (N,) bool
        Workspace.
    headroom, headroom_low : (N,) float
        Tasks of each user that free amounts would take; only kept for residual tsf.
    rough : (N,) float
        Workspace.
    """

    order: IntArray
    position: IntArray
    placed: IntArray
    refused: BoolArray
    candidate: BoolArray
    headroom: FloatArray
    headroom_low: FloatArray
    rough: FloatArray


def first_round(state: State) -> Round:
    """Return a round that is over, before the first. Cost O(S + N), O(S N R) for residual tsf."""
    n_servers, n_users = len(state.group), len(state.placed)
    round_ = Round(
        order=np.arange(n_servers),
        position=np.array([n_servers]),
        placed=np.zeros(1, dtype=np.int64),
        refused=np.zeros(n_servers, dtype=bool),
        candidate=np.zeros(n_users, dtype=bool),
        headroom=np.zeros(n_users),
        headroom_low=np.zeros(n_users),
        rough=np.zeros(n_users),
    )
    count_all_headroom(state, round_.headroom, round_.headroom_low)
    return round_


def begin_round(round_: Round, random: np.random.Generator) -> None:
    """Begin the next round, in a fresh order."""
    round_.order[:] = random.permutation(len(round_.order))
    round_.position[0] = 0
    round_.placed[0] = 0


@kernel
def offer_round(state: State, round_: Round, placed_user: IntArray, placed_server: IntArray) -> int:
    """Offer the servers left in the round; return how many tasks were placed.

    Stops before the round's end when the arrays are full.

    Notes
    -----
    O(N R) per server that still takes something.
    """
    n_placed = 0
    while round_.position[0] < round_.order.size and n_placed < placed_user.size:
        server = round_.order[round_.position[0]]
        round_.position[0] += 1
        if round_.refused[server]:
            continue
        for n in range(state.placed.size):
            round_.candidate[n] = state.pending[n] > 0 and may_take(state, n, server)
        user = least_user(state, round_.headroom, round_.candidate, server, round_.rough, False)
        if user < 0:
            round_.refused[server] = True
            continue
        if state.scoring == RESIDUAL_TSF:
            count_headroom(state, server, -1.0, round_.headroom, round_.headroom_low)
        take(state, user, server)
        if state.scoring == RESIDUAL_TSF:
            count_headroom(state, server, 1.0, round_.headroom, round_.headroom_low)
        placed_user[n_placed], placed_server[n_placed] = user, server
        n_placed += 1
    round_.placed[0] += n_placed
    return n_placed
