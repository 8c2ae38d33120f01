"""Explain by the definitions why a group waits: scan all servers, try each change on a copy.

Only resources that a task takes can be lacking. The reason depends on whether the group had room
before, and has room after, the other groups were placed.
"""

from __future__ import annotations

import pickle
from contextlib import suppress
from fractions import Fraction
from math import inf, nextafter
from typing import NamedTuple

from fairlead.errors import InputError
from oracles.plain_choosing import Group, Queue, Reservation, Server, tasks_that_fit
from oracles.plain_scheduler import Scheduler

KEPT = object()  # for a constraint that is not changed


class Explained(NamedTuple):
    """The facts of an `Explanation` of the scheduler, for its first waiting task."""

    allowed: int  # servers that the constraint admits
    open: int  # of these, not draining
    fitting: int  # of these, with room
    lacking: dict[str, int]  # open servers with too little, by resource
    nearest: list[str]  # open servers without room, the least lacking part first
    starts: bool
    changes: list[tuple[str, str, Fraction | float | None, bool]]  # kind, of, to, starts
    never: bool
    ahead: list[str] | None  # queues with lower scores; None if scores are not defined
    reservation: tuple[str, float, list[str]] | None  # queue, time, servers
    held_by: str


def explain_group(s: Scheduler, group: Group, now: float) -> Explained:
    """Return why a group waits at a time."""
    s = copy_of(s)
    for g in s.groups.values():  # an empty constraint is none, so that equal tasks have one shape
        g.members = [(demand, tasks, where or None) for demand, tasks, where in g.members]
    group = s.groups[group.id]
    first, servers = next(group.waiting_indices()), s.servers_in_order()
    allowed = [x for x in servers if s.admits(group, first, x)]
    open_ = [x for x in allowed if not x.draining]
    starts = starts_now(copy_of(s), group.id, now)
    return Explained(
        len(allowed),
        len(open_),
        sum(s.fits(group, first, x) for x in open_),
        lacking(s, group, first, open_),
        nearest(s, group, first, open_),
        starts,
        [] if starts else try_changes(s, group, first, open_, now),
        never_fits(s, group, first, servers) or is_beyond_limits(s, group),
        ahead(s, group, first, open_ or allowed or servers),
        reserved(s, now),
        "nothing" if starts else held_by(copy_of(s), group.id, now),
    )


def is_beyond_limits(s: Scheduler, group: Group) -> bool:
    """Return whether a group is beyond limits even if nothing runs."""
    running, s.running = s.running, {}
    try:
        return not s.is_within_limits(group)
    finally:
        s.running = running


def short(demand: list[int], amounts: list[int]) -> list[int]:
    """Return the demanded resources of which some amounts have too little."""
    return [r for r, (a, d) in enumerate(zip(amounts, demand, strict=True)) if 0 < d > a]


def lacking(s: Scheduler, group: Group, first: int, servers: list[Server]) -> dict[str, int]:
    """Return the number of servers that lack each resource for a task, by name."""
    names = [name for r, name in enumerate(s.resources) if not s.slots or r not in s.slot()]
    rows = [short(s.demand(group, first), s.free(x)) for x in servers]
    counts = enumerate(["slots", *names] if s.slots else names)
    return {name: n for r, name in counts if (n := sum(r in row for row in rows))}


def lacking_part(s: Scheduler, group: Group, first: int, server: Server) -> Fraction:
    """Return the largest lacking part of the demand."""
    demand, free = s.demand(group, first), s.free(server)
    return max((Fraction(demand[r] - free[r], demand[r]) for r in short(demand, free)), default=0)


def nearest(s: Scheduler, group: Group, first: int, servers: list[Server]) -> list[str]:
    """Return the servers without room by the lacking part of the demand, the least first."""
    parts = [(lacking_part(s, group, first, x), x.order, x.name) for x in servers]
    return [name for part, _, name in sorted(parts) if part]


