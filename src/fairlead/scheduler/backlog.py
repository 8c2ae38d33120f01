"""Easy's backlog: who waits, in order of submission, and when what runs ends at the latest.

Those that wait for alike rooms, tasks of one shape or gangs of as many of them, are a kind, a list
in their order. So one look at a kind passes over all of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import entry_kernel, inner_kernel, separate_kernel
from fairlead.scheduler.records import NONE, Core, Records, record, records

# `kinds`: rows of kinds that were ever taken; `spare`: one that is free again; `met`: kinds that
# have entries, a heap by the first of each. `stale`: the order has to be arranged anew;
# `has_priorities`: a group's place in it depends on those before it in its queue, and it was
# arranged after `arranged` openings. `is_over`: whether all were tried since anything changed.
# `stamp`, `change`: which reservation, and which free amounts, something is kept for; `round_at`:
# servers freed since that moment are known; `touched`: servers on which tasks end before `at`, the
# time reserved for the group `held_for`, if one waits.
STATE = record(
    whole="ends kinds spare met stamp change round_at touched arranged held_for",
    flag="stale has_priorities is_over",
    real="at",
)
# A group that waits, or a gang; the one with the least (time, serial) is first.
ENTRY = record(whole="kind before after serial", real="time limit")
# `tasks`: of a gang, or 0; gangs that are tried one by one have the shape NONE. `follower`: of the
# shape's kinds the next; `met_at`: its place among those with entries; `cursor`: during a look, the
# first that may start; no limit in it is less than `least_limit`.
KIND = record(
    whole="task_shape tasks first last follower met_at cursor",
    real="least_limit",
)
# `first_kind`: and 1; `full_at`: one more than the moment at which no server took a task;
# `beside_in`: the reservation beside which none fits; tasks that fit together now, and beside it,
# after which changes.
SHAPE_ROOM = record(whole="first_kind full_at beside_in room room_in beside beside_at")
SERVER_THEN = record(whole="touched_in held_in")
END = record(whole="task", real="end")
ONE_BY_ONE = 0


@by_address
class Backlog(NamedTuple):
    """What easy keeps beside the core.

    Attributes
    ----------
    state : (1,) STATE
    entries : (G,) ENTRY
        Of groups that wait; the kind of others is NONE.
    kinds : (G + 1,) KIND
    met, looked : (G + 1,) int
        Heaps of the kinds that have entries, and of those that a look goes through: the next first.
    ends : (T,) END
        Of running tasks that have a limit, ascending.
    shapes : (K,) SHAPE_ROOM
    servers, then : (S,) SERVER_THEN, (S, R) int
        Quanta free at the reserved time, less what is reserved, on servers touched.
    reserved : (S, R) int
        Quanta.
    touched : (S,) int
        Servers on which anything is other then.
    """

    state: Records
    entries: Records
    kinds: Records
    met: IntArray
    looked: IntArray
    ends: Records
    shapes: Records
    servers: Records
    then: IntArray
    reserved: IntArray
    touched: IntArray


def backlog_for(core: Core, backlog: Backlog | None) -> Backlog:
    """Return a backlog with room for all rows of a core."""
    groups, servers = len(core.groups), len(core.servers)
    wanted = {
        "entries": (ENTRY, groups),
        "kinds": (KIND, groups + 1),
        "met": (np.int64, groups + 1),
        "looked": (np.int64, groups + 1),
        "ends": (END, len(core.tasks)),
        "shapes": (SHAPE_ROOM, len(core.shapes)),
        "servers": (SERVER_THEN, servers),
        "then": (np.int64, core.free.shape),
        "reserved": (np.int64, core.free.shape),
        "touched": (np.int64, servers),
    }
    if backlog is not None and len(backlog.entries) == groups:
        sizes = len(backlog.ends), len(backlog.shapes), len(backlog.servers)
        if sizes == (len(core.tasks), len(core.shapes), servers):
            return backlog
    made = {name: np.zeros(size, kind) for name, (kind, size) in wanted.items()}
    made["entries"]["kind"] = NONE
    if backlog is None:
        state = records(STATE, 1)
        state[0].stale, state[0].spare = True, NONE
        state[0].stamp = state[0].change = 1
        begun = Backlog(state=state, **made)
        _list_ends(core, begun)
        return begun
    for name, array in made.items():
        before = getattr(backlog, name)
        array[: len(before)] = before
    return Backlog(state=backlog.state, **made)


def _list_ends(core: Core, backlog: Backlog) -> None:
    """Note what runs."""
    running = np.flatnonzero(core.tasks["runs"])
    end = core.tasks["since"][running] + core.groups["limit"][core.tasks["group"][running]]
    running, end = running[end < np.inf], end[end < np.inf]
    order = np.lexsort((running, end))
    backlog.ends["task"][: len(order)] = running[order]
    backlog.ends["end"][: len(order)] = end[order]
    backlog.state[0].ends = len(order)


def arrange(core: Core, backlog: Backlog) -> None:
    """Bring those that wait into the order of submission. O(W log W).

    Always the queue's first that was submitted first comes next: so a group comes when all are
    there that are before it in its queue, and could be placed at all.
    """
    state, groups = backlog.state[0], core.groups[: core.numbers[0].groups]
    is_first = (groups["gang"] == NONE) | (groups["gang"] == np.arange(len(groups)))
    waiting = groups["waiting"] > 0
    waiting[groups["gang"][waiting & (groups["gang"] != NONE)]] = True
    g = np.flatnonzero(waiting & is_first)
    line, node = core.lines[groups["line"][g]], core.group_node[g]
    state.has_priorities = bool(node["rank"].any())
    if state.has_priorities:
        able = core.shapes["able"][line["task_shape"]]
        able = np.where(groups["gang"][g] == NONE, able, groups["able"][g])
        g, line, node = g[able], line[able], node[able]
    by_time = np.lexsort((node["serial"], node["time"]))
    turn = np.empty(len(g), dtype=np.int64)
    turn[by_time] = np.arange(len(g))
    in_queues = np.lexsort((turn, node["rank"], line["queue"]))
    before = line["queue"][in_queues] * len(g)  # so that no queue hears of another one's
    latest = np.maximum.accumulate(turn[in_queues] + before) - before
    backlog.entries["kind"], backlog.shapes["first_kind"] = NONE, 0
    state.kinds, state.spare, state.met, state.stale = ONE_BY_ONE + 1, NONE, 0, False
    backlog.kinds[ONE_BY_ONE] = 0
    backlog.kinds[ONE_BY_ONE].task_shape = NONE
    backlog.kinds[ONE_BY_ONE].first = backlog.kinds[ONE_BY_ONE].last = NONE
    state.arranged = core.numbers[0].openings
    _enter_all(core, backlog, g[in_queues[np.argsort(latest, kind="stable")]])


@entry_kernel
def _enter_all(core: Core, backlog: Backlog, groups: IntArray) -> None:
    """Enter groups in their order."""
    for i in range(groups.size):
        g = groups[i]
        entry, node = backlog.entries[g], core.group_node[g]
        entry.time, entry.serial = node.time, node.serial
        if backlog.state[0].has_priorities:
            entry.time, entry.serial = float(i), 0
        _enter(core, backlog, g)


@inner_kernel
def precedes(backlog: Backlog, a: int, b: int) -> bool:
    """Return whether a group comes before another one."""
    x, y = backlog.entries[a], backlog.entries[b]
    if x.time != y.time:
        return bool(x.time < y.time)
    return bool(x.serial < y.serial)


@inner_kernel
def _kind_of(core: Core, backlog: Backlog, g: int) -> int:
    """Return the kind of a group, or gang; a new one if there is none."""
    state, group = backlog.state[0], core.groups[g]
    k, tasks = core.lines[group.line].task_shape, 0
    if group.gang != NONE:
        if group.member != NONE:
            return ONE_BY_ONE
        tasks = group.waiting
    shape = backlog.shapes[k]
    c = shape.first_kind - 1
    while c != NONE and backlog.kinds[c].tasks != tasks:
        c = backlog.kinds[c].follower
    if c == NONE:
        c = state.spare
        if c == NONE:
            c = state.kinds
            state.kinds += 1
        else:
            state.spare = backlog.kinds[c].follower
        kind = backlog.kinds[c]
        kind.task_shape, kind.tasks, kind.first, kind.last = k, tasks, NONE, NONE
        kind.follower = shape.first_kind - 1
        shape.first_kind = c + 1
    return int(c)


@inner_kernel
def _enter(core: Core, backlog: Backlog, g: int) -> None:
    """Put a group into the list of its kind, mostly at its end."""
    state, entry, c = backlog.state[0], backlog.entries[g], _kind_of(core, backlog, g)
    kind = backlog.kinds[c]
    entry.kind, entry.limit = c, core.groups[g].limit
    if kind.first == NONE:
        kind.met_at, kind.least_limit = state.met, np.inf
        state.met += 1
    kind.least_limit = min(kind.least_limit, entry.limit)
    before = kind.last
    if before != NONE and precedes(backlog, g, before):  # it came back: it is near the beginning
        before = NONE
        after = kind.first
        while precedes(backlog, after, g):
            before, after = after, backlog.entries[after].after
    entry.before = before
    if before == NONE:
        entry.after, kind.first = kind.first, g
    else:
        entry.after, backlog.entries[before].after = backlog.entries[before].after, g
    if entry.after == NONE:
        kind.last = g
    else:
        backlog.entries[entry.after].before = g
    if kind.first == g:
        _settle(backlog, c, kind.met_at)


@separate_kernel
def _settle(backlog: Backlog, c: int, i: int) -> None:
    """Put a kind where it belongs among those with entries, from an open place."""
    met, kinds, n = backlog.met, backlog.kinds, backlog.state[0].met
    g = kinds[c].first
    while i > 0 and precedes(backlog, g, kinds[met[(i - 1) // 2]].first):
        above = met[(i - 1) // 2]
        met[i], kinds[above].met_at = above, i
        i = (i - 1) // 2
    while 2 * i + 1 < n:
        child = 2 * i + 1
        below = met[child]
        if child + 1 < n and precedes(backlog, kinds[met[child + 1]].first, kinds[below].first):
            child += 1
            below = met[child]
        if precedes(backlog, g, kinds[below].first):
            break
        met[i], kinds[below].met_at = below, i
        i = child
    met[i], kinds[c].met_at = c, i


@inner_kernel
def leave_backlog(backlog: Backlog, g: int) -> None:
    """Take a group out of the list of its kind, if it is there."""
    state, entry = backlog.state[0], backlog.entries[g]
    c = entry.kind
    if c == NONE:
        return
    kind = backlog.kinds[c]
    entry.kind = NONE
    if entry.before == NONE:
        kind.first = entry.after
    else:
        backlog.entries[entry.before].after = entry.after
    if entry.after == NONE:
        kind.last = entry.before
    else:
        backlog.entries[entry.after].before = entry.before
    if kind.first != NONE:
        if entry.before == NONE:
            _settle(backlog, c, kind.met_at)
        return
    state.met -= 1
    last = backlog.met[state.met]
    if last != c:
        _settle(backlog, last, kind.met_at)
    if c == ONE_BY_ONE:
        return
    shape, above = backlog.shapes[kind.task_shape], NONE
    other = shape.first_kind - 1
    while other != c:
        above, other = other, backlog.kinds[other].follower
    if above == NONE:
        shape.first_kind = kind.follower + 1
    else:
        backlog.kinds[above].follower = kind.follower
    kind.follower, state.spare = state.spare, c


@entry_kernel
def note_group(core: Core, backlog: Backlog, g: int) -> None:
    """Take in what waits of a group now, or of a gang if that is its first group."""
    state, node = backlog.state[0], core.group_node[g]
    state.has_priorities |= node.rank != 0
    state.stale |= state.has_priorities
    if not state.stale:
        waiting, member = 0, g
        while member != NONE:
            waiting += core.groups[member].waiting
            member = core.groups[member].member
        entry = backlog.entries[g]
        if waiting == 0 or entry.kind == NONE or entry.kind != _kind_of(core, backlog, g):
            leave_backlog(backlog, g)
            if waiting > 0:
                entry.time, entry.serial = node.time, node.serial
                _enter(core, backlog, g)


@entry_kernel
def note_over(backlog: Backlog, g: int) -> None:
    """Take in that nothing of a group waits any more."""
    leave_backlog(backlog, g)
    backlog.state[0].stale |= backlog.state[0].has_priorities


@inner_kernel
def _place_of_end(backlog: Backlog, end: float, t: int) -> int:
    """Return where a task stands, or would stand, among those that end. O(log T)."""
    low, high = 0, backlog.state[0].ends
    while low < high:
        middle = (low + high) // 2
        other = backlog.ends[middle]
        if other.end < end or (other.end == end and other.task < t):
            low = middle + 1
        else:
            high = middle
    return low


@entry_kernel
def note_start(core: Core, backlog: Backlog, t: int) -> None:
    """Take in that a task runs. O(T), most of it moving words."""
    state, end = backlog.state[0], core.tasks[t].since + core.groups[core.tasks[t].group].limit
    if end == np.inf:
        return
    place = _place_of_end(backlog, end, t)
    for i in range(state.ends, place, -1):
        before, entry = backlog.ends[i - 1], backlog.ends[i]
        entry.task, entry.end = before.task, before.end
    entry = backlog.ends[place]
    entry.task, entry.end = t, end
    state.ends += 1


@entry_kernel
def note_end(core: Core, backlog: Backlog, t: int) -> None:
    """Take in that a task that runs will not, before it is so. O(T), as `note_start`."""
    state, end = backlog.state[0], core.tasks[t].since + core.groups[core.tasks[t].group].limit
    if end == np.inf:
        return
    state.ends -= 1
    for i in range(_place_of_end(backlog, end, t), state.ends):
        after, entry = backlog.ends[i + 1], backlog.ends[i]
        entry.task, entry.end = after.task, after.end
