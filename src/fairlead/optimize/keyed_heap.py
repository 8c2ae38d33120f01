"""Several heaps of the items 0..N-1, least key first, then least item; any item may be rekeyed.

Keys are pairs (`double_double`). A heap knows where each item is, so that one item can be moved or
taken out in O(log N).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import kernel
from fairlead.optimize.double_double import compare


@by_address
class Heaps(NamedTuple):
    """H heaps side by side, heap h in the places h N to h N + N - 1 of each array."""

    item: IntArray  # (H N,): items in heap order
    place: IntArray  # (H N,): where each item is in its heap, or -1
    # (H N,): the items' keys.
    key: FloatArray
    key_low: FloatArray
    size: IntArray  # (H,): items in each heap


def empty_heaps(n_heaps: int, n_items: int) -> Heaps:
    """Return heaps without items."""
    length = n_heaps * n_items
    return Heaps(
        np.zeros(length, dtype=np.int64),
        np.full(length, -1, dtype=np.int64),
        np.zeros(length),
        np.zeros(length),
        np.zeros(n_heaps, dtype=np.int64),
    )


@kernel
def _comes_before(heaps: Heaps, base: int, a: int, b: int) -> bool:
    order = compare(
        heaps.key[base + a], heaps.key_low[base + a], heaps.key[base + b], heaps.key_low[base + b]
    )
    return order < 0 or (order == 0 and a < b)


@kernel
def _sink(heaps: Heaps, base: int, size: int, position: int) -> None:
    item = heaps.item[base + position]
    while True:
        child = 2 * position + 1
        if child >= size:
            break
        least = heaps.item[base + child]
        if child + 1 < size:
            other = heaps.item[base + child + 1]
            if _comes_before(heaps, base, other, least):
                child, least = child + 1, other
        if not _comes_before(heaps, base, least, item):
            break
        heaps.item[base + position] = least
        heaps.place[base + least] = position
        position = child
    heaps.item[base + position] = item
    heaps.place[base + item] = position


@kernel
def _rise(heaps: Heaps, base: int, position: int) -> None:
    item = heaps.item[base + position]
    while position > 0:
        parent = (position - 1) // 2
        above = heaps.item[base + parent]
        if not _comes_before(heaps, base, item, above):
            break
        heaps.item[base + position] = above
        heaps.place[base + above] = position
        position = parent
    heaps.item[base + position] = item
    heaps.place[base + item] = position


@kernel
def push(heaps: Heaps, h: int, n_items: int, item: int, key: float, key_low: float) -> None:
    """Put an item into heap h, or give it another key if it is there."""
    base = h * n_items
    position = heaps.place[base + item]
    heaps.key[base + item] = key
    heaps.key_low[base + item] = key_low
    if position < 0:
        position = heaps.size[h]
        heaps.size[h] += 1
        heaps.item[base + position] = item
        heaps.place[base + item] = position
        _rise(heaps, base, position)
    else:
        _rise(heaps, base, position)
        _sink(heaps, base, heaps.size[h], heaps.place[base + item])


@kernel
def take_out(heaps: Heaps, h: int, n_items: int, item: int) -> None:
    """Take an item out of heap h if it is there."""
    base = h * n_items
    position = heaps.place[base + item]
    if position < 0:
        return
    heaps.size[h] -= 1
    heaps.place[base + item] = -1
    last = heaps.item[base + heaps.size[h]]
    if last != item:
        heaps.item[base + position] = last
        heaps.place[base + last] = position
        _rise(heaps, base, position)
        _sink(heaps, base, heaps.size[h], heaps.place[base + last])
