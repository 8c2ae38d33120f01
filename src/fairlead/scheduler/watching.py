"""Which server each queue knows to take its first task, and who hears of a change of a server.

A queue's score is that of the first of its tasks that fits somewhere. A bound on it holds as long
as the first one does fit; so queues watch a server where it does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.scheduler.queues import UNKNOWN, is_before, settle
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.servers import may_take


@by_address
class Watch(NamedTuple):
    """Q queues and S servers.

    Attributes
    ----------
    server : (Q,) int
        The server that a queue watches, or NONE.
    after, before : (Q,) int
        Neighbours in the list of those that watch the same server.
    first : (S,) int
        The first queue that watches each server, or NONE.
    """

    server: IntArray
    after: IntArray
    before: IntArray
    first: IntArray


def no_watch(queues: int, servers: int) -> Watch:
    """Return that nobody watches anything."""
    return Watch(*(np.full(n, NONE) for n in (queues, queues, queues, servers)))


@inner_kernel
def unwatch(watch: Watch, q: int) -> None:
    """Have a queue watch no server."""
    s = watch.server[q]
    if s == NONE:
        return
    after, before = watch.after[q], watch.before[q]
    if before == NONE:
        watch.first[s] = after
    else:
        watch.after[before] = after
    if after != NONE:
        watch.before[after] = before
    watch.server[q] = NONE


@inner_kernel
def watch_server(watch: Watch, q: int, s: int) -> None:
    """Have a queue watch a server."""
    if watch.server[q] == s:
        return
    unwatch(watch, q)
    watch.server[q], watch.before[q], watch.after[q] = s, NONE, watch.first[s]
    if watch.first[s] != NONE:
        watch.before[watch.first[s]] = q
    watch.first[s] = q


@inner_kernel
def has_one_line(core: Core, q: int) -> bool:
    """Return whether a queue that takes its turn has nothing to place but tasks of one shape."""
    return bool(core.numbers[0].strict or core.line_node[core.queues[q].first].child == NONE)


@inner_kernel
def set_key(core: Core, q: int, high: float, low: float) -> None:
    """Put a queue that takes its turn where a key belongs."""
    queue = core.queues[q]
    queue.key, queue.key_low = high, low
    settle(core, q, queue.place)


@inner_kernel
def lower_first(core: Core, high: float, low: float) -> None:
    """Put the queue that comes first where a key belongs that is no less than its own."""
    q, size, position = core.turn[0], core.numbers[0].turn, 0
    core.queues[q].key, core.queues[q].key_low = high, low
    while 2 * position + 1 < size:
        child = 2 * position + 1
        if child + 1 < size and is_before(core, core.turn[child + 1], core.turn[child]):
            child += 1
        other = core.turn[child]
        if not is_before(core, other, q):
            break
        core.turn[position] = other
        core.queues[other].place = position
        position = child
    core.turn[position] = q
    core.queues[q].place = position


@inner_kernel
def doubt_watchers(core: Core, watch: Watch, s: int) -> None:
    """Have queues be looked at again whose first task does not fit on a server any more."""
    q = watch.first[s]
    while q != NONE:
        after, first = watch.after[q], core.queues[q].first
        if core.queues[q].place == NONE or core.lines[first].task_shape == NONE:
            unwatch(watch, q)
        elif not has_one_line(core, q) and not _takes_first(core, q, s):
            _doubt(core, watch, q)
        q = after


@inner_kernel
def _takes_first(core: Core, q: int, s: int) -> bool:
    return may_take(core, core.lines[core.queues[q].first].task_shape, s)


@separate_kernel
def _doubt(core: Core, watch: Watch, q: int) -> None:
    """Have a queue be looked at again."""
    unwatch(watch, q)
    set_key(core, q, UNKNOWN, 0.0)
