"""Shares of a live state: what queues hold, and what is fair, as found server by server."""

from __future__ import annotations

import json
from collections import defaultdict
from random import Random
from typing import Any

import numpy as np
import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.mechanisms.catalogue import solve
from fairlead.model.problem import Problem
from fairlead.scheduler.scheduler import Scheduler

RESOURCES = ["cpu", "memory", "gpu"]
QUEUES = ("ana", "bo", "cy", "dee")


def running_state(policy: str, seed: int) -> tuple[Scheduler, list[Any], dict[str, Any]]:
    """Return a scheduler, what was submitted, and its servers' amounts and labels."""
    random = Random(seed)
    s, groups, servers = Scheduler(RESOURCES, policy), [], {}
    for k in range(5):
        capacity = [random.choice([4, 8]), random.choice([4, 16]), random.choice([0, 2])]
        servers[f"s{k}"] = capacity, {"zone": "ab"[k % 2]}
        s.add_server(f"s{k}", dict(zip(RESOURCES, capacity, strict=True)), {"zone": "ab"[k % 2]})
    for k, name in enumerate(QUEUES):
        s.add_queue(name, 1 + k % 3)
    for _ in range(14):
        queue, where = random.choice(QUEUES[:3]), random.choice([None, {"zone": "a"}, ["s1", "s4"]])
        demand = [random.choice([1, 2, 0.5]), random.choice([1, 3]), random.choice([0, 0, 0, 1])]
        tasks, gang = random.randint(1, 6), random.random() < 0.3
        amounts = dict(zip(RESOURCES, demand, strict=True))
        group = s.submit(queue, amounts, tasks, where, gang=gang)
        groups.append((group, queue, demand, tasks, where))
    placed = s.place(limit=25)
    for p in placed[::3]:
        s.finish(p.task)
    s.drain("s0")
    ended = [p.group for p in placed[::3]]
    left = [(g, q, d, n - ended.count(g), w) for g, q, d, n, w in groups]
    return s, left, servers


