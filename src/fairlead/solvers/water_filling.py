"""Water-filling of one server, and Gauss-Seidel sweeps of it over many servers.

A common level rises from 0. Up to its starting level, which accounts for its tasks on other
servers, a user takes no tasks. From there on it takes `rate` tasks per unit of level, until a
resource that it demands is used up or it has all its tasks. This is the server procedure of
Khamse-Ashari et al. 2017, III-C, run to its end. With all starting levels at zero it is DRF by
progressive filling, for divisible tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

# Levels closer than this (relative) count as equal.
SAME_LEVEL: Final = 1e-15
SMALLEST_TOTAL: Final = 1e-300
PROBES: Final = 400  # largest number of levels that a search tries
INFINITE: Final = float("inf")


class WaterFilling:
    """The server procedure on one server of K users and R resources."""

    users: i64  # K
    resources: i64  # R
    rate: vec[float]  # (K,) tasks per unit of level
    use: vec[float]  # (R, K) use by one task, relative to the server's capacity
    start: vec[float]  # (K,) the level from which each user takes tasks
    width: vec[float]  # (K,) rise of the level from `start` to the last task, or infinite
    level: vec[float]  # (R,) level at which each resource is used up; the next search starts there
    tasks: vec[float]  # (K,)
    active: vec[bool]  # (K,) within a search: the users that still take tasks

    def __init__(self, rate: Iterable[float], use: Iterable[Iterable[float]]) -> None:
        self.rate = vec[float](rate)
        self.users = len(self.rate)
        rows = [vec[float](row) for row in use]
        self.resources = len(rows)
        self.use = vec[float]([amount for row in rows for amount in row])
        self.start = _zeros(self.users)
        self.width = _zeros(self.users)
        self.level = _all(INFINITE, self.resources)
        self.tasks = _zeros(self.users)
        self.active = vec[bool]([True] * int(self.users))

    def divide(self, start: Iterable[float], width: Iterable[float]) -> list[float]:
        """Return (K,) tasks of each user.

        `start` (K,) are the levels from which users take tasks, `width` (K,) the rises from there
        to their last tasks, or infinite. O(K R^2) for each of the few linear pieces of use that a
        search visits.
        """
        self.start = vec[float](start)
        self.width = vec[float](width)
        self.fill()
        return list(self.tasks)

    def fill(self) -> None:
        """Compute `tasks` from `start` and `width`, one used-up resource after the other."""
        users, resources = self.users, self.resources
        rate, use, start, width = self.rate, self.use, self.start, self.width
        tasks, active = self.tasks, self.active
        guess, level = self.level, _all(INFINITE, resources)
        left = _all(1.0, resources)
        for k in range(users):
            active[k] = True
        for _ in range(resources):
            first: i64 = -1
            lowest = INFINITE
            # Start with resources used up in the last division, usually those of lowest level.
            for known in (True, False):
                for r in range(resources):
                    if level[r] < INFINITE or (guess[r] < INFINITE) != known:
                        continue
                    first_guess = guess[r]
                    if not known:
                        first_guess = 0.0 if lowest == INFINITE else lowest
                    found = self._find_level(r, left[r], first_guess, lowest)
                    if found < lowest:
                        first, lowest = r, found
            if first < 0:
                break
            level[first] = lowest
            for k in range(users):
                if active[k] and use[first * users + k] > 0.0:
                    active[k] = False
                    tasks[k] = rate[k] * min(max(lowest - start[k], 0.0), width[k])
                    for r in range(resources):
                        left[r] -= tasks[k] * use[r * users + k]
            for r in range(resources):
                left[r] = max(left[r], 0.0)
        for k in range(users):
            if active[k]:
                tasks[k] = rate[k] * width[k]
        self.level = level

    def _find_level(self, r: i64, room: float, guess: float, ceiling: float) -> float:
        """Return the level at which active users use up `room` of a resource.

        Infinity if there is none below the ceiling. Use is piecewise linear in the level, so
        Newton's method between the brackets `low` and `high` ends on the exact piece.
        """
        users, active, rate = self.users, self.active, self.rate
        use, start, width = self.use, self.start, self.width
        row = r * users
        low, high = -INFINITE, INFINITE
        level = min(guess, ceiling)
        for _ in range(PROBES):
            taken = slope_up = slope_down = 0.0
            above, below = INFINITE, -INFINITE
            for k in range(users):
                slope = use[row + k]
                if slope == 0.0 or not active[k]:
                    continue
                slope *= rate[k]
                first = start[k]
                last = first + width[k]
                if level > first:
                    taken += slope * (min(level, last) - first)
                    below = max(below, first)
                    if level <= last:
                        slope_down += slope
                elif level < first:
                    above = min(above, first)
                if level < last:
                    above = min(above, last)
                    if level >= first:
                        slope_up += slope
                elif level > last:
                    below = max(below, last)
            if taken <= room and level >= ceiling:
                return INFINITE
            if taken < room:
                low = level
                if slope_up > 0.0:
                    target = level + (room - taken) / slope_up
                    if target <= above:
                        return target
                    level = target
                else:
                    level = above
                if level >= high:
                    level = max(0.5 * (low + high), min(above, high))
                if level == INFINITE:
                    return level
                level = min(level, ceiling)
            elif taken > room:
                high = level
                if slope_down > 0.0:
                    target = level - (taken - room) / slope_down
                    if target >= below:
                        return target
                    level = target
                else:
                    level = below
                if level <= low:
                    level = min(0.5 * (low + high), max(below, low))
            else:
                return level
            if high < INFINITE and high - low <= SAME_LEVEL * abs(high):
                return high
        return level


class ServerSweeps:
    """The server procedure over G servers in turn, for N users.

    An entry is a pair of a server and a user that may run there; there are E entries.
    """

    servers: list[WaterFilling]  # (G,)
    user: vec[i64]  # (E,) the user of each entry, in order of servers
    limit: vec[float]  # (N,) largest number of tasks of each user

    def __init__(
        self, servers: Iterable[WaterFilling], user: Iterable[int], limit: Iterable[float]
    ) -> None:
        self.servers = list(servers)
        self.user = vec[i64](user)
        self.limit = vec[float](limit)

    def run(self, tasks: Iterable[float], sweeps: int) -> tuple[list[float], float]:
        """Sweep several times; return (E,) tasks of each entry, and the last sweep's change.

        `tasks` (E,) are the initial tasks. The change is the largest of an entry, relative to its
        user's total. (Totals may converge long before the entries do.)
        """
        user, limit = self.user, self.limit
        entries = vec[float](tasks)
        total = self._totals(entries)
        change = INFINITE
        for _ in range(sweeps):
            change = 0.0
            at: i64 = 0
            for server in self.servers:
                rate, start, width = server.rate, server.start, server.width
                for k in range(server.users):
                    n = user[at + k]
                    elsewhere = max(total[n] - entries[at + k], 0.0)
                    start[k] = elsewhere / rate[k]
                    width[k] = max(limit[n] - elsewhere, 0.0) / rate[k]
                    total[n] = elsewhere
                server.fill()
                found = server.tasks
                for k in range(server.users):
                    n = user[at + k]
                    total[n] += found[k]
                    moved = abs(found[k] - entries[at + k])
                    change = max(change, moved / max(total[n], SMALLEST_TOTAL))
                    entries[at + k] = found[k]
                at += server.users
            total = self._totals(entries)  # repeated updates have lost digits
        return list(entries), change

    def _totals(self, entries: vec[float]) -> vec[float]:
        total = _zeros(len(self.limit))
        for e in range(len(entries)):
            total[self.user[e]] += entries[e]
        return total


def _zeros(length: i64) -> vec[float]:
    return _all(0.0, length)


def _all(value: float, length: i64) -> vec[float]:
    return vec[float]([value] * int(length))