def try_changes(s: Scheduler, group: Group, first: int, servers: list[Server], now: float):
    """Try each change on a copy; return its kind, object, new value, and whether a task starts."""
    found = []
    for r, name in enumerate(s.resources):
        amount = fitting_amount(s, group, first, servers, r)
        if amount:
            starts = starts_if_changed(s, group, now, first, lower=(r, amount))
            found.append(("resource", name, amount * s.quanta[r], starts))
    where = group.member(first)[2]
    if isinstance(where, dict):
        for key in sorted(where):
            rest = {k: v for k, v in where.items() if k != key}
            found.append(("where", key, None, starts_if_changed(s, group, now, first, where=rest)))
    elif where is not None:
        found.append(("where", "names", None, starts_if_changed(s, group, now, first, where=None)))
    for limit in shorter_limits(s, group, now):
        starts = starts_if_changed(s, group, now, first, limit=limit)
        found.append(("limit", "time_limit", limit, starts))
    for queue in group.queue.path():
        if queue.limits or queue.task_limit < inf:
            other = copy_of(s)
            other.set_limit(queue.name)
            found.append(("queue limit", queue.name, None, starts_now(other, group.id, now)))
    for queue in group.queue.path():
        other = copy_of(s)
        weight = other.queues[queue.name].weight = queue.weight * 2 or Fraction(1)
        found.append(("weight", queue.name, weight, starts_now(other, group.id, now)))
    other = copy_of(s)
    other.set_priority(group.id, 2**62)
    found.append(("priority", group.queue.name, None, starts_now(other, group.id, now)))
    roomy = [x for x in s.servers_in_order() if x.draining and s.admits(group, first, x)]
    roomy = [x for x in roomy if not short(s.demand(group, first), s.free(x))]
    for server in sorted(roomy, key=lambda x: x.order)[:1]:
        other = copy_of(s)
        other.undrain(server.name)
        found.append(("drain", server.name, None, starts_now(other, group.id, now)))
    for like in classes(s):
        other, name = copy_of(s), f"{like.name} again"
        while name in other.servers:
            name += "x"
        amounts = zip(s.resources, like.capacity, s.quanta, strict=True)
        starts = False
        with suppress(InputError):  # more than can be counted
            other.add_server(name, {r: a * q for r, a, q in amounts}, like.labels)
            starts = starts_now(other, group.id, now)
        found.append(("server", like.name, None, starts))
    return found


def fitting_amount(s: Scheduler, group: Group, first: int, servers: list[Server], r: int) -> int:
    """Return the largest smaller demand of a resource with which the task fits somewhere; or 0.

    Under slots, the largest demand that the free slots cover.
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
    """Return the queues ahead of the group's queue, or of a queue above it, from the root down.

    Queues without a group that fits on empty servers are left out.
    """
    found = ahead_in_order(s, group, first, servers)
    return found and [name for name in found if may_start(s, s.queues[name])]


def may_start(s: Scheduler, queue: Queue) -> bool:
    """Return whether all tasks of some waiting group of a queue fit on empty servers."""
    groups = [g for g in s.groups.values() if g.n_waiting() and queue in g.queue.path()]
    return any(all(fits_empty(s, g, i) for i in g.waiting_indices()) for g in groups)


def fits_empty(s: Scheduler, group: Group, index: int) -> bool:
    demand = s.demand(group, index)
    admitted = [x for x in s.servers_in_order() if s.admits(group, index, x)]
    return any(not short(demand, s.capacity(x)) for x in admitted)


def ahead_in_order(
    s: Scheduler, group: Group, first: int, servers: list[Server]
) -> list[str] | None:
    """Return the queues ahead; scores are those on the server that lacks least of the task."""
    if s.criterion in ("fifo", "easy"):
        order = list(dict.fromkeys(g.queue.name for g in s.by_submission()))
        return order[: order.index(group.queue.name)] if group.queue.name in order else []
    if not servers:
        return None
    closest = min(servers, key=lambda x: (lacking_part(s, group, first, x), x.order))
    levels = reversed(group.queue.path())
    try:
        return [name for own in levels for name in siblings_ahead(s, group, first, own, closest)]
    except ZeroDivisionError:
        return None  # under tsf residual, if no task fits anywhere


def held_by(s: Scheduler, key: int, now: float) -> str:
    """Return the name of the reason why a group does not start."""
    group = s.groups[key]
    first = next(group.waiting_indices())
    allowed = [x for x in s.servers_in_order() if s.admits(group, first, x)]
    if not allowed:
        return "where"
    if all(short(s.demand(group, first), s.capacity(x)) for x in allowed):
        return "size"
    if never_fits(s, group, first, s.servers_in_order()):
        return "gang"
    if not s.is_within_limits(group):
        return "limit"
    if all(x.draining for x in allowed):
        return "drained"
    if not any(s.fits(group, first, x) for x in allowed):
        return "room"
    had_room = has_room(s, group)
    s.place(now)
    if not s.is_within_limits(group):
        return "limit"
    if s.criterion in ("fifo", "easy"):
        ordered = s.by_submission()
        if group not in ordered:
            return "gang"
        if ordered[0] is not group and s.criterion == "fifo":
            return "fifo"
        if ordered[0] is not group and has_room(s, group):
            return "reservation"
    elif s.strict and s.waiting_groups(group.queue)[0] is not group:
        return "strict order"
    if is_gang(group) and not had_room:
        return "gang"
    fits_somewhere = any(s.fits(group, first, x) for x in allowed)
    if s.select == "best-fit-first" and (fits_somewhere or not had_room):
        return "best server"
    return "declined" if s.oblivious and has_room(s, group) else "order"


def is_gang(group: Group) -> bool:
    """Return whether a group is a gang of more than one task."""
    return group.gang and sum(tasks for _, tasks, _ in group.members) > 1


def has_room(s: Scheduler, group: Group) -> bool:
    """Return whether the next task, or a gang, fits now; in rounds, with the first one anywhere."""
    s = copy_of(s)
    group = s.groups[group.id]
    if s.select == "rrr":
        return any(s.plan(group, x) for x in s.servers_in_order())
    return bool(s.plan(group))


def copy_of(s: Scheduler) -> Scheduler:
    return pickle.loads(pickle.dumps(s))


def starts_now(copy: Scheduler, group: float, now: float) -> bool:
    """Place tasks on a copy until one of a group starts; return whether one does."""
    while placed := copy.place(now, limit=1):
        if any(p.group == group for p in placed):
            return True
    return False


def reservation(s: Scheduler, now: float) -> tuple[Group, Reservation] | None:
    """Return the head of easy and its reservation, after tasks are placed."""
    if s.criterion != "easy":
        return None
    s = copy_of(s)
    s.place(now)
    groups = s.by_submission()
    return (groups[0], s.reservation(groups[0])) if groups else None


def reserved(s: Scheduler, now: float) -> tuple[str, float, list[str]] | None:
    """Return the reservation of easy: the queue's name, the time, and the servers in order."""
    held = reservation(s, now)
    if held is None:
        return None
    servers = {t.server.name: t.server.order for t in held[1].tasks}
    return held[0].queue.name, held[1].at, sorted(servers, key=lambda name: servers[name])


