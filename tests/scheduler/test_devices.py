"""Devices: the scheduler compared with the plain one, and rules for devices of running tasks."""

from __future__ import annotations

import pytest

from fairlead.errors import InputError
from fairlead.scheduler.scheduler import Scheduler
from scheduler.consistency import check
from scheduler.random_life import RESOURCES, VARIED_POLICIES, Both, ComparedLife, lives
from scheduler.test_reservations import Crowd

OF_SERVER = [0, 1, 2, 4]
OF_TASK = [0, 0.1, 0.3, 0.5, 0.6, 1 / 3, 0.1 + 0.2, 1, 1, 2, 3, 1.5]
SEEDS = [0, 1, 3]  # each kind of amounts but huge ones, whose quanta are whole devices


class DeviceLife(ComparedLife):
    """A life in which the first resource comes in devices."""

    def amounts(self, largest: float) -> dict[str, float]:
        amounts = super().amounts(largest)
        of = OF_SERVER if largest > 3 else OF_TASK
        return {**amounts, RESOURCES[0]: self.random.choice(of)}

    def step(self) -> None:
        super().step()
        for task in self.s.plain.running:
            assert self.s.real.devices(task) == self.s.plain.devices(task), "\n".join(self.s.log)


@pytest.mark.parametrize("policy", VARIED_POLICIES)
def test_devices_are_taken_as_defined(policy: str) -> None:
    placed = parts = 0
    for seed in range(lives(4)):
        both = Both(RESOURCES, policy, None, seed, devices=RESOURCES[:1])
        life = DeviceLife(both, 4 * seed + SEEDS[seed % 3])
        for _ in range(100):
            life.step()
            parts += any(map(len, life.s.real.devices(t) or [[]]) for t in life.s.plain.running)
        placed += len(life.tasks)
    assert placed > 0
    assert parts


def two_servers(policy: str) -> Scheduler:
    s = Scheduler(["cpu", "gpu"], policy, devices=["gpu"])
    for name in "ab":
        s.add_server(name, {"cpu": 100, "gpu": 2})
    s.add_queue("ana")
    return s


def test_fractions_of_two_devices_hold_no_task() -> None:
    s = two_servers("drf/first-fit")
    s.submit("ana", {"gpu": 0.6}, 4)
    assert len(s.place()) == 4
    waits = s.submit("ana", {"gpu": 0.5})
    assert s.place() == []
    found = s.explain(waits)
    assert found.held_by == "room"
    assert found.lacking == {"gpu on one device": 2}
    trial = next(trial for trial in found.would_change if "instead of" in trial.change)
    assert (trial.change, trial.starts) == ("it asked for 0.4 gpu instead of 0.5", True)
    whole = s.submit("ana", {"gpu": 1})
    assert s.explain(whole).lacking == {"gpu in whole devices": 2}
    assert s.place() == []


def test_an_offer_of_one_server_holds_no_gang_beyond_its_devices() -> None:
    """Three tasks of 0.6 take less than 2 GPUs, but only one fits on each GPU."""
    s = two_servers("drf/rrr/oblivious")
    groups = [s.submit("ana", {"gpu": 0.6}, tasks, gang=True) for tasks in (3, 2)]
    assert [placed.group for placed in s.place()] == [groups[1]] * 2
    assert s.explain(groups[0]).never


def test_a_task_takes_no_device_and_a_half() -> None:
    s = two_servers("drf/first-fit")
    with pytest.raises(InputError, match="a part of one device, or a whole number"):
        s.submit("ana", {"gpu": 1.5})
    with pytest.raises(InputError, match="whole number of devices, at most"):
        s.add_server("c", {"gpu": 1.5})
    with pytest.raises(InputError, match="at most 100000"):
        s.set_server("a", {"gpu": 100_001})


def test_an_empty_list_counts_no_devices() -> None:
    assert not Scheduler(["gpu"], "drf/best-fit", devices=[]).counts_devices


