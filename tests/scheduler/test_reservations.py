"""Reserved starts: a group starts by its reserved time, and others use the remaining amounts."""

from __future__ import annotations

from random import Random

import pytest

from fairlead.scheduler.policies import parse_policy
from fairlead.scheduler.scheduler import Placement, Scheduler
from oracles.plain_reservations import SnapshotState
from scheduler.consistency import check
from scheduler.random_life import RESOURCES, RandomLife, life_quanta, lives

POLICIES = [
    "drf/first-fit/reserve",
    "drf/best-fit/half-life:5/reserve:2",
    "drf/best-fit/residual/reserve",
    "drf/rrr/reserve:2",
    "tsf/best-fit/reserve:3",
    "ps-dsf/joint/residual/reserve:50",
    "slots:4/reserve",
]
TREES = ["drf/first-fit/reserve:2", "drf/best-fit/half-life:5/reserve"]
CPUS, GPUS, GPUS_OR_PARTS = [0, 1, 1, 2, 5, 8], [0, 0, 0, 1, 4], [0, 0.1, 0.3, 0.5, 0.6, 0.6, 1, 2]


class Crowd:
    """Random tasks that end at their limits or before, on three servers."""

    def __init__(
        self,
        policy: str,
        seed: int,
        *,
        tree: bool = False,
        strict: bool = False,
        devices: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.s = Scheduler(
            ["cpu", "gpu"],
            policy,
            {"cpu": 1, "gpu": 0.1 if devices else 1},
            seed,
            strict_fifo=strict,
            devices=["gpu"] if devices else [],
        )
        self.gpus = GPUS_OR_PARTS if devices else GPUS
        self.now = 0.0
        self.ends: dict[int, float] = {}  # of running tasks
        self.limits: dict[int, float] = {}  # time limits of groups
        self.bounds: dict[int, float] = {}  # the earliest reserved time so far of each group
        for name in "uvw":
            gpus = self.random.choice([0, 2, 4] if devices else [0, 0, 4])
            self.s.add_server(name, {"cpu": 8, "gpu": gpus}, {"gpu": str(gpus)})
        self.parents = [None, None, None]
        if tree:
            self.s.add_queue("team")
            self.parents = ["team", "team", None]
        for name, parent in zip("abc", self.parents, strict=True):
            self.s.add_queue(name, self.random.choice([0, 1, 1, 2, 3]), parent)

    def submit(self) -> None:
        choice = self.random.choice
        demand = {"cpu": choice(CPUS), "gpu": choice(self.gpus)}
        if not any(demand.values()):
            demand = {"cpu": 1}
        limit, tasks = choice([1, 2, 3, 5, 9, 12.5]), choice([1, 1, 2, 4])
        group = self.s.submit(
            choice("abc"),
            demand,
            tasks,
            priority=choice([0, 0, 1]),
            where=choice([None, None, None, ["u", "v"], {"gpu": "0"}]),
            gang=choice([True, False, False]),
            time_limit=limit,
            now=self.now,
        )
        self.limits[group] = limit

    def end_tasks(self) -> None:
        for task in [task for task, end in self.ends.items() if end <= self.now]:
            del self.ends[task]
            self.s.finish(task)

    def step(self) -> list[Placement]:
        """Let time pass, end and submit tasks, and place; return the starts."""
        self.now += self.random.choice([0, 0.5, 0.5])
        self.s.advance(self.now)
        self.end_tasks()
        for _ in range(self.random.choice([0, 0, 1, 2])):
            self.submit()
        alive = list(SnapshotState(self.s.snapshot()).groups)
        if alive and self.random.random() < 0.05:
            self.s.cancel(self.random.choice(alive))
        placed = self.s.place(self.now)
        for start in placed:
            limit = self.limits[start.group]
            part = self.random.choice([0.3, 0.8, 1, 1])
            self.ends[start.task] = self.now + limit * part
        return placed

    def check_bounds(self, started: list[Placement]) -> int:
        """Assert that no group starts after its earliest reserved time, nor is it put off.

        Return how many groups with a reserved time started.
        """
        state, due = SnapshotState(self.s.snapshot()), 0
        for group in [start.group for start in started]:
            if group in self.bounds:
                due += 1
                assert self.now <= self.bounds.pop(group)
        for group, row in state.reserved.items():
            assert row["at"] <= self.bounds.get(group, row["at"])
            self.bounds[group] = row["at"]
        waiting = [group for group, row in state.groups.items() if state.waiting(row)]
        self.bounds = {group: at for group, at in self.bounds.items() if group in waiting}
        return due


@pytest.mark.parametrize("policy", POLICIES)
def test_reservations_are_earliest_and_kept(policy: str) -> None:
    """No group starts after its reserved time, and other tasks use the remaining amounts."""
    reserved = kept = 0
    most = parse_policy(policy).reserves
    for seed in range(lives(4)):
        crowd = Crowd(policy, seed)
        for _ in range(40):
            kept += crowd.check_bounds(crowd.step())
            state = SnapshotState(crowd.s.snapshot())
            assert crowd.bounds.keys() == state.reserved.keys()
            if not policy.startswith("slots"):
                state.check_reservations(most)
            reserved += len(state.reserved)
        check(crowd.s)
    assert reserved > lives(4)
    assert kept > lives(4)


@pytest.mark.parametrize("policy", TREES)
def test_reservations_are_kept_in_trees_and_strict_order(policy: str) -> None:
    kept = 0
    for seed in range(lives(8)):
        crowd = Crowd(policy, seed, tree=seed % 4 > 0, strict=seed % 2 == 0)
        for _ in range(60):
            kept += crowd.check_bounds(crowd.step())
    assert kept > lives(8)


def test_the_queue_with_the_least_share_reserves_first() -> None:
    found = 0
    for seed in range(lives(8)):
        crowd = Crowd("drf/first-fit/reserve", seed)
        before: set[int] = set()
        for _ in range(40):
            crowd.step()
            state = SnapshotState(crowd.s.snapshot())
            new = set(state.reserved) - before
            before = set(state.reserved)
            if new and new == set(state.reserved):
                found += 1
                state.reserved = {}
                assert state.next_to_reserve() in new
    assert found > lives(8)


MIXED = [
    *("drf/best-fit/reserve:3", "drf/best-fit-first/reserve:5", "tsf/best-fit/residual/reserve:2"),
    *("ps-dsf/joint/reserve:2/spare:memory", "drf/rrr/reserve"),
    "drf/first-fit/over-share/spare:cpu",
]


@pytest.mark.parametrize("policy", MIXED)
def test_any_events_leave_consistent_tables(policy: str) -> None:
    """Random events keep the tables consistent; snapshots and `what_if` give the same starts."""
    reserved = 0
    for seed in range(lives(4)):
        s = Scheduler(RESOURCES, policy, life_quanta(seed), seed, strict_fifo=seed % 3 == 0)
        life = RandomLife(s, seed)
        for k in range(100):
            life.step()
            if k % 20 == 19:
                data = s.snapshot()
                again = Scheduler.restore(data)
                assert again.snapshot() == data
                with s.what_if():
                    asked = s.place(life.clock + 1)
                assert again.place(life.clock + 1) == asked
                assert s.snapshot() == data
                state = SnapshotState(data)
                reserved += len(state.reserved)
                for group in list(state.groups)[:2]:
                    s.explain(group)
                check(s)
                assert s.snapshot() == data
    assert reserved >= lives(4) // 4 or "reserve" not in policy


@pytest.mark.parametrize("policy", ["drf/first-fit/reserve", "drf/rrr/reserve:2"])
def test_a_limit_of_starts_holds_for_reserved_ones(policy: str) -> None:
    due = 0
    for seed in range(lives(4)):
        crowd, again = Crowd(policy, seed), Crowd(policy, seed)
        for _ in range(30):
            crowd.now = again.now = crowd.now + 1
            for each in (crowd, again):
                each.s.advance(each.now)
                each.end_tasks()
                for _ in range(2):
                    each.submit()
            with crowd.s.what_if():
                assert crowd.s.place(crowd.now, 0) == []
            at_once = crowd.s.place(crowd.now)
            one_by_one: list[int] = []
            while placed := again.s.place(again.now, 1):
                groups = {start.group for start in placed}
                assert len(groups) == 1
                assert (
                    len(placed) == 1
                    or SnapshotState(again.s.snapshot()).groups[placed[0].group]["gang"]
                )
                one_by_one += [start.group for start in placed]
            if policy.startswith("drf/first-fit"):
                assert sorted(one_by_one) == sorted(start.group for start in at_once)
            due += len(one_by_one)
            for each in (crowd, again):
                for task in SnapshotState(each.s.snapshot()).tasks:
                    each.ends.setdefault(task, each.now + 2)
    assert due > 5 * lives(4)


def test_reserved_starts_of_one_time_keep_a_limit() -> None:
    """Both groups have reservations for time 10, but ana may run one task at a time."""
    s = Scheduler(["cpu"], "drf/first-fit/reserve:2")
    s.add_server("a", {"cpu": 4})
    s.add_queue("ana")
    s.add_queue("bo")
    s.set_limit("ana", tasks=1)
    s.submit("bo", {"cpu": 4}, time_limit=10)
    (first,) = s.place(0)
    groups = [s.submit("ana", {"cpu": cpus}, time_limit=5) for cpus in (2, 1)]
    assert s.place(1) == []
    assert list(SnapshotState(s.snapshot()).reserved) == groups
    s.finish(first.task)
    assert [start.group for start in s.place(10)] == groups[:1]
    check(s)


def test_past_run_times_replace_missing_time_limits() -> None:
    s = Scheduler(["cpu"], "drf/first-fit/reserve", {"cpu": 1})
    s.add_server("u", {"cpu": 4})
    for queue in "ab":
        s.add_queue(queue)
    s.submit("a", {"cpu": 2}, 2)
    first, second = s.place(0)
    large = s.submit("b", {"cpu": 4})
    assert s.place(0) == []
    assert s.explain(large, 0).reservation is None
    s.submit("a", {"cpu": 2}, 1)
    s.advance(10)
    s.finish(first.task)  # ran for 10 s
    (third,) = s.place(10)
    assert s.explain(large, 10).reservation is None  # the second task may run without end
    s.advance(30)
    s.finish(second.task)  # ran for 30 s
    assert s.place(30) == []
    reservation = s.explain(large, 30).reservation
    assert reservation is not None
    assert (reservation.at, reservation.sure) == (30, False)  # overdue since 20
    s.finish(third.task)
    assert [start.group for start in s.place(31)] == [large]


def test_groups_on_disjoint_servers_reserve_separately() -> None:
    """Groups for CPU servers and for GPU servers get reservations; one for any server gets none."""
    s = Scheduler(["cpu"], "drf/first-fit/reserve", {"cpu": 1})
    for name, part in (("c0", "cpu"), ("c1", "cpu"), ("g0", "gpu")):
        s.add_server(name, {"cpu": 4}, {"part": part})
    for queue in ("ana", "bo", "cy"):
        s.add_queue(queue)
    s.submit("ana", {"cpu": 2}, 6, time_limit=10)
    s.place(0)
    on_cpu = s.submit("bo", {"cpu": 4}, time_limit=10, where={"part": "cpu"})
    anywhere = s.submit("bo", {"cpu": 3}, time_limit=10)
    on_gpu = s.submit("cy", {"cpu": 4}, time_limit=10, where={"part": "gpu"})
    s.place(1)
    held = {group: s.explain(group, 1).reservation for group in (on_cpu, on_gpu, anywhere)}
    reserved = {group: row and (row.group, row.at, row.servers) for group, row in held.items()}
    assert reserved == {
        on_cpu: (on_cpu, 10, ("c0",)),
        on_gpu: (on_gpu, 10, ("g0",)),
        anywhere: (on_cpu, 10, ("c0",)),  # the first reservation on servers that it may use
    }


def test_reservations_of_pinned_groups_are_limited() -> None:
    s = Scheduler(["cpu"], "drf/first-fit/reserve", {"cpu": 1})
    for number in range(40):
        s.add_server(f"n{number}", {"cpu": 1})
    for number in range(40):
        s.add_queue(f"q{number}")
        s.submit(f"q{number}", {"cpu": 1}, 2, where=[f"n{number}"], time_limit=10)
    assert len(s.place(0)) == 40
    assert len(SnapshotState(s.snapshot()).reserved) == 16


@pytest.mark.parametrize("event", ["cancel", "remove_server", "drain", "cancel_running"])
def test_a_snapshot_after_an_event_keeps_reservations(event: str) -> None:
    s = Scheduler(["cpu"], "drf/first-fit/reserve:2", {"cpu": 1})
    for name in "uv":
        s.add_server(name, {"cpu": 4})
    s.add_queue("a")
    first = s.submit("a", {"cpu": 3}, 2, time_limit=10)
    large = s.submit("a", {"cpu": 4}, 2, time_limit=5, gang=True)
    s.place(0)
    assert s.explain(large, 0).reservation is not None
    with s.what_if():
        s.cancel(large)
        s.remove_server("u")
    actions = {"cancel": (s.cancel, large), "cancel_running": (s.cancel, first)}
    actions |= {"remove_server": (s.remove_server, "u"), "drain": (s.drain, "u")}
    call, argument = actions[event]
    call(argument)
    data = s.snapshot()
    again = Scheduler.restore(data)
    assert again.snapshot() == data
    for now in (1, 12, 30):
        assert again.place(now) == s.place(now)
        assert again.snapshot() == s.snapshot()


def test_a_predicted_end_survives_a_restore() -> None:
    s = Scheduler(["cpu"], "drf/first-fit/reserve", {"cpu": 1})
    s.add_server("u", {"cpu": 2})
    s.add_queue("a")
    s.submit("a", {"cpu": 1}, 2)
    first, _ = s.place(0)
    s.advance(10)
    s.finish(first.task)
    s.submit("a", {"cpu": 1})
    s.place(10)  # the task is expected to run for 10 s, the other one of unknown length for ever
    for each in (s, Scheduler.restore(s.snapshot())):
        group = each.submit("a", {"cpu": 1})
        each.place(11)
        found = each.explain(group).reservation
        assert found is not None
        assert found.at == 20


@pytest.mark.parametrize(("now", "end"), [(0, 10), (0.7, 2.9)])  # 0.7 + (2.9 - 0.7) exceeds 2.9
def test_a_task_too_long_for_a_reservation_says_so(now: float, end: float) -> None:
    s = Scheduler(["cpu"], "drf/first-fit/reserve", {"cpu": 1})
    s.add_server("u", {"cpu": 4})
    for queue in "ab":
        s.add_queue(queue)
    s.submit("a", {"cpu": 3}, time_limit=end)
    s.place(0)
    s.submit("b", {"cpu": 4}, time_limit=10)
    s.place(now)
    long = s.submit("a", {"cpu": 1}, time_limit=11)
    found = s.explain(long, now)
    assert found.held_by == "reservation"
    (change,) = [change for change in found.would_change if change.kind == "limit"]
    assert change.starts
    assert change.to == pytest.approx(end - now, rel=1e-15)
    assert now + change.to <= end
    s.submit("a", {"cpu": 1}, time_limit=change.to)
    assert len(s.place(now)) == 1
