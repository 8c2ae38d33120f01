"""What always holds between events of what is kept of waiting tasks."""

from __future__ import annotations

import numpy as np

from fairlead.scheduler.backlog import NONE
from fairlead.scheduler.queue import Queue
from fairlead.scheduler.state import State


def check_backlog(state: State, queue: Queue) -> None:
    """Assert that everything that waits is in one place, in order. Slow."""
    _check_kinds(state, queue)
    backlog = queue.backlog
    for user, first in enumerate(backlog.first_kind.tolist()):
        line, kind = [], first
        while kind != NONE:
            assert state.owner[kind] == user, "a kind waits in another's line"
            line.append(int(backlog.first_set[kind]))
            kind = int(backlog.next_kind[kind])
        assert line == sorted(line), "kinds wait in a wrong order"
        is_blocked = queue.strict and first != NONE and backlog.is_blocked[first]
        in_heap = queue.heaps.place[user] >= 0
        assert in_heap == (bool(line) and not is_blocked), "a user is wrongly in the heap or not"
    for user in range(len(backlog.first_blocked)):
        _check_blocked(state, queue, user)
    owners = backlog.blocked_owner[: backlog.n_blocked_owners[0]].tolist()
    assert [backlog.place_in_owners[user] for user in owners] == list(range(len(owners)))
    failed = queue.gangs.failed[: queue.gangs.n_failed[0]].tolist()
    assert sorted(failed) == queue.gangs.has_failed.nonzero()[0].tolist(), "gangs that failed"


def _check_blocked(state: State, queue: Queue, user: int) -> None:
    backlog, kinds = queue.backlog, []
    kind = int(backlog.first_blocked[user])
    while kind != NONE:
        assert state.owner[kind] == user, "a kind is among another's blocked ones"
        kinds.append(kind)
        kind = int(backlog.next_blocked[kind])
    assert sorted(kinds) == np.flatnonzero(backlog.is_blocked & (state.owner == user)).tolist()
    assert (backlog.place_in_owners[user] != NONE) == bool(kinds), "an owner is overlooked"
    for kind in kinds:
        enough = backlog.least_blocked[user] <= state.demand[kind]
        assert enough.all() or queue.gangs.is_head[kind], "a blocked kind would be passed over"


def _check_kinds(state: State, queue: Queue) -> None:
    backlog, gangs = queue.backlog, queue.gangs
    for kind, pending in enumerate(state.pending.tolist()):
        head = int(gangs.head[kind])
        left = int(backlog.left[backlog.kind == kind].sum())
        if not gangs.is_head[head]:
            assert left == pending, "sets do not add up to what waits"
        elif head == kind:
            waiting = state.pending[gangs.head == head].sum() > 0
            assert left == int(waiting), "a gang does not wait as its tasks do"
        else:
            assert left == 0, "a gang waits in more than one place"
        is_blocked = bool(backlog.is_blocked[kind])
        in_line = bool(backlog.waiting[kind])
        assert (left > 0) == (is_blocked or in_line), "a kind is nowhere"
        assert queue.strict or not (is_blocked and in_line), "a kind is in two places"
