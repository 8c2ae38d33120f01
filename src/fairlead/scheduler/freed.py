"""Which servers have been freed since one last looked; compiled.

First-fit passes each server once for each kind of task, until something is freed before the server
that it has come to. To tell every kind of every server that is freed would cost as many steps as
there are kinds. Instead the freed servers are kept in order of time, those without meaning dropped:
an earlier entry of a later server says nothing that a later entry does not say better.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import inner_kernel


class Freed(NamedTuple):
    """Servers that were freed, S of them at most.

    Attributes
    ----------
    server, moment : (S + 1,) int
        Servers and when they were freed, both ascending.
    size : (1,) int
        How many there are.
    now : (1,) int
        The next moment.
    """

    server: IntArray
    moment: IntArray
    size: IntArray
    now: IntArray


def nothing_freed(n_servers: int) -> Freed:
    """Return the record before anything was freed."""
    empty = np.zeros(n_servers + 1, dtype=np.int64)
    one = np.zeros(1, dtype=np.int64)
    return Freed(empty, empty.copy(), one, one.copy())


@inner_kernel
def note_freed(freed: Freed, server: int) -> None:
    """Note that a server has more free than before. Amortised O(1)."""
    size = freed.size[0]
    while size > 0 and freed.server[size - 1] >= server:
        size -= 1
    freed.server[size] = server
    freed.moment[size] = freed.now[0]
    freed.size[0] = size + 1
    freed.now[0] += 1


@inner_kernel
def first_freed_since(freed: Freed, moment: int) -> int:
    """Return the first server that was freed at that moment or later, or -1. O(log S)."""
    low, high = 0, freed.size[0]
    while low < high:
        middle = (low + high) // 2
        if freed.moment[middle] >= moment:
            high = middle
        else:
            low = middle + 1
    return int(freed.server[low]) if low < freed.size[0] else -1
