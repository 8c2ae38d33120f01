"""The scheduler compared with the plain one in short random lives, under all policies."""

from __future__ import annotations

import pytest

from fairlead.scheduler.scheduler import Scheduler
from oracles import plain_scheduler
from scheduler.random_life import (
    POLICIES,
    REFUSED,
    RESOURCES,
    Both,
    ComparedLife,
    RandomLife,
    life_quanta,
    lives,
    make_life,
)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_event_is_as_defined(policy: str) -> None:
    placed, refused, number = 0, 0, lives(4)
    for seed in range(number):
        life = make_life(policy, seed)
        for _ in range(100):
            life.step()
        placed += len(life.tasks)
        refused += life.s.seen[REFUSED]
    assert placed > 0
    assert refused > 10 * number


@pytest.mark.parametrize("policy", ["drf/first-fit", "drf/rrr", "fifo/best-fit", "easy/first-fit"])
def test_a_queue_of_many_shapes_is_as_defined(policy: str) -> None:
    s = Both(RESOURCES, policy)
    s.add_queue("ana")
    s.add_server("a", dict.fromkeys(RESOURCES, 60))
    groups = []
    for k in range(70):  # more waiting lists than the 64 entries that are kept with stale ones
        amounts = 1 + k % 23, 1 + (k * k) % 19
        groups.append(s.submit("ana", dict(zip(RESOURCES, amounts, strict=True)), now=k // 10))
    for group in groups[::2]:
        s.cancel(group)
    placed = s.place()
    for row in placed[::3]:
        s.finish(row.task)
        placed += s.place()
    assert len(placed) >= 5


SCORED_BY_TASK = ["drf/first-fit/residual", "tsf/best-fit/residual", "ps-dsf/rrr/residual"]
SCORED_BY_TASK += ["ps-dsf/rrr", "ps-dsf/joint", "ps-dsf/rrr/oblivious"]


@pytest.mark.parametrize("policy", SCORED_BY_TASK)
def test_task_scores_are_as_defined(policy: str) -> None:
    compared = 0
    for seed in range(lives(3)):
        arguments = (RESOURCES, policy, life_quanta(seed))
        s, plain = Scheduler(*arguments), plain_scheduler.Scheduler(*arguments)
        both = [RandomLife(s, seed), RandomLife(plain, seed)]
        for _ in range(80):
            for life in both:
                life.step()
            compared += compare_scores(s, plain)
    assert compared > 0


def compare_scores(s: Scheduler, plain: plain_scheduler.Scheduler) -> int:
    """Compare the scores of all queues' first tasks on all servers with room."""
    state, compared = s._state, 0
    for queue in plain.queues.values():
        for group in plain.groups_within_limits(queue)[:1]:
            index = next(group.waiting_indices())
            for server in plain.servers.values():
                if plain.fits(group, index, server):
                    expected = plain.score(queue, group, index, server).value
                    shape = state.groups[group.id].shape_of(index)
                    queue_and_task = (state.queues[queue.name], shape)
                    assert state.criterion.bound(*queue_and_task, None) <= expected
                    on = state.servers[server.name]
                    assert state.criterion.score_of(*queue_and_task, on) == expected
                    compared += 1
    return compared


# Easy, where ends and limits of many tasks coincide


class EasyLife(ComparedLife):
    """A life of few shapes and whole times; most tasks end at their limits, some before or late."""

    def amounts(self, largest: float) -> dict[str, float]:
        self.kind = "few"
        return super().amounts(largest)

    def on_end_tasks(self) -> None:
        self.clock += self.random.choice([0, 1, 1, 2])
        for task in list(self.tasks):
            running = self.s.plain.running.get(task)
            if running is None:
                self.tasks.remove(task)
            elif self.random.random() < (0.7 if running.end <= self.clock else 0.1):
                self.s.finish(task)
        self.tasks += [p.task for p in self.s.place(self.clock)]

    on_end_tasks_again = on_end_tasks
    on_end_tasks_more = on_end_tasks


@pytest.mark.parametrize("policy", ["easy/first-fit", "easy/best-fit"])
def test_later_groups_start_as_defined(policy: str) -> None:
    finished = 0
    for seed in range(lives(12)):
        life = make_life(policy, seed, EasyLife)
        for _ in range(100):
            life.step()
        finished += life.s.seen["finish"]
    assert finished > lives(12)


def both(policy: str, resources: list[str], servers: dict[str, dict[str, float]]) -> Both:
    s = Both(resources, policy)
    s.add_queue("ana")
    for name, capacity in servers.items():
        s.add_server(name, capacity)
    return s


def placed(s: Both) -> list[tuple[int, str]]:
    return [(p.group, p.server) for p in s.place(0.0)]


def test_best_fit_may_reserve_elsewhere_after_a_start() -> None:
    """The head's best server at 10 is a; once `early` runs on a, it is b: `late` may start on a."""
    servers = {"a": {"cpu": 12, "memory": 12}, "b": {"cpu": 10, "memory": 8}}
    s = both("easy/best-fit", ["cpu", "memory"], servers)
    s.submit("ana", {"cpu": 5, "memory": 7}, time_limit=10, where=["a"])
    s.submit("ana", {"cpu": 5, "memory": 3}, time_limit=10, where=["b"])
    assert len(placed(s)) == 2
    s.submit("ana", {"cpu": 6, "memory": 6}, time_limit=9)
    early = s.submit("ana", {"cpu": 1, "memory": 5}, time_limit=99, where=["a"])
    late = s.submit("ana", {"cpu": 6}, time_limit=99, where=["a"])
    assert placed(s) == [(early, "a"), (late, "a")]


def test_a_gang_of_several_shapes_may_fit_sooner_after_a_start() -> None:
    """The first task takes a, the only server for the second one before 20, until a is full."""
    servers = {"a": {"cpu": 2, "gpu": 1}, "b": {"cpu": 1, "gpu": 1}, "c": {"cpu": 2}}
    s = both("easy/first-fit", ["cpu", "gpu"], servers)
    s.submit("ana", {"cpu": 1}, time_limit=10, where=["b"])
    s.submit("ana", {"cpu": 2}, time_limit=20, where=["c"])
    assert len(placed(s)) == 2
    s.submit_gang("ana", [({"cpu": 1, "gpu": 1}, 1), ({"cpu": 2}, 1)], time_limit=9)
    short = s.submit("ana", {"gpu": 1}, time_limit=15, where=["a"])
    s.submit("ana", {"cpu": 1}, time_limit=15)
    assert placed(s) == [(short, "a")]
