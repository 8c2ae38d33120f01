"""What always holds of what is kept for scores with a task at hand, from plain sums and scans."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fairlead.scheduler.records import NONE, Core

# Keys are right to a few units in the last place of 1e-13.
CLOSE = Fraction(1, 10**12)


def check_at_hand(core: Core, index: Any, at_hand: Any) -> None:
    """Assert that sums and bounds are those of what is so, and that no score is below its key."""
    there = core.sequence[: core.numbers[0].servers].tolist()
    left = np.maximum(core.free[there], 0).astype(object)
    watch = at_hand.watch
    for s in range(len(watch.first)):
        q, before = int(watch.first[s]), NONE
        while q != NONE:
            assert (watch.server[q], watch.before[q]) == (s, before), "a list is broken"
            before, q = q, int(watch.after[q])
    if at_hand.shares is not None:
        assert (at_hand.shares.free[0] == left.sum(axis=0)).all(), "the pool does not add up"
    if at_hand.tree is not None and not at_hand.tree.stale[0]:
        _check_tree(core, at_hand, there)
    if at_hand.rooms is not None:
        _check_rooms(core, at_hand, left)
    if not at_hand.n_freed[0] and not (at_hand.rooms is not None and at_hand.rooms.rises[0]):
        for q in core.turn[: core.numbers[0].turn].tolist():
            _check_key(core, index, at_hand, left, q)


def _check_tree(core: Core, at_hand: Any, there: list[int]) -> None:
    tree = at_hand.tree
    leaves = len(tree.server)
    assert sorted(tree.server[: len(there)].tolist()) == sorted(there)
    for s in there:
        free = core.free[s] if core.servers[s].open else np.full(core.free.shape[1], NONE)
        assert (tree.most[leaves + tree.leaf[s]] == free).all()
    for node in range(1, leaves):
        below = np.maximum(tree.most[2 * node], tree.most[2 * node + 1])
        assert (tree.most[node] == below).all(), "a server is overlooked"


def _check_rooms(core: Core, at_hand: Any, left: Any) -> None:
    rooms = at_hand.rooms
    for k in np.flatnonzero(rooms.seen >= 0).tolist():
        demand = core.demand[k].tolist()
        total = sum((_room(row, demand) for row in left), Fraction(0))
        if k < len(rooms.about):
            off = abs(total - Fraction(float(rooms.about[k])))
            assert off <= Fraction(float(rooms.doubt[k])) * (1 + CLOSE), "a bound does not hold"
        if rooms.seen[k] < rooms.changes[0]:
            continue
        amounts = zip(rooms.least[k], demand, strict=True)
        found = sum((Fraction(int(a), d) for a, d in amounts if d), Fraction(0))
        assert found == total, "tasks that fit do not add up"


def _room(amounts: Any, demand: list[int]) -> Fraction:
    return min(Fraction(int(a), d) for a, d in zip(amounts, demand, strict=True) if d)


def _check_key(core: Core, index: Any, at_hand: Any, left: Any, q: int) -> None:
    """Assert that a queue's key is no more than its score with its first task that fits."""
    queue = core.queues[q]
    k = int(core.lines[queue.first].task_shape)
    if queue.key < 0.0 or at_hand.shares is not None or k == NONE:
        return
    demand, held = core.demand[k].tolist(), core.held[q].tolist()
    wanted = [r for r, d in enumerate(demand) if d]
    if at_hand.rooms is not None:
        over = sum(_room(row, demand) for row in left)
        scores = [max(Fraction(held[r], demand[r]) for r in wanted) / over] if over else []
    else:
        amounts = core.capacity if index is None else core.free
        scores = [
            max(Fraction(held[r], int(amounts[s, r])) for r in wanted)
            for s in core.sequence[: core.numbers[0].servers]
            if core.servers[s].open
            and core.may[core.shapes[k].where, core.servers[s].klass]
            and (core.free[s] >= core.demand[k]).all()
        ]
    weight = Fraction(float(queue.weight)) + Fraction(float(queue.weight_low))
    key = Fraction(float(queue.key)) + Fraction(float(queue.key_low))
    least = min(scores, default=key * weight) / weight
    assert key <= least * (1 + CLOSE), "a queue would come too late"
