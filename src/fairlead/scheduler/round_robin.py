"""Randomised round-robin: servers in random order, each offered to the least queue it has room for.

A round visits every server once and places at most one task on each, of a queue's first group in
order that has one that fits. A round that placed nothing ends placing. This is what Mesos does
by default with DRF (Kesidis et al., VI). The order of a round is handed in, or shuffled here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.model.cluster import IntArray
from fairlead.optimize.bits import lowest_bit
from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import entry_kernel, inner_kernel, separate_kernel
from fairlead.optimize.double_double import compare, divide
from fairlead.optimize.shuffling import shuffle
from fairlead.scheduler.at_hand import AtHand
from fairlead.scheduler.cycle import book_gang, start
from fairlead.scheduler.gang_trials import give_back, try_gang
from fairlead.scheduler.gang_waiting import has_room
from fairlead.scheduler.order_heaps import precedes
from fairlead.scheduler.policies import ON_SERVER
from fairlead.scheduler.pool_shares import PoolShares
from fairlead.scheduler.queues import is_before, next_in_heap
from fairlead.scheduler.records import BLOCK, NONE, Core, Switch
from fairlead.scheduler.rooms import CLOSE, Rooms, close_room, would_fit_anywhere
from fairlead.scheduler.servers import end_round, may_take, wake_for_fresh
from fairlead.scheduler.shares_at_hand import share_of
from fairlead.scheduler.spare_rows import task_rows
from fairlead.scheduler.waiting import block, park, shape_at_hand, waiting_of_gang

# Shares in plain floats that differ by more than this, relative, differ in truth.
ROUGH = 1e-14
ONE, ALL = np.uint64(1), np.uint64(2**64 - 1)
NEVER = 2**63 - 1  # more than any server has
# As many freed servers are sorted by insertion; with more, all servers are looked through.
FEW = 64


@entry_kernel
def visit_servers(core: Core, gangs: Switch, limit: int, out: IntArray) -> int:
    """Visit what is left of the round under way, or until the limit is reached; see `cycle.place`.

    `begin_round` hands in the next one.
    """
    return _go_on(core, None, None, None, gangs, limit, out)


@entry_kernel
def visit_by_residual(core: Core, at_hand: AtHand, gangs: Switch, limit: int, out: IntArray) -> int:
    """Do as `visit_servers` does, by shares of what is free."""
    return _go_on(core, at_hand, at_hand.shares, at_hand.rooms, gangs, limit, out)


@inner_kernel
def _go_on(
    core: Core,
    at_hand: Any,
    shares: PoolShares | None,
    rooms: Rooms | None,
    gangs: Switch,
    limit: int,
    out: IntArray,
) -> int:
    core.numbers[0].lacking = 0
    wake_for_fresh(core, None)
    end_round(core)
    face_all(core, rooms)
    return _visit(core, at_hand, shares, rooms, gangs, limit, 0, out)


def begin_round(core: Core, random: np.random.Generator) -> bool:
    """Begin a round over all servers that are there, unless the last one placed nothing."""
    numbers = core.numbers[0]
    if numbers.round_idle:
        numbers.round_idle = 0
        return False
    order = random.permutation(core.sequence[: numbers.servers])
    if not numbers.keeps_tasks:  # a filling: nothing comes to before the round is over
        refused = core.servers["refused_at"] == numbers.news
        order = order[~refused[order]]
    core.round_order[: len(order)] = order
    numbers.round_size, numbers.round_at, numbers.round_idle = len(order), 0, 1
    return True


def forget_server(core: Core, s: int) -> None:
    """Take a server that leaves out of the round under way."""
    numbers = core.numbers[0]
    if numbers.round_at < numbers.round_size and core.round_order[numbers.round_at] == s:
        numbers.taker = NONE
    ahead = core.round_order[numbers.round_at : numbers.round_size]
    kept = ahead[ahead != s]
    ahead[: len(kept)] = kept
    numbers.round_size = numbers.round_at + len(kept)


@separate_kernel
def _visit(
    core: Core,
    at_hand: Any,
    shares: PoolShares | None,
    rooms: Rooms | None,
    gangs: Switch,
    limit: int,
    n: int,
    out: IntArray,
) -> int:
    """Visit servers, and return where `out` ends then."""
    numbers = core.numbers[0]
    while n < limit and numbers.round_at < numbers.round_size:
        s = core.round_order[numbers.round_at]
        server = core.servers[s]
        number = NONE
        if server.open and not _is_refused(core, gangs, s):
            number = _least_taker(core, at_hand, shares, rooms, gangs, s, out, n)
            if numbers.lacking > 0:
                break
            if number == NONE:
                server.refused_at = numbers.news
        numbers.round_at += 1
        if number == NONE:
            continue
        n = run_on(core, at_hand, gangs, None, number, s, out, n)
        numbers.round_idle = 0
        face_first(core, rooms, core.lines[number].queue)
    return n


@inner_kernel
def _is_refused(core: Core, gangs: Switch, s: int) -> bool:
    """Return whether it is known that nobody takes anything of a server.

    Where gangs wait, nothing is: what another server takes meanwhile may let one of them start.
    """
    if gangs is not None:
        return False
    return bool(core.servers[s].refused_at == core.numbers[0].news)


@inner_kernel
def run_on(
    core: Core,
    at_hand: Any,
    gangs: Switch,
    only: Switch,
    number: int,
    s: int,
    out: IntArray,
    n: int,
) -> int:
    """Have the first of a line run on a server, the gang if it is one; return where `out` ends."""
    g = core.lines[number].first
    if gangs is not None and core.lines[number].task_shape == NONE:
        end = try_gang(core, None, at_hand, None, only, g, s, out, n)
        return book_gang(core, gangs, None, g, out, n, end)
    out[n] = start(core, None, at_hand, gangs, None, g, s)
    return n + 1


@entry_kernel
def rest(core: Core, gangs: Switch) -> None:
    """End placing: nothing that waits fits anywhere.

    Where gangs wait, none of it is parked: they are tried again whenever anything was placed.
    """
    numbers = core.numbers[0]
    numbers.round_idle = numbers.round_size = numbers.round_at = 0
    while gangs is None and numbers.turn > 0:
        number = core.queues[core.turn[0]].first
        if not core.shapes[core.lines[number].task_shape].blocked:
            block(core, core.lines[number].task_shape)
        park(core, number, None)
    end_round(core)


@separate_kernel
def face_all(core: Core, rooms: Rooms | None) -> None:
    """Note what all queues have at hand."""
    for q in range(core.numbers[0].queues):
        face_first(core, rooms, q)


@inner_kernel
def face_first(core: Core, rooms: Rooms | None, q: int) -> None:
    """Note what a queue has at hand: few have more than one shape, and most servers are full."""
    word, bit = q // BLOCK, q % BLOCK
    takes_turn = core.queues[q].place != NONE
    k = _only_shape(core, q) if takes_turn else NONE
    most = 0.0
    for r in range(core.held.shape[1]):
        wanted, rate = 0 if takes_turn else NEVER, 0.0
        if k != NONE and core.demand[k, r] > 0:
            wanted = core.demand[k, r]
            rate = float(core.held[q, r]) / core.queues[q].weight
        most = max(most, rate / float(max(wanted, 1)))
        core.wants[word, r, bit], core.rates[word, r, bit] = wanted, rate
    if rooms is not None:
        core.rates[word, 0, bit], rooms.task_shape[q] = most, k


@inner_kernel
def _only_shape(core: Core, q: int) -> int:
    """Return the shape of the first task of a queue, or NONE where another could be served."""
    first = core.queues[q].first
    is_one = core.numbers[0].strict or core.line_node[first].child == NONE
    return core.lines[first].task_shape if is_one else NONE


@inner_kernel
def _takers(
    core: Core, amounts: IntArray | None, row: int, s: int, word: int, most: float
) -> np.uint64:
    """Return who of 64 queues has at hand what fits, with no larger share of a row of amounts."""
    length = np.uint64(min(core.numbers[0].queues - word * BLOCK, BLOCK))
    takers = ALL >> (np.uint64(BLOCK) - length)
    for r in range(core.held.shape[1]):
        free, limit, these = core.free[s, r], np.inf, np.uint64(0)
        if amounts is not None and most < np.inf:
            limit = most * float(amounts[row, r])
        for bit in range(length):
            if (core.wants[word, r, bit] <= free) & (core.rates[word, r, bit] <= limit):
                these |= ONE << bit
        takers &= these
    return takers


@inner_kernel
def _may_fit(core: Core, q: int, s: int) -> bool:
    word, bit = q // BLOCK, q % BLOCK
    for r in range(core.held.shape[1]):  # noqa: SIM110 (numba knows no generators)
        if core.free[s, r] < core.wants[word, r, bit]:
            return False
    return True


@inner_kernel
def _takes(
    core: Core,
    at_hand: Any,
    gangs: Switch,
    only: Switch,
    number: int,
    s: int,
    out: IntArray,
    n: int,
) -> bool:
    k = core.lines[number].task_shape
    if gangs is not None and k == NONE:
        return _takes_gang(core, at_hand, only, number, s, out, n)
    return not core.shapes[k].blocked and may_take(core, k, s)


@separate_kernel
def _takes_gang(
    core: Core, at_hand: Any, only: Switch, number: int, s: int, out: IntArray, n: int
) -> bool:
    """Return whether a gang could start with its first task, or all of it, on a server.

    Where rows or the buffer are too few for all of it, `lacking` says how many it takes.
    """
    gang = core.lines[number].first
    tasks = waiting_of_gang(core, gang)
    if tasks > out.size - n or tasks > task_rows(core):
        if has_room(core, gang, False):
            core.numbers[0].lacking = max(core.numbers[0].lacking, tasks)
        return False
    end = try_gang(core, None, at_hand, None, only, gang, s, out, n)
    if end == n:
        return False
    give_back(core, None, at_hand, gang, out, n, end)
    return True


@separate_kernel
def _first_behind(
    core: Core,
    at_hand: Any,
    gangs: Switch,
    only: Switch,
    root: int,
    s: int,
    out: IntArray,
    n: int,
) -> int:
    """Return the first line of a queue, behind its first, that has a task that fits; or NONE."""
    nodes, best, row = core.line_node, NONE, core.line_node[root].child
    while row != NONE:
        is_worth = best == NONE or precedes(nodes, row, best)
        if is_worth and _takes(core, at_hand, gangs, only, row, s, out, n):
            best, is_worth = row, False  # what is below it comes later
        if is_worth and nodes[row].child != NONE:
            row = nodes[row].child
            continue
        while row != root and nodes[row].sibling == NONE:
            above = nodes[row].before
            while nodes[above].child != row:
                row, above = above, nodes[above].before
            row = above
        row = nodes[row].sibling
    return best


@inner_kernel
def first_that_fits(
    core: Core,
    at_hand: Any,
    gangs: Switch,
    only: Switch,
    q: int,
    s: int,
    out: IntArray,
    n: int,
) -> int:
    """Return the first line of a queue that has a task that fits on a server, or NONE.

    Of a gang the first task there and the others anywhere, or all of them there (`only`); that is
    tried in `out` from `n` on.
    """
    root = core.queues[q].first
    if _takes(core, at_hand, gangs, only, root, s, out, n):
        return int(root)
    if core.numbers[0].strict or core.line_node[root].child == NONE:
        return NONE
    return _first_behind(core, at_hand, gangs, only, root, s, out, n)


@inner_kernel
def _least_taker(
    core: Core,
    at_hand: Any,
    shares: PoolShares | None,
    rooms: Rooms | None,
    gangs: Switch,
    s: int,
    out: IntArray,
    n: int,
) -> int:
    """Return the line whose task goes on a server, that of the least queue; or NONE.

    O(R) for each queue that comes before the one found, and those below it in the heap of turns.
    """
    if rooms is not None:
        return _least_by_share(core, at_hand, rooms, core.demand, 0, gangs, s, out, n)
    if shares is not None:
        return _least_by_share(core, at_hand, None, shares.free, 0, gangs, s, out, n)
    if at_hand is not None:
        return _least_by_share(core, at_hand, None, core.free, s, gangs, s, out, n)
    if core.numbers[0].criterion == ON_SERVER:
        return _least_by_share(core, None, None, core.capacity, s, gangs, s, out, n)
    size, best, least, position = core.numbers[0].turn, NONE, NONE, 0
    while position < size:
        q = core.turn[position]
        is_worth = True
        if _may_fit(core, q, s):
            is_worth = least == NONE or is_before(core, q, least)
            number = NONE
            if is_worth:
                number = first_that_fits(core, at_hand, gangs, None, q, s, out, n)
            if number != NONE:  # those below it come later
                best, least, is_worth = number, q, False
        position = next_in_heap(position, size, is_worth)
    return best


@separate_kernel
def _least_by_share(
    core: Core,
    at_hand: Any,
    rooms: Rooms | None,
    amounts: IntArray,
    row: int,
    gangs: Switch,
    s: int,
    out: IntArray,
    n: int,
) -> int:
    """Return that of the queue with the least share for its task at hand. O(Q R).

    A share of a row of amounts, or of what would fit anywhere.
    """
    best, least, rough, most, noted = NONE, NONE, 0.0, np.inf, 0
    error = ROUGH if rooms is None else 4.0 * CLOSE
    for word in range((core.numbers[0].queues + BLOCK - 1) // BLOCK):
        takers = _takers(core, amounts if rooms is None else None, row, s, word, most)
        if takers:
            noted = _note_shares(core, rooms, amounts, row, word)
        while takers:
            bit = lowest_bit(takers)
            takers &= takers - ONE
            share, q = core.rates[word, noted, bit], word * BLOCK + bit
            if share > most:
                continue
            number = first_that_fits(core, at_hand, gangs, None, q, s, out, n)
            if number == NONE:
                continue
            if gangs is not None or _only_shape(core, q) == NONE:
                share = _rough_share(
                    core, rooms, amounts, row, q, shape_at_hand(core, gangs, number)
                )
                if share > most:
                    continue
            if least != NONE and share == rough == 0.0:
                if core.queues[least].serial < core.queues[q].serial:
                    continue
            elif least != NONE and share >= rough * (1.0 - error):
                k = shape_at_hand(core, gangs, number)
                high, low = _exact_share(core, rooms, amounts, row, q, k)
                k = shape_at_hand(core, gangs, best)
                other, other_low = _exact_share(core, rooms, amounts, row, least, k)
                order = compare(high, low, other, other_low)
                if order > 0 or (order == 0 and core.queues[least].serial < core.queues[q].serial):
                    continue
            best, least, rough, most = number, q, share, share * (1.0 + error)
    return best


@inner_kernel
def _note_shares(core: Core, rooms: Rooms | None, amounts: IntArray, row: int, word: int) -> int:
    """Note shares of what 64 queues have at hand, roughly; 0 where that is several shapes.

    Return where in `rates`: loops become vectors that write elsewhere than they read.
    """
    resources = int(core.held.shape[1])
    here = resources
    length = np.uint64(min(core.numbers[0].queues - word * BLOCK, BLOCK))
    if rooms is not None:
        for bit in range(length):
            share = core.rates[word, 0, bit]
            if share > 0.0:
                share /= close_room(core, rooms, rooms.task_shape[word * BLOCK + bit])
            core.rates[word, here, bit] = share
        return here
    inverse = 1.0 / float(max(amounts[row, 0], 1))
    for bit in range(length):
        part = core.rates[word, 0, bit] * inverse
        core.rates[word, here, bit] = part if part > 0.0 else 0.0
    for r in range(1, resources):
        inverse, before, here = 1.0 / float(max(amounts[row, r], 1)), here, resources + r % 2
        for bit in range(length):
            part, largest = core.rates[word, r, bit] * inverse, core.rates[word, before, bit]
            core.rates[word, here, bit] = part if part > largest else largest
    return here


@inner_kernel
def _rough_share(
    core: Core, rooms: Rooms | None, amounts: IntArray, row: int, q: int, k: int
) -> float:
    """Return a queue's share for a shape, roughly."""
    largest = 0.0
    if rooms is not None:
        row = k
    for r in range(core.held.shape[1]):
        if core.demand[k, r] > 0:
            part = float(core.held[q, r]) / float(amounts[row, r])
            largest = part if part > largest else largest
    if rooms is not None:
        largest /= close_room(core, rooms, k)
    return largest / float(core.queues[q].weight)


