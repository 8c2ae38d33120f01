"""Replay placements one by one, and measure how far any of them jumped the queue; compiled.

Nothing here knows how the placements were found. Amounts are whole quanta; scores are plain floats.
A violation is relative: 0.1 when somebody was served whose score was 0.1 of itself above that of a
user who waited; 1 for what is wrong altogether, such as a task where it does not fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import inner_kernel, kernel

WRONG = 1.0


@by_address
class Servers(NamedTuple):
    """Servers and what users ask of them."""

    group: IntArray  # (S,): group of each server
    free: IntArray  # (S, R): free quanta; changed by a replay
    demand: IntArray  # (N, R): quanta of a task
    eligible: BoolArray  # (N, G): where each user may run
    limit: FloatArray  # (N,): tasks of each user in all


@inner_kernel
def takes(servers: Servers, user: int, server: int) -> bool:
    """Return whether the user may run on the server and one more of its tasks fits there."""
    if not servers.eligible[user, servers.group[server]]:
        return False
    for r in range(servers.free.shape[1]):
        if servers.free[server, r] < servers.demand[user, r]:
            return False
    return True


@inner_kernel
def occupy(servers: Servers, user: int, server: int, sign: int) -> None:
    """Take what a task needs from what is free (1), or give it back (-1)."""
    for r in range(servers.free.shape[1]):
        servers.free[server, r] -= sign * servers.demand[user, r]


@kernel
def room(servers: Servers, user: int, server: int) -> float:
    """Return the tasks, whole or not, that the free amounts of a server would take."""
    least = np.inf
    for r in range(servers.free.shape[1]):
        if servers.demand[user, r] > 0:
            least = min(least, float(servers.free[server, r]) / float(servers.demand[user, r]))
    return least


@kernel
def place_all(servers: Servers, users: IntArray, places: IntArray, placed: IntArray) -> bool:
    """Place everything in order; return whether each task was allowed there and fitted."""
    for k in range(users.size):
        if not takes(servers, users[k], places[k]) or placed[users[k]] >= servers.limit[users[k]]:
            return False
        occupy(servers, users[k], places[k], 1)
        placed[users[k]] += 1
    return True


@kernel
def anything_fits(servers: Servers, placed: IntArray) -> bool:
    """Return whether one more task of anybody fits anywhere."""
    for n in range(placed.size):
        if placed[n] < servers.limit[n]:
            for i in range(servers.group.size):
                if takes(servers, n, i):
                    return True
    return False


@kernel
def find_last_fits(servers: Servers, users: IntArray, places: IntArray, last: IntArray) -> None:
    """Undo all P placements, last first, and note until when each user fitted per group.

    Sets `last` (N, G) to the last placement before which a task of the user fitted in the group, or
    -1, and `servers` to what they were before the first.
    """
    last[:] = -1
    for n in range(last.shape[0]):
        for i in range(servers.group.size):
            if takes(servers, n, i):
                last[n, servers.group[i]] = users.size
    for k in range(users.size - 1, -1, -1):
        server = places[k]
        g = servers.group[server]
        occupy(servers, users[k], server, -1)
        for n in range(last.shape[0]):
            if last[n, g] < 0 and takes(servers, n, server):
                last[n, g] = k


@kernel
def measure_jumps(
    servers: Servers,
    users: IntArray,
    places: IntArray,
    unit: FloatArray,
    last: IntArray,
    expiry: IntArray,
    placed: IntArray,
    least_unit: FloatArray,
    key: FloatArray,
) -> float:
    """Measure by how much anybody was served before a pair (user, group) that scored less.

    `unit` (N, G) is the score per placed task, `last` (N, G) until when the user fitted, `expiry`
    (N G,) the pairs ``n G + g`` by `last`; `placed` (N,) comes as zeros, the rest is workspace.
    O(N) per placement.
    """
    n_users, n_groups = unit.shape
    least_unit[:] = 0.0
    worst, expired = 0.0, 0
    for n in range(n_users):
        _refresh_unit(unit, last, 0, n, least_unit)
        key[n] = 0.0 if least_unit[n] < np.inf and placed[n] < servers.limit[n] else np.inf
    for k in range(users.size):
        while (
            expired < expiry.size
            and last[expiry[expired] // n_groups, expiry[expired] % n_groups] < k
        ):
            n = expiry[expired] // n_groups
            expired += 1
            if _refresh_unit(unit, last, k, n, least_unit) and key[n] < np.inf:
                key[n] = placed[n] * least_unit[n] if least_unit[n] < np.inf else np.inf
        least = np.inf
        for n in range(n_users):
            least = min(least, key[n])
        n = users[k]
        score = placed[n] * unit[n, servers.group[places[k]]]
        if score > least:
            worst = max(worst, (score - least) / score)
        placed[n] += 1
        waits = placed[n] < servers.limit[n] and least_unit[n] < np.inf
        key[n] = placed[n] * least_unit[n] if waits else np.inf
    return worst


@inner_kernel
def _refresh_unit(unit: FloatArray, last: IntArray, k: int, n: int, least_unit: FloatArray) -> bool:
    """Recompute a user's least score per task over the groups it still fits in; true if changed."""
    least = np.inf
    for g in range(unit.shape[1]):
        if last[n, g] >= k:
            least = min(least, unit[n, g])
    changed = bool(least != least_unit[n])
    least_unit[n] = least
    return changed


