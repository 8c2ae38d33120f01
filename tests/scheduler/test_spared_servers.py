"""`/spare:gpu`: servers with GPUs are kept for GPU tasks, if other tasks fit elsewhere."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fairlead.errors import InputError
from fairlead.scheduler.scheduler import Scheduler
from oracles.plain_reservations import SnapshotState
from scheduler.consistency import check
from scheduler.random_life import lives

POLICIES = ["drf/best-fit", "drf/first-fit/over-share", "tsf/best-fit-first", "ps-dsf/joint"]
POLICIES += ["drf/rrr", "slots:4", "easy/best-fit", "drf/first-fit/reserve"]


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
    for seed in range(lives(3)):
        random = Random(seed)
        s = Scheduler(["cpu", "gpu"], f"{policy}/spare:gpu", {"cpu": 1, "gpu": 1}, seed)
        for name in "uvwx":
            s.add_server(name, {"cpu": random.choice([4, 8]), "gpu": random.choice([0, 4])})
        for name in "ab":
            s.add_queue(name)
        running: list[int] = []
        for now in range(50):
            demand = {"cpu": random.choice([1, 2, 6]), "gpu": random.choice([0, 0, 1])}
            where = random.choice([None, None, ["u", "v"], {"zone": "z"}])
            s.submit(random.choice("ab"), demand, 2, where=where, time_limit=9, now=now)
            name = random.choice("uvwx")
            change = random.choice([s.drain, s.undrain, None, None])
            if change is not None:
                change(name)
            elif random.random() < 0.5:
                s.set_server(name, labels={"zone": random.choice("yz")})
            else:
                s.set_server(name, {"cpu": 8, "gpu": random.choice([0, 4])})
            for _ in range(min(len(running), 2)):
                s.finish(running.pop(random.randrange(len(running))))
            placed = s.place(now)
            state = SnapshotState(s.snapshot())
            for start in placed:
                group = state.groups[start.group]
                shape = state.shape(group, start.index)
                assert may_start(state, shape, start.server)
                is_spared = state.servers[start.server]["capacity"][1] > 0
                on_spared += is_spared and not shape["demand"][1]
            running += [start.task for start in placed]
            for group in state.groups.values():
                for index in state.waiting(group)[:1]:
                    shape = state.shape(group, index)
                    for server in state.servers:
                        fits = state.fits_now(shape["demand"], server)
                        if fits and not may_start(state, shape, server):
                            kept_off += state.admits(shape, server)
                        elif fits and policy in ("drf/best-fit", "ps-dsf/joint", "drf/rrr"):
                            assert not state.admits(shape, server)
            with s.what_if():
                s.drain(name)
                s.place(now)
            assert s.place(now) == []
            if now % 5 == 0:
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
