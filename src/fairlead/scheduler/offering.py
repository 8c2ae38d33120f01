"""Offers to queues of unknown demands, which take what they can use and decline the rest.

An offer is all that one server has free. It goes to the queue with the least score by what it holds
of those that hear of it; that places as many tasks as fit, in its order, and declines what is left.
It does not hear of that server again before the server has more to offer and some seconds have
passed; more tasks of its own end that. So does Mesos offer resources (Kesidis et al., VI). Servers
are visited as in `round_robin`; a round in which nobody heard an offer ends placing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import entry_kernel, inner_kernel, separate_kernel
from fairlead.optimize.double_double import compare, divide, of_whole
from fairlead.optimize.keyed_heap import Heaps, empty_heaps, push, take_out
from fairlead.optimize.shuffling import shuffle
from fairlead.scheduler.policies import ON_SERVER
from fairlead.scheduler.queues import is_before, next_in_heap
from fairlead.scheduler.records import NONE, Core, Switch
from fairlead.scheduler.round_robin import Takers, collect, first_that_fits, run_on
from fairlead.scheduler.servers import end_round

# For how long Mesos does not offer again what was declined, unless it is told otherwise.
REFUSE_SECONDS = 5.0
# Queues times servers; 16 bytes are kept for each.
MOST_PAIRS = 10**8


@by_address
class Filters(NamedTuple):
    """What queues have declined; Q queues, S servers.

    Attributes
    ----------
    seconds : (1,) float
        How long that holds at least.
    until : (Q, S) float
        When it ends, if the server has more to offer by then.
    moment : (Q, S) int
        When it was declined, by the count of `servers.note_freed`; NONE where it never was.
    due : Heaps
        Servers that somebody will hear of again, by the time when that is.
    """

    seconds: FloatArray
    until: FloatArray
    moment: IntArray
    due: Heaps


def no_filters(seconds: float) -> Filters:
    """Return that nothing is declined, without room."""
    nothing = np.zeros((0, 0), dtype=np.int64)
    return Filters(np.array([seconds]), np.zeros((0, 0)), nothing, empty_heaps(1, 0))


def with_pairs(filters: Filters, queues: int, servers: int) -> Filters:
    """Return filters with room for numbers of queues and servers."""
    have = filters.until.shape
    if queues * servers > MOST_PAIRS:
        fault = f"{queues:,} queues and {servers:,} servers are too many pairs to remember"
        raise InputError(fault, "policy")
    if queues <= have[0] and servers <= have[1]:
        return filters
    pairs = zip((queues, servers), have, strict=True)
    more = [max(need, 2 * h) if need > h else h for need, h in pairs]
    if more[0] * more[1] <= MOST_PAIRS:
        queues, servers = more
    else:
        queues, servers = max(queues, have[0]), max(servers, have[1])
    until, moment = np.zeros((queues, servers)), np.full((queues, servers), NONE)
    until[: have[0], : have[1]], moment[: have[0], : have[1]] = filters.until, filters.moment
    due, old = empty_heaps(1, servers), filters.due
    for s in old.item[: int(old.size[0])].tolist():
        push(due, 0, servers, s, float(old.key[s]), 0.0)
    return Filters(filters.seconds, until, moment, due)


def forget_pairs(filters: Filters, s: int) -> None:
    """Forget what was declined of a server that leaves."""
    filters.moment[:, s] = NONE
    take_out(filters.due, 0, filters.until.shape[1], s)


@entry_kernel
def next_offer(filters: Filters) -> float:
    """Return when somebody hears again of a server that was declined; infinite for never."""
    due = filters.due
    return float(due.key[due.item[0]]) if due.size[0] > 0 else np.inf


@entry_kernel
def make_offers(core: Core, filters: Filters, gangs: Switch, limit: int, out: IntArray) -> int:
    """Visit what is left of the round under way, or until the limit is reached; see `cycle.place`.

    `round_robin.begin_round` hands in the next one.
    """
    core.numbers[0].lacking = 0
    _hear_again(core, filters)
    end_round(core)
    return _visit(core, filters, gangs, limit, 0, out)


@entry_kernel
def place_by_offers(
    core: Core, filters: Filters, gangs: Switch, takers: Takers, limit: int, out: IntArray
) -> int:
    """Make offers of the servers that anybody hears of, as `round_robin.place_in_rounds`."""
    numbers = core.numbers[0]
    numbers.lacking = 0
    _hear_again(core, filters)
    collect(core, takers, numbers.revivals, None)  # demands are unknown, of gangs too
    end_round(core)
    n = _visit(core, filters, gangs, limit, 0, out)
    while n < limit and numbers.lacking == 0:
        size = 0
        for k in range(takers.size[0]):
            s = takers.servers[k]
            if core.servers[s].open and _least_hearer(core, filters, s) != NONE:
                takers.servers[size] = core.round_order[size] = s
                size += 1
        takers.size[0] = size
        numbers.round_size, numbers.round_at = size, 0
        if size == 0:
            break
        shuffle(core.round_order, size, takers.seed)
        n = _visit(core, filters, gangs, limit, n, out)
    return n


@separate_kernel
def _visit(core: Core, filters: Filters, gangs: Switch, limit: int, n: int, out: IntArray) -> int:
    """Offer servers, and return where `out` ends then. An offer under way goes on."""
    numbers = core.numbers[0]
    while n < limit and numbers.lacking == 0 and numbers.round_at < numbers.round_size:
        s = core.round_order[numbers.round_at]
        if numbers.taker == NONE:
            if core.servers[s].open:
                numbers.taker = _least_hearer(core, filters, s)
            if numbers.taker == NONE:
                numbers.round_at += 1
                continue
            numbers.round_idle = 0
        q = numbers.taker
        while n < limit:
            number = NONE
            if core.queues[q].first != NONE:
                number = first_that_fits(core, None, gangs, 1, q, s, out, n)
            if numbers.lacking > 0:
                break
            if number == NONE:
                filters.until[q, s] = numbers.now + filters.seconds[0]
                filters.moment[q, s] = numbers.moment
                numbers.taker = NONE
                numbers.round_at += 1
                break
            n = run_on(core, None, gangs, 1, number, s, out, n)
    return n


@inner_kernel
def _hears(core: Core, filters: Filters, q: int, s: int) -> bool:
    """Return whether a queue with something to place hears of a server."""
    moment = filters.moment[q, s]
    if moment < core.queues[q].revived_at:
        return True
    return bool(filters.until[q, s] <= core.numbers[0].now) and bool(
        core.servers[s].freed_at >= moment
    )


@inner_kernel
def _least_hearer(core: Core, filters: Filters, s: int) -> int:
    """Return the queue with the least score of those that hear of a server, or NONE."""
    numbers, server = core.numbers[0], core.servers[s]
    if server.refused_at == numbers.revivals:
        return NONE
    least = NONE
    if not _is_full(core, s):
        if numbers.criterion == ON_SERVER:
            least = _least_on_server(core, filters, s)
        else:
            least = _least_of_turns(core, filters, s)
    if least == NONE:
        server.refused_at = numbers.revivals
        _schedule(core, filters, s)
    return least


@inner_kernel
def _is_full(core: Core, s: int) -> bool:
    """Return whether a server has nothing free, or is overcommitted."""
    has_any = False
    for r in range(core.free.shape[1]):
        has_any |= core.free[s, r] > 0
        if core.free[s, r] < 0:
            return True
    return not has_any


@inner_kernel
def _least_of_turns(core: Core, filters: Filters, s: int) -> int:
    """Look for it from the root of the heap of turns down; below a queue that hears, none comes."""
    size, least, position = core.numbers[0].turn, NONE, 0
    while position < size:
        q = core.turn[position]
        is_worth = least == NONE or is_before(core, q, least)
        if is_worth and _hears(core, filters, q, s):
            least, is_worth = q, False
        position = next_in_heap(position, size, is_worth)
    return least


@separate_kernel
def _least_on_server(core: Core, filters: Filters, s: int) -> int:
    """Look for the least share of the server by all that is held, for no task is known. O(Q R)."""
    least, key, key_low = NONE, 0.0, 0.0
    for position in range(core.numbers[0].turn):
        q = core.turn[position]
        if not _hears(core, filters, q, s):
            continue
        high, low = 0.0, 0.0
        for r in range(core.held.shape[1]):
            if core.held[q, r] > 0 and core.capacity[s, r] > 0:
                share, share_low = of_whole(core.held[q, r])
                over, over_low = of_whole(core.capacity[s, r])
                share, share_low = divide(share, share_low, over, over_low)
                if compare(share, share_low, high, low) > 0:
                    high, low = share, share_low
        high, low = divide(high, low, core.queues[q].weight, core.queues[q].weight_low)
        order = -1 if least == NONE else compare(high, low, key, key_low)
        if order < 0 or (order == 0 and core.queues[q].serial < core.queues[least].serial):
            least, key, key_low = q, high, low
    return least


@separate_kernel
def _schedule(core: Core, filters: Filters, s: int) -> None:
    """Note when anybody who has something to place hears of a server next. O(Q)."""
    numbers, servers = core.numbers[0], filters.until.shape[1]
    earliest = np.inf
    for position in range(numbers.turn):
        q = core.turn[position]
        is_news = core.servers[s].freed_at >= filters.moment[q, s]
        if is_news and filters.until[q, s] > numbers.now:
            earliest = min(earliest, filters.until[q, s])
    if earliest < np.inf:
        push(filters.due, 0, servers, s, earliest, 0.0)
    else:
        take_out(filters.due, 0, servers, s)


@separate_kernel
def _hear_again(core: Core, filters: Filters) -> None:
    """Have servers looked at again that somebody hears of by now."""
    numbers, due = core.numbers[0], filters.due
    while due.size[0] > 0 and due.key[due.item[0]] <= numbers.now:
        s = due.item[0]
        take_out(due, 0, filters.until.shape[1], s)
        server = core.servers[s]
        server.refused_at = 0
        if server.fresh_in != numbers.epoch:
            server.fresh_in = numbers.epoch
            core.fresh[numbers.fresh] = s
            numbers.fresh += 1