@by_address
class Residual(NamedTuple):
    """What residual scores are made of, in floats."""

    of_pool: bool  # whether the score is a share of the free amounts of all servers (drf)
    # Whether it counts the tasks that all servers would take (tsf). If neither, it is a share of
    # the server's own free amounts (ps-dsf).
    of_room: bool
    weight: FloatArray  # (N,)
    total: IntArray  # (2, R): free quanta of all servers, in two words of 31 bits
    rooms: FloatArray  # (N,): tasks that all servers would take


@inner_kernel
def residual_score(
    servers: Servers, residual: Residual, placed: IntArray, user: int, server: int
) -> float:
    """Return a user's residual score on a server."""
    if placed[user] == 0:
        return 0.0
    if residual.of_room:
        least = float(residual.rooms[user])
    elif residual.of_pool:
        least = np.inf
        for r in range(servers.free.shape[1]):
            if servers.demand[user, r] > 0:
                total = float(residual.total[0, r]) * 2147483648.0 + float(residual.total[1, r])
                least = min(least, total / float(servers.demand[user, r]))
    else:
        least = room(servers, user, server)
    return float(placed[user] / (residual.weight[user] * least))


@inner_kernel
def occupy_and_count(servers: Servers, residual: Residual, user: int, server: int) -> None:
    """Take what a task needs from what is free, and from the sums that scores are made of."""
    if residual.of_room:
        for n in range(residual.rooms.size):
            residual.rooms[n] -= room(servers, n, server)
    occupy(servers, user, server, 1)
    if residual.of_room:
        for n in range(residual.rooms.size):
            residual.rooms[n] += room(servers, n, server)
    for r in range(servers.free.shape[1]):
        residual.total[0, r] -= servers.demand[user, r] >> 31
        residual.total[1, r] -= servers.demand[user, r] & 0x7FFFFFFF


@kernel
def measure_residual_jumps(
    servers: Servers,
    users: IntArray,
    places: IntArray,
    residual: Residual,
    until: IntArray,
    placed: IntArray,
) -> float:
    """Measure the same for residual scores that are alike on all servers.

    `until` (N,) says until when each user fitted anywhere; `servers` is as before the first
    placement. O(N R) per placement.
    """
    worst = 0.0
    for k in range(users.size):
        score = residual_score(servers, residual, placed, users[k], places[k])
        for n in range(placed.size):
            if until[n] >= k and placed[n] < servers.limit[n]:
                other = residual_score(servers, residual, placed, n, 0)
                if other < score:
                    worst = max(worst, (score - other) / score)
        occupy_and_count(servers, residual, users[k], places[k])
        placed[users[k]] += 1
    return worst


@kernel
def measure_jumps_on_servers(
    servers: Servers,
    users: IntArray,
    places: IntArray,
    unit: FloatArray,
    is_residual: bool,
    residual: Residual,
    placed: IntArray,
) -> float:
    """Measure by how much anybody was served before one that scored less on the same server.

    `servers` is as before the first placement. O(N R) per placement.
    """
    worst = 0.0
    for k in range(users.size):
        server = places[k]
        g = servers.group[server]
        if is_residual:
            score = residual_score(servers, residual, placed, users[k], server)
        else:
            score = placed[users[k]] * unit[users[k], g]
        for n in range(placed.size):
            if placed[n] < servers.limit[n] and takes(servers, n, server):
                if is_residual:
                    other = residual_score(servers, residual, placed, n, server)
                else:
                    other = placed[n] * unit[n, g]
                if other < score:
                    worst = max(worst, (score - other) / score)
        if is_residual:
            occupy_and_count(servers, residual, users[k], server)
        else:
            occupy(servers, users[k], server, 1)
        placed[users[k]] += 1
    return worst
