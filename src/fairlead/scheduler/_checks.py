"""Assertions that all tables of a scheduler agree; for tests and debugging. O(everything)."""

from __future__ import annotations

from fairlead.scheduler._entities import Gang, Queue, Server, has_room
from fairlead.scheduler._state import State
from fairlead.scheduler.criteria.fifo import SubmissionTime


def check_state(state: State) -> None:
    for server in state.servers.values():
        check_server(state, server)
    for task in state.running.values():
        assert (task.group.tasks or {})[task.id] is task
        assert state.groups[task.group.id] is task.group
    check_held(state)
    waiting: dict[str, int] = {}
    for group in state.groups.values():
        queue = group.waiting_list.queue
        assert group.waiting > 0 or group.tasks
        waiting[queue.name] = waiting.get(queue.name, 0) + int(group.waiting)
        check_place_in_queue(state, group.waiting_list.queue)
    for queue in [state.root, *state.queues.values()]:
        check_queue(state, queue, waiting)
    for shape in state.shapes.values():
        assert shape.groups > 0
    for gang in state.gangs_parked.values():
        assert gang.is_parked
        assert gang.waiting_list.queue.gangs_parked[gang.id] is gang


def check_server(state: State, server: Server) -> None:
    held = [0] * int(state.width)
    for task in state.running_on(server):
        for r, amount in enumerate(task.shape.demand):
            held[r] += amount
    assert server.running == len(state.running_on(server))
    for r in range(state.width):
        assert server.free[r] == server.capacity[r] - held[r]
    assert server.is_freed == (server in state.freed.servers)


def check_held(state: State) -> None:
    held = {queue.name: [0] * int(state.width) for queue in state.queues.values()}
    for task in state.running.values():
        queue: Queue | None = task.group.waiting_list.queue
        while queue is not None and queue.parent is not None:
            for r, amount in enumerate(task.shape.demand):
                held[queue.name][r] += amount
            queue = queue.parent
    for name, amounts in held.items():
        assert list(state.queues[name].held) == amounts


def check_queue(state: State, queue: Queue, waiting: dict[str, int]) -> None:
    """Assert that a queue counts its tasks, and has its rank."""
    below = [other for other in state.queues.values() if other.parent is queue]
    assert queue.children == len(below)
    if below or queue.parent is None:
        assert queue.waiting == sum([int(other.waiting) for other in below])
        assert queue.running == sum([int(other.running) for other in below])
        assert len(queue.ranks) == len([other for other in below if other.rank is not None])
        assert queue.ranks == sorted(queue.ranks)
        assert queue.ranks == [other.rank for other in queue.ranked]
    else:
        assert queue.waiting == waiting.get(queue.name, 0)
    assert queue.rank is None or queue.waiting > 0
    if not state.is_stale and queue.parent is not None:
        assert queue.score == state.criterion.score(queue)


def check_place_in_queue(state: State, queue: Queue) -> None:
    """Assert that parked waiting lists have room on freed servers alone, and others are active."""
    for row, waiting_list in enumerate(queue.parked):
        assert waiting_list.row == row
        assert waiting_list.shape is not None
        for server in state.servers.values():
            assert server.is_freed or not has_room(server, waiting_list.shape)
    criterion = state.criterion
    oversized = criterion.oversized if isinstance(criterion, SubmissionTime) else []
    for group in state.groups.values():
        waiting_list = group.waiting_list
        if waiting_list.queue is queue and group.waiting > 0:
            assert group.is_listed
            is_parked = waiting_list.row >= 0 or waiting_list in oversized
            if isinstance(group, Gang):
                is_parked = is_parked or group.is_parked
            first = waiting_list.first()
            assert first is not None
            assert first.order <= group.order
            if not is_parked:
                assert waiting_list.active_order is not None
                assert waiting_list.active_order <= first.order
                assert (waiting_list.active_order, waiting_list) in queue.active
