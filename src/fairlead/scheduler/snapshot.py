"""A scheduler as bytes, and a scheduler from them: names, counters, and the rows of the core.

The bytes are those of the same events, wherever a scheduler was restored in between: what is built
anew (indexes, the inner order of heaps and lists, what no earlier server takes, spare room in
arrays; where scores relate to the task at hand, bounds on them and what was found not to fit) is
not in them and decides nothing. In order: a mark; the version and the length of the
header (8 bytes each, lowest first); the header in JSON; arrays in little-endian order; a digest.
"""

from __future__ import annotations

import json
from fractions import Fraction
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import entry_kernel
from fairlead.optimize.keyed_heap import push
from fairlead.scheduler.arguments import Predicate
from fairlead.scheduler.gang_waiting import watch
from fairlead.scheduler.offering import Filters, no_filters, with_pairs
from fairlead.scheduler.order_heaps import add_node
from fairlead.scheduler.parked_lines import grow_trees
from fairlead.scheduler.policies import AT_HAND, SUMMED
from fairlead.scheduler.queues import UNKNOWN, enqueue
from fairlead.scheduler.records import ARRAYS, NONE, Core, Switch, with_room
from fairlead.scheduler.shape_units import count_all
from fairlead.scheduler.waiting import block, list_parked, stand

MARK = b"fairlead scheduler snapshot\n"
VERSION = 5
_WORD, _DIGEST = 8, 32

# Fields and arrays that are built anew.
_LINKS = ("child", "sibling", "before")
_FIELDS = {
    "numbers": ("turn", "blocked", "parked", "fresh", "freed", "watched", "lacking"),
    "server_node": _LINKS,
    "group_node": _LINKS,
    "shapes": (
        *("pointer", "looked", "parked", "blocked_at", "watchers", "watched_at"),
        *("room", "counted", "gained", "kept_pointer", "kept_looked"),
    ),
    "queues": ("first", "tree", "standing", "segment", "room"),
    "lines": ("first", "parked_after", "parked_before"),
    "groups": ("watched_before", "watched_after"),
}
REBUILT = (
    *("line_node", "turn", "blocked", "fresh", "freed", "freed_at", "least", "queue_least"),
    *("watched", "ranked", "rank", "below", "joined", "wants", "rates"),
)
_ENTITY = {name: entity for entity, names in ARRAYS.items() for name in names}


def written(scheduler: Any) -> bytes:
    """Return a scheduler as bytes. O(rows)."""
    tables = _tables(scheduler)
    arrays = _arrays(scheduler) | {"attempts": _bounds(scheduler), "failures": _failed(scheduler)}
    if scheduler._filters is not None:
        arrays |= _declined(scheduler)
    tables["arrays"] = [[name, _fields(a.dtype), a.shape] for name, a in arrays.items()]
    header = json.dumps(tables, separators=(",", ":")).encode("ascii")
    sizes = [size.to_bytes(_WORD, "little") for size in (VERSION, len(header))]
    rows = [a.view(np.ndarray).reshape(-1).view(np.uint8).data for a in arrays.values()]
    parts: list[Any] = [MARK, *sizes, header, *rows]
    digest = sha256()
    for part in parts:
        digest.update(part)
    return b"".join([*parts, digest.digest()])


@cache
def _fields(kind: np.dtype[Any]) -> Any:
    return kind.descr


def read(make: Any, data: object) -> Any:
    """Return the scheduler that bytes are of."""
    if not isinstance(data, bytes | bytearray):
        raise InputError(f"must be bytes, not {data!r:.60}", "snapshot")
    view = memoryview(data)
    begin = len(MARK) + 2 * _WORD
    if len(view) < begin + _DIGEST or view[: len(MARK)] != MARK:
        raise InputError("is not one of a scheduler, or is cut off", "snapshot")
    version, length = np.frombuffer(view[len(MARK) : begin], dtype="<u8").tolist()
    if version != VERSION:
        raise InputError(f"is of version {version}, and this reads {VERSION}", "snapshot")
    if sha256(view[:-_DIGEST]).digest() != view[-_DIGEST:]:
        raise InputError("is damaged", "snapshot")
    tables = json.loads(bytes(view[begin : begin + length]))
    arrays, at = {}, begin + length
    for name, fields, shape in tables["arrays"]:
        kind = np.dtype([(field, code) for field, code in fields] if fields[0][0] else fields[0][1])
        array = np.frombuffer(view, dtype=kind, count=int(np.prod(shape)), offset=at)
        arrays[name] = array.reshape(shape)
        at += array.nbytes
    return _scheduler(make, tables, arrays)


