"""Compute the cycles in which DRF serves whole tasks on one pool (Metin, 3.3 and 6.1).

Turns repeat: the smaller a user's dominant share per task, the more turns it has. All functions
are exact. They take dominant shares per task, or demands for a single resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm

Number = int | Fraction


@dataclass(frozen=True)
class Cycle:
    """A cycle of turns."""

    occurrences: tuple[int, ...]  # (N,): turns of each user in the cycle

    @property
    def length(self) -> int:
        """Turns in the cycle."""
        return sum(self.occurrences)


@dataclass(frozen=True)
class HigherOrderCycle:
    """A cycle of some of the users, repeated while it fits, and the amounts that it used."""

    users: tuple[int, ...]  # indices of the users in it
    tasks: tuple[int, ...]  # tasks of each of them in one repetition
    repetitions: int
    used: tuple[Fraction, ...]  # (R,): used by all repetitions
    left: tuple[Fraction, ...]  # (R,): unused after them


def find_cycle(shares: Sequence[Number]) -> Cycle:
    """Return the full cycle, after which the order of turns repeats exactly.

    `shares` (N,) are positive: the dominant share of one task of each user. User n occurs
    ``lcm(shares) / shares[n]`` times (Metin, 3.3).

    >>> find_cycle([2, 4, 10]).occurrences
    (10, 5, 2)
    """
    # The least common multiple of fractions in lowest terms.
    common = Fraction(
        lcm(*(share.numerator for share in shares)), gcd(*(share.denominator for share in shares))
    )
    return Cycle(tuple(int(common / share) for share in shares))


def find_basic_subcycle(shares: Sequence[Number]) -> Cycle:
    """Return the basic subcycle, with ``floor(max(shares) / shares[n])`` turns (Metin, 3.3)."""
    return Cycle(tuple(int(max(shares) // share) for share in shares))


def find_nested_subcycle(shares: Sequence[Number]) -> Cycle:
    """Return the subcycle as the example of Metin, 6.1, counts it.

    The user with the largest share has one turn. Each other user has ``floor(next larger share /
    its share)`` times the turns of the user with the next larger share. With demands 2, 4 and 10
    there are 4, 2 and 1 turns, where `find_basic_subcycle` has 5, 2 and 1.
    """
    occurrences = [1] * len(shares)
    order = sorted(range(len(shares)), key=lambda n: (-shares[n], n))
    for larger, n in pairwise(order):
        occurrences[n] = occurrences[larger] * int(shares[larger] // shares[n])
    return Cycle(tuple(occurrences))


def find_higher_order_cycles(
    capacity: Sequence[Number],
    demand: Sequence[Sequence[Number]],
    shares: Sequence[Number],
    *,
    nested: bool = True,
) -> list[HigherOrderCycle]:
    """Repeat the subcycle while it fits, drop the user with the largest share, and start again.

    Returns the cycles that fit into `capacity` (R,), for tasks of `demand` (N, R). Their sum need
    not be fair (Metin, 6.1): this is analysis, not a mechanism. `nested` takes the subcycles of
    `find_nested_subcycle`, as the example does, otherwise of `find_basic_subcycle` (3.3).
    """
    left = [Fraction(amount) for amount in capacity]
    find_subcycle = find_nested_subcycle if nested else find_basic_subcycle
    users = list(range(len(demand)))
    cycles = []
    while users:
        tasks = find_subcycle([shares[n] for n in users]).occurrences
        once = [
            sum(t * demand[n][r] for t, n in zip(tasks, users, strict=True))
            for r in range(len(left))
        ]
        times = int(min(c // u for c, u in zip(left, once, strict=True) if u > 0))
        if times > 0:
            used = [Fraction(times * amount) for amount in once]
            left = [c - u for c, u in zip(left, used, strict=True)]
            cycles.append(HigherOrderCycle(tuple(users), tasks, times, tuple(used), tuple(left)))
        users.remove(max(users, key=lambda n: shares[n]))
    return cycles
