"""Which blocked kinds of tasks are looked at again when servers are freed; compiled.

Blocked kinds are woken owner by owner when it would be the owner's turn: most often the freed
server is full by then, and an owner of whom nothing can fit is passed over by the least that its
kinds take. A round ends when nothing fits any more.
"""

from __future__ import annotations

from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.optimize.double_double import compare
from fairlead.optimize.keyed_heap import Heaps
from fairlead.scheduler.backlog import NONE
from fairlead.scheduler.freed import note_freed
from fairlead.scheduler.queue import Queue, forget_least, let_wait, note_least
from fairlead.scheduler.state import State, may_take


@inner_kernel
def is_woken(queue: Queue, kind: int) -> bool:
    """Return whether the kind fits on no servers but the fresh ones."""
    return bool(queue.woken_in[kind] == queue.round[0])


@inner_kernel
def end_round(queue: Queue) -> None:
    """Forget what was kept while things fitted."""
    queue.n_fresh[0] = queue.n_counted[0] = 0
    queue.round[0] += 1


@inner_kernel
def wake(state: State, queue: Queue, server: int) -> None:
    """Take in that a server has more free now. O(gangs that failed)."""
    note_freed(queue.freed, server)
    queue.frees[0] += 1
    if queue.fresh_in[server] != queue.round[0]:
        queue.fresh_in[server] = queue.round[0]
        queue.fresh[queue.n_fresh[0]] = server
        queue.n_fresh[0] += 1
    _hearten_gangs(state, queue, server)


@inner_kernel
def wake_before(state: State, queue: Queue) -> None:
    """Wake the blocked kinds of all owners whose turn would be before that of the heap's first.

    O(blocked owners) for each owner of whom something could fit, and its blocked kinds.
    """
    heaps, backlog = queue.heaps, queue.backlog
    while queue.n_fresh[0] > 0:
        chosen, k = int(-1), backlog.n_blocked_owners[0] - 1  # noqa: RUF046, UP018
        while k >= 0:
            owner = backlog.blocked_owner[k]
            k -= 1
            if queue.seen_frees[owner] == queue.frees[0]:
                continue
            if not _may_fit(state, queue, owner):
                queue.seen_frees[owner] = queue.frees[0]
            elif chosen == NONE or _is_before(heaps, owner, chosen):
                chosen = owner
        if chosen == NONE:
            return
        if heaps.size[0] > 0:
            first = heaps.item[0]
            if first != chosen and _is_before(heaps, first, chosen):
                return
        wake_owner(state, queue, chosen)


@inner_kernel
def wake_all(state: State, queue: Queue) -> None:
    """Wake the blocked kinds of which a task fits on a fresh server. O(blocked kinds R)."""
    if queue.n_fresh[0] == 0:
        return
    for owner in range(state.placed_by.size):
        if queue.seen_frees[owner] != queue.frees[0] and _may_fit(state, queue, owner):
            wake_owner(state, queue, owner)


@inner_kernel
def _is_before(heaps: Heaps, owner: int, other: int) -> bool:
    order = compare(heaps.key[owner], heaps.key_low[owner], heaps.key[other], heaps.key_low[other])
    return order < 0 or (order == 0 and owner < other)


@inner_kernel
def _may_fit(state: State, queue: Queue, owner: int) -> bool:
    """Return whether a task of a blocked kind of the owner might fit on a fresh server."""
    least = queue.backlog.least_blocked
    for k in range(queue.n_fresh[0]):
        server, enough = queue.fresh[k], True
        for r in range(least.shape[1]):
            enough &= state.free[server, r] >= least[owner, r]
        if enough:
            return True
    return False


@separate_kernel
def wake_owner(state: State, queue: Queue, owner: int) -> None:
    """Wake the owner's blocked kinds of which a task fits on a fresh server."""
    queue.seen_frees[owner] = queue.frees[0]
    forget_least(queue, owner)
    kind = queue.backlog.first_blocked[owner]
    while kind != NONE:
        following = queue.backlog.next_blocked[kind]
        if queue.gangs.is_head[kind]:
            if not queue.gangs.has_failed[kind]:
                let_wait(state, queue, kind)
        elif _fits_on_fresh(state, queue, kind):
            queue.woken_in[kind] = queue.round[0]
            let_wait(state, queue, kind)
        else:
            note_least(state, queue, owner, kind)
        kind = following


@inner_kernel
def _fits_on_fresh(state: State, queue: Queue, kind: int) -> bool:
    for k in range(queue.n_fresh[0]):  # noqa: SIM110 (numba knows no generators)
        if may_take(state, kind, queue.fresh[k]):
            return True
    return False


@inner_kernel
def _hearten_gangs(state: State, queue: Queue, server: int) -> None:
    """Have gangs that failed be tried again if the server takes one of their waiting tasks."""
    gangs = queue.gangs
    k = gangs.n_failed[0] - 1
    while k >= 0:
        member = gangs.failed[k]
        while member != NONE:
            if state.pending[member] > 0 and may_take(state, member, server):
                head = gangs.failed[k]
                gangs.has_failed[head] = False
                for r in range(state.free.shape[1]):  # so that its owner is looked at
                    queue.backlog.least_blocked[state.owner[head], r] = 0
                gangs.n_failed[0] -= 1
                gangs.failed[k] = gangs.failed[gangs.n_failed[0]]
                break
            member = gangs.next_member[member]
        k -= 1
