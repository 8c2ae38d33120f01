"""Parked lines of each queue in a tree by their order, to find the first that a server takes.

A server that is freed may take thousands of shapes, and be full after one task. Where that is so,
nobody is woken; per queue the first parked line is looked up that fits. The tree is a treap (Seidel
and Aragon, 1996); below each node the least demand of each resource is known, or a lower bound, so
that whatever is too large is passed over together.
"""

from __future__ import annotations

from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.scheduler.order_heaps import precedes
from fairlead.scheduler.queues import is_before, next_in_heap
from fairlead.scheduler.records import NONE, Core

# Lines are looked up where this many are parked and this few servers were freed: a look-up costs
# microseconds per server, waking and parking again as much per line whose task fits.
MANY_PARKED = 256
FEW_FRESH = 64
NOBODY = 2**63 - 1  # the least demand of none; more than any server has

# A node's children are `child`, earlier ones, and `sibling`, later ones; `before` is above it.


@inner_kernel
def _is_above(number: int, other: int) -> bool:
    """Return whether a line stands above another one in a tree: by scrambled numbers."""
    return bool(number * 2654435761 % 4294967296 < other * 2654435761 % 4294967296)


@inner_kernel
def _tighten(core: Core, number: int) -> None:
    """Take the least demands below a line from those of its children and its own."""
    node, k = core.line_node[number], core.lines[number].task_shape
    for r in range(core.least.shape[1]):
        least = core.demand[k, r]
        if node.child != NONE:
            least = min(least, core.least[node.child, r])
        if node.sibling != NONE:
            least = min(least, core.least[node.sibling, r])
        core.least[number, r] = least


@inner_kernel
def _replace(core: Core, number: int, other: int) -> None:
    """Put another line, or none, below what is above a line."""
    nodes = core.line_node
    above = nodes[number].before
    if above == NONE:
        core.queues[core.lines[number].queue].tree = other
    elif nodes[above].child == number:
        nodes[above].child = other
    else:
        nodes[above].sibling = other
    if other != NONE:
        nodes[other].before = above


@inner_kernel
def _note_least(core: Core, q: int) -> None:
    """Take a queue's least demands from its tree."""
    root = core.queues[q].tree
    for r in range(core.least.shape[1]):
        core.queue_least[q, r] = NOBODY if root == NONE else core.least[root, r]


@separate_kernel
def _lift(core: Core, number: int) -> None:
    """Swap a line with the one above it."""
    nodes = core.line_node
    above = nodes[number].before
    _replace(core, above, number)
    if nodes[above].child == number:
        between = nodes[number].sibling
        nodes[above].child, nodes[number].sibling = between, above
    else:
        between = nodes[number].child
        nodes[above].sibling, nodes[number].child = between, above
    if between != NONE:
        nodes[between].before = above
    nodes[above].before = number
    for r in range(core.least.shape[1]):
        core.least[number, r] = core.least[above, r]
    _tighten(core, above)


@separate_kernel
def add_to_tree(core: Core, number: int) -> None:
    """Put a parked line into its queue's tree, where its first group belongs."""
    nodes, k = core.line_node, core.lines[number].task_shape
    node, first = nodes[number], core.group_node[core.lines[number].first]
    node.rank, node.time, node.serial = first.rank, first.time, first.serial
    node.child = node.sibling = node.before = NONE
    above, at = NONE, core.queues[core.lines[number].queue].tree
    while at != NONE:
        above = at
        for r in range(core.least.shape[1]):
            core.least[above, r] = min(core.least[above, r], core.demand[k, r])
        at = nodes[above].child if precedes(nodes, number, above) else nodes[above].sibling
    node.before = above
    if above == NONE:
        core.queues[core.lines[number].queue].tree = number
    elif precedes(nodes, number, above):
        nodes[above].child = number
    else:
        nodes[above].sibling = number
    _tighten(core, number)
    while node.before != NONE and _is_above(number, node.before):
        _lift(core, number)
    _note_least(core, core.lines[number].queue)


@separate_kernel
def take_from_tree(core: Core, number: int) -> None:
    """Take a parked line out of its queue's tree."""
    nodes = core.line_node
    node = nodes[number]
    while min(node.child, node.sibling) != NONE:
        earlier = _is_above(node.child, node.sibling)
        _lift(core, node.child if earlier else node.sibling)
    _replace(core, number, node.child if node.child != NONE else node.sibling)
    _note_least(core, core.lines[number].queue)


