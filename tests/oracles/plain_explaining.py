"""Why a group waits, by definition: each server looked at, each change tried on a copy.

A resource that a task does not take is never lacking; queues of weight 0 come after all others; and
what holds a group back is told by what had room before, and after, the others were placed.
"""

from __future__ import annotations

import pickle
from contextlib import suppress
from fractions import Fraction
from math import inf, nextafter
from typing import NamedTuple

from fairlead.errors import InputError
from oracles.plain_choosing import Group, Queue, Reservation, Server, room
from oracles.plain_scheduler import Scheduler

KEPT = object()


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
        never(s, group, first, there) or is_beyond_limits(s, group),
        ahead(s, group, first, open_ or allowed or there),
        reserved(s, now),
        "nothing" if starts else held_by(copied(s), group.id, now),
    )


def is_beyond_limits(s: Scheduler, group: Group) -> bool:
    """Whether it would not be within its limits if nothing ran."""
    running, s.running = s.running, {}
    try:
        return not s.is_within(group)
    finally:
        s.running = running


def short(demand: list[int], amounts: list[int]) -> list[int]:
    """The resources with too little; never one that is not taken."""
    return [r for r, (a, d) in enumerate(zip(amounts, demand, strict=True)) if 0 < d > a]


def lacking(s: Scheduler, group: Group, first: int, servers: list[Server]) -> dict[str, int]:
    beside = [name for r, name in enumerate(s.resources) if not s.slots or r not in s.slot()]
    rows = [short(s.demand(group, first), s.free(x)) for x in servers]
    counts = enumerate(["slots", *beside] if s.slots else beside)
    return {name: n for r, name in counts if (n := sum(r in row for row in rows))}


def lacked(s: Scheduler, group: Group, first: int, server: Server) -> Fraction:
    """The largest lacking part of the request."""
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
        if queue.most or queue.most_tasks < inf:
            other = copied(s)
            other.set_limit(queue.name)
            found.append(("queue limit", queue.name, None, is_placed(other, group.id, now)))
    for queue in path(group.queue):
        other = copied(s)
        weight = other.queues[queue.name].weight = queue.weight * 2 or Fraction(1)
        found.append(("weight", queue.name, weight, is_placed(other, group.id, now)))
    other = copied(s)
    other.set_priority(group.id, 2**62)
    found.append(("priority", group.queue.name, None, is_placed(other, group.id, now)))
    roomy = [x for x in s.there() if x.draining and s.may(group, first, x)]
    roomy = [x for x in roomy if not short(s.demand(group, first), s.free(x))]
    for server in sorted(roomy, key=lambda x: x.place)[:1]:
        other = copied(s)
        other.undrain(server.name)
        found.append(("drain", server.name, None, is_placed(other, group.id, now)))
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
    """Queues that wait and come before its own, or before one above, from the root down.

    Without queues whose tasks all fit on no server.
    """
    found = ahead_in_order(s, group, first, servers)
    return found and [name for name in found if may_start(s, s.queues[name])]


def may_start(s: Scheduler, queue: Queue) -> bool:
    groups = [g for g in s.groups.values() if g.waits() and queue in path(g.queue)]
    return any(all(fits_empty(s, g, i) for i in g.waiting()) for g in groups)


def fits_empty(s: Scheduler, group: Group, index: int) -> bool:
    demand = s.demand(group, index)
    return any(s.may(group, index, x) and not short(demand, s.capacity(x)) for x in s.there())


def ahead_in_order(
    s: Scheduler, group: Group, first: int, servers: list[Server]
) -> list[str] | None:
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
    """The reason why a group does not start."""
    group = s.groups[key]
    first = next(group.waiting())
    allowed = [x for x in s.there() if s.may(group, first, x)]
    if not allowed:
        return "where"
    if all(short(s.demand(group, first), s.capacity(x)) for x in allowed):
        return "size"
    if never(s, group, first, s.there()):
        return "gang"
    if not s.is_within(group):
        return "limit"
    if all(x.draining for x in allowed):
        return "drained"
    if not any(s.fits(group, first, x) for x in allowed):
        return "room"
    had_room = has_room(s, group)
    s.place(now)
    if not s.is_within(group):
        return "limit"
    if s.criterion in ("fifo", "easy"):
        able = s.by_submission()
        if group not in able:
            return "gang"
        if able[0] is not group and s.criterion == "fifo":
            return "fifo"
        if able[0] is not group and has_room(s, group):
            return "reservation"
    elif s.strict and s.waiting_in(group.queue)[0] is not group:
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


def copied(s: Scheduler) -> Scheduler:
    return pickle.loads(pickle.dumps(s))


def is_placed(s: Scheduler, group: object, now: float) -> bool:
    """Whether anything of the group is placed now, with nothing else arriving."""
    return any(p.group == group for p in copied(s).place(now))


def reservation(s: Scheduler, now: float) -> tuple[Group, Reservation] | None:
    """What easy reserves once nothing more is placed, and for whom."""
    if s.criterion != "easy":
        return None
    s = copied(s)
    s.place(now)
    groups = s.by_submission()
    return (groups[0], s.reservation(groups[0])) if groups else None


