"""Integrate users' dominant shares over time, in one pass over starts, ends and submissions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

# Kinds of events, instead of the number of a shape, which is not negative: see `add`.
NO_SHAPE: Final = -1
NEW_CAPACITY: Final = -2
NEW_BIN: Final = -3
INFINITE: Final = float("inf")


class ShareIntegrals:
    """Integrals over B bins for N users, as `measure_shares` defines them."""

    share: vec[float]  # (B N,) of each user's dominant share
    active_time: vec[float]  # (B N,) seconds in which the user is active
    # (B,) of the smallest share over weight of active users, without users of weight 0.
    least: vec[float]
    any_active_time: vec[float]  # (B,) seconds in which such a user is active
    _shapes: list[vec[float]]  # amounts (R,) of a task of each shape
    _capacity: list[vec[float]]  # amounts (R,) of all servers after each step of the capacity
    _weight: vec[float]  # (N,)
    _bins: i64
    _step: i64  # the present step of the capacity
    _bin: i64  # the present bin
    _before: float  # seconds, of the last event
    _held: list[vec[float]]  # amounts (R,) of the running tasks of each user
    _tasks: vec[i64]  # (N,) running tasks
    _active: vec[i64]  # (N,) tasks that wait or run
    _now: vec[float]  # (N,) the dominant share
    _since: vec[float]  # (N,) seconds; until then the user's integrals are complete
    _leaves: i64  # leaves of the tree, a power of two
    _tree: vec[float]  # a binary tree of minima of shares over weight; the root has index 1

    def __init__(
        self,
        shapes: Iterable[Iterable[float]],
        capacity: Iterable[Iterable[float]],
        weight: Iterable[float],
        bins: int,
    ) -> None:
        self._shapes = [vec[float](shape) for shape in shapes]
        self._capacity = [vec[float](amounts) for amounts in capacity]
        self._weight = vec[float](weight)
        users: int = len(self._weight)
        self._bins = bins
        self._step = self._bin = -1
        self._before = 0.0
        width: int = len(self._capacity[0])
        self._held = [vec[float]([0.0] * width) for _ in range(users)]
        self._tasks = vec[i64]([0] * users)
        self._active = vec[i64]([0] * users)
        self._now = vec[float]([0.0] * users)
        self._since = vec[float]([0.0] * users)
        self._leaves = 1
        while self._leaves < users:
            self._leaves *= 2
        self._tree = vec[float]([INFINITE] * int(2 * self._leaves))
        self.share = vec[float]([0.0] * (bins * users))
        self.active_time = vec[float]([0.0] * (bins * users))
        self.least = vec[float]([0.0] * bins)
        self.any_active_time = vec[float]([0.0] * bins)

    def add(
        self,
        time: Iterable[float],
        shape: Iterable[int],
        user: Iterable[int],
        running: Iterable[int],
        active: Iterable[int],
    ) -> None:
        """Add the next E events by time in seconds; the first of all is a step of capacity.

        Each has the shape of the task that starts (`running` 1) or stops (-1), or else `NO_SHAPE`,
        `NEW_CAPACITY` for a step of the capacity or `NEW_BIN` for the start of a bin; its user; and
        the change in that user's number of waiting and running tasks. O(E (R + log N)), and O(N R)
        for each bin and each step of capacity.
        """
        users: i64 = len(self._weight)
        for now, kind, u, starts, change in zip(time, shape, user, running, active, strict=True):
            if 0 <= self._bin < self._bins and self._tree[1] < INFINITE:
                self.least[self._bin] += self._tree[1] * (now - self._before)
                self.any_active_time[self._bin] += now - self._before
            self._before = now
            if kind in (NEW_BIN, NEW_CAPACITY):
                for n in range(users):
                    self._complete(n, now)
                if kind == NEW_BIN:
                    self._bin += 1
                else:
                    self._step += 1
                    for n in range(users):
                        self._update(n)
            else:
                self._complete(u, now)
                self._active[u] += change
                if kind >= 0:
                    self._hold(u, self._shapes[kind], starts)
                self._update(u)

    def _complete(self, u: i64, now: float) -> None:
        """Complete a user's integrals up to a time."""
        if 0 <= self._bin < self._bins:
            at = self._bin * len(self._weight) + u
            self.share[at] += self._now[u] * (now - self._since[u])
            if self._active[u] > 0:
                self.active_time[at] += now - self._since[u]
        self._since[u] = now

    def _hold(self, u: i64, shape: vec[float], starts: i64) -> None:
        """Add the amounts of a task that starts (1), or subtract those of one that stops (-1)."""
        self._tasks[u] += starts
        held = self._held[u]
        for r in range(len(held)):
            held[r] += float(starts) * shape[r]
            if self._tasks[u] == 0:
                held[r] = 0.0  # without the rounding errors of adding and subtracting

    def _update(self, u: i64) -> None:
        """Update a user's dominant share, and the minimum over users."""
        held, capacity, tree = self._held[u], self._capacity[self._step], self._tree
        weight = self._weight[u]
        largest = 0.0
        for r in range(len(held)):
            if capacity[r] > 0.0:
                largest = max(largest, held[r] / capacity[r])
        self._now[u] = largest
        node = self._leaves + u
        counts = self._active[u] > 0 and weight > 0.0
        tree[node] = largest / weight if counts else INFINITE
        while node > 1:
            node //= 2
            tree[node] = min(tree[2 * node], tree[2 * node + 1])
