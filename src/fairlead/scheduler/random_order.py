"""Random orders from a seed, by NumPy's generator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, SupportsInt

from numpy.random import PCG64, Generator, SeedSequence

Bits = tuple[int, int, int, int]
Seed = int | SeedSequence


class Permuter(Protocol):
    """The one method of NumPy's generator that is used; NumPy's own types contain Any."""

    def permutation(self, x: int) -> Iterable[SupportsInt]:
        """Return the numbers from 0 to x - 1 in random order."""


class RandomOrder:
    """A random generator whose state can be saved."""

    def __init__(self, seed: Seed) -> None:
        self._bits = PCG64(seed)
        self._random: Permuter = Generator(self._bits)

    def permutation(self, n: int) -> list[int]:
        """Return the numbers from 0 to n - 1 in random order."""
        return [int(number) for number in self._random.permutation(n)]

    def save(self) -> Bits:
        """Return the generator's state."""
        bits = self._bits.state
        state = bits["state"]
        return state["state"], state["inc"], bits["has_uint32"], bits["uinteger"]

    def restore(self, saved: Bits) -> None:
        """Continue from a saved state."""
        state, increment, has_half, half = saved
        self._bits.state = {
            "bit_generator": "PCG64",
            "state": {"state": state, "inc": increment},
            "has_uint32": has_half,
            "uinteger": half,
        }
