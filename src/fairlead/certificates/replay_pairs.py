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
from fairlead.certificates.replay_places import ReplayedSelection, badness, is_better
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.optimize.compiling import inner_kernel, kernel

# Scores this close, relative, are equal; misfits relative to the ratios that they compare.
SAME = 1e-12


@kernel
def measure_jumps_by_room(
    servers: Servers,
    users: IntArray,
    places: IntArray,
    weight: FloatArray,
    placed: IntArray,
) -> float:
    """Measure by how much a pair was served before one with a lesser residual score.

    A pair (m, i) is judged whenever it is about to change: when m is served, no server has more
    room for m than the one it is served on (`replay_places` sees to that); when i is used, nobody
    may score less on i than the user that is served. In between, the score of the pair stands still
    and those of the served do not fall, which is measured too: so the pair never scored less than
    what was served.

    `servers` is as before the first placement, `placed` (N,) zeros. O(N R) per placement.
    """
    worst, highest = 0.0, 0.0
    for k in range(users.size):
        n, server = users[k], places[k]
        score = placed[n] / (weight[n] * room(servers, n, server))
        if score < highest:
            worst = max(worst, (highest - score) / highest)
        highest = max(highest, score)
        for m in range(placed.size):
            if placed[m] < servers.limit[m] and takes(servers, m, server):
                other = placed[m] / (weight[m] * room(servers, m, server))
                if other < score:
                    worst = max(worst, (score - other) / score)
        occupy(servers, n, server, 1)
        placed[n] += 1
    return worst


@inner_kernel
def _favourite(servers: Servers, selection: ReplayedSelection, user: int) -> int:
    """Return the best server for the user among all, the earlier of equals, or -1."""
    best, least, size = -1, np.inf, 0.0
    for i in range(servers.group.size):
        misfit, its_size = badness(servers, selection, user, i)
        near = SAME * (size + its_size)
        if misfit == np.inf or misfit > least + near:
            continue
        if best < 0 or misfit < least - near or is_better(servers, selection, user, i, best):
            best, least, size = i, misfit, its_size
    return best


@inner_kernel
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
    selection: ReplayedSelection,
    unit: FloatArray,
    is_residual: bool,
    residual: Residual,
    placed: IntArray,
    favourite: IntArray,
    known: BoolArray,
) -> float:
    """Measure by how much one was served before a user that scored less and whose best server fits.

    1 where at the end the best server of somebody takes one more. Placements are each on its user's
    best server (`replay_places` sees to that); `servers` is as before the first. `unit` (N, G) is
    the score per placed task, if not residual; `placed` (N,) is zeros, the rest is workspace.
    """
    worst = 0.0
    known[:] = False
    for k in range(users.size + 1):
        score = np.inf
        if k < users.size:
            score = _score(servers, unit, is_residual, residual, placed, users[k])
        for n in range(placed.size):
            other = _score(servers, unit, is_residual, residual, placed, n)
            if placed[n] >= servers.limit[n] or other >= score * (1.0 - SAME):
                continue
            if not known[n]:
                favourite[n], known[n] = _favourite(servers, selection, n), True
            if favourite[n] >= 0 and takes(servers, n, favourite[n]):
                if k == users.size:
                    return 1.0
                worst = max(worst, (score - other) / score)
        if k < users.size:
            occupy_and_count(servers, residual, users[k], places[k])
            placed[users[k]] += 1
            _doubt(servers, selection, places[k], favourite, known)
    return worst


@inner_kernel
def _doubt(
    servers: Servers,
    selection: ReplayedSelection,
    server: int,
    favourite: IntArray,
    known: BoolArray,
) -> None:
    """Forget the best servers that a change of one server may have changed."""
    for n in range(known.size):
        if not known[n]:
            continue
        if favourite[n] == server or favourite[n] < 0:
            known[n] = False
        else:
            now, size = badness(servers, selection, n, server)
            best, its_size = badness(servers, selection, n, favourite[n])
            known[n] = now > best + SAME * (size + its_size)