def shorter_limits(s: Scheduler, group: Group, now: float) -> list[float]:
    """Return in a list the longest time limit that ends by another group's reserved start."""
    held, now = reservation(s, now), float(now)
    if held is None or held[0].id == group.id or held[1].at == inf:
        return []
    limit = held[1].at - now
    while now + limit > held[1].at:
        limit = nextafter(limit, -inf)
    return [limit] if 0 < limit < group.limit else []


def starts_if_changed(s, group, now, first, *, lower=None, where=KEPT, limit=None) -> bool:
    """Return whether a task starts if the waiting tasks are replaced by a changed group.

    The new group is at the position of the old one. Tasks of the shape of `first` get the amount
    `lower` (resource, quanta) and the constraint `where`; all get the time limit.
    """
    s, shape = copy_of(s), group.members.index(group.member(first))
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
    s.forget_declines(anew.queue)
    return starts_now(s, anew.id, now)


def classes(s: Scheduler) -> list[Server]:
    """Return a server of each capacity and labels, those of the most common kinds first."""
    kinds: list[list[Server]] = []
    for x in s.servers_in_order():
        row = next((k for k in kinds if (k[0].capacity, k[0].labels) == (x.capacity, x.labels)), [])
        if not row:
            kinds.append(row)
        row.append(x)
    return [row[0] for row in sorted(kinds, key=lambda row: -len(row))]


def never_fits(s: Scheduler, group: Group, first: int, servers: list[Server]) -> bool:
    """Return whether empty servers lack room for a task, or for all of a gang's of one shape.

    If demands are unknown, a gang needs one server that is large enough for all of it.
    """
    waiting = list(group.waiting_indices()) if group.gang else [first]
    for index in waiting:
        alike = [i for i in waiting if group.member(i)[::2] == group.member(index)[::2]]
        fitting = [
            int(tasks_that_fit(s.demand(group, index), s.capacity(x)))
            for x in servers
            if s.admits(group, index, x)
        ]
        if sum(fitting) < len(alike):
            return True
    if not (group.gang and s.oblivious and waiting):
        return False
    total = [sum(column) for column in zip(*(s.demand(group, i) for i in waiting), strict=True)]
    return not any(
        all(t <= c for t, c in zip(total, s.capacity(x), strict=True))
        and all(s.admits(group, i, x) for i in waiting)
        for x in servers
    )


def siblings_ahead(s: Scheduler, group: Group, first: int, own: Queue, server: Server) -> list[str]:
    """Return the siblings of `own`, a queue on the group's path, that are ahead of it, in order.

    In a tree, scores are as if all first tasks could start, and no resource were saturated.
    """
    sign, scores = -1 if s.select == "best-fit-first" else 1, []
    waiting = {q: s.waiting_groups(q) for q in s.queues.values()}
    tree = {q: [(g[0], i) for i in s.next_indices(g[0])] for q, g in waiting.items() if g}
    if s.select == "rrr":
        tree = {q: sorted(tasks, key=lambda row: row[1]) for q, tasks in tree.items()}
    plans = {}
    for queue, tasks in tree.items():
        admitted = [[x for x in s.servers_in_order() if s.admits(g, i, x)] for g, i in tasks]
        rows = zip(tasks, admitted, strict=True)
        plans[queue] = [(g, i, found[0]) for (g, i), found in rows if found]
    for queue in s.children(own.parent):
        if not s.startable_leaves(queue, tree) and queue is not own:
            continue
        if s.half_life:
            score = queue.weight == 0, s.past_use_score(queue)
        elif s.is_tree():
            s.pool_server = server if s.select == "rrr" else None
            score = s.sibling_key(queue, tree, set(), plans)
            s.pool_server = None
        else:
            g = group if queue is own else waiting[queue][0]
            index = first if queue is own else next(g.waiting_indices())
            score = s.score(queue, g, index, server)
        scores.append((score, sign * queue.serial, queue.name))
    own_score = next(row for row in scores if row[2] == own.name)
    return [name for _, _, name in sorted(row for row in scores if row[:2] < own_score[:2])]
