"""Why a group waits, by definition, in the new core: every change tried on a copy of the state.

What did not change is in `plain_explaining`. New: a resource that a task does not take is never
lacking; queues of weight 0 come after all others; and what holds a group back is told by what had
room before, and after, the others were placed.
"""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import NamedTuple

from fairlead.errors import InputError
from oracles.plain_choosing import Group, Server
from oracles.plain_core import Scheduler
from oracles.plain_explaining import (
    ahead_beside,
    classes,
    copied,
    is_placed,
    never,
    path,
    reserved,
    shorter,
    tried_anew,
)


class Explained(NamedTuple):
    allowed: int
    open: int
    fitting: int
    lacking: dict[str, int]
    nearest: list[str]
    starts: bool
    changes: list[tuple[str, str, Fraction | float | None, bool]]
    never: bool
    ahead: list[str] | None
    reservation: tuple[str, float, list[str]] | None
    held_by: str


def explained(s: Scheduler, group: Group, now: float) -> Explained:
    s = copied(s)
    for g in s.groups.values():  # no labels are no condition, so those tasks are of one shape
        g.members = [(demand, tasks, where or None) for demand, tasks, where in g.members]
    group = s.groups[group.id]
    first, there = next(group.waiting()), s.there()
    allowed = [x for x in there if s.may(group, first, x)]
    open_ = [x for x in allowed if not x.draining]
    starts = is_placed(s, group.id, now)
    return Explained(
        len(allowed),
        len(open_),
        sum(s.fits(group, first, x) for x in open_),
        lacking(s, group, first, open_),
        nearest(s, group, first, open_),
        starts,
        [] if starts else changes(s, group, first, open_, now),
        never(s, group, first, there),
        ahead(s, group, first, open_ or allowed or there),
        reserved(s, now),
        "nothing" if starts else held_by(copied(s), group.id, now),
    )


def short(demand: list[int], amounts: list[int]) -> list[int]:
    """Of which amounts there is too little; never of what is not taken."""
    return [r for r, (a, d) in enumerate(zip(amounts, demand, strict=True)) if 0 < d > a]


def lacking(s: Scheduler, group: Group, first: int, servers: list[Server]) -> dict[str, int]:
    beside = [name for r, name in enumerate(s.resources) if not s.slots or r not in s.slot()]
    rows = [short(s.demand(group, first), s.free(x)) for x in servers]
    counts = enumerate(["slots", *beside] if s.slots else beside)
    return {name: n for r, name in counts if (n := sum(r in row for row in rows))}


def lacked(s: Scheduler, group: Group, first: int, server: Server) -> Fraction:
    """The largest part of what is asked that a server lacks."""
    demand, free = s.demand(group, first), s.free(server)
    return max((Fraction(demand[r] - free[r], demand[r]) for r in short(demand, free)), default=0)


def nearest(s: Scheduler, group: Group, first: int, servers: list[Server]) -> list[str]:
    parts = [(lacked(s, group, first, x), x.place, x.name) for x in servers]
    return [name for part, _, name in sorted(parts) if part]


def changes(s: Scheduler, group: Group, first: int, servers: list[Server], now: float):
    found = []
    for r, name in enumerate(s.resources):
        amount = lowered(s, group, first, servers, r)
        if amount:
            starts = tried_anew(s, group, now, first, lower=(r, amount))
            found.append(("resource", name, amount * s.quanta[r], starts))
    where = group.member(first)[2]
    if isinstance(where, dict):
        for key in sorted(where):
            rest = {k: v for k, v in where.items() if k != key}
            found.append(("where", key, None, tried_anew(s, group, now, first, where=rest)))
    elif where is not None:
        found.append(("where", "names", None, tried_anew(s, group, now, first, where=None)))
    for limit in shorter(s, group, now):
        starts = tried_anew(s, group, now, first, limit=limit)
        found.append(("limit", "time_limit", limit, starts))
    for queue in path(group.queue):
        other = copied(s)
        weight = other.queues[queue.name].weight = queue.weight * 2 or Fraction(1)
        found.append(("weight", queue.name, weight, is_placed(other, group.id, now)))
    other = copied(s)
    other.set_priority(group.id, 2**62)
    found.append(("priority", group.queue.name, None, is_placed(other, group.id, now)))
    for like in classes(s):
        other, name = copied(s), f"{like.name} again"
        while name in other.servers:
            name += "x"
        amounts = zip(s.resources, like.capacity, s.quanta, strict=True)
        starts = False
        with suppress(InputError):  # more than can be counted
            other.add_server(name, {r: a * q for r, a, q in amounts}, like.labels)
            starts = is_placed(other, group.id, now)
        found.append(("server", like.name, None, starts))
    return found


def lowered(s: Scheduler, group: Group, first: int, servers: list[Server], r: int) -> int:
    """The most of a resource, less than asked, with which the task would fit on some server; or 0.

    Under slots, what takes no more slots than are left.
    """
    row, found = group.member(first)[0], [0]
    asked = row[r]
    for x in servers:
        if short(s.demand(group, first), free := s.free(x)):
            most = free[r] if not s.slots else int(free[0] * s.slot().get(r, 0))
            row[r] = most if 0 < most < asked else asked
            found += [row[r]] if not short(s.demand(group, first), free) else []
            row[r] = asked
    return max(found)


def ahead(s: Scheduler, group: Group, first: int, servers: list[Server]) -> list[str] | None:
    """Queues that wait and come before its own, or before one above, from the root down."""
    if s.criterion in ("fifo", "easy"):
        order = list(dict.fromkeys(g.queue.name for g in s.by_submission()))
        return order[: order.index(group.queue.name)] if group.queue.name in order else []
    if not servers:
        return None
    view = min(servers, key=lambda x: (lacked(s, group, first, x), x.place))
    levels = reversed(path(group.queue))
    try:
        return [name for mine in levels for name in ahead_beside(s, group, first, mine, view)]
    except ZeroDivisionError:
        return None  # under tsf's residual form: of no room no part can be taken


def held_by(s: Scheduler, key: int, now: float) -> str:
    """What holds back a group that does not start."""
    group = s.groups[key]
    first = next(group.waiting())
    allowed = [x for x in s.there() if s.may(group, first, x)]
    if not allowed:
        return "where"
    if all(short(s.demand(group, first), s.capacity(x)) for x in allowed):
        return "size"
    if never(s, group, first, s.there()):
        return "gang"
    if all(x.draining for x in allowed):
        return "drained"
    if not any(s.fits(group, first, x) for x in allowed):
        return "room"
    had_room = has_room(s, group)
    s.place(now)
    if s.criterion in ("fifo", "easy"):
        able = s.by_submission()
        if group not in able:
            return "gang"
        if able[0] is not group and s.criterion == "fifo":
            return "fifo"
        if able[0] is not group and has_room(s, group):
            return "reservation"
    elif s.strict and s.in_order(group.queue)[0] is not group:
        return "strict order"
    if is_gang(group) and not had_room:
        return "gang"
    is_left = any(s.fits(group, first, x) for x in allowed)
    if s.select == "best-fit-first" and (is_left or not had_room):
        return "best server"
    return "declined" if s.oblivious and has_room(s, group) else "order"


def is_gang(group: Group) -> bool:
    return group.gang and sum(tasks for _, tasks, _ in group.members) > 1


def has_room(s: Scheduler, group: Group) -> bool:
    """Whether its next task, or all of a gang, could start now; in rounds, begun on some server."""
    s = copied(s)
    group = s.groups[group.id]
    if s.select == "rrr":
        return any(s.plan(group, x) for x in s.there())
    return bool(s.plan(group))