def test_preemption_frees_one_device() -> None:
    """Two tasks of 0.6 leave 0.8 free, but no device has 0.5 free: one of them has to stop."""
    s = Scheduler(["gpu"], "drf/first-fit/over-share", devices=["gpu"])
    s.add_server("a", {"gpu": 2})
    for queue in ("ana", "bo"):
        s.add_queue(queue)
    s.submit("ana", {"gpu": 0.6}, 3)
    first, second = s.place()
    s.submit("bo", {"gpu": 0.5})
    assert s.place() == []
    ((starts, victims),) = s.preempt()
    assert victims in ([second.task], [first.task])
    assert s.devices(starts[0].task) == s.devices(victims[0])
    check(s)


def shared_gpus(*rows: tuple[str, float, int, float]) -> Scheduler:
    """Return a server of two GPUs with tasks: queue, demand, number of the GPU, start."""
    s = Scheduler(["gpu"], "drf/first-fit/over-quota", devices=["gpu"])
    s.add_server("a", {"gpu": 2})
    for queue in ("ana", "bo", "cy"):
        s.add_queue(queue)
    for queue, demand, device, since in rows:
        s.assume(s.submit(queue, {"gpu": demand}), "a", since, devices={"gpu": [device]})
    s.set_quota("bo", {"gpu": 2})
    return s


def test_the_victim_is_on_the_device_that_gets_room() -> None:
    """The task on GPU 1 lost less work, but ana keeps one task, and its end is not enough."""
    s = shared_gpus(("ana", 0.6, 0, 0.0), ("bo", 0.6, 1, 0.0), ("ana", 0.3, 1, 5.0))
    s.set_quota("ana", {"gpu": 0.3})
    s.submit("bo", {"gpu": 0.5})
    ((starts, victims),) = s.preempt(9.0)
    assert [s._state.running[task].since for task in victims] == [0.0]
    assert s.devices(starts[0].task) == {"gpu": [0]}


def test_a_gang_shares_the_device_of_one_victim() -> None:
    """Both tasks fit on GPU 1, so the victim that the first one found on GPU 0 is not needed."""
    s = shared_gpus(("ana", 0.5, 0, 5.0), ("cy", 0.5, 0, 0.0), ("ana", 1, 1, 0.0))
    s.set_quota("cy", {"gpu": 0.5})
    s.submit("bo", {"gpu": 0.5}, 2, gang=True)
    ((starts, victims),) = s.preempt(9.0)
    assert [s.devices(task) for task in victims] == [{"gpu": [1]}]
    assert [s.devices(start.task) for start in starts] == [{"gpu": [1]}] * 2
    check(s)


def test_a_reserved_device_is_left() -> None:
    """A whole device is reserved for ana; bo's fraction takes the other, although it is emptier."""
    s = Scheduler(["gpu"], "drf/first-fit/reserve", devices=["gpu"])
    s.add_server("a", {"gpu": 2})
    for queue in ("ana", "bo"):
        s.add_queue(queue)
    s.submit("bo", {"gpu": 0.5}, time_limit=10)
    s.submit("bo", {"gpu": 0.6}, time_limit=100)
    s.place(0.0)
    group = s.submit("ana", {"gpu": 1}, time_limit=50, now=1.0)
    s.place(1.0)
    found = s.explain(group).reservation
    assert found is not None
    assert found.at == 10.0
    s.submit("bo", {"gpu": 0.3}, time_limit=50, now=1.0)
    (start,) = s.place(1.0)
    assert s.devices(start.task) == {"gpu": [1]}
    check(s)


def used_devices(s: Scheduler, gone: set[int]) -> dict[tuple[str, int], float]:
    """Return the used part of each device, by server and number, without the tasks of `gone`."""
    held: dict[tuple[str, int], float] = {}
    for id, task in s._state.running.items():
        for r, numbers in task.device_numbers().items():
            part = min(int(task.shape.given[r]), 10) / 10
            for number in numbers if id not in gone else []:
                place = task.server.name, number
                held[place] = held.get(place, 0.0) + part
    return held


