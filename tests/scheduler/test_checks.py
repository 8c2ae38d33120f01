"""`Scheduler.check` notices wrong tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlead.scheduler._state import State
from fairlead.scheduler.scheduler import Scheduler


def free(state: State) -> None:
    state.servers["a"].free[0] += 1


def held(state: State) -> None:
    state.queues["ana"].held[1] -= 1


def waiting(state: State) -> None:
    state.queues["ana"].waiting += 1


def running(state: State) -> None:
    state.servers["a"].running -= 1


def fresh(state: State) -> None:
    next(iter(state.groups.values())).fresh += 1


def score(state: State) -> None:
    state.queues["ana"].score += 1


def turns(state: State) -> None:
    state.root.ranks.clear()


@pytest.mark.parametrize("spoil", [free, held, waiting, running, fresh, score, turns])
def test_a_wrong_table_is_noticed(spoil: Callable[[State], None]) -> None:
    s = Scheduler(["cpu", "memory"], "drf/first-fit")
    for name in "ab":
        s.add_server(name, {"cpu": 4, "memory": 3})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 2, "memory": 1}, tasks=9)
    assert len(s.place()) == 4
    s.check()
    spoil(s._state)
    with pytest.raises(AssertionError):
        s.check()
