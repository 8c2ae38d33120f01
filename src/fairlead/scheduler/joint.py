"""Choose user and server together: the pair with the least virtual dominant share; compiled.

On every server of a group a user scores alike, so there is one heap of users per group. Keys only
rise while tasks are placed; they are brought up to date when they come to the top.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import inner_kernel, kernel
from fairlead.optimize.double_double import compare
from fairlead.optimize.keyed_heap import Heaps, empty_heaps, push, raise_least, take_out
from fairlead.scheduler.scoring import fixed_score
from fairlead.scheduler.state import State, fits, take


class GroupQueues(NamedTuple):
    """Per group, who waits for it and from where each is to be looked for.

    Attributes
    ----------
    heaps : Heaps
        A heap per group of the users with tasks left of which one may fit there.
    pointer : (G, N) int
        No earlier server of the group takes a task of the user.
    """

    heaps: Heaps
    pointer: IntArray


def fill_group_queues(state: State) -> GroupQueues:
    """Return queues in which everybody waits for every group it may run on. O(G N log N)."""
    n_groups, n_users = len(state.capacity), len(state.placed)
    queues = GroupQueues(
        empty_heaps(n_groups, n_users),
        np.repeat(state.first_server[:-1, None], n_users, axis=1),
    )
    _let_all_wait(state, queues)
    return queues


@kernel
def _let_all_wait(state: State, queues: GroupQueues) -> None:
    for user in range(state.placed.size):
        wait_for_groups(state, queues, user)


@inner_kernel
def wait_for_group(state: State, queues: GroupQueues, g: int, user: int) -> None:
    """Have a user with tasks left wait for a group, or put it where its changed score belongs."""
    if state.pending[user] > 0 and state.eligible[user, g]:
        key, key_low = fixed_score(state, user, g)
        push(queues.heaps, g, state.placed.size, user, key, key_low)


@inner_kernel
def _first_fit_in_group(state: State, pointer: IntArray, g: int, user: int) -> int:
    server, end = pointer[g, user], state.first_server[g + 1]
    while server < end and not fits(state, user, server):
        server += 1
    pointer[g, user] = server
    return server if server < end else -1


@inner_kernel
def _settle_top(state: State, queues: GroupQueues, g: int) -> int:
    """Bring the top of a group's heap up to date; return a server for it, or -1 if none waits."""
    heaps = queues.heaps
    n_users = state.placed.size
    while heaps.size[g] > 0:
        user = heaps.item[g * n_users]
        if state.pending[user] == 0:
            take_out(heaps, g, n_users, user)
            continue
        key, key_low = fixed_score(state, user, g)
        if key != heaps.key[g * n_users + user] or key_low != heaps.key_low[g * n_users + user]:
            raise_least(heaps, g, n_users, key, key_low)
            continue
        server = _first_fit_in_group(state, queues.pointer, g, user)
        if server >= 0:
            return server
        take_out(heaps, g, n_users, user)
    return -1


@kernel
def place_jointly(
    state: State, queues: GroupQueues, placed_user: IntArray, placed_server: IntArray
) -> int:
    """Place tasks until nothing more fits or the arrays are full; return how many were placed.

    Of equal pairs the earlier user's goes first, then the one with the earlier server.

    Notes
    -----
    A placement costs O(G) and O(log N) per group whose least user it changed; each server is
    passed once per user until something is freed.
    """
    n_users = state.placed.size
    heaps = queues.heaps
    for k in range(placed_user.size):
        chosen, chosen_server = -1, -1
        least, least_low = 0.0, 0.0
        for g in range(state.capacity.shape[0]):
            server = _settle_top(state, queues, g)
            if server < 0:
                continue
            user = heaps.item[g * n_users]
            key, key_low = heaps.key[g * n_users + user], heaps.key_low[g * n_users + user]
            order = -1 if chosen < 0 else compare(key, key_low, least, least_low)
            if order < 0 or (order == 0 and user < chosen):
                chosen, chosen_server, least, least_low = user, server, key, key_low
        if chosen < 0:
            return k
        take(state, chosen, chosen_server)
        placed_user[k], placed_server[k] = chosen, chosen_server
    return placed_user.size


@kernel
def wake_group(state: State, queues: GroupQueues, server: int) -> None:
    """Have those wait again whose tasks fit on a server that has more free now. O(N R)."""
    g = state.group[server]
    n_users = state.placed.size
    for user in range(n_users):
        queues.pointer[g, user] = min(queues.pointer[g, user], server)
        if queues.heaps.place[g * n_users + user] < 0 and fits(state, user, server):
            wait_for_group(state, queues, g, user)


@kernel
def wait_for_groups(state: State, queues: GroupQueues, user: int) -> None:
    """Have a user wait for every group it may run on, its score or tasks having changed."""
    for g in range(state.capacity.shape[0]):
        wait_for_group(state, queues, g, user)