def reserved(s: Scheduler, now: float) -> tuple[str, float, list[str]] | None:
    """The same as names: whose it is, when, and on which servers in their order."""
    held = reservation(s, now)
    if held is None:
        return None
    servers = {t.server.name: t.server.place for t in held[1].tasks}
    return held[0].queue.name, held[1].at, sorted(servers, key=lambda name: servers[name])


def shorter(s: Scheduler, group: Group, now: float) -> list[float]:
    """The longest limit by which it is over at the time that is reserved for another group."""
    held, now = reservation(s, now), float(now)
    if held is None or held[0].id == group.id or held[1].at == inf:
        return []
    limit = held[1].at - now
    while now + limit > held[1].at:
        limit = nextafter(limit, -inf)
    return [limit] if 0 < limit < group.limit else []


def tried_anew(s, group, now, first, *, lower=None, where=KEPT, limit=None) -> bool:
    """The tasks that wait are a group of their own, changed, in the old place in the order."""
    s, shape = copied(s), group.members.index(group.member(first))
    group, members = s.groups[group.id], []
    at = 0
    for amounts, tasks, condition in group.members:
        n = sum(at <= index < at + tasks for index in group.returned)
        n += max(min(group.end, at + tasks) - max(group.fresh, at), 0)
        at += tasks
        alike = amounts == group.members[shape][0] and condition == group.members[shape][2]
        row = list(amounts)
        if alike and lower is not None:
            row[lower[0]] = lower[1]
        if n:
            members.append((row, n, where if alike and where is not KEPT else condition))
    anew = Group(
        group.id + 0.5, group.queue, members, group.priority, group.time, group.gang, None,
        group.limit if limit is None else limit, end=sum(n for _, n, _ in members),
    )  # fmt: skip
    group.drop()
    s.forget_ended()
    s.groups[anew.id] = anew
    s.revive(anew.queue)
    return is_placed(s, anew.id, now)


def classes(s: Scheduler) -> list[Server]:
    """One server of each capacity and labels, those first that there are most of."""
    alike: list[list[Server]] = []
    for x in s.there():
        row = next((a for a in alike if (a[0].capacity, a[0].labels) == (x.capacity, x.labels)), [])
        if not row:
            alike.append(row)
        row.append(x)
    return [row[0] for row in sorted(alike, key=lambda row: -len(row))]


def never(s: Scheduler, group: Group, first: int, there: list[Server]) -> bool:
    """Whether empty servers lack room for a task; of a gang, for those of one shape alone.

    Where demands are unknown a gang starts on one server.
    """
    waiting = list(group.waiting()) if group.gang else [first]
    for index in waiting:
        alike = [i for i in waiting if group.member(i)[::2] == group.member(index)[::2]]
        rooms = [
            int(room(s.demand(group, index), s.capacity(x)))
            for x in there
            if s.may(group, index, x)
        ]
        if sum(rooms) < len(alike):
            return True
    if not (group.gang and s.oblivious and waiting):
        return False
    total = [sum(column) for column in zip(*(s.demand(group, i) for i in waiting), strict=True)]
    return not any(
        all(t <= c for t, c in zip(total, s.capacity(x), strict=True))
        and all(s.may(group, i, x) for i in waiting)
        for x in there
    )


def path(queue: Queue | None) -> list[Queue]:
    """A queue and those above it."""
    return [] if queue is None else [queue, *path(queue.parent)]


def ahead_beside(s: Scheduler, group: Group, first: int, mine: Queue, view: Server) -> list[str]:
    """Siblings with waiting tasks and a lower score.

    In a tree: if each waiting task could start, and no resource were used up.
    """
    sign, scores = -1 if s.select == "best-fit-first" else 1, []
    waiting = {q: s.waiting_in(q) for q in s.queues.values()}
    tree = {q: [(g[0], i) for i in s.to_place(g[0])] for q, g in waiting.items() if g}
    if s.select == "rrr":
        tree = {q: sorted(nexts, key=lambda row: row[1]) for q, nexts in tree.items()}
    plans = {}
    for queue, nexts in tree.items():
        rows = [(g, i, next((x for x in s.there() if s.may(g, i, x)), None)) for g, i in nexts]
        plans[queue] = [row for row in rows if row[2] is not None]
    for queue in s.children(mine.parent):
        if not s.leaves(queue, tree) and queue is not mine:
            continue
        if s.half_life:
            score = queue.weight == 0, s.use(queue)
        elif s.is_tree():
            s.here = view if s.select == "rrr" else None
            score = s.order_of(queue, tree, set(), plans)
            s.here = None
        else:
            g = group if queue is mine else waiting[queue][0]
            score = s.score(queue, g, first if queue is mine else next(g.waiting()), view)
        scores.append((score, sign * queue.serial, queue.name))
    own = next(x for x in scores if x[2] == mine.name)
    return [name for _, _, name in sorted(x for x in scores if x[:2] < own[:2])]
