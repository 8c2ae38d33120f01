"""Replay placements where every server counts: residual pairs, and best servers full or not.

See `replay`; these look through all servers now and then, and take longer.
"""

from __future__ import annotations

import numpy as np

from fairlead.certificates.replay import (
    Residual,
    Servers,
    occupy,
    occupy_and_count,
    residual_score,
    room,
    takes,
)
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.optimize.compiling import kernel

# Scores this close, relative, are equal; misfits relative to the ratios that they compare.
SAME = 1e-12


@kernel
def _most_room(servers: Servers, user: int) -> float:
    most = 0.0
    for i in range(servers.group.size):
        if takes(servers, user, i):
            most = max(most, room(servers, user, i))
    return most


@kernel
def measure_jumps_by_room(
    servers: Servers,
    users: IntArray,
    places: IntArray,
    weight: FloatArray,
    until: IntArray,
    placed: IntArray,
    most: FloatArray,
    tolerance: float,
) -> float:
    """Measure by how much a pair was served before one with a lesser residual score.

    Parameters
    ----------
    servers : Servers
        As before the first placement.
    users, places : (P,) int
        The placements.
    weight : (N,) float
        Weights.
    until : (N,) int
        Until when each user fitted anywhere.
    placed : (N,) int
        Zeros; counts.
    most : (N,) float
        Workspace: an upper bound of the most tasks that one server would take. It only falls, so a
        score computed with it is too low at most; then it is computed anew.
    tolerance : float
        Scores this close, relative, are equal.

    Notes
    -----
    O(N) per placement and O(S R) whenever a bound is computed anew.
    """
    worst = 0.0
    most[:] = np.inf
    for k in range(users.size):
        n = users[k]
        score = placed[n] / (weight[n] * room(servers, n, places[k]))
        for m in range(placed.size):
            if until[m] < k or placed[m] >= servers.limit[m]:
                continue
            if placed[m] / (weight[m] * most[m]) < score * (1.0 - tolerance):
                most[m] = _most_room(servers, m)
                other = placed[m] / (weight[m] * most[m])
                if other < score:
                    worst = max(worst, (score - other) / score)
        occupy(servers, n, places[k], 1)
        placed[n] += 1
    return worst


@kernel
def _misfit(servers: Servers, share: FloatArray, user: int, server: int) -> tuple[float, float]:
    """Return H and the sum of the ratios that it compares; infinite without the first resource."""
    lead = 0
    while servers.demand[user, lead] == 0:
        lead += 1
    over = servers.free[server, lead] * share[lead]
    if over == 0.0:
        return np.inf, 0.0
    misfit = size = 0.0
    for r in range(servers.free.shape[1]):
        wanted = servers.demand[user, r] * share[r] / (servers.demand[user, lead] * share[lead])
        there = servers.free[server, r] * share[r] / over
        misfit += abs(wanted - there)
        size += wanted + there
    return misfit, size


@kernel
def _favourite(servers: Servers, share: FloatArray, user: int) -> int:
    """Return the server with the least H among all, the earlier of equals, or -1."""
    best, least, size = -1, np.inf, 0.0
    for i in range(servers.group.size):
        if servers.eligible[user, servers.group[i]]:
            misfit, its_size = _misfit(servers, share, user, i)
            if misfit < least - SAME * (size + its_size):
                best, least, size = i, misfit, its_size
    return best


@kernel
def _score(
    servers: Servers,
    unit: FloatArray,
    is_residual: bool,
    residual: Residual,
    placed: IntArray,
    user: int,
) -> float:
    if is_residual:
        return residual_score(servers, residual, placed, user, 0)
    return float(placed[user] * unit[user, 0])


@kernel
def measure_passing_over(
    servers: Servers,
    users: IntArray,
    places: IntArray,
    share: FloatArray,
    unit: FloatArray,
    is_residual: bool,
    residual: Residual,
    placed: IntArray,
    favourite: IntArray,
    known: BoolArray,
) -> float:
    """Measure by how much one was served before a user that scored less and whose best server fits.

    Parameters
    ----------
    servers : Servers
        As before the first placement.
    users, places : (P,) int
        The placements; each has to be on its user's best server.
    share : (R,) float
        Shares of the pool in a quantum.
    unit : (N, G) float
        Score per placed task, where scores are not residual.
    is_residual : bool
        Whether they are.
    residual : Residual
        What residual scores are made of.
    placed : (N,) int
        Zeros; counts.
    favourite : (N,) int
        Workspace: best servers.
    known : (N,) bool
        Workspace.

    Returns
    -------
    float
        The violation; 1 where a task was not placed on its best server, or where at the end the
        best server of somebody takes one more.
    """
    worst = 0.0
    known[:] = False
    for k in range(users.size + 1):
        score = np.inf
        if k < users.size:
            score = _score(servers, unit, is_residual, residual, placed, users[k])
        for n in range(placed.size):
            other = _score(servers, unit, is_residual, residual, placed, n)
            served = k < users.size and n == users[k]
            if placed[n] >= servers.limit[n] or (other >= score * (1.0 - SAME) and not served):
                continue
            if not known[n]:
                favourite[n], known[n] = _favourite(servers, share, n), True
            if served and favourite[n] != places[k]:
                return 1.0
            if not served and favourite[n] >= 0 and takes(servers, n, favourite[n]):
                if k == users.size:
                    return 1.0
                worst = max(worst, (score - other) / score)
        if k < users.size:
            occupy_and_count(servers, residual, users[k], places[k])
            placed[users[k]] += 1
            _doubt(servers, share, places[k], favourite, known)
    return worst


@kernel
def _doubt(
    servers: Servers, share: FloatArray, server: int, favourite: IntArray, known: BoolArray
) -> None:
    """Forget the best servers that a change of one server may have changed."""
    for n in range(known.size):
        if not known[n]:
            continue
        if favourite[n] == server or favourite[n] < 0:
            known[n] = False
        else:
            now, size = _misfit(servers, share, n, server)
            best, its_size = _misfit(servers, share, n, favourite[n])
            known[n] = now > best + SAME * (size + its_size)