@separate_kernel
def grow_trees(core: Core) -> None:
    """Put all parked lines into trees. O(L log L)."""
    numbers = core.numbers[0]
    numbers.has_trees = 1
    for q in range(numbers.queues):
        core.queues[q].tree = NONE
        _note_least(core, q)
    for number in range(numbers.lines):
        if core.lines[number].parked and core.lines[number].task_shape != NONE:
            add_to_tree(core, number)


@inner_kernel
def _may_fit(core: Core, number: int, s: int) -> bool:
    """Return whether a line, or one below it, may fit on a server."""
    if number == NONE:
        return False
    for r in range(core.free.shape[1]):  # noqa: SIM110 (numba knows no generators)
        if core.free[s, r] < core.least[number, r]:
            return False
    return True


@separate_kernel
def _first_taken(core: Core, number: int, s: int) -> int:
    """Return the first line in a tree that has a task for a server, or NONE; see its root."""
    nodes, klass = core.line_node, core.servers[s].klass
    comes_down = True
    while True:
        while comes_down and _may_fit(core, nodes[number].child, s):
            number = nodes[number].child
        k = core.lines[number].task_shape
        takes = core.may[core.shapes[k].where, klass]
        for r in range(core.free.shape[1]):
            takes &= core.free[s, r] >= core.demand[k, r]
        if takes:
            return number
        comes_down = _may_fit(core, nodes[number].sibling, s)
        if comes_down:
            number = nodes[number].sibling
            continue
        from_later = True
        while from_later:  # up again, to the next one that is later
            _tighten(core, number)
            above = nodes[number].before
            if above == NONE:
                return NONE
            from_later = nodes[above].sibling == number
            number = above


@separate_kernel
def rank_queues(core: Core) -> None:
    """Put all queues into the heap of `first_parked`. O(Q)."""
    for q in range(core.numbers[0].queues):
        core.ranked[q] = core.rank[q] = q
    for position in range(core.numbers[0].queues // 2 - 1, -1, -1):
        sink_queue(core, core.ranked[position])


@separate_kernel
def sink_queue(core: Core, q: int) -> None:
    """Move a queue whose score has risen down in that heap."""
    position, size = core.rank[q], core.numbers[0].queues
    while 2 * position + 1 < size:
        child = 2 * position + 1
        if child + 1 < size and is_before(core, core.ranked[child + 1], core.ranked[child]):
            child += 1
        least = core.ranked[child]
        if not is_before(core, least, q):
            break
        core.ranked[position], core.rank[least] = least, position
        position = child
    core.ranked[position], core.rank[q] = q, position


@separate_kernel
def first_parked(core: Core) -> int:
    """Return the parked line that is served first of those that fit on fresh servers, or NONE.

    Servers that take none are fresh no more. Below a queue that is served later than what was
    found, nobody is looked at.
    """
    numbers, best, its = core.numbers[0], NONE, NONE
    for f in range(numbers.fresh - 1, -1, -1):
        s, is_of_use = core.fresh[f], False
        position = 0 if core.servers[s].open else numbers.queues
        while position < numbers.queues:
            q = core.ranked[position]
            goes_down = its in (NONE, q) or is_before(core, q, its)
            is_of_use |= not goes_down  # perhaps
            if goes_down and _may_any_fit(core, q, s):
                number = _first_taken(core, core.queues[q].tree, s)
                if number == NONE:
                    _note_least(core, q)
                else:
                    is_of_use, goes_down = True, False
                    if q != its or precedes(core.line_node, number, best):
                        best, its = number, q
            position = next_in_heap(position, numbers.queues, goes_down)
        if not is_of_use:
            _forget_fresh(core, f)
    return best


@inner_kernel
def _may_any_fit(core: Core, q: int, s: int) -> bool:
    """Return whether a parked line of a queue may fit on a server."""
    for r in range(core.free.shape[1]):
        if core.free[s, r] < core.queue_least[q, r]:
            return False
    return bool(core.queues[q].tree != NONE)


@inner_kernel
def _forget_fresh(core: Core, f: int) -> None:
    """Have a server be fresh no more: no blocked shape fits there."""
    numbers = core.numbers[0]
    numbers.fresh -= 1
    core.servers[core.fresh[f]].fresh_in = 0
    core.fresh[f] = core.fresh[numbers.fresh]
    numbers.epoch += 1  # who was woken looks at all servers again
    for other in range(numbers.fresh):
        core.servers[core.fresh[other]].fresh_in = numbers.epoch
