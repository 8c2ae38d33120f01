"""Shuffling inside compiled loops, where NumPy's generators are not at hand; compiled.

The generator is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014), the shuffle that of Fisher and Yates, from the end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import kernel

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


@kernel
def shuffle(items: IntArray, size: int, seed: NDArray[np.uint64]) -> None:
    """Bring the first `size` items into a random order, and move the (1,) seed on."""
    for k in range(size - 1, 0, -1):
        seed[0] += _STEP
        z = seed[0]
        z = (z ^ (z >> _30)) * _FIRST
        z = (z ^ (z >> _27)) * _SECOND
        other = int((z ^ (z >> _31)) % np.uint64(k + 1))
        items[k], items[other] = items[other], items[k]
