"""A heap of users that take whole tasks by turns, in exact arithmetic.

A user takes its next task at the level ``taken * numerator / denominator``: the dominant share of
its tasks so far, divided by its weight. The user of lowest level goes first. Among equal levels,
the user whose task raises its level most goes first, then the earlier user. Levels that floats
cannot distinguish are compared as fractions.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import Final

from mypy_extensions import i64

# Levels closer than this (relative) are compared in integers: each level has four rounding errors.
NEAR: Final = 1e-14


class UserInTurn:
    """A user that takes whole tasks by turns."""

    number: i64  # position in the problem, which decides ties
    taken: int  # tasks so far
    limit: float  # largest number of tasks; infinite for no limit
    demand: list[int]  # (R,) of one task, in quanta
    # The level rises by numerator / denominator with each task: one task's dominant share, divided
    # by the user's weight.
    numerator: int
    denominator: int
    step: float  # numerator / denominator, rounded

    def __init__(
        self,
        number: int,
        taken: int,
        limit: float,
        demand: list[int],
        numerator: int,
        denominator: int,
        step: float,
    ) -> None:
        self.number = number
        self.taken = taken
        self.limit = limit
        self.demand = demand
        self.numerator = numerator
        self.denominator = denominator
        self.step = step

    def __lt__(self, other: UserInTurn) -> bool:
        return precedes(self, self.taken, other, other.taken)

    def fits(self, room: list[int]) -> bool:
        """Return whether one more task fits into the free quanta `room` (R,)."""
        demand = self.demand
        for r in range(len(room)):  # noqa: SIM110 (a generator takes twice the time)
            if demand[r] > room[r]:
                return False
        return True

    def take(self, room: list[int]) -> None:
        """Take one more task from the free quanta `room` (R,)."""
        self.taken += 1
        demand = self.demand
        for r in range(len(room)):
            room[r] -= demand[r]


def precedes(one: UserInTurn, one_taken: int, other: UserInTurn, other_taken: int) -> bool:
    """Return whether a user takes its next task before another user, given the tasks of each."""
    level, other_level = one_taken * one.step, other_taken * other.step
    if abs(level - other_level) > NEAR * (level + other_level):
        return level < other_level
    ours = one.numerator * other.denominator
    theirs = other.numerator * one.denominator
    exact, other_exact = one_taken * ours, other_taken * theirs
    if exact != other_exact:
        return exact < other_exact
    if ours != theirs:
        return ours > theirs
    return one.number < other.number


def take_turns(users: list[UserInTurn], room: list[int], stops: bool) -> list[UserInTurn]:
    """Serve at most 2 N + 64 tasks of N users by turns; return the users that may take more.

    `room` (R,), the free quanta, is reduced. A task that does not fit removes its user; if `stops`
    is true, it removes all users.
    """
    heap = users.copy()
    heapify(heap)
    for _ in range(2 * len(heap) + 64):
        if not heap:
            break
        user = heap[0]
        stays = user.fits(room)
        if stays:
            user.take(room)
            stays = user.taken < user.limit
        elif stops:
            return []
        if stays:
            heapreplace(heap, user)
        else:
            heappop(heap)
    return heap


def take_one_each(users: list[UserInTurn], room: list[int]) -> None:
    """Add one task for each user whose task fits, in the order of turns."""
    for user in sorted(users):
        if user.fits(room):
            user.take(room)