def expected(
    s: Scheduler, groups: list[Any], servers: dict[str, Any], mechanism: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Return what is held, and what is fair where each server is a group of its own."""
    capacity = np.array([row for row, _ in servers.values()], dtype=float)
    total, weight = capacity.sum(axis=0), {q: 1 + k % 3 for k, q in enumerate(QUEUES)}
    wanted, tasks = defaultdict(lambda: np.zeros(3)), defaultdict(int)
    held = defaultdict(lambda: np.zeros(3))
    for group, queue, demand, n, where in groups:
        if n == 0:
            continue
        if where is None or isinstance(where, list):
            allowed = tuple(name for name in servers if where is None or name in where)
        else:
            allowed = tuple(name for name, (_, labels) in servers.items() if labels == where)
        kind = queue, allowed, tuple(d > 0 for d in demand)
        wanted[kind] += n * np.array(demand)
        tasks[kind] += n
        held[queue] += s.explain(group).running * np.array(demand)
    kinds = sorted(wanted)
    eligible = np.array([[name in allowed for name in servers] for _, allowed, _ in kinds])
    lacks = np.array([[((wanted[k] > 0) & (c <= 0)).any() for c in capacity] for k in kinds])
    kinds = [k for k, row in zip(kinds, (eligible & ~lacks).any(axis=1), strict=True) if row]
    shares = {k: (wanted[k] / total).max() for k in kinds}
    whole = {q: (sum(wanted[k] for k in kinds if k[0] == q) / total).max() for q, *_ in kinds}
    problem = Problem.from_arrays(
        capacity,
        np.array([wanted[k] / tasks[k] for k in kinds]),
        weight=np.array([weight[k[0]] * shares[k] / whole[k[0]] for k in kinds]),
        eligible=np.array([[name in k[1] for name in servers] for k in kinds]),
        task_limit=np.array([float(tasks[k]) for k in kinds]),
    )
    given = solve(problem, mechanism).user_tasks
    taken = defaultdict(lambda: np.zeros(3))
    for k, n in zip(kinds, given, strict=True):
        taken[k[0]] += n * wanted[k] / tasks[k]
    return (
        {q: (held[q] / total).max() / weight[q] for q in QUEUES},
        {q: (taken[q] / total).max() / weight[q] for q in QUEUES},
    )


@pytest.mark.parametrize(
    ("policy", "mechanism"),
    [("drf/best-fit", None), ("tsf/first-fit", None), ("ps-dsf/first-fit", "drfh")],
)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("uncompiled")
def test_shares_are_those_found_server_by_server(
    policy: str, mechanism: str | None, seed: int
) -> None:
    s, groups, servers = running_state(policy, seed)
    got = s.shares(mechanism)
    assert got.mechanism == (mechanism or {"drf": "drfh", "tsf": "tsf"}[policy[:3]])
    held, fair = expected(s, groups, servers, got.mechanism)
    assert [q.name for q in got.queues] == list(QUEUES)
    assert [q.share for q in got.queues] == pytest.approx([held[q] for q in QUEUES], rel=1e-9)
    assert [q.fair_share for q in got.queues] == pytest.approx([fair[q] for q in QUEUES], rel=1e-5)
    assert all(q.difference == q.share - q.fair_share for q in got.queues)
    assert got.certificate.holds
    assert sum(q.running for q in got.queues) == s._running
    assert sum(q.waiting for q in got.queues) == s._waiting
    plain = json.loads(json.dumps(got.to_dict()))
    assert plain["users"][0]["name"] == "ana"
    assert plain["certificate"]["holds"] is True


def test_two_that_want_all_should_hold_half_each() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_server("a", {"cpu": 8})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 1}, 20)
    s.place()
    s.add_queue("bo")
    s.submit("bo", {"cpu": 2}, 20)
    ana, bo = s.shares().queues
    assert (ana.share, bo.share) == (1.0, 0.0)
    assert (ana.fair_share, bo.fair_share) == pytest.approx((0.5, 0.5))
    assert (ana.waiting, ana.running, bo.waiting) == (12, 8, 20)


def test_what_fits_nowhere_is_due_nothing() -> None:
    s = Scheduler(["cpu", "gpu"], "drf/best-fit")
    s.add_server("a", {"cpu": 4})
    s.add_server("b", {"cpu": 2, "gpu": 1})
    for name, weight in (("ana", 2), ("bo", 1), ("cy", 1)):
        s.add_queue(name, weight)
    s.submit("ana", {"cpu": 1}, tasks=8)
    s.submit("bo", {"cpu": 4, "gpu": 1})  # no server has both
    s.submit("cy", {"cpu": 4}, where=["b"])
    s.place()
    shares = {queue.name: (queue.share, queue.fair_share) for queue in s.shares().queues}
    assert shares == {"ana": (0.5, pytest.approx(0.5)), "bo": (0.0, 0.0), "cy": (0.0, 0.0)}
    assert s.shares_question().too_large == 2
    s.add_server("c", {"cpu": 4, "gpu": 1})
    due = {queue.name: queue.fair_share for queue in s.shares().queues}
    assert due["bo"] > 0
    assert due["cy"] == 0


def test_where_nothing_is_nothing_is_fair() -> None:
    s = Scheduler(["cpu"], "fifo/first-fit")
    assert s.shares().queues == ()
    s.add_queue("ana")
    s.submit("ana", {"cpu": 1})
    shares = s.shares()
    assert [tuple(q)[:4] for q in shares.queues] == [("ana", 0.0, 0.0, 0.0)]
    assert shares.certificate is None
    assert shares.to_dict()["certificate"] is None


@pytest.mark.usefixtures("uncompiled")
def test_under_ps_dsf_what_is_fair_is_proved_for_the_servers_that_are_there() -> None:
    s, _, servers = running_state("ps-dsf/first-fit", 1)
    got = s.shares()  # another answer may be one, too
    assert got.mechanism == got.allocation.mechanism == "ps-dsf"
    assert got.certificate.holds
    there = got.allocation.problem
    total = np.sum([row for row, _ in servers.values()], axis=0)
    assert there.total_capacity == pytest.approx(total)


def test_a_mechanism_that_is_none_or_admits_no_limits_is_refused() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_server("a", {"cpu": 8})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 1}, 20)
    with pytest.raises(InputError):
        s.shares("nonsense")
    with pytest.raises(RefusalError):
        s.shares("drf-per-server")


def test_an_answer_may_come_later() -> None:
    core = Scheduler(["cpu", "memory"], "drf/best-fit")
    core.add_server("a", {"cpu": 4, "memory": 8}, {"fast": "yes"})
    core.add_server("b", {"cpu": 8, "memory": 8})
    core.add_queue("ana")
    core.add_queue("bo", 2)
    core.submit("ana", {"cpu": 1, "memory": 1}, tasks=20)
    core.submit("bo", {"cpu": 2, "memory": 1}, tasks=3)
    core.submit("bo", {"cpu": 6, "memory": 1}, tasks=5, where={"fast": "yes"})
    core.submit("bo", {"cpu": 9, "memory": 1}, tasks=7)
    core.place()
    question, then = core.shares_question(), core.shares()
    assert question.too_large == 12
    assert question.amount.tolist() == [12, 16]
    queues = {queue.name: queue for queue in then.queues}
    assert question.used.tolist() == [12, queues["ana"].running + queues["bo"].running]
    core.remove_server("b")
    core.add_queue("cy")
    core.submit("cy", {"cpu": 1, "memory": 1})
    later = question.answer()
    assert later.queues == then.queues
    assert later.to_dict() == then.to_dict()
    assert core.shares().queues != then.queues
