"""Why a group waits, by definition: every server looked at, every change tried on a rebuilt state.

`Explained` holds what is found; nothing is undone: each change is made in a copy of all that is so.
"""

from __future__ import annotations

import pickle
from contextlib import suppress
from fractions import Fraction
from math import inf, nextafter
from typing import NamedTuple

from fairlead.errors import InputError
from oracles.plain_open_core import Scheduler
from oracles.plain_open_policies import Group, Queue, Reservation, Server, room

KEPT = object()


class Explained(NamedTuple):
    allowed: int
    open: int
    fitting: int
    lacking: dict[str, int]
    nearest: list[str]
    starts: bool
    changes: list[tuple[str, str, Fraction | None, bool]]
    never: bool
    ahead: list[str] | None
    reservation: tuple[str, float, list[str]] | None


def explained(s: Scheduler, group: Group, now: float) -> Explained:
    first = next(group.waiting())
    there = s.there()
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
    )


def copied(s: Scheduler) -> Scheduler:
    return pickle.loads(pickle.dumps(s))


def is_placed(s: Scheduler, group: object, now: float) -> bool:
    """Whether anything of the group is placed now, with nothing else arriving."""
    return any(p.group == group for p in copied(s).place(now))


def lacking(s: Scheduler, group: Group, first: int, servers: list[Server]) -> dict[str, int]:
    demand, counts = s.demand(group, first), {}
    if s.slots:
        return counts
    for r, name in enumerate(s.resources):
        n = sum(s.free(x)[r] < demand[r] for x in servers)
        if n:
            counts[name] = n
    return counts


def nearest(s: Scheduler, group: Group, first: int, servers: list[Server]) -> list[str]:
    """Servers without room, by the largest part of what is asked that they lack."""
    parts = []
    for x in servers:
        pairs = zip(s.free(x), s.demand(group, first), strict=True)
        part = max((Fraction(d - f, d or 1) for f, d in pairs if f < d), default=Fraction(0))
        if part > 0:
            parts.append((part, x.place, x.name))
    return [name for _, _, name in sorted(parts)]


def changes(s: Scheduler, group: Group, first: int, servers: list[Server], now: float):
    found = []
    for r, name in enumerate(s.resources):
        amount = lowered(s, group, first, servers, r)
        if amount is not None:
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
        other.queues[queue.name].weight *= 2
        found.append(("weight", queue.name, None, is_placed(other, group.id, now)))
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


def lowered(s: Scheduler, group: Group, first: int, servers: list[Server], r: int) -> int | None:
    """The most of a resource, less than asked, with which the task would fit on some server."""
    row, best = group.member(first)[0], 0
    for x in servers:
        if all(f >= d for f, d in zip(s.free(x), s.demand(group, first), strict=True)):
            continue
        most = s.free(x)[r] if not s.slots else 0
        if s.slots and r in s.slot():  # that takes no more slots than are left
            most = int(s.free(x)[0] * s.slot()[r])
        if best < most < row[r] and fits_with(s, group, first, x, r, most):
            best = most
    return best or None


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


def fits_with(s: Scheduler, group: Group, first: int, server: Server, r: int, amount: int) -> bool:
    row = group.member(first)[0]
    kept, row[r] = row[r], amount
    running, s.running = s.running, {}
    try:
        demand = list(s.demand(group, first))
    finally:
        row[r], s.running = kept, running
    return all(f >= d for f, d in zip(s.free(server), demand, strict=True))


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


def ahead(s: Scheduler, group: Group, first: int, servers: list[Server]) -> list[str] | None:
    """Queues with tasks that wait and a lower score; None where fifo has none."""
    if s.criterion in ("fifo", "easy") or not servers:
        return None
    if s.residual and s.criterion == "tsf":
        return None  # of no room no part can be taken
    view = min(servers, key=lambda x: (lacked(s, group, first, x), x.place))
    found = []
    for mine in reversed(path(group.queue)):
        found += ahead_beside(s, group, first, mine, view)
    return found


def path(queue: Queue | None) -> list[Queue]:
    """A queue and those above it."""
    return [] if queue is None else [queue, *path(queue.parent)]


def ahead_beside(s: Scheduler, group: Group, first: int, mine: Queue, view: Server) -> list[str]:
    """Of those with the same parent, whoever has tasks that wait and a lower score."""
    sign, scores = -1 if s.select == "best-fit-first" else 1, []
    for queue in s.children(mine.parent):
        below = [q for q in s.queues.values() if q.is_in(queue)]
        waiting = [g for q in below for g in s.in_order(q)]
        if waiting or queue is mine:
            g = group if queue is mine else waiting[0]
            score = s.score(queue, g, first if queue is mine else next(g.waiting()), view)
            scores.append((score, sign * queue.serial, queue.name))
    own = next(x for x in scores if x[2] == mine.name)
    return [name for _, _, name in sorted(x for x in scores if x[:2] < own[:2])]


def lacked(s: Scheduler, group: Group, first: int, server: Server) -> Fraction:
    pairs = zip(s.free(server), s.demand(group, first), strict=True)
    return max((Fraction(d - f, d or 1) for f, d in pairs if f < d), default=Fraction(0))
