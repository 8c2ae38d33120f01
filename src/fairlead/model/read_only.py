"""Values whose arrays nobody can write into: a rule of somebody's cannot change what it is asked.

Such an array is a copy, so that the caller's own stays writable and its later changes reach nobody.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.errors import ProblemError


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array as one that cannot be written into: itself if it is so, else a copy."""
    if array.flags.writeable or array.base is not None or type(array) is not np.ndarray:
        array = np.array(array)
        array.setflags(write=False)
    return array


def sealed(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that was just made and that nobody else has, without write access."""
    array.setflags(write=False)
    return array


class ReadOnlyArrays:
    """A frozen dataclass whose arrays are read-only, from construction and after a journey."""

    def __post_init__(self) -> None:
        """Replace each array by one that cannot be written into."""
        for name, value in vars(self).items():
            if np.ma.is_masked(value):
                raise ProblemError("has masked values, where there must be numbers", name)
            if isinstance(value, np.ndarray):
                vars(self)[name] = read_only(value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrays lose what says that they are read-only on their way to another process."""
        vars(self).update(state)
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