@inner_kernel
def _exact_share(
    core: Core, rooms: Rooms | None, amounts: IntArray, row: int, q: int, k: int
) -> tuple[float, float]:
    """Return it as a pair."""
    if rooms is None:
        return share_of(core, amounts, row, q, k)
    high, low = share_of(core, core.demand, k, q, k)
    fit, fit_low = would_fit_anywhere(core, rooms, k)
    return divide(high, low, fit, fit_low)


@by_address
class Takers(NamedTuple):
    """Servers that somebody takes something of; rounds are shuffled from them.

    Attributes
    ----------
    servers : (S,) int
        In order; the first `size` count.
    size : (1,) int
    news : (1,) int
        When all servers were looked through last.
    seed : (1,) uint
        Of the orders to come.
    """

    servers: IntArray
    size: IntArray
    news: IntArray
    seed: NDArray[np.uint64]


def no_takers(servers: int, seed: int) -> Takers:
    """Return room for a number of servers."""
    return Takers(
        servers=np.zeros(servers, dtype=np.int64),
        size=np.zeros(1, dtype=np.int64),
        news=np.zeros(1, dtype=np.int64),
        seed=np.array([seed], dtype=np.uint64),
    )


@entry_kernel
def place_in_rounds(core: Core, gangs: Switch, takers: Takers, limit: int, out: IntArray) -> int:
    """Place tasks in rounds over the servers that anything is taken of; see `cycle.place`.

    As replays have them: left out or visited, the others do not matter, and orders are as random.
    """
    return _place_in_rounds(core, None, None, None, gangs, takers, limit, out)


