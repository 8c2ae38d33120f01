"""Sets of small numbers as bits in 64-bit words: the first and the last number of a word.

Compiled with numba; each is one machine instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import config
from numba.core import types
from numba.extending import intrinsic

from fairlead.optimize.compiling import kernel

_NOT_ZERO = ir.Constant(ir.IntType(1), 1)


@intrinsic
def _trailing_zeros(_context: Any, _word: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], _NOT_ZERO)

    return types.int64(types.uint64), generate


@intrinsic
def _leading_zeros(_context: Any, _word: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], _NOT_ZERO)

    return types.int64(types.uint64), generate


# An intrinsic seems to take a context beside its argument; compiled code gives it the word alone.
_TRAILING_ZEROS: Callable[[Any], int] = cast("Any", _trailing_zeros)
_LEADING_ZEROS: Callable[[Any], int] = cast("Any", _leading_zeros)
# Odd, from the golden ratio: products spread over the high bits (Knuth, volume 3, section 6.4).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)

if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def lowest_bit(word: np.uint64 | int) -> int:
        """Return the position of the lowest bit that is set; the word is not zero."""
        return (int(word) & -int(word)).bit_length() - 1

    def highest_bit(word: np.uint64 | int) -> int:
        """Return the position of the highest bit that is set; the word is not zero."""
        return int(word).bit_length() - 1

    def mixed(word: np.uint64, number: int) -> np.uint64:
        """Return a hash of a hash and one more number."""
        product = (int(word) ^ int(number)) * int(_SPREAD) % 2**64
        return np.uint64(product ^ product >> 32)

else:

    @kernel
    def lowest_bit(word: np.uint64 | int) -> int:
        """Return the position of the lowest bit that is set; the word is not zero."""
        position: int = _TRAILING_ZEROS(word)
        return position

    @kernel
    def highest_bit(word: np.uint64 | int) -> int:
        """Return the position of the highest bit that is set; the word is not zero."""
        position: int = 63 - _LEADING_ZEROS(word)
        return position

    @kernel
    def mixed(word: np.uint64, number: int) -> np.uint64:
        """Return a hash of a hash and one more number."""
        product = (word ^ np.uint64(number)) * _SPREAD
        return product ^ (product >> np.uint64(32))
