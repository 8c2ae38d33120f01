"""Sets of tasks that come and go, and tasks that end; compiled."""

from __future__ import annotations

from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.scheduler.backlog import NONE, add_to_set, take_from_set
from fairlead.scheduler.placing import release
from fairlead.scheduler.queue import Queue, let_wait, rerank, withdraw
from fairlead.scheduler.ratio_index import RatioIndex
from fairlead.scheduler.state import State
from fairlead.scheduler.waking import wake


@separate_kernel
def submit_set(state: State, queue: Queue, number: int, tasks: int) -> None:
    """Have so many more tasks of a set wait."""
    kind = queue.backlog.kind[number]
    state.pending[kind] += tasks
    head = queue.gangs.head[kind]
    if not queue.gangs.is_head[head]:
        add_to_set(queue.backlog, number, tasks)
    elif queue.backlog.first_set[head] == NONE:
        add_to_set(queue.backlog, queue.gangs.set_of[head], 1)
    let_wait(state, queue, head)


@separate_kernel
def withdraw_set(state: State, queue: Queue, number: int) -> int:
    """Have no task of a set wait any more, and return how many did."""
    kind = queue.backlog.kind[number]
    head = queue.gangs.head[kind]
    if not queue.gangs.is_head[head]:
        tasks = queue.backlog.left[number]
        if tasks > 0:
            take_from_set(queue.backlog, number, tasks)
            state.pending[kind] -= tasks
            withdraw(state, queue, kind)
        return int(tasks)
    tasks = state.pending[kind]
    state.pending[kind] = 0
    if tasks > 0 and not _anything_waits(state, queue, head):
        take_from_set(queue.backlog, queue.gangs.set_of[head], 1)
        withdraw(state, queue, head)
    return int(tasks)


@inner_kernel
def _anything_waits(state: State, queue: Queue, head: int) -> bool:
    member = head
    while member != NONE:
        if state.pending[member] > 0:
            return True
        member = queue.gangs.next_member[member]
    return False


@separate_kernel
def finish_task(
    state: State, queue: Queue, index: RatioIndex, select: int, kind: int, server: int
) -> None:
    """Free what one placed task of the kind holds on the server. O(blocked R)."""
    release(state, queue, index, select, kind, server)
    rerank(state, queue, kind)
    wake(state, queue, server)
