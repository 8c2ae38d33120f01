"""`/spare:gpu`: servers with GPUs are kept for GPU tasks, if other tasks fit elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.errors import InputError
from fairlead.scheduler.scheduler import Scheduler
from oracles.plain_reservations import SnapshotState
from scheduler.consistency import check
from scheduler.random_life import lives
from scheduler.test_reservations import Crowd

POLICIES = ["drf/best-fit", "drf/first-fit/over-share", "tsf/best-fit-first", "ps-dsf/joint"]
POLICIES += ["drf/rrr", "slots:4", "easy/best-fit", "drf/first-fit/reserve"]
USING_ALL_ROOM = ["drf/best-fit", "ps-dsf/joint", "drf/rrr"]


def may_start(state: SnapshotState, shape: dict[str, Any], name: str) -> bool:
    """Return whether the definition admits a task to a server.

    A server with GPUs does not admit a task without GPUs that fits on an admitted server without.
    """
    asked, elsewhere = shape["demand"], False
    if not state.admits(shape, name):
        return False
    for other, row in state.servers.items():
        capacity = row["capacity"]
        is_large = all(a <= c for a, c in zip(asked, capacity, strict=True))
        elsewhere |= not capacity[1] and is_large and state.admits(shape, other)
    return bool(asked[1]) or not state.servers[name]["capacity"][1] or not elsewhere


@pytest.mark.parametrize("policy", POLICIES)
def test_tasks_start_only_on_servers_that_admit_them(policy: str) -> None:
    kept_off = on_spared = 0
    for seed in range(lives(4)):
        crowd = Crowd(f"{policy}/spare:gpu", seed)
        s, choice = crowd.s, crowd.random.choice
        for _ in range(40):
            name = choice("uvw")
            choice([s.drain, s.undrain, s.undrain])(name)
            s.set_server(name, choice([None, {"cpu": 8, "gpu": choice([0, 4])}]))
            placed = crowd.step()
            state = SnapshotState(s.snapshot())
            for start in placed:
                shape = state.shape(state.groups[start.group], start.index)
                assert may_start(state, shape, start.server)
                is_spared = state.servers[start.server]["capacity"][1] > 0
                on_spared += is_spared and not shape["demand"][1]
            for group in state.groups.values():
                for index in state.waiting(group)[:1]:
                    shape = state.shape(group, index)
                    for server in state.servers:
                        fits = state.fits_now(shape["demand"], server)
                        if fits and not may_start(state, shape, server):
                            kept_off += state.admits(shape, server)
                        elif fits and not group["gang"] and policy in USING_ALL_ROOM:
                            assert not state.admits(shape, server)
        check(s)
        assert Scheduler.restore(s.snapshot()).snapshot() == s.snapshot()
    assert kept_off > 0
    assert on_spared > 0


def test_a_gpu_task_starts_although_small_tasks_wait() -> None:
    """Without /spare, small tasks take all cores of the GPU server, and a GPU task waits."""
    starts = {}
    for policy in ("drf/best-fit", "drf/best-fit/spare:gpu"):
        s = Scheduler(["cpu", "gpu"], policy)
        s.add_server("plain", {"cpu": 4})
        s.add_server("gpus", {"cpu": 4, "gpu": 2})
        for name in "ab":
            s.add_queue(name)
        small = s.submit("a", {"cpu": 1}, 8)
        s.place()
        s.submit("b", {"cpu": 1, "gpu": 1})
        starts[policy] = [start.server for start in s.place()]
    assert starts == {"drf/best-fit": [], "drf/best-fit/spare:gpu": ["gpus"]}
    found = s.explain(small)
    assert (found.held_by, found.allowed) == ("spare", 1)
    s.drain("plain")
    assert {start.server for start in s.place()} == {"gpus"}


def test_a_spared_resource_exists() -> None:
    with pytest.raises(InputError):
        Scheduler(["cpu"], "drf/best-fit/spare:gpu")
