"""Preemption: its rules and its end in random lives, and worked examples."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.scheduler.scheduler import Scheduler
from oracles.plain_preemption import PlainRound
from scheduler.consistency import check
from scheduler.random_life import Both, ComparedLife, life_quanta, lives
from scheduler.test_trees import LifeInATree

POLICIES = ["drf/first-fit/over-share", "drf/best-fit/over-quota", "slots:3/over-share"]
POLICIES += ["drf/best-fit/over-share:0.75"]


class BothPreempting(Both):
    """Checks rounds of preemption, and records the tasks that started since the last change."""

    def call(self, event: str, *arguments: Any, **options: Any) -> Any:
        plain, before = self.plain, set(self.plain.running)
        drained = [s.draining for s in plain.servers.values()]
        got = super().call(event, *arguments, **options)
        gone = before - set(plain.running)
        is_end_of_victims = bool(gone) and gone <= plain.stopping
        plain.stopping -= gone
        if event == "place":
            plain.fresh |= {placement.task for placement in got}
        elif event in ("drain", "undrain") and drained == [
            s.draining for s in plain.servers.values()
        ]:
            pass
        elif event not in ("finish", "fail", "evict") or not is_end_of_victims:
            plain.fresh = set()
        return got

    def preempt(self, now: float, limit: int | None) -> list[int]:
        """Run a round, check it, and return the tasks to stop."""
        self.log.append(f"s.preempt({now}, {limit})")
        found = self.real.preempt(now, limit)
        self.plain.now = self.plain.now.__class__(now)
        plain = PlainRound(self.plain)
        try:
            plain.follow(found, is_complete=limit is None)
        except AssertionError as fault:
            raise AssertionError("\n".join([*self.log, str(found)])) from fault
        check(self.real)
        self.seen["preempted"] += len(found)
        self.seen["victims"] += sum(len(each.victims) for each in found)
        self.seen["gangs"] += sum(len(each.starts) > 1 for each in found)
        return [task for each in found for task in each.victims]


class PreemptingLife(ComparedLife):
    """A life with crowds, and rounds of preemption; victims are stopped at once or later."""

    def on_preempt(self) -> None:
        """Fill servers, let others wait, and run rounds; without arrivals they come to an end."""
        choice = self.random.choice
        for most in (20, 3, 3):
            with suppress(InputError, RefusalError):
                self.on_set_quota()
            with suppress(InputError):
                self.submit_up_to(most)
            self.clock += choice([0, 0.5, 1])
            self.s.place(self.clock)
        stopped: set[tuple[int, int]] = set()
        while victims := self.s.preempt(self.clock, choice([None, None, 1])):
            tasks = [self.s.plain.running[task] for task in victims]
            stopped_now = {(task.group.id, task.index) for task in tasks}
            assert not stopped & stopped_now
            stopped |= stopped_now
            self.tasks += self.s.real._state.running  # takers, too
            if self.random.random() < 0.3:
                break
            for task in victims:
                if task in self.s.plain.running:
                    self.s.evict(task)
            self.clock += choice([0, 1])
            self.s.place(self.clock)

    def submit_up_to(self, most: int) -> None:
        """Submit some tasks to one of a few queues, a few of them perhaps as a gang."""
        choice = self.random.choice
        gang = most < 9 and choice([True, False])
        options = {"where": choice([None, None, {"zone": "x"}]), "priority": choice([0, 0, 1])}
        tasks, demand = self.random.randint(1 + gang, most), self.amounts(1 if gang else 2)
        queue = self.name("npqr")
        self.groups.append(
            self.s.submit(queue, demand, tasks, gang=gang, now=self.clock, **options)
        )

    def on_explain(self) -> None:
        """Explain a group, which tries a round of preemption and undoes it."""
        before = self.s.real.snapshot()
        with suppress(InputError):
            self.s.real.explain(self.a_group(), self.clock)
        assert self.s.real.snapshot() == before
        check(self.s.real)

    on_preempt_again = on_preempt
    on_preempt_more = on_preempt


class PreemptingLifeInATree(LifeInATree, PreemptingLife):
    """A life in which teams, and members of teams, take from each other."""


@pytest.mark.parametrize("kind", [PreemptingLife, PreemptingLifeInATree])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_rules_hold_in_random_lives(policy: str, kind: type[PreemptingLife]) -> None:
    seen: Counter[str] = Counter()
    for seed in range(lives(10)):
        both = BothPreempting(
            ["cpu", "memory"], policy, life_quanta(seed), strict_fifo=seed % 4 == 3
        )
        life = kind(both, seed)
        for _ in range(120):
            life.step()
        seen += both.seen
    assert seen["preempted"] >= 2


def lab(policy: str = "drf/first-fit/over-share", servers: int = 1, gpus: int = 4) -> Scheduler:
    s = Scheduler(["gpu"], policy)
    for k in range(servers):
        s.add_server(f"s{k}", {"gpu": gpus})
    for name in ("ana", "bo", "cy"):
        s.add_queue(name)
    return s


def taken(s: Scheduler, now: float = 0.0) -> list[str]:
    """Return the queues of the tasks that a round stops, and stop them."""
    queues = []
    for starts, victims in s.preempt(now):
        assert starts
        for victim in victims:
            if victim in s._state.running:
                queues.append(s._state.running[victim].group.waiting_list.queue.name)
                s.evict(victim)
    check(s)
    return queues


def running(s: Scheduler) -> Counter[str]:
    return Counter(task.group.waiting_list.queue.name for task in s._state.running.values())


@pytest.mark.parametrize(
    "policy", ["drf/first-fit/over-share", "drf/best-fit/over-share", "slots:4/over-share"]
)
def test_a_queue_that_is_due_half_gets_half(policy: str) -> None:
    s = lab(policy, servers=2)
    s.submit("ana", {"gpu": 1}, 20)
    s.place()
    s.submit("bo", {"gpu": 1}, 20)
    assert taken(s) == ["ana"] * 4
    assert running(s) == {"ana": 4, "bo": 4}
    s.submit("cy", {"gpu": 1}, 20)
    assert sorted(taken(s)) == ["ana", "bo"]
    assert running(s) == {"ana": 3, "bo": 3, "cy": 2}


def test_a_queue_within_its_quota_takes_and_loses_nothing() -> None:
    for policy in ("drf/best-fit/over-quota", "drf/best-fit/over-share"):
        s = lab(policy, gpus=8)
        s.set_quota("bo", {"gpu": 6})
        s.submit("ana", {"gpu": 1}, 20)
        s.place()
        s.submit("bo", {"gpu": 1}, 20)
        assert taken(s) == ["ana"] * 6
        assert running(s) == {"ana": 2, "bo": 6}
        s.submit("cy", {"gpu": 1}, 20)
        assert taken(s) == ([] if policy.endswith("quota") else ["ana"])


def test_the_least_work_is_lost_but_low_priority_first() -> None:
    s = lab(gpus=3)
    groups = [s.submit("ana", {"gpu": 1}, priority=p) for p in (1, 0, 1)]
    for k, group in enumerate(groups):
        s.assume(group, "s0", since=float(k))
    s.submit("bo", {"gpu": 1})
    ((_, victims),) = s.preempt(10.0)
    assert s._state.running[victims[0]].group.id == groups[1]
    s = lab(gpus=3)
    for k in range(3):
        s.assume(s.submit("ana", {"gpu": 1}), "s0", since=float(k % 2))
    s.submit("bo", {"gpu": 1})
    ((_, victims),) = s.preempt(10.0)
    assert s._state.running[victims[0]].since == 1.0


def test_a_large_victim_stops_if_small_ones_are_not_enough() -> None:
    """Small victims that started late stop if they are enough; else only the large one does."""
    s = lab(gpus=6)
    for demand, since in ((1, 3.0), (1, 3.0), (3, 0.0)):
        s.assume(s.submit("ana", {"gpu": demand}), "s0", since=since)
    s.assume(s.submit("cy", {"gpu": 1}), "s0", since=0.0)
    s.submit("bo", {"gpu": 2})
    assert taken(s, now=4.0) == ["ana"] * 2
    s = lab(gpus=6)
    for demand, since in ((1, 3.0), (4, 0.0)):
        s.assume(s.submit("ana", {"gpu": demand}), "s0", since=since)
    s.set_quota("ana", {"gpu": 1})
    s.assume(s.submit("cy", {"gpu": 1}), "s0", since=0.0)
    s.submit("bo", {"gpu": 4})
    s.set_quota("bo", {"gpu": 4})
    assert taken(s, now=4.0) == ["ana"]


def test_a_gang_starts_whole_and_stops_whole() -> None:
    s = lab(servers=2)
    s.submit("ana", {"gpu": 1}, 20)
    s.place()
    s.submit("bo", {"gpu": 2}, 2, gang=True)
    assert taken(s) == ["ana"] * 4
    assert running(s) == {"ana": 4, "bo": 2}
    s = lab(servers=2)
    s.submit("ana", {"gpu": 4}, 2, gang=True)
    s.place()
    s.submit("bo", {"gpu": 1})
    assert taken(s) == []  # the whole gang would stop, and ana hold nothing
    s.set_quota("bo", {"gpu": 1})
    assert taken(s) == ["ana"]
    assert running(s) == {"bo": 1}


def test_a_gang_on_two_servers_stops_once() -> None:
    """Its end frees 1 of the 2 GPUs that the taker needs on s1; cy keeps the others."""
    s = lab(servers=2)
    s.submit_gang("ana", [({"gpu": 4}, 1, ["s0"]), ({"gpu": 1}, 1, ["s1"])])
    s.submit("cy", {"gpu": 1}, 3, where=["s1"])
    s.place()
    s.set_quota("cy", {"gpu": 3})
    s.set_quota("bo", {"gpu": 6})
    group = s.submit_gang("bo", [({"gpu": 4}, 1, ["s0"]), ({"gpu": 2}, 1, ["s1"])])
    assert taken(s) == []
    s.cancel(group)
    s.submit_gang("bo", [({"gpu": 4}, 1, ["s0"]), ({"gpu": 1}, 1, ["s1"])])
    assert len(taken(s)) == 1
    assert running(s) == {"bo": 2, "cy": 3}


def test_a_gang_of_which_tasks_start_is_no_victim() -> None:
    """The task of ana on s0 was a possible victim of bo until the second one started."""
    s = lab(servers=2)
    s.set_weight("ana", 10)
    s.assume(s.submit("ana", {"gpu": 2}, 2, gang=True), "s0")
    for queue, server in (("bo", "s0"), ("cy", "s1"), ("cy", "s1")):
        s.assume(s.submit(queue, {"gpu": 2}), server)
    s.set_quota("bo", {"gpu": 4})
    s.submit("bo", {"gpu": 2}, where=["s0"])
    assert taken(s, 1.0) == ["cy"]
    assert running(s) == {"ana": 2, "bo": 1, "cy": 1}


@pytest.mark.parametrize("quota", [0, 1])
def test_each_task_of_a_gang_counts_where_it_starts(quota: int) -> None:
    s = lab("drf/first-fit/over-quota", servers=2)
    s.submit("ana", {"gpu": 1}, 4, where=["s0"])
    s.place()
    s.set_quota("bo", {"gpu": 4}, ["s0"])
    s.set_quota("bo", {"gpu": quota}, ["s1"])
    s.submit_gang("bo", [({"gpu": 3}, 1, ["s0"]), ({"gpu": 1}, 1, ["s1"])])
    assert taken(s) == ["ana"] * 3 * quota


def test_groups_of_a_queue_take_in_order() -> None:
    s = lab(gpus=8)
    s.submit("ana", {"gpu": 1}, 8)
    s.place()
    s.set_quota("bo", {"gpu": 8})
    s.set_limit("bo", tasks=3)
    groups = [s.submit("bo", {"gpu": gpus}, now=k) for k, gpus in enumerate([1, 2, 1, 1])]
    assert [found.starts[0].group for found in s.preempt(9.0)] == groups[:3]


def test_others_take_the_rest_of_a_victim() -> None:
    s = lab()
    s.submit("ana", {"gpu": 4})
    s.place()
    for queue in ("bo", "cy"):
        s.set_quota(queue, {"gpu": 1})
    s.submit("bo", {"gpu": 1})
    s.preempt()
    why = s.explain(s.submit("cy", {"gpu": 1}))
    assert why.held_by == "preemption"
    assert why.reason == "It starts once tasks that are being stopped have ended."
    assert [found.victims for found in s.preempt()] == [[]]


def test_no_taker_overflows_the_sums_of_amounts() -> None:
    s = Scheduler(["gpu"], "drf/first-fit/over-quota", {"gpu": 1})
    s.add_server("a", {"gpu": 2**62})
    for queue in ("ana", "bo"):
        s.add_queue(queue)
        s.submit(queue, {"gpu": 2**62})
    s.place()
    s.set_quota("bo", {"gpu": 2**62})
    assert s.preempt() == []


def test_a_queue_of_weight_0_gives_way_first() -> None:
    """It holds a third of the amounts of ana, which also holds more than its quota."""
    s = lab("drf/first-fit/over-quota")
    s.set_weight("cy", 0)
    for queue, tasks in (("cy", 1), ("ana", 3)):
        s.submit(queue, {"gpu": 1}, tasks)
        s.place()
    s.set_quota("bo", {"gpu": 1})
    s.submit("bo", {"gpu": 1})
    assert taken(s) == ["cy"]


def test_victims_hold_their_amounts_until_they_end() -> None:
    s = lab()
    s.submit("ana", {"gpu": 1}, 8)
    s.place()
    s.submit("bo", {"gpu": 1}, 8)
    found = s.preempt()
    assert s.place() == []
    assert s.preempt() == []
    again = Scheduler.restore(s.snapshot())
    for held in (s, again):
        check(held)
        held.finish(found[0].victims[0])  # it ended by itself
        assert held.place() == []
        assert held.evict(found[1].victims[0]) == found[1].victims
        assert held.place() == []
        assert running(held) == {"ana": 2, "bo": 2}
    with s.what_if():
        s.submit("cy", {"gpu": 1}, 8)
        assert len(s.preempt()) == 1
    assert s.snapshot() == again.snapshot()


def test_preemption_without_meaning_is_refused() -> None:
    s = lab()
    for wrong in ({"now": "soon"}, {"limit": -1}):
        with pytest.raises(InputError):
            s.preempt(**wrong)
    with pytest.raises(RefusalError, match="has no preemption"):
        lab("drf/best-fit").preempt()


def test_an_explanation_names_the_victims_queue() -> None:
    s = lab()
    s.submit("ana", {"gpu": 1}, 4)
    s.place()
    group = s.submit("bo", {"gpu": 2})
    before = s.snapshot()
    why = s.explain(group)
    assert why.held_by == "preemption"
    assert why.reason == "It starts in place of 2 tasks of ana, once stopped."
    assert s.snapshot() == before
    late = s.submit("bo", {"gpu": 3})
    assert s.explain(late).held_by == "room"


def test_an_explanation_places_before_it_preempts() -> None:
    """Once `first` runs on b, bo has as much as ana would have after a victim."""
    s = lab(gpus=2)
    s.submit("ana", {"gpu": 1}, 2)
    s.place()
    s.add_server("b", {"gpu": 1})
    first = s.submit("bo", {"gpu": 1})
    second = s.submit("bo", {"gpu": 1}, where=["s0"])
    assert s.explain(second).held_by == "room"
    assert [start.group for start in s.place()] == [first]
    assert s.preempt() == []


def test_a_stopping_task_of_a_gang_is_no_victim_again() -> None:
    """Of ana's gang one task is stopping already, so the end of the gang frees one more GPU."""
    s = lab(gpus=4)
    gang = s.submit("ana", {"gpu": 1}, 2, gang=True)
    first = s.assume(gang, "s0", stopping=True)
    second = s.assume(gang, "s0")
    s.submit("ana", {"gpu": 1}, 2)
    s.place()
    s.set_quota("bo", {"gpu": 4})
    s.submit("bo", {"gpu": 1}, 9, now=1.0)
    found = s.preempt(1.0)
    victims = [task for each in found for task in each.victims]
    assert second in victims
    assert first not in victims
    assert len(victims) == len(set(victims)) == 3
    assert sum(len(each.starts) for each in found) == 4


def test_a_gang_beyond_the_cluster_costs_a_round_little() -> None:
    """A plan would list all tasks of the gang, which no memory holds."""
    s = lab(servers=2)
    s.submit("ana", {"gpu": 1}, 8)
    s.place()
    s.set_quota("bo", {"gpu": 10**6})
    s.submit("bo", {"gpu": 10**-9}, 2**45, gang=True)
    s.submit_gang("bo", [({"gpu": 10**-9}, 2**45), ({"gpu": 2}, 1)])
    assert s.place(1.0) == []
    assert s.preempt(1.0) == []
    s.submit("bo", {"gpu": 1}, now=2.0)
    assert len(s.preempt(2.0)) == 1
