"""Assertions that all tables of a scheduler agree. O(all tables)."""

from __future__ import annotations

from fairlead.scheduler._entities import Gang, Queue, has_room, limit_reached, path_of
from fairlead.scheduler._state import State
from fairlead.scheduler.criteria.fifo import SubmissionTime
from fairlead.scheduler.scheduler import Scheduler
from oracles import plain_scheduler


def check(scheduler: Scheduler | plain_scheduler.Scheduler) -> None:
    """Assert that a scheduler is consistent, and equals the one restored from its snapshot."""
    if isinstance(scheduler, plain_scheduler.Scheduler):
        scheduler.check()
        return
    check_state(scheduler._state, Scheduler.restore(scheduler.snapshot())._state)


def check_state(state: State, restored: State) -> None:
    """Assert that a state is consistent, and equals the state restored from its snapshot."""
    for name, server in state.servers.items():
        other = restored.servers[name]
        # A server that shrank may still have columns of its former devices.
        width = len(server.capacity)
        assert list(server.free[:width]) == list(other.free[:width])
        assert server.running == other.running
        assert server.is_freed == (server in state.freed.servers)
        given = [task.shape.given for task in state.running.values() if task.server is server]
        resources = range(int(state.counting.resources))
        assert state.held_on(server) == [sum([int(row[r]) for row in given]) for r in resources]
    assert state.stopping.keys() == restored.stopping.keys()
    assert all(state.running[id] is task for id, task in state.stopping.items())
    assert state.first_new_id == restored.first_new_id
    for group in state.groups.values():
        assert group.waiting > 0 or group.tasks
        assert group.waiting == restored.groups[group.id].waiting
    assert state.shapes.keys() == {shape.key for g in state.groups.values() for shape in g.shapes()}
    assert state.gangs_parked.keys() == restored.gangs_parked.keys()
    assert (
        state.number_of_quotas
        == restored.number_of_quotas
        == sum([len(q.quotas) for q in state.queues.values()])
    )
    check_queue(state, state.root, restored.root)
    for name, queue in state.queues.items():
        check_queue(state, queue, restored.queues[name])
        check_waiting_lists(state, queue)


def check_queue(state: State, queue: Queue, restored: Queue) -> None:
    """Assert that a queue is consistent with the queues below it, and equals the restored one."""
    assert list(queue.held) == list(restored.held)
    assert (queue.waiting, queue.running) == (restored.waiting, restored.running)
    assert (queue.children, queue.priorities) == (restored.children, restored.priorities)
    assert (queue.limit is None) == (restored.limit is None)
    assert queue.is_limited == any(above.limit is not None for above in path_of(queue))
    for quota, other in zip(queue.quotas, restored.quotas, strict=True):
        assert quota.constraint.key == other.constraint.key
        assert list(quota.amounts) == list(other.amounts)
        assert list(quota.held) == list(other.held)
    assert queue.ranks == sorted(queue.ranks)
    assert queue.ranks == [other.rank for other in queue.ranked]
    assert queue.rank is None or queue.waiting > 0
    if not state.is_stale and queue.parent is not None:
        assert queue.score == state.criterion.score(queue)


def check_waiting_lists(state: State, queue: Queue) -> None:
    """Assert that parked waiting lists have room on freed servers only, and others are active."""
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
            first = waiting_list.first()
            assert first is not None
            assert first.order <= group.order
            is_parked = waiting_list.row >= 0 or waiting_list in oversized
            if waiting_list.is_held_back and waiting_list.active_order is None:
                assert limit_reached(first) or queue.may_resume
                is_parked = True
            if not is_parked and not (isinstance(group, Gang) and group.is_parked):
                assert waiting_list.active_order is not None
                assert waiting_list.active_order <= first.order
                assert (waiting_list.active_order, waiting_list) in queue.active