# The tables beside the core


def _tables(scheduler: Any) -> dict[str, Any]:
    quanta = [[hex(q.numerator), hex(q.denominator)] for q in scheduler._quanta]
    filters, slot = scheduler._filters, scheduler._slot
    is_random = scheduler._policy.is_random
    return {
        "resources": scheduler.resources,
        "policy": scheduler.policy,
        "quanta": quanta,  # however long
        "seed": scheduler.seed,
        "strict_fifo": bool(scheduler._core.numbers[0].strict),
        "servers": scheduler._server_names,
        "spare_servers": scheduler._spare_servers,
        "queues": scheduler._queue_names,
        "spare_queues": scheduler._spare_queues,
        "predicates": [_plain(where) for where in scheduler._predicates],
        "classes": [[dict(labels), naming] for labels, naming in scheduler._classes],
        "total": scheduler._total,
        "joined": scheduler._joined,
        "added": scheduler._added,
        "serial": scheduler._serial,
        "waiting": scheduler._waiting,
        "running": scheduler._running,
        "random": scheduler._random.bit_generator.state if is_random else None,
        "refuse_seconds": None if filters is None else float(filters.seconds[0]).hex(),
        "largest": None if slot is None else sorted(slot.largest.items()),
        "is_cut": scheduler._is_cut,
    }


def _plain(where: Predicate) -> dict[str, str] | list[str] | None:
    if isinstance(where, frozenset):
        return sorted(where)
    return where if where is None else dict(where)


def _bounds(scheduler: Any) -> IntArray:
    """Return ids of groups, and how often a task of each may fail."""
    return np.array(sorted(scheduler._attempts.items()), dtype="<i8").reshape(-1, 2)


def _failed(scheduler: Any) -> IntArray:
    """Return ids of groups, which of their tasks failed, and how often."""
    found = sorted(
        (group, index, times)
        for group, failures in scheduler._failures.items()
        for index, times in failures.items()
    )
    return np.array(found, dtype="<i8").reshape(-1, 3)


def _declined(scheduler: Any) -> dict[str, Any]:
    """Return until when, and at which moment, queues declined servers; and what is due when."""
    filters = scheduler._filters
    queues, servers = len(scheduler._queue_names), len(scheduler._server_names)
    due = sorted(filters.due.item[: int(filters.due.size[0])].tolist())
    return {
        "until": filters.until[:queues, :servers].astype("<f8"),
        "moment": filters.moment[:queues, :servers].astype("<i8"),
        "due": np.array(due, dtype="<i8"),
        "due_at": filters.due.key[due].astype("<f8"),
    }


def _filters(tables: dict[str, Any], arrays: dict[str, Any]) -> Filters:
    queues, servers = arrays["until"].shape
    filters = with_pairs(no_filters(float.fromhex(tables["refuse_seconds"])), queues, servers)
    filters.until[:queues, :servers] = arrays["until"]
    filters.moment[:queues, :servers] = arrays["moment"]
    room = filters.until.shape[1]
    for s, time in zip(arrays["due"].tolist(), arrays["due_at"].tolist(), strict=True):
        push(filters.due, 0, room, s, time, 0.0)
    return filters


