"""Certify fillings: replay the placements, and compare each with the policy's choice.

Only the order of placements comes from the scheduler. Amounts are whole quanta, a score is the
whole number ``floor(share / weight * 2**64)``, and H of best-fit is a double. Equal numbers are
ties, so each placement is either right or wrong.

During a filling no amount is freed. So a task that does not fit on a server never fits there again,
and no score falls while a task of its user fits: an earlier score is a lower bound of the current
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from heapq import heappop, heapreplace
from math import lcm
from operator import mul

import numpy as np

from fairlead.model.allocation import Certificate
from fairlead.model.cluster import BoolArray, FloatArray, IntArray, choose_devices
from fairlead.model.problem import Problem
from fairlead.model.quanta import to_quanta
from fairlead.model.quantity import ratio

SCORE_BITS = 64  # a share of 1 has the score 2**64
NEAR = 1e-9  # an upper bound of the relative error of a share in doubles

_FITS = "every task fits on its server, and no other task fits"
_LEAST = "each task belongs to the user with the least score of those with a task that fits"
_CONDITIONS = {
    "first-fit": f"{_FITS}; {_LEAST}; each task is on the first server with room for it",
    "best-fit": f"{_FITS}; {_LEAST}; each task is on the best server with room for it",
    "rrr": f"{_FITS}; {_LEAST} on its server; each round visits every server once",
    "joint": f"{_FITS}; each task has the user and the server of least score where a task fits",
    "best-fit-first": (
        "every task fits on its user's best server, and no further task does; "
        f"{_LEAST} on their best server"
    ),
}

# (user, server) -> score; the server matters only for shares of one server.
Score = Callable[[int, int], int]
# (user, groups (K,) of servers, free amounts (C, K)) -> keys (K,); the lowest key is chosen. C
# counts the rows of `Replay.capacity`.
Keys = Callable[[int, IntArray, IntArray], FloatArray | BoolArray]


def certify_filling(
    problem: Problem, criterion: str, select: str, residual: bool, order: IntArray
) -> Certificate:
    """Replay the placements of a progressive filling, and check that the policy chose each.

    Parameters
    ----------
    problem : Problem
    criterion, select, residual
        The policy; see `fairlead.fill`.
    order : (P, 2) int
        User and server of each placement, in order.

    Returns
    -------
    Certificate
        The violation is 0 if all placements are right and no further task can be placed, else 1.

    Notes
    -----
    Kesidis et al., IV. Any order of the servers in a round is accepted. NumPy's part is
    O(P (N R + S)) with ``first-fit``, ``best-fit`` and ``rrr``, O(P S R) with ``joint``, and
    O(P (N + S) R) with ``best-fit-first``, which keeps (N, S) doubles. The rest is O(P) steps in
    Python, and O(P N) with ``rrr``, ``best-fit-first`` and residual tsf.
    """
    users_and_servers = [problem.n_users, problem.count.sum()]
    holds = bool(((order >= 0) & (order < users_and_servers)).all())
    if holds:
        replay = Replay(problem, order)
        holds = replay.is_possible() and _is_right(replay, criterion, select, residual)
    return Certificate(_CONDITIONS[select], 0.0 if holds else 1.0, 0.0)


def _is_right(replay: Replay, criterion: str, select: str, residual: bool) -> bool:
    """Return whether the policy would make these placements, which are feasible."""
    score = _score_function(replay, criterion, select, residual)
    if select == "best-fit-first":
        return _serves_best_servers(replay, score)
    if select == "rrr":
        return _serves_rounds(replay, score) and replay.is_full()
    if select == "joint":
        amounts = replay.free if residual else replay.capacity
        return _serves_pairs(replay, amounts, score) and replay.is_full()
    keys = BestFit(replay).keys if select == "best-fit" else replay.lacks_room
    return _are_placed(replay, keys) and _serves_users(replay, score) and replay.is_full()


class Replay:
    """Servers and users after some of the placements. Amounts are quanta."""

    def __init__(self, problem: Problem, order: IntArray) -> None:
        quanta = to_quanta(problem)
        self.users, self.servers = np.ascontiguousarray(order.T)  # (P,) of each placement
        # Capacity (R,) and number of the servers of each group.
        self.groups = list(zip(quanta.capacity.tolist(), problem.count.tolist(), strict=True))
        self.group = np.repeat(np.arange(problem.n_groups), problem.count)  # (S,) of each server
        self.device = quanta.device
        # (C, S): of each server R amounts; then, for each resource in devices, the largest free
        # amount of one device and the number of wholly free devices.
        self.capacity = self._with_devices(np.ascontiguousarray(quanta.capacity[self.group].T))
        self.free = self.capacity.copy()  # (C, S)
        self.total = quanta.total(problem.count)  # (R,) of all servers
        self.left = np.array(self.total)  # (R,) free on all servers
        self.demand = quanta.demand  # (N, R) of a task
        self.need = self._needs()  # (N, C) amounts that a server must have free for a task
        self.demanded = [  # each demanded resource with its amount
            [(r, amount) for r, amount in enumerate(row) if amount] for row in self.demand.tolist()
        ]
        self.eligible = problem.users.eligible
        self.has_devices = True  # whether each task found the devices that it takes
        self.after = self._find_after()  # (C, P) free on each placement's server after it
        self.limit = np.floor(problem.task_limit)
        self.waits = self.limit > 0  # (N,) users with tasks left
        self.number = 0  # placements so far
        self.placed = [0] * problem.n_users  # placements of each user so far
        weights = problem.weight.tolist()
        self.weight = [ratio(weight) if weight else (1, 1) for weight in weights]
        self.is_last = [weight == 0 for weight in weights]  # served after all other users

    def _with_devices(self, capacity: IntArray) -> IntArray:
        """Return `capacity` (R, S) with the rows of devices below, (C, S)."""
        rows = [capacity]
        for r, unit in self.device.items():
            devices = capacity[r] // unit
            rows.append(np.stack([np.minimum(devices, 1) * unit, devices]))
        return np.concatenate(rows)

    def _needs(self) -> IntArray:
        """Return (N, C) the amounts that a server must have free for a task of each user."""
        columns = [self.demand]
        for r, unit in self.device.items():
            asked = self.demand[:, r]
            parts, whole = np.where(asked < unit, asked, 0), asked // unit
            columns.append(np.stack([parts, whole], axis=1))
        return np.concatenate(columns, axis=1)

    def _find_after(self) -> IntArray:
        """Return (C, P) the free amounts of each placement's server after it."""
        after = self._amounts_after()
        rows = [after, *(self._devices_after(r, unit) for r, unit in self.device.items())]
        return np.concatenate(rows)

    def _devices_after(self, r: int, unit: int) -> IntArray:
        """Return (2, P) the largest free amount of a device, and the wholly free devices.

        Both are of the placement's server, after each placement.
        """
        free: dict[int, list[int]] = {}
        after = np.empty((2, len(self.users)), dtype=np.int64)
        demand = self.demand[:, r].tolist()
        for k, (user, server) in enumerate(self.pairs()):
            devices = free.setdefault(server, [unit] * int(self.capacity[r, server] // unit))
            asked = demand[user]
            taken = choose_devices(devices, asked, unit) if asked else []
            self.has_devices &= len(taken) == -(-asked // unit)
            for number in taken:
                devices[number] -= min(asked, unit)
            after[:, k] = max(devices, default=0), devices.count(unit)
        return after

    def _amounts_after(self) -> IntArray:
        """Return (R, P) the free amounts of each placement's server after it, without devices."""
        by_server = np.argsort(self.servers, kind="stable")
        servers = self.servers[by_server]
        demand = self.demand[self.users[by_server]].T
        held = np.cumsum(demand, axis=1) - demand  # on this server and those before it
        held = held - held[:, np.searchsorted(servers, servers)] + demand
        after: IntArray = np.empty_like(held)
        after[:, by_server] = self.capacity[: len(held), servers] - held
        return after

    def is_possible(self) -> bool:
        """Return whether each task fits and is allowed on its server, within its user's limit."""
        tasks = np.bincount(self.users, minlength=len(self.limit))
        is_allowed = self.eligible[self.users, self.group[self.servers]]
        is_within = (tasks <= self.limit).all() and (self.after >= 0).all()
        return bool(is_within and is_allowed.all() and self.has_devices)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Return user and server of each placement."""
        return zip(self.users.tolist(), self.servers.tolist(), strict=True)

    def place(self, user: int, server: int) -> None:
        """Make the next placement."""
        self.free[:, server] = self.after[:, self.number]
        self.left -= self.demand[user]
        self.number += 1
        self.placed[user] += 1
        self.waits[user] = self.placed[user] < self.limit[user]

    def scale(self, user: int) -> tuple[int, int]:
        """Return numerator and denominator of the factor from one task's share to the score."""
        numerator, denominator = self.weight[user]
        return (self.placed[user] * denominator) << SCORE_BITS, numerator

    def lacks_room(self, user: int, group: IntArray, free: IntArray) -> BoolArray:
        """Return whether a task of a user does not fit on servers, or may not run there."""
        lacks: BoolArray = (free < self.need[user][:, None]).any(axis=0)
        lacks |= ~self.eligible[user, group]
        return lacks

    def room(self, user: int) -> IntArray:
        """Return the servers that have room for a task of a user."""
        return np.flatnonzero(~self.lacks_room(user, self.group, self.free))

    def users_with_room(self, server: int) -> list[int]:
        """Return the users that have a task that fits on a server."""
        fits = (self.need <= self.free[:, server]).all(axis=1)
        may_run = self.eligible[:, self.group[server]]
        users: list[int] = np.flatnonzero(self.waits & fits & may_run).tolist()
        return users

    def is_full(self) -> bool:
        """Return whether no user has a task that fits anywhere."""
        return not any(self.room(user).size for user in np.flatnonzero(self.waits).tolist())


# Scores


def _score_function(replay: Replay, criterion: str, select: str, residual: bool) -> Score:
    """Return the score function of a policy."""
    if criterion == "ps-dsf" and select in ("joint", "rrr"):
        amounts = replay.free if residual else replay.capacity
        return lambda user, server: _dominant_score(replay, user, amounts[:, server])
    if not residual:
        return _scores_by_capacity(replay, criterion)
    if criterion == "drf":
        return lambda user, _: _dominant_score(replay, user, replay.left)
    return ResidualTaskShares(replay).score


def _dominant_score(replay: Replay, user: int, amounts: IntArray) -> int:
    """Return the score of a user's dominant share of `amounts` (C,); only the first R count."""
    scale, under = replay.scale(user)
    there = amounts.tolist()
    return max(
        [d * scale // (there[r] * under) for r, d in replay.demanded[user] if there[r]], default=0
    )


def _scores_by_capacity(replay: Replay, criterion: str) -> Score:
    """Return a score function by capacity: a user's tasks times the share of one task."""
    parts = [
        _share_of_task(replay, criterion, user) / Fraction(*weight)
        for user, weight in enumerate(replay.weight)
    ]
    ratios = [(part.numerator << SCORE_BITS, part.denominator) for part in parts]
    return lambda user, _: replay.placed[user] * ratios[user][0] // ratios[user][1]


def _share_of_task(replay: Replay, criterion: str, user: int) -> Fraction:
    """Return the share of one task in the capacities of all servers."""
    taken = replay.demanded[user]
    if not taken:  # an idle user that states rates instead of a demand
        return Fraction(0)
    if criterion == "drf":
        shares = [Fraction(d, replay.total[r]) for r, d in taken if replay.total[r]]
        return max(shares, default=Fraction(0))
    tasks_per_server = [min(Fraction(row[r], d) for r, d in taken) for row, _ in replay.groups]
    counts = [count for _, count in replay.groups]
    if criterion == "tsf":
        alone = sum(map(mul, tasks_per_server, counts), Fraction(0))
        return 1 / alone if alone else alone
    kinds = zip(tasks_per_server, counts, replay.eligible[user].tolist(), strict=True)
    return sum((count / fit for fit, count, may_run in kinds if may_run and fit), Fraction(0))


class ResidualTaskShares:
    """Scores of residual TSF, by the tasks that still fit on all servers together.

    Fractions of tasks count.

    Tasks are counted in parts, so small that each quantum of a resource holds a whole number of
    parts.
    """

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        after = replay.after[: len(replay.total)]
        self.before = (after + replay.demand[replay.users].T).T.tolist()
        self.after = replay.after.T.tolist()
        self.parts = [lcm(*(d for _, d in taken)) for taken in replay.demanded]
        taken = zip(replay.demanded, self.parts, strict=True)
        # Each demanded resource, and the number of parts that one quantum holds.
        self.factors = [[(r, parts // d) for r, d in pairs] for pairs, parts in taken]
        self.fitting = [  # parts of each user that fit on all servers together
            sum(count * _count_parts(row, factors) for row, count in replay.groups)
            for factors in self.factors
        ]
        self.n_subtracted = [0] * len(self.fitting)  # placements that `fitting` accounts for

    def score(self, user: int, _: int) -> int:
        """Return the score of a user."""
        factors, fitting = self.factors[user], self.fitting[user]
        for k in range(self.n_subtracted[user], self.replay.number):
            fitting -= _count_parts(self.before[k], factors) - _count_parts(self.after[k], factors)
        self.fitting[user], self.n_subtracted[user] = fitting, self.replay.number
        scale, under = self.replay.scale(user)
        return self.parts[user] * scale // (fitting * under) if fitting else 0


def _count_parts(amounts: list[int], factors: list[tuple[int, int]]) -> int:
    """Return how many parts of a task fit into amounts; `factors` are parts per quantum."""
    return min([amounts[r] * factor for r, factor in factors], default=0)


# Choice of servers


def _are_placed(replay: Replay, keys: Keys) -> bool:
    """Return whether each task is on the first of the servers with the lowest key."""
    columns = np.hstack([replay.demand, replay.eligible])
    shape = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)[replay.users]
    by_shape = np.argsort(shape, kind="stable")
    group = replay.group[replay.servers]
    for of_shape in np.split(by_shape, np.flatnonzero(np.diff(shape[by_shape], prepend=-1)))[1:]:
        user, done = int(replay.users[of_shape[0]]), 0
        key = keys(user, replay.group, replay.capacity)  # (S,) of each server
        key_after = keys(user, group, replay.after)  # (P,) of each placement's server
        for k in of_shape.tolist():
            key[replay.servers[done:k]] = key_after[done:k]  # a repeated server keeps the last one
            done = k
            if key.argmin() != replay.servers[k]:
                return False
    return True


class BestFit:
    """H of best-fit in doubles, as a sum in the order of resources."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        demand, total = replay.demand, np.array(replay.total, dtype=np.float64)
        self.lead = (demand > 0).argmax(axis=1)  # (N,) the first demanded resource
        self.wanted = demand.T / np.maximum(demand[np.arange(len(demand)), self.lead], 1)  # (R, N)
        # (R, N): the total of the first resource over that of each; 0 where there is none.
        self.scale = total[self.lead] / np.where(total > 0, total, np.inf)[:, None]

    def keys(self, user: int, group: IntArray, free: IntArray) -> FloatArray:
        """Return H of a user on servers, infinite on those without room."""
        h = _shape_difference(
            self.wanted[:, user], self.scale[:, user], free, free[self.lead[user]]
        )
        h[self.replay.lacks_room(user, group, free)] = np.inf
        return h

    def of_users(self, group: int, free: IntArray) -> FloatArray:
        """Return H of all users on a server, infinite for users that may not run there."""
        h = _shape_difference(self.wanted, self.scale, free, free[self.lead])
        h[~self.replay.eligible[:, group]] = np.inf
        return h


def _shape_difference(
    wanted: FloatArray, scale: FloatArray, free: IntArray, first_free: IntArray
) -> FloatArray:
    """Return H, infinite where nothing of the user's first demanded resource is free."""
    h: FloatArray = np.where(first_free > 0, 0.0, np.inf)
    divisor = np.maximum(first_free, 1)
    for r in range(len(wanted)):
        h += abs(wanted[r] - free[r] / divisor) * scale[r]
    return h


# Choice of users


def _serves_users(replay: Replay, score: Score) -> bool:
    """Return whether each task is of the user with the least score that still has room.

    The heap has lower bounds of scores. A user without room is dropped.
    """
    waiting = np.flatnonzero(replay.waits).tolist()
    heap = sorted((replay.is_last[user], 0, user) for user in waiting)
    for served, server in replay.pairs():
        while True:
            is_last, bound, user = heap[0]
            now = score(user, -1)
            if now > bound:
                heapreplace(heap, (is_last, now, user))
            elif user == served:
                break
            elif replay.waits[user] and replay.room(user).size:
                return False
            else:
                heappop(heap)
        replay.place(served, server)
    return True


def _serves_pairs(replay: Replay, amounts: IntArray, score: Score) -> bool:
    """Return whether each task is of the user, and on the server, with the least score.

    The heap has each user's best server at an earlier time. It stays the best until its own score
    rises or it lacks room, as no score falls while a task fits.
    """
    waiting = np.flatnonzero(replay.waits).tolist()
    heap = sorted((replay.is_last[user], -1, user, -1) for user in waiting)
    for pair in replay.pairs():
        while True:
            is_last, bound, user, server = heap[0]
            if (user, server) == pair and score(user, server) == bound:
                break
            best = _best_pair(replay, user, amounts, score)
            if best is None:
                heappop(heap)
            elif best == (bound, server):
                return False
            else:
                heapreplace(heap, (is_last, best[0], user, best[1]))
        replay.place(*pair)
    return True


def _best_pair(
    replay: Replay, user: int, amounts: IntArray, score: Score
) -> tuple[int, int] | None:
    """Return the least score of a waiting user on a server with room, and the first such server."""
    servers = replay.room(user)
    if not replay.waits[user] or not servers.size:
        return None
    if not replay.placed[user]:
        return 0, int(servers[0])
    taken = [r for r, _ in replay.demanded[user]]
    shares = (replay.demand[user, taken][:, None] / amounts[taken][:, servers]).max(axis=0)
    scale, under = replay.scale(user)
    scores = shares * (scale / under)
    servers = servers[scores <= scores.min() * (1 + NEAR) + 1]
    best = None
    while servers.size:
        server = int(servers[0])
        found = score(user, server), server
        best = min(best or found, found)
        servers = servers[(amounts[:, servers] != amounts[:, [server]]).any(axis=0)]
    return best


def _serves_rounds(replay: Replay, score: Score) -> bool:
    """Return whether each task is of the user with the least score on its server, in rounds.

    A round ends when a server comes again. A skipped server had no room for any task, and still has
    none at the end of the round, because no amount is freed.
    """
    is_visited = np.zeros(len(replay.group), dtype=bool)
    is_over = is_visited.copy()  # skipped in a round, and in all later ones
    for served, server in replay.pairs():
        if is_visited[server]:
            for passed in np.flatnonzero(~is_visited & ~is_over).tolist():
                if replay.users_with_room(passed):
                    return False
            is_over |= ~is_visited
            is_visited[:] = False
        is_visited[server] = True
        least = min(
            (replay.is_last[user], score(user, server), user)
            for user in replay.users_with_room(server)
        )
        if served != least[2]:
            return False
        replay.place(served, server)
    return True


def _serves_best_servers(replay: Replay, score: Score) -> bool:
    """Return whether each task is on its user's best server, in the order of scores.

    Of the users with room on their best server, the one with the least score is next. Ties go to
    the last user. At the end no best server has room for a task.
    """
    servers = BestServers(replay)
    for served, server in replay.pairs():
        users = servers.users_with_room()
        if not users or servers.best[served] != server:
            return False
        least = min((replay.is_last[user], score(user, -1), -user) for user in users)
        if served != -least[2]:
            return False
        replay.place(served, server)
        servers.change(server)
    return not servers.users_with_room()


class BestServers:
    """The best server of each user by H, whether its task fits there or not."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.h = BestFit(replay)
        by_group = [self.h.of_users(g, np.array(row)) for g, (row, _) in enumerate(replay.groups)]
        self.keys = np.stack(by_group, axis=1)[:, replay.group]  # (N, S); infinite if ineligible
        self.best = self.keys.argmin(axis=1)
        self.users = np.arange(len(self.best))

    def change(self, server: int) -> None:
        """Update the best servers after the free amounts of one server changed."""
        h = self.h.of_users(self.replay.group[server], self.replay.free[:, server])
        self.keys[:, server] = h
        is_lost = self.best == server
        least = self.keys[self.users, self.best]
        self.best[(h < least) | ((h == least) & (server < self.best))] = server
        self.best[is_lost] = self.keys[is_lost].argmin(axis=1)

    def users_with_room(self) -> list[int]:
        """Return the users that have a task that fits on their best server."""
        replay = self.replay
        fits = (replay.free[:, self.best] >= replay.need.T).all(axis=0)
        may_run = replay.eligible[self.users, replay.group[self.best]]
        users: list[int] = np.flatnonzero(replay.waits & fits & may_run).tolist()
        return users
