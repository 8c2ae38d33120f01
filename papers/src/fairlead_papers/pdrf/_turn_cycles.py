"""The cycles in which DRF serves whole tasks of one pool (Metin, 3.3 and 6.1).

Turns repeat: the smaller a user's dominant share per task, the more often its turn comes. All
functions are exact. They take dominant shares, or demands of a single resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import floor, gcd, lcm

from fairlead.errors import InputError
from fairlead.model.quantity import exact

Number = int | float | Fraction


@dataclass(frozen=True)
class Cycle:
    """A cycle of turns: how often each of the N users takes a turn in it."""

    occurrences: tuple[int, ...]

    @property
    def length(self) -> int:
        """Turns in the cycle."""
        return sum(self.occurrences)


@dataclass(frozen=True)
class HigherOrderCycle:
    """A cycle that was repeated, and the amounts it used and left."""

    users: tuple[int, ...]  # indices of the users in it
    tasks: tuple[int, ...]  # tasks of each of them in one repetition
    repetitions: int
    used: tuple[Fraction, ...]  # (R,): used by all repetitions
    left: tuple[Fraction, ...]  # (R,)


def find_cycle(shares: Sequence[Number]) -> Cycle:
    """Return the full cycle, after which the order of turns repeats exactly.

    Parameters
    ----------
    shares : sequence of N positive numbers
        Dominant share of one task of each user, weighted or not. A float stands for the decimal
        that it was written as.

    Returns
    -------
    Cycle
        User n occurs ``lcm(shares) / shares[n]`` times.

    Raises
    ------
    InputError
        When there are no shares or one is not a positive number.

    Notes
    -----
    Metin, 3.3. O(N) operations on integers that grow with the shares' denominators.

    Examples
    --------
    >>> find_cycle([2, 4, 10]).occurrences
    (10, 5, 2)
    """
    exactly = _positive(shares, "shares")
    # The least common multiple of fractions in lowest terms.
    common = Fraction(
        lcm(*(share.numerator for share in exactly)), gcd(*(share.denominator for share in exactly))
    )
    return Cycle(tuple(int(common / share) for share in exactly))


def find_basic_subcycle(shares: Sequence[Number]) -> Cycle:
    """Return the basic subcycle, with ``floor(max(shares) / shares[n])`` turns (Metin, 3.3)."""
    exactly = _positive(shares, "shares")
    largest = max(exactly)
    return Cycle(tuple(floor(largest / share) for share in exactly))


def find_nested_subcycle(shares: Sequence[Number]) -> Cycle:
    """Return the subcycle counted from each user to the next smaller one.

    The largest share occurs once, each other ``floor(next larger share / its share)`` times as
    often as the next larger one. The example of Metin, 6.1, counts so: of demands 2, 4 and 10 there
    are 4, 2 and 1, where `find_basic_subcycle` has 5, 2 and 1.
    """
    exactly = _positive(shares, "shares")
    occurrences = [1] * len(exactly)
    order = sorted(range(len(exactly)), key=lambda n: (-exactly[n], n))
    for larger, n in pairwise(order):
        occurrences[n] = occurrences[larger] * floor(exactly[larger] / exactly[n])
    return Cycle(tuple(occurrences))


def find_higher_order_cycles(
    capacity: Sequence[Number],
    demand: Sequence[Sequence[Number]],
    shares: Sequence[Number],
    *,
    nested: bool = True,
) -> list[HigherOrderCycle]:
    """Repeat the subcycle while it fits, drop the user with the largest share, and so on.

    Returns the cycles that fitted, from `capacity` (R,) for tasks of `demand` (N, R). Their sum
    need not be fair (Metin, 6.1): this is analysis, not a mechanism. `nested` counts as the paper's
    example does, otherwise as its formula. Raises InputError.
    """
    exactly = _positive(shares, "shares")
    left = [exact_number(amount, "capacity") for amount in capacity]
    rows = [[exact_number(amount, "demand") for amount in row] for row in demand]
    if len(rows) != len(exactly) or any(len(row) != len(left) for row in rows):
        raise InputError("must have a row for each share and a column for each capacity", "demand")
    find_subcycle = find_nested_subcycle if nested else find_basic_subcycle
    users = list(range(len(rows)))
    cycles = []
    while users:
        tasks = find_subcycle([exactly[n] for n in users]).occurrences
        once = [
            sum((t * rows[n][r] for t, n in zip(tasks, users, strict=True)), Fraction(0))
            for r in range(len(left))
        ]
        times = min((floor(c / u) for c, u in zip(left, once, strict=True) if u > 0), default=0)
        if times > 0:
            used = [times * amount for amount in once]
            left = [c - u for c, u in zip(left, used, strict=True)]
            cycles.append(HigherOrderCycle(tuple(users), tasks, times, tuple(used), tuple(left)))
        users.remove(max(users, key=lambda n: exactly[n]))
    return cycles


def exact_number(value: Number, place: str) -> Fraction:
    """Return the exact number of a value; raise InputError if it is negative."""
    try:
        number = exact(value) if isinstance(value, float) else Fraction(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"must be numbers, not {value!r}", place) from None
    if number < 0:
        raise InputError(f"must not be negative: {value!r}", place)
    return number


def _positive(shares: Sequence[Number], place: str) -> list[Fraction]:
    exactly = [exact_number(share, place) for share in shares]
    if not exactly or min(exactly) == 0:
        raise InputError("must be positive numbers, at least one", place)
    return exactly