def _scheduler(make: Any, tables: dict[str, Any], arrays: dict[str, Any]) -> Any:
    quanta = [Fraction(int(over, 16), int(under, 16)) for over, under in tables["quanta"]]
    s = make(
        tables["resources"],
        tables["policy"],
        dict(zip(tables["resources"], quanta, strict=True)),
        tables["seed"],
        strict_fifo=tables["strict_fifo"],
    )
    s._server_names, s._queue_names = tables["servers"], tables["queues"]
    s._spare_servers, s._spare_queues = tables["spare_servers"], tables["spare_queues"]
    s._servers.update({name: row for row, name in enumerate(s._server_names) if name})
    s._queues.update({name: row for row, name in enumerate(s._queue_names) if name})
    s._joined, s._added, s._serial = tables["joined"], tables["added"], tables["serial"]
    s._waiting, s._running, s._total = tables["waiting"], tables["running"], tables["total"]
    for p, where in enumerate(tables["predicates"]):
        if isinstance(where, list):
            for name in where:
                s._naming[name] = (*s._naming.get(name, ()), p)
        is_pairs = isinstance(where, dict)
        s._predicates[tuple(sorted(where.items())) if is_pairs else where and frozenset(where)] = p
    for c, (labels, naming) in enumerate(tables["classes"]):
        s._classes[tuple(sorted(labels.items())), tuple(naming)] = c
        s._class_of.append(labels)
    s._core = _restored(s._core, arrays)
    gangs, s._trees = _switches(s._core)
    if gangs is not None:
        s._expect_gangs()
    if tables["random"] is not None:
        s._random.bit_generator.state = tables["random"]
    if tables["refuse_seconds"] is not None:
        s._filters = _filters(tables, arrays)
    if tables["largest"] is not None:
        s._slot.largest, s._is_cut = dict(tables["largest"]), tables["is_cut"]
    for q in np.flatnonzero(s._core.queues["children"]).tolist():
        s._give_room(q)
    _take_turns(s._core)
    core, numbers = s._core, s._core.numbers[0]
    classes = core.servers["klass"].tolist()
    s._labels = [
        s._class_of[c] if name else {} for name, c in zip(s._server_names, classes, strict=False)
    ]
    given = slice(len(s.resources))  # without the column of slots
    rows = zip(core.kinds["klass"].tolist(), core.kind_capacity[:, given], strict=True)
    kinds = list(rows)[: len(arrays["kinds"])]
    s._kinds.update({(c, capacity.tobytes()): n for n, (c, capacity) in enumerate(kinds)})
    columns = [column.tolist() for column in core.demand[: numbers.shapes, given].T]
    shapes = zip(
        zip(*columns, strict=True), core.shapes["where"][: numbers.shapes].tolist(), strict=True
    )
    s._shapes.update(zip(shapes, range(numbers.shapes), strict=True))
    lines = core.lines[: numbers.lines]
    pairs = zip(lines["queue"].tolist(), lines["task_shape"].tolist(), strict=True)
    s._lines.update({pair: row for row, pair in enumerate(pairs) if pair[1] != NONE})
    s._attempts.update(arrays["attempts"].tolist())
    for group, index, times in arrays["failures"].tolist():
        s._failures[group] = {**s._failures.get(group, {}), index: times}
    s._overfull = set(np.flatnonzero((core.free < 0).any(axis=1)).tolist())
    s._ensure_index()
    s._ensure_at_hand()
    return s


# The core


def _arrays(scheduler: Any) -> dict[str, Any]:
    """Return copies of the rows that were ever taken, without what is built anew."""
    core: Core = scheduler._core
    if core.numbers[0].criterion == SUMMED:
        count_all(core)
    numbers = core.numbers[0]
    taken = {entity: getattr(numbers, entity) for entity in ARRAYS if entity != "kinds"}
    taken |= {"servers": len(scheduler._server_names), "kinds": len(scheduler._kinds)}
    arrays = {}
    for name in Core._fields:
        if name not in REBUILT:
            array = getattr(core, name)
            rows = taken[_ENTITY[name]] if name in _ENTITY else len(array)
            arrays[name] = array[:rows].astype(array.dtype.newbyteorder("<"))
    arrays["sequence"] = arrays["sequence"][: numbers.servers]
    arrays["may"] = arrays["may"][: len(scheduler._predicates), : len(scheduler._classes)].copy()
    for name, fields in _FIELDS.items():
        for field in fields:
            arrays[name][field] = 0
    # Of those freed, only who is among them; of those in turn, only who is.
    shapes, servers, queues = arrays["shapes"], arrays["servers"], arrays["queues"]
    # How many rounds there were depends on the rows that there was room for.
    shapes["woken_in"] = shapes["woken_in"] == numbers.epoch
    servers["fresh_in"] = 0
    servers["fresh_in"][core.fresh[: numbers.fresh]] = arrays["numbers"]["epoch"] = 1
    queues["place"] = np.where(queues["place"] == NONE, NONE, 0)
    if numbers.criterion == AT_HAND:
        _forget_bounds(core, arrays)
    if scheduler._policy.backfills:  # who was looked at decides nothing
        arrays["groups"]["known"], arrays["groups"]["able"] = NONE, False
    return arrays