@entry_kernel
def place_in_rounds_by_residual(
    core: Core, at_hand: AtHand, gangs: Switch, takers: Takers, limit: int, out: IntArray
) -> int:
    """Do as `place_in_rounds` does, by shares of what is free."""
    parts = (at_hand, at_hand.shares, at_hand.rooms)
    return _place_in_rounds(core, *parts, gangs, takers, limit, out)


@inner_kernel
def _place_in_rounds(
    core: Core,
    at_hand: Any,
    shares: PoolShares | None,
    rooms: Rooms | None,
    gangs: Switch,
    takers: Takers,
    limit: int,
    out: IntArray,
) -> int:
    numbers = core.numbers[0]
    numbers.lacking = 0
    wake_for_fresh(core, None)
    collect(core, takers, numbers.news, gangs)
    end_round(core)
    face_all(core, rooms)
    n = _visit(core, at_hand, shares, rooms, gangs, limit, 0, out)
    while n < limit and numbers.lacking == 0:
        # Under strict order, what starts lets others come first.
        collect(core, takers, numbers.news, gangs)
        size = 0
        for k in range(takers.size[0]):
            s = takers.servers[k]
            if core.servers[s].open and _anybody_takes(core, at_hand, gangs, s, out, n):
                takers.servers[size] = core.round_order[size] = s
                size += 1
            if numbers.lacking > 0:
                return n
        takers.size[0] = size
        if size == 0:
            rest(core, gangs)
            break
        shuffle(core.round_order, size, takers.seed)
        numbers.round_size, numbers.round_at = size, 0
        n = _visit(core, at_hand, shares, rooms, gangs, limit, n, out)
    return n