@pytest.mark.parametrize("policy", ["drf/best-fit/reserve:3", "ps-dsf/joint/reserve:2"])
def test_reserved_starts_by_device_are_never_late(policy: str) -> None:
    kept = 0
    for seed in range(lives(6)):
        crowd = Crowd(policy, seed, devices=True)
        for step in range(60):
            kept += crowd.check_bounds(crowd.step())
            assert max(used_devices(crowd.s, set()).values(), default=0) < 1 + 1e-9
            if step % 6 == 0:
                data = crowd.s.snapshot()
                assert Scheduler.restore(data).snapshot() == data
        check(crowd.s)
    assert kept > lives(6)


def test_takers_get_the_devices_of_their_victims() -> None:
    preempted = 0
    for seed in range(lives(8)):
        crowd = Crowd("drf/first-fit/over-share", seed, devices=True)
        for _ in range(40):
            crowd.step()
            rounds = crowd.s.preempt(crowd.now)
            victims = [task for found in rounds for task in found.victims]
            preempted += len(victims)
            assert max(used_devices(crowd.s, set(victims)).values(), default=0) < 1 + 1e-9
            for found in rounds:
                for start in found.starts:
                    crowd.ends[start.task] = crowd.now + crowd.limits[start.group]
            for task in victims:
                crowd.ends.pop(task, None)
                if task in crowd.s._state.running:
                    crowd.s.evict(task)
            check(crowd.s)
    assert preempted > lives(8)


def test_a_server_may_shrink_below_a_reserved_device() -> None:
    s = Scheduler(["gpu"], "drf/first-fit/reserve", devices=["gpu"])
    s.add_server("a", {"gpu": 2})
    s.add_queue("ana")
    s.submit("ana", {"gpu": 1}, time_limit=10)
    s.place(0)
    group = s.submit("ana", {"gpu": 2}, time_limit=10)
    s.place(0)
    s.set_server("a", {"gpu": 1})
    again = Scheduler.restore(s.snapshot())
    for each in (s, again):
        assert each.place(1) == []
        assert each.explain(group).held_by == "size"
        each.set_server("a", {"gpu": 3})
        check(each)


@pytest.mark.parametrize(
    "devices",
    [
        *({"gpu": wrong} for wrong in ([0, 0], [1, 2, 3], [], b"ab", [100_000, 1], [0, -1], 5)),
        *({"cpu": [1]}, [0, 1], {"gpu": [0, 1], "cpu": [0]}, {"disk": [0]}),
    ],
)
def test_assumed_devices_are_checked(devices: object) -> None:
    s = two_servers("drf/first-fit")
    group = s.submit("ana", {"gpu": 2})
    before = s.snapshot()
    with pytest.raises(InputError, match="devices"):
        s.assume(group, "a", devices=devices)
    assert s.snapshot() == before
    assert s.devices(s.assume(group, "a", devices={"gpu": [1, 0]})) == {"gpu": [1, 0]}


def test_a_suggested_demand_is_of_whole_devices_or_a_part() -> None:
    """A server that lost a used GPU has 1.5 free in all, and two wholly free devices: 1 fits."""
    s = Scheduler(["gpu"], "drf/first-fit", devices=["gpu"])
    s.add_server("a", {"gpu": 3})
    s.add_queue("ana")
    s.submit("ana", {"gpu": 2})
    s.submit("ana", {"gpu": 0.5})
    first, _ = s.place()
    s.finish(first.task)
    s.set_server("a", {"gpu": 2})
    group = s.submit("ana", {"gpu": 2})
    s.place()
    trial = next(t for t in s.explain(group).would_change if "instead of" in t.change)
    assert trial.change == "it asked for 1 gpu instead of 2"
