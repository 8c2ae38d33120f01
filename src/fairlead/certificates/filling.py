"""Progressive filling, proved by replaying the order of its placements.

What is replayed is whole quanta, and what is compared are scores computed from the problem: nothing
comes from the scheduler but the order itself.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from fairlead.certificates.replay import (
    WRONG,
    Residual,
    Servers,
    anything_fits,
    find_last_fits,
    measure_jumps,
    measure_jumps_on_servers,
    measure_residual_jumps,
    place_all,
    room,
)
from fairlead.certificates.replay_pairs import measure_jumps_by_room, measure_passing_over
from fairlead.certificates.replay_places import (
    FREE_SHARE,
    NOTHING,
    SHAPE,
    SHARE,
    ReplayedSelection,
    are_placed_best,
    are_rounds,
    empty_tree,
)
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.model.quanta import Quanta, to_quanta
from fairlead.optimize.double_double import to_pairs

# Scores are plain floats here: this close, relative, they are equal.
TOLERANCE = 1e-9

_FITS = "every task fits where it is, and nothing more fits"
_IN_TURN = "nobody was served while a hungrier user that still fitted waited"
_CONDITIONS = {
    "first-fit": f"{_FITS}; {_IN_TURN}; each task is on the first server that took it",
    "best-fit": f"{_FITS}; {_IN_TURN}; each task is on the best of the servers that took it",
    "rrr": (
        f"{_FITS}; nobody was served on a server while a hungrier user that fitted there waited; "
        "each round visits every server once"
    ),
    "joint": (
        f"{_FITS}; no user and server were chosen while a pair that fitted scored less, or as much "
        "for the same user on an earlier server"
    ),
    "best-fit-first": (
        "every task fits on what was its user's best server, and nobody's best server takes one "
        "more; nobody was served while the best server of a hungrier user took a task"
    ),
}


def certify_filling(
    problem: Problem, criterion: str, select: str, residual: bool, order: IntArray
) -> Certificate:
    """Replay the placements of a progressive filling and measure what is wrong with them.

    Parameters
    ----------
    criterion, select, residual
        The policy's name; see `fairlead.fill`.
    order : (P, 2) int
        User and server of each placement, in order.

    Returns
    -------
    Certificate
        The violation is the largest relative excess of a served user's score over that of a user
        who should have been served; 1 when a task does not fit where it is, or is not where the
        selection puts it, or more would fit.

    Notes
    -----
    Kesidis et al., IV. O((P + S) N R) and O(log S) for each user and placement; with
    ``best-fit-first`` also O(S R) for about every placement. Of users whose scores are equal, and
    in ``rrr`` of the orders of a round, any will do.
    """
    quanta = to_quanta(problem)
    users, places = np.ascontiguousarray(order[:, 0]), np.ascontiguousarray(order[:, 1])
    servers = _servers(problem, quanta)
    placed = np.zeros(problem.n_users, dtype=np.int64)
    is_valid = _names(order, problem.n_users, len(servers.group)) and place_all(
        servers, users, places, placed
    )
    if (
        not is_valid
        or (select != "best-fit-first" and anything_fits(servers, placed))
        or not _is_where_it_belongs(problem, quanta, select, residual, users, places)
    ):
        violation = WRONG
    elif select in ("rrr", "best-fit-first"):
        violation = _visits_violation(problem, quanta, criterion, select, residual, users, places)
    elif residual:
        violation = _residual_violation(problem, quanta, criterion, select, users, places, servers)
    else:
        violation = _violation(problem, criterion, select, users, places, servers)
    return Certificate(_CONDITIONS[select], violation, TOLERANCE)


def _names(order: IntArray, n_users: int, n_servers: int) -> bool:
    """Return whether all are users and servers; the replay does not look, and -1 is the last."""
    return bool(((order >= 0) & (order < [n_users, n_servers])).all())


def _servers(problem: Problem, quanta: Quanta) -> Servers:
    group = np.repeat(np.arange(problem.n_groups), problem.count)
    return Servers(
        group,
        quanta.capacity[group],
        quanta.demand,
        problem.users.eligible.copy(),
        np.floor(problem.task_limit),
    )


def _is_where_it_belongs(
    problem: Problem,
    quanta: Quanta,
    select: str,
    residual: bool,
    users: IntArray,
    places: IntArray,
) -> bool:
    """Return whether each task is on the server that the selection chooses for its user."""
    before = _servers(problem, quanta)
    n_servers = len(before.group)
    if select == "rrr":
        placed = np.zeros(problem.n_users, dtype=np.int64)
        visited = np.zeros(n_servers, dtype=np.int64)
        return are_rounds(before, users, places, placed, visited, np.arange(n_servers))
    last = np.full(problem.n_users, -1, dtype=np.int64)
    last[users] = np.arange(len(users))
    selection, free = _selection(problem, quanta, select, residual), before.free.copy()
    return are_placed_best(before, users, places, selection, free, last, empty_tree(n_servers))


def _selection(problem: Problem, quanta: Quanta, select: str, residual: bool) -> ReplayedSelection:
    by = {"first-fit": NOTHING, "joint": FREE_SHARE if residual else SHARE}.get(select, SHAPE)
    total = quanta.total(problem.count)
    ratios = [Fraction(q, r) if r else Fraction(0) for q in total for r in total]
    scale, scale_low = (part.reshape(len(total), -1) for part in to_pairs(ratios))
    return ReplayedSelection(by, select != "best-fit-first", quanta.capacity, scale, scale_low)


def _violation(
    problem: Problem,
    criterion: str,
    select: str,
    users: IntArray,
    places: IntArray,
    after: Servers,
) -> float:
    """Measure jumps of scores that do not depend on what is free."""
    n_users = problem.n_users
    last = np.empty((n_users, problem.n_groups), dtype=np.int64)
    find_last_fits(after, users, places, last)
    return measure_jumps(
        after,
        users,
        places,
        _units(problem, criterion, by_server=select == "joint"),
        last,
        np.argsort(last, axis=None, kind="stable"),
        np.zeros(n_users, dtype=np.int64),
        np.zeros(n_users),
        np.zeros(n_users),
    )


def _residual_violation(
    problem: Problem,
    quanta: Quanta,
    criterion: str,
    select: str,
    users: IntArray,
    places: IntArray,
    after: Servers,
) -> float:
    """Measure jumps of scores that depend on what is free."""
    placed = np.zeros(problem.n_users, dtype=np.int64)
    before = _servers(problem, quanta)
    if select == "joint":
        return measure_jumps_by_room(before, users, places, problem.weight.copy(), placed)
    last = np.empty((problem.n_users, problem.n_groups), dtype=np.int64)
    find_last_fits(after, users, places, last)
    residual = _residual(problem, before, criterion)
    return measure_residual_jumps(before, users, places, residual, last.max(axis=1), placed)


def _visits_violation(
    problem: Problem,
    quanta: Quanta,
    criterion: str,
    select: str,
    is_residual: bool,
    users: IntArray,
    places: IntArray,
) -> float:
    """Measure jumps where the server was settled before the user."""
    before = _servers(problem, quanta)
    residual = _residual(problem, before, criterion)
    unit = _units(problem, criterion, by_server=select == "rrr")
    placed = np.zeros(problem.n_users, dtype=np.int64)
    if select == "rrr":
        return measure_jumps_on_servers(before, users, places, unit, is_residual, residual, placed)
    selection = _selection(problem, quanta, select, is_residual)
    favourite = np.zeros(problem.n_users, dtype=np.int64)
    known = np.zeros(problem.n_users, dtype=bool)
    return measure_passing_over(
        before, users, places, selection, unit, is_residual, residual, placed, favourite, known
    )


def _units(problem: Problem, criterion: str, by_server: bool) -> FloatArray:
    """Return (N, G) scores per placed task; alike for all groups unless `by_server`."""
    shape = (problem.n_users, problem.n_groups)
    if criterion == "drf":
        total = np.where(problem.total_capacity > 0, problem.total_capacity, 1.0)
        unit = (problem.demand / total).max(axis=1)
    elif criterion == "tsf":
        alone = problem.fitting.sum(axis=1)  # none for idle users alone
        unit = np.divide(1.0, alone, out=np.zeros(len(alone)), where=alone > 0)
    else:
        alone = problem.fitting / np.maximum(problem.count, 1)
        units = np.divide(1.0, alone, out=np.zeros(shape), where=alone > 0)
        if by_server:
            return units / problem.weight[:, None]
        unit = np.where(problem.users.eligible, units * problem.count, 0.0).sum(axis=1)
    return np.repeat((unit / problem.weight)[:, None], problem.n_groups, axis=1)


def _residual(problem: Problem, before: Servers, criterion: str) -> Residual:
    rooms = np.zeros(problem.n_users)
    if criterion == "tsf":
        first = np.concatenate([[0], np.cumsum(problem.count)[:-1]]).tolist()
        for n in range(problem.n_users):
            alone = [room(before, n, server) for server in first]
            rooms[n] = float(np.dot(alone, problem.count))
    total = np.stack([(before.free >> 31).sum(axis=0), (before.free & 0x7FFFFFFF).sum(axis=0)])
    return Residual(criterion == "drf", criterion == "tsf", problem.weight.copy(), total, rooms)