def _forget_bounds(core: Core, arrays: dict[str, Any]) -> None:
    """Have every line of tasks stand, and no score be known: who was looked at decides nothing."""
    lines, queues, shapes = arrays["lines"], arrays["queues"], arrays["shapes"]
    lines["parked"] &= lines["task_shape"] == NONE  # gangs are remembered
    shapes["blocked"] = shapes["woken_in"] = 0
    queues["key"], queues["key_low"] = UNKNOWN, 0.0
    stands = core.lines["first"][: len(lines)] != NONE
    if not core.numbers[0].strict:
        stands &= ~lines["parked"]
    queues["place"] = NONE
    queues["place"][lines["queue"][stands]] = 0
    arrays["numbers"]["news"] = 0


def _restored(core: Core, arrays: dict[str, Any]) -> Core:
    """Return a core with these rows, and all that is built anew."""
    named = {name: getattr(core, name).dtype.names for name in Core._fields if name not in REBUILT}
    if {name: a.dtype.names for name, a in arrays.items() if name in Core._fields} != named:
        raise InputError("has other fields than this version reads", "snapshot")
    for entity in ARRAYS:
        core = with_room(core, entity, len(arrays[entity]))
    core = core._replace(may=arrays["may"].astype(bool))
    for name in Core._fields:
        if name in arrays:
            getattr(core, name)[: len(arrays[name])] = arrays[name]
    _rebuild(core, *_switches(core))
    return core


def _switches(core: Core) -> tuple[Switch, Switch]:
    numbers = core.numbers[0]
    return 1 if numbers.has_gangs else None, 1 if numbers.has_trees else None


@entry_kernel
def _rebuild(core: Core, gangs: Switch, trees: Switch) -> None:
    """Build heaps and lists from what is so."""
    numbers = core.numbers[0]
    for s in range(core.servers.size):
        if core.servers[s].fresh_in == numbers.epoch:
            core.fresh[numbers.fresh] = s
            numbers.fresh += 1
    for k in range(numbers.shapes):
        core.shapes[k].parked = core.shapes[k].watchers = NONE
        if core.shapes[k].blocked:
            block(core, k)
    for q in range(numbers.queues):
        core.queues[q].first = core.queues[q].tree = NONE
    for number in range(numbers.lines):
        core.lines[number].first = NONE
    for g in range(numbers.groups):
        group, node = core.groups[g], core.group_node[g]
        if group.gang == NONE and group.waiting > 0:
            line = core.lines[group.line]
            line.first = add_node(core.group_node, line.first, g)
        elif gangs is not None and group.gang != NONE:
            node.child = node.sibling = node.before = NONE
            line = core.lines[group.own]
            if group.waiting > 0:
                line.first = group.gang
            if group.gang == g and line.parked:
                watch(core, g)
    for number in range(numbers.lines):
        line = core.lines[number]
        if line.parked and line.task_shape != NONE:
            list_parked(core, number)
        if line.first != NONE and (not line.parked or numbers.strict):
            stand(core, number)
    if trees is not None and numbers.has_trees:
        grow_trees(core)


@entry_kernel
def _take_turns(core: Core) -> None:
    """Have those queues take their turns that did."""
    for q in range(core.numbers[0].queues):
        if core.queues[q].place != NONE:
            core.queues[q].place = NONE
            if core.queues[q].children == 0:
                enqueue(core, q)
