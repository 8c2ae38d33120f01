"""What always holds of the scheduler's data, asserted from plain sums and scans."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.optimize.double_double import compare
from fairlead.scheduler.backlog import Backlog
from fairlead.scheduler.policies import FIFO
from fairlead.scheduler.records import NONE, Core


def check_core(core: Core, index: Any) -> None:
    """Assert that sums are those of their parts and that every list has what it should. Slow."""
    numbers = core.numbers[0]
    there = core.sequence[: numbers.servers].tolist()
    assert core.servers["position"][there].tolist() == list(range(len(there)))
    running = np.flatnonzero(core.tasks["runs"])
    line = core.groups["line"][core.tasks["group"][running]]
    shape, queue = core.lines["task_shape"][line], core.lines["queue"][line]
    demand = core.demand.astype(object)
    for s in there:
        here = running[core.tasks["server"][running] == s]
        taken = demand[shape[core.tasks["server"][running] == s]].sum(axis=0)
        left, free = (core.capacity[s] - taken).tolist(), core.free[s].tolist()
        assert free == left, f"free amounts do not add up, server row {s}: {free}, not {left}"
        assert sorted(_list_of(core.tasks, int(core.servers[s].tasks), "after")) == here.tolist()
        assert core.servers[s].running == len(here)
    for q in range(numbers.queues):
        inside = [p for p in range(numbers.queues) if q in _up(core, p)]
        held, kept = demand[shape[np.isin(queue, inside)]].sum(axis=0), core.held[q].tolist()
        assert kept == held.tolist(), f"held does not add up, queue row {q}: {kept}, not {held}"
        assert core.queues[q].running == (queue == q).sum()
        mine = core.lines["queue"][: numbers.lines] == q
        assert core.queues[q].waiting == core.lines["waiting"][: numbers.lines][mine].sum()
        assert (core.queues[q].place != NONE) == (q in _heap(core, int(core.queues[q].above)))
        below = int((core.queues["parent"][: numbers.queues] == q).sum())
        assert core.queues[q].children == below
        assert not below or core.queues[q].first == NONE
    of_gangs = _check_gangs(core)
    spare = _list_of(core.lines, int(numbers.spare_line), "queue")
    for number in sorted(set(range(numbers.lines)) - set(spare)):
        groups = _below(core.group_node, int(core.lines[number].first))
        if core.lines[number].task_shape != NONE:
            assert (core.groups["waiting"][groups] > 0).all()
            all_groups = [*groups, *(g for g in of_gangs if core.groups[g].line == number)]
            assert core.lines[number].waiting == core.groups["waiting"][all_groups].sum()
            assert core.lines[number].running == (line == number).sum()
        in_queue = number in _below(
            core.line_node, int(core.queues[core.lines[number].queue].first)
        )
        parked = bool(core.lines[number].parked)
        assert in_queue == (bool(groups) and (not parked or bool(numbers.strict)))
        if core.lines[number].task_shape != NONE:
            assert not parked or core.shapes[core.lines[number].task_shape].blocked
    of_tasks = core.lines["task_shape"][: int(numbers.lines)] != NONE
    assert numbers.parked == (core.lines["parked"][: int(numbers.lines)] & of_tasks).sum()
    for k in np.flatnonzero(core.shapes["blocked"]).tolist():
        assert core.shapes[k].parked != NONE, "nobody waits for a blocked shape"
    for k in range(int(numbers.shapes)) if numbers.criterion == FIFO else ():
        takes = core.may[core.shapes[k].where, core.kinds["klass"]] & (core.kinds["opened"] > 0)
        takes &= (core.kind_capacity >= core.demand[k]).all(axis=1)
        assert core.shapes[k].able == takes.any(), "it is not known who could start"
        assert not (core.shapes[k].able and core.shapes[k].blocked)
    if numbers.has_trees:
        _check_trees(core)
    for above in sorted({NONE, *core.queues["above"][: numbers.queues].tolist()}):
        heap = _heap(core, above)
        assert above == NONE or (core.queues[above].place != NONE) == bool(heap)
        for position in range(1, len(heap)):
            a, b = core.queues[heap[(position - 1) // 2]], core.queues[heap[position]]
            order = compare(a.key, a.key_low, b.key, b.key_low)
            assert (order, a.serial) <= (0, b.serial), "a queue is out of turn"
    for k in range(int(numbers.shapes)) if index is None else ():
        _check_pointer(core, k)
    ahead = core.round_order[numbers.round_at : numbers.round_size].tolist()
    assert len(set(ahead)) == len(ahead), "a round visits a server twice"
    assert set(ahead) <= set(there), "a round visits a server that left"
    if index is not None:
        _check_index(core, index, there)


def _up(core: Core, q: int) -> list[int]:
    """Return a queue and all those above it."""
    return [] if q == NONE else [q, *_up(core, int(core.queues[q].parent))]


def _heap(core: Core, above: int) -> list[int]:
    """Return the heap of a queue, or of the root."""
    if above == NONE:
        return [int(q) for q in core.turn[: core.numbers[0].turn]]
    node = core.queues[above]
    return [int(q) for q in core.below[node.segment : node.segment + node.standing]]


def check_backlog(core: Core, backlog: Backlog) -> None:
    """Assert that easy knows who waits, in order, and when what runs ends at the latest. Slow."""
    state, entries, kinds = backlog.state[0], backlog.entries, backlog.kinds
    running = np.flatnonzero(core.tasks["runs"])
    end = core.tasks["since"][running] + core.groups["limit"][core.tasks["group"][running]]
    ends = sorted(zip(end[end < np.inf].tolist(), running[end < np.inf].tolist(), strict=True))
    found = backlog.ends[: state.ends]
    assert list(zip(found["end"].tolist(), found["task"].tolist(), strict=True)) == ends
    if state.stale or state.has_priorities:  # who could not be placed at all is left out
        return
    met = []
    for i, c in enumerate(backlog.met[: state.met].tolist()):
        above = entries[kinds[backlog.met[max(i - 1, 0) // 2]].first]
        first = entries[kinds[c].first]
        assert kinds[c].met_at == i
        assert (above.time, above.serial) <= (first.time, first.serial), "a kind is out of order"
        groups = _list_of(entries, int(kinds[c].first), "after")
        keys = [(entries[g].time, entries[g].serial) for g in groups]
        assert keys == sorted(keys), "a group is out of order"
        assert (entries["kind"][groups] == c).all()
        assert kinds[c].least_limit <= core.groups["limit"][groups].min()
        for g in groups:
            if c:
                gang = core.groups[g].waiting if core.groups[g].gang != NONE else 0
                assert core.lines[core.groups[g].line].task_shape == kinds[c].task_shape
                assert kinds[c].tasks == gang
        met += groups
    groups = core.groups[: core.numbers[0].groups]
    waiting = np.flatnonzero(groups["waiting"] > 0)
    gang = groups["gang"][waiting]
    assert sorted(met) == np.unique(np.where(gang == NONE, waiting, gang)).tolist()


def _check_pointer(core: Core, k: int) -> None:
    """Assert that no server takes a task that first-fit would not look at."""
    shape, n = core.shapes[k], int(core.numbers[0].freed)
    freed = core.freed[:n][core.freed_at[:n] >= shape.looked]
    begin = min([int(shape.pointer), *freed.tolist()])
    for s in core.sequence[:begin].tolist():
        may = core.servers[s].open and core.may[shape.where, core.servers[s].klass]
        assert not may or (core.free[s] < core.demand[k]).any(), "a server is passed over"


def _check_gangs(core: Core) -> list[int]:
    """Return the groups of gangs; those of a gang that is parked watch their shapes."""
    numbers, groups = core.numbers[0], core.groups
    live = set(range(numbers.groups)) - set(_list_of(groups, int(numbers.spare_group), "line"))
    found, parked = [], []
    for gang in sorted(g for g in live if groups[g].gang == g):
        members = _list_of(groups, gang, "member")
        line = core.lines[groups[gang].own]
        assert live.issuperset(members)
        assert (groups["gang"][members] == gang).all()
        assert (groups["waiting"][members] > 0).any() or (groups["running"][members] > 0).any()
        assert line.first == (gang if groups["waiting"][members].any() else NONE)
        assert (core.lines["queue"][groups["line"][members]] == line.queue).all()
        found += members
        parked += members * bool(line.parked)
    watching = []
    for k in core.watched[: numbers.watched].tolist():
        watchers = _list_of(groups, int(core.shapes[k].watchers), "watched_after")
        assert (core.lines["task_shape"][groups["line"][watchers]] == k).all()
        assert numbers.heard < numbers.moment or core.shapes[k].room >= _room_for(core, k)
        watching += watchers
    assert sorted(watching) == sorted(parked)
    return found


def _room_for(core: Core, k: int) -> int:
    """Return how many tasks of a shape open servers take, each alone."""
    tasks, demand = 0, core.demand[k]
    for s in core.sequence[: core.numbers[0].servers].tolist():
        may = core.may[core.shapes[k].where, core.servers[s].klass]
        if core.servers[s].open and may and (core.free[s] >= demand).all():
            tasks += min(f // d for f, d in zip(core.free[s], demand, strict=True) if d)
    return int(tasks)


def _check_trees(core: Core) -> None:
    numbers = core.numbers[0]
    met: list[int] = []

    def visit(number: int, above: int) -> list[int]:
        """Return the lines of a tree in its order."""
        if number == NONE:
            return []
        node = core.line_node[number]
        assert node.before == above
        earlier, later = visit(int(node.child), number), visit(int(node.sibling), number)
        below = [*earlier, number, *later]
        demand = core.demand[core.lines["task_shape"][below]]
        assert (core.least[number] <= demand.min(axis=0)).all(), "a line is overlooked"
        return below

    for q in range(int(numbers.queues)):
        lines = visit(int(core.queues[q].tree), NONE)
        demand = core.demand[core.lines["task_shape"][lines]]
        assert (core.queue_least[q] <= demand).all(), "a queue is overlooked"
        assert (core.lines["queue"][lines] == q).all()
        nodes = core.group_node[core.lines["first"][lines]]
        keys = [(node.rank, node.time, node.serial) for node in nodes]
        assert keys == sorted(keys), "a tree is out of order"
        met += lines
    of_shapes = core.lines["parked"] & (core.lines["task_shape"] != NONE)
    assert sorted(met) == np.flatnonzero(of_shapes).tolist()


def _list_of(rows: Any, row: int, link: str) -> list[int]:
    found = []
    while row != NONE:
        found.append(row)
        row = int(rows[row][link])
    return found


def _below(nodes: Any, root: int) -> list[int]:
    """Return the rows of a pairing heap, each after those above it."""
    found, ahead = [], [root] * (root != NONE)
    while ahead:
        row = ahead.pop()
        found.append(row)
        child = int(nodes[row].child)
        while child != NONE:
            keys = [(nodes[n].rank, nodes[n].time, nodes[n].serial) for n in (row, child)]
            assert keys[0] <= keys[1], "a heap is out of order"
            ahead.append(child)
            child = int(nodes[child].sibling)
    return found


def _check_index(core: Core, index: Any, there: list[int]) -> None:
    useful = {s for s in there if core.servers[s].open and (core.free[s] >= index.least).all()}
    lots = set(index.lot[list(useful)].tolist()) if useful else set()
    assert NONE not in lots, "a server is missing"
    assert all(index.lot[s] == NONE for s in there if s not in useful), "a server is left over"
    for number in lots:
        first = int(index.lots[number].first)
        members = _below(core.server_node, first)
        assert sorted(members) == sorted(s for s in useful if index.lot[s] == number)
        for s in members:
            assert core.servers[s].klass == core.servers[first].klass
            assert (core.free[s] == core.free[first]).all(), "a lot is mixed"
    met, n_buckets = [], index.first.size
    for bucket in np.flatnonzero(index.first != NONE).tolist():
        number = int(index.first[bucket])
        while number != NONE:
            met.append(number)
            assert index.lots[number].bucket == bucket
            free = core.free[index.lots[number].first]
            assert (index.most_free[:, bucket // 64] >= free).all(), "a server is overlooked"
            number = int(index.lots[number].after)
    assert sorted(met) == sorted(lots)
    filled = np.unpackbits(index.filled.view(np.uint8), bitorder="little")[:n_buckets]
    assert (filled.astype(bool) == (index.first != NONE)).all()
    words = np.unpackbits(index.filled_words.view(np.uint8), bitorder="little")
    assert (words[: index.filled.size].astype(bool) == (index.filled != 0)).all()
