"""What the scheduler knows, as one array of records per entity; amounts beside them.

Rows are numbers of servers, queues, shapes, lines, groups of tasks and running tasks. A row that is
free again is zeroed, and its generation goes up, so that an id of before does not name who has the
row now. Arrays grow by doubling; their types never change, so nothing is compiled again.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.optimize.by_address import by_address

NONE = -1
# 1; or None, and then nothing of what it stands for is compiled. `gangs`: whether there ever was
# one; `trees`: whether parked lines were ever looked up.
Switch = Any
Records = Any  # an array of records: `a[i].field` and `a["field"]` work, compiled and uncompiled

_WHOLE, _REAL, _FLAG = np.int64, np.float64, np.bool_


class Record(np.void):  # type: ignore[misc]  # numpy says so, and its own rows are one
    """A row of an array, whose fields are attributes.

    Numpy's own rows with attributes, those of a recarray, take Python six times as long.
    """

    __slots__ = ()  # a name that is no field is an error


def _attribute(field: str) -> property:
    def put(record: Record, value: Any) -> None:
        record[field] = value

    return property(itemgetter(field), put)


def record(**kinds: str) -> np.dtype[np.void]:
    """Return a type of records; each kind of number is followed by the names of its fields."""
    named = {"whole": _WHOLE, "real": _REAL, "flag": _FLAG}
    fields = [(name, named[kind]) for kind, names in kinds.items() for name in names.split()]
    for name, _ in fields:
        setattr(Record, name, _attribute(name))
    return np.dtype((Record, fields))


# One row: sizes, settings, and heads of lists. `groups`, `tasks`: rows that were ever taken; those
# that are spare again are taken first, the last one first. `heard`: gangs know what was freed
# before that moment; `lacking`: tasks of a gang, for which the buffer or the rows of tasks are too
# few; `changed`: whether servers changed otherwise than by being freed since tasks were placed;
# `news`: how often anything that did not wait came to; `taker`: the queue that is offered the
# server at hand; `revivals`: how often tasks came to wait; `openings`: how often servers opened or
# closed, and `asked`: the gang that fifo asks about: could it start on empty servers;
# `keeps_tasks`: whether tasks that run have rows; `has_gangs`: whether there ever was one;
# `has_depth`: whether any queue ever had a parent; `joined`: servers that came or went and that not
# all shapes have counted; `by_place`: whether they count for tasks that may run there only.
NUMBERS = record(
    whole="criterion strict servers shapes queues lines turn blocked parked fresh epoch freed "
    "moment started spare_group spare_task spare_tasks groups tasks has_trees woken_at spare_line "
    "watched heard lacking changed round_size round_at round_idle news taker revivals "
    "openings asked joined",
    real="now",
    flag="keeps_tasks has_gangs has_depth by_place",
)
PAIR = record(real="high low")
# `kind`: servers of one class and capacity; `fresh_in` and `freed_at`: the round and the moment in
# which it was freed last; `refused_at`: the news at which nobody took anything of it, unless it was
# freed since.
SERVER = record(
    whole="kind klass position running tasks fresh_in generation freed_at refused_at",
    flag="open there draining",
)
JOINED = record(whole="kind servers")
_LOGGED = 64  # changes, at most, before all shapes count them
# `opened`: how many of those that are there are open, where somebody asks.
KIND = record(whole="klass count opened")
# `lead`: the first resource that it takes; `pointer`: no earlier position takes it, but for servers
# freed since the moment `looked`; `parked`: lines that wait until something is freed; `able`:
# whether any open server would take one if it were empty, under fifo; `favourite`: the server that
# a blocked one waits for, `misfit` and `misfit_of` the H of that and the sum of its ratios.
# `watchers`: shapes of gangs that wait until something is freed; while there are any, no more than
# `room` tasks fit on all servers together, `counted` at that moment, `gained` since at that one;
# `kept_`: during a gang's trial.
SHAPE = record(
    whole="where lead pointer looked parked blocked_at woken_in favourite "
    "watchers watched_at room counted gained kept_pointer kept_looked",
    flag="blocked able",
    real="misfit misfit_of",
)
# `unit`: what a running task adds to its queue's score, `alone`: tasks that all servers would take,
# or its shares of them; `servers`: how many that is of; `joined`: so much of that log is in these.
UNIT = record(whole="servers joined", real="unit unit_low alone alone_low")
# `serial`: of queues with equal keys the one with the least is first. `children`: queues below it;
# of those `standing` have something to place, a heap in `below` from `segment` on, with `room`.
# `above`: the parent, where it is that one's heap that a queue takes its turn in.
QUEUE = record(
    whole="parent serial place first waiting running generation revived_at tree "
    "above children standing segment room",
    real="weight weight_low key key_low total total_low",
)
# A line: the groups of one shape in one queue; or a gang, and then the shape is NONE.
LINE = record(
    whole="queue task_shape first waiting running parked_after parked_before", flag="parked"
)
# `ended` tasks of a group have stopped and wait again; `end`: how many it has. A gang has a group
# for each of its shapes, a list by `member`, whose first one is its `gang` and names the gang's
# `own` line. `limit`: seconds for which each of its tasks runs at the most, or infinite. `able`:
# whether the gang could start on empty servers, as was `known` after that number of openings.
GROUP = record(
    whole="line waiting running fresh ended tasks generation "
    "gang member own watched_before watched_after known",
    real="limit",
    flag="over able",
)
# In lists of its server (`before`, `after`) and of its group (`older`, `newer`); `since`: when.
TASK = record(
    whole="group server index attempt started before after older newer generation",
    real="since",
    flag="runs",
)
# A node of a pairing heap, and the key it is ordered by: the least (rank, time, serial) is first.
NODE = record(whole="rank serial child sibling before", real="time")


@by_address
class Core(NamedTuple):
    """All that decides anything; S servers, Q queues, K shapes, L lines, G groups, T tasks.

    Attributes
    ----------
    numbers : (1,) NUMBERS
    servers, free, capacity : (S,) SERVER, (S, R) and (S, R) int
        Quanta on each.
    kinds, kind_capacity : (C,) KIND, (C, R) int
        Servers that are there, by class and capacity.
    server_node : (S,) NODE
        Their order, and heaps of alike servers.
    sequence : (S,) int
        Servers in order.
    shapes, units, demand, ratio : (K,) SHAPE, (K,) UNIT, (K, R) int, (K, R) PAIR
        Quanta of a task, and these over the quanta of the leading resource.
    may : (P, C) bool
        Whether a predicate holds for a class of servers.
    queues, held : (Q,) QUEUE, (Q, R) int
    lines, line_node : (L,) LINE, NODE
        Nodes of queues' heaps, or, of parked lines, of queues' trees.
    groups, group_node : (G,) GROUP, NODE
    tasks : (T,) TASK
    turn : (Q,) int
        A heap of the queues with something to place, the next one first; those without a parent.
    below : (B,) int
        Such heaps of the queues below each other one.
    joined : (64,) JOINED
        Kinds whose servers came (or went, below 0), and how many.
    blocked : (K,) int
        Shapes that fit nowhere but on fresh servers, in any order.
    fresh : (S,) int
        Servers freed since nothing fitted any more.
    freed, freed_at : (S + 1,) int
        Positions that were freed and when, both ascending; earlier ones of later positions dropped.
    least, queue_least : (L, R) and (Q, R) int
        No parked line below one in its tree has a lower demand, nor any of the queue.
    share : (R,) PAIR
        One over the pool's quanta.
    scale : (R, R) PAIR
        The pool's quanta of the row's resource over those of the column's.
    round_order : (S,) int
        Servers that the round under way visits.
    ranked, rank : (Q,) int
        While parked lines are looked up: a heap of all queues, the next one first, and where each
        is in it.
    wants : (Q / 64, R, 64) int
        In rounds, quanta of the first task of each queue, by 64 queues; 0 where other shapes of it
        wait, too, and more than there is where it takes no turn.
    rates : (Q / 64, R + 2, 64) float
        What each queue holds of what it wants, by weight; under residual tsf its share, or less, in
        place of the first. In the last two, in turn, shares of what the server in view has.
    watched : (K,) int
        Shapes of gangs that wait until something is freed, in any order.
    """

    numbers: Records
    servers: Records
    free: IntArray
    capacity: IntArray
    kinds: Records
    kind_capacity: IntArray
    server_node: Records
    sequence: IntArray
    shapes: Records
    units: Records
    demand: IntArray
    ratio: Records
    may: BoolArray
    queues: Records
    held: IntArray
    lines: Records
    line_node: Records
    groups: Records
    group_node: Records
    tasks: Records
    turn: IntArray
    blocked: IntArray
    fresh: IntArray
    freed: IntArray
    freed_at: IntArray
    least: IntArray
    queue_least: IntArray
    share: Records
    scale: Records
    round_order: IntArray
    ranked: IntArray
    rank: IntArray
    wants: IntArray
    rates: FloatArray
    watched: IntArray
    below: IntArray
    joined: Records


def records(kind: np.dtype[np.void], *size: int) -> Records:
    """Return zeroed records."""
    return np.zeros(size, dtype=kind)


def empty_core(resources: int) -> Core:
    """Return a core without servers, queues or tasks."""

    def whole(*size: int) -> IntArray:
        return np.zeros(size, dtype=np.int64)

    core = Core(
        numbers=records(NUMBERS, 1),
        servers=records(SERVER, 0),
        free=whole(0, resources),
        capacity=whole(0, resources),
        kinds=records(KIND, 0),
        kind_capacity=whole(0, resources),
        server_node=records(NODE, 0),
        sequence=whole(0),
        shapes=records(SHAPE, 0),
        units=records(UNIT, 0),
        demand=whole(0, resources),
        ratio=records(PAIR, 0, resources),
        may=np.zeros((0, 0), dtype=bool),
        queues=records(QUEUE, 0),
        held=whole(0, resources),
        lines=records(LINE, 0),
        line_node=records(NODE, 0),
        groups=records(GROUP, 0),
        group_node=records(NODE, 0),
        tasks=records(TASK, 0),
        turn=whole(0),
        blocked=whole(0),
        fresh=whole(0),
        freed=whole(1),
        freed_at=whole(1),
        least=whole(0, resources),
        queue_least=whole(0, resources),
        share=records(PAIR, resources),
        scale=records(PAIR, resources, resources),
        round_order=whole(0),
        ranked=whole(0),
        rank=whole(0),
        wants=whole(1, resources, BLOCK),
        rates=np.zeros((1, resources + 2, BLOCK)),
        watched=whole(0),
        below=whole(0),
        joined=records(JOINED, _LOGGED),
    )
    core.numbers[0].spare_group = core.numbers[0].spare_task = core.numbers[0].taker = NONE
    core.numbers[0].spare_line = core.numbers[0].asked = NONE
    core.numbers[0].epoch = 1
    core.numbers[0].keeps_tasks = True
    return core


# Arrays that grow together, and by how many they are longer than their entity.
ARRAYS = {
    "servers": ("servers", "free", "capacity", "server_node", "sequence", "fresh", "round_order"),
    "kinds": ("kinds", "kind_capacity"),
    "shapes": ("shapes", "units", "demand", "ratio", "blocked", "watched"),
    "queues": ("queues", "held", "turn", "queue_least", "ranked", "rank"),
    "lines": ("lines", "line_node", "least"),
    "groups": ("groups", "group_node"),
    "tasks": ("tasks",),
}
_BLOCKS, BLOCK = ("wants", "rates"), 64
_FEWEST = 16


def with_room(core: Core, entity: str, rows: int) -> Core:
    """Return a core whose arrays of an entity have at least `rows` rows; they double."""
    have = len(getattr(core, entity))
    if rows <= have:
        return core
    length = max(rows, 2 * have, _FEWEST)
    grown = {name: _longer(getattr(core, name), length) for name in ARRAYS[entity]}
    if entity == "servers":
        grown |= {name: _longer(getattr(core, name), length + 1) for name in ("freed", "freed_at")}
    if entity == "queues":
        grown |= {name: _longer(getattr(core, name), length // BLOCK + 1) for name in _BLOCKS}
    return core._replace(**grown)


def _longer(array: Any, length: int) -> Any:
    grown = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