@separate_kernel
def collect(core: Core, takers: Takers, news: int, gangs: Switch) -> None:
    """Take up the servers that anything may be taken of: all, or those that were freed.

    Where gangs wait, all.
    """
    numbers = core.numbers[0]
    is_all = takers.news[0] != news or takers.size[0] > 0
    if gangs is not None:
        is_all = True
    elif numbers.fresh == 0 and takers.news[0] == news:
        return
    takers.news[0], size = news, 0
    if not is_all and numbers.fresh <= FEW:
        for f in range(numbers.fresh):
            s, place = core.fresh[f], size
            while place > 0 and precedes(core.server_node, s, takers.servers[place - 1]):
                takers.servers[place] = takers.servers[place - 1]
                place -= 1
            takers.servers[place] = s
            size += 1
    else:
        for position in range(numbers.servers):
            s = core.sequence[position]
            if is_all or core.servers[s].fresh_in == numbers.epoch:
                takers.servers[size] = s
                size += 1
    takers.size[0] = size


@separate_kernel
def _anybody_takes(core: Core, at_hand: Any, gangs: Switch, s: int, out: IntArray, n: int) -> bool:
    """Return whether anything that waits fits on a server."""
    numbers = core.numbers[0]
    if _is_refused(core, gangs, s):
        return False
    for word in range((numbers.queues + BLOCK - 1) // BLOCK):
        takers = _takers(core, None, 0, s, word, np.inf)
        while takers:
            q = word * BLOCK + lowest_bit(takers)
            takers &= takers - ONE
            if first_that_fits(core, at_hand, gangs, None, q, s, out, n) != NONE:
                return True
    core.servers[s].refused_at = numbers.news
    return False
