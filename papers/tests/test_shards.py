"""Shards of servers that exchange users' totals: late messages, lost and slow actors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fairlead import Problem
from fairlead.certificates.bottleneck_theorems import certify_bottleneck, certify_time_sharing
from fairlead.certificates.overuse import measure_resource_overuse, measure_time_overuse
from fairlead.mechanisms.psdsf import prepare_sweeps
from fairlead.model.cluster import FloatArray
from fairlead_papers.distributed._shards import ShardHolder, Totals
from fairlead_papers.distributed.network_setting import AsynchronousSetting
from random_problems import random_problem

ROUNDS = 200


def random(seed: int, users: int = 6, groups: int = 5) -> Problem:
    return random_problem(np.random.default_rng(seed), users, groups, 2, weighted=True)


def split_into_holders(
    setting: AsynchronousSetting, count: int
) -> tuple[list[ShardHolder], list[FloatArray]]:
    shards = np.array_split(np.arange(setting.servers), count)
    return [ShardHolder(setting, shards, own) for own in range(count)], shards


def gather_tasks(
    setting: AsynchronousSetting, holders: Sequence[ShardHolder], shards: Sequence[FloatArray]
) -> FloatArray:
    tasks = np.full((setting.problem.n_users, setting.servers), np.nan)
    for holder in holders:
        for shard, on_servers in holder.tasks().items():
            assert np.isnan(tasks[:, shards[shard]]).all(), "two holders have it"
            tasks[:, shards[shard]] = on_servers
    assert not np.isnan(tasks).any(), "no holder has it"
    return tasks


def certified(setting: AsynchronousSetting, tasks: FloatArray) -> bool:
    certify = certify_time_sharing if setting.time_shared else certify_bottleneck
    return certify(setting.servers_as_groups[0], tasks).violation <= 1e-6


def test_one_shard_of_all_servers_sweeps() -> None:
    problem = random(3)
    setting = AsynchronousSetting(problem, 1.0)
    (alone,), shards = split_into_holders(setting, 1)
    for _ in range(19):  # the holder ran the first when it was made
        alone.run_round()
    sweeps = prepare_sweeps(problem, "ps-dsf")
    sweeps.run(np.zeros((problem.n_users, problem.n_groups)), 1, enough=-1.0)  # twenty sweeps
    assert gather_tasks(setting, [alone], shards) == pytest.approx(sweeps.last, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("seed", "time_shared"), [(0, False), (1, True)])
def test_late_messages_in_any_order_end_certified(seed: int, time_shared: bool) -> None:
    """Each message arrives after some rounds of others; it may overtake older ones."""
    problem, chance = random(seed), np.random.default_rng(seed)
    setting = AsynchronousSetting(problem, 1.0, time_shared=time_shared)
    holders, shards = split_into_holders(setting, 3)
    under_way: list[tuple[int, list[Totals]]] = []
    measure = measure_time_overuse if time_shared else measure_resource_overuse
    for _ in range(ROUNDS * len(holders)):
        number = int(chance.integers(len(holders)))
        news = holders[number].run_round()
        under_way += [(n, news) for n in range(len(holders)) if n != number and news]
        for _ in range(int(chance.integers(4))):
            if under_way:
                to, news = under_way.pop(int(chance.integers(len(under_way))))
                holders[to].receive(news)
        assert measure(problem, gather_tasks(setting, holders, shards)) <= 1e-9
    for to, news in under_way:
        holders[to].receive(news)
    for _ in range(100):
        settle(holders)
    assert certified(setting, gather_tasks(setting, holders, shards))
    assert max(holder.overuse for holder in holders) <= 1e-9


def settle(holders: Sequence[ShardHolder]) -> None:
    """Run each holder in turn, and deliver its messages to the others at once."""
    for holder in holders:
        news = holder.run_round()
        for other in holders:
            if other is not holder:
                other.receive(news)


def test_shards_of_a_lost_holder_are_taken_over() -> None:
    """The new holder knows the shard's totals; with one server a shard, no tasks change."""
    setting = AsynchronousSetting(random(0), 1.0)
    holders, shards = split_into_holders(setting, 5)
    for _ in range(ROUNDS):
        settle(holders)
    before = gather_tasks(setting, holders, shards)
    assert certified(setting, before)
    lost = holders.pop(2)
    holders[0].take_over(2, tenure=1)
    assert gather_tasks(setting, holders, shards) == pytest.approx(before, rel=1e-4, abs=1e-4)
    for _ in range(ROUNDS):
        settle(holders)
    assert certified(setting, gather_tasks(setting, holders, shards))
    assert lost.tasks().keys() == {2}


def test_a_holder_that_was_only_slow_gives_up_its_shard() -> None:
    setting = AsynchronousSetting(random(1), 1.0)
    holders, shards = split_into_holders(setting, 3)
    for _ in range(5):
        settle(holders)
    slow, new_holder, other = holders
    new_holder.take_over(0, tenure=1)
    late = [Totals(0, 0, 10**6, np.full(setting.problem.n_users, 1e6))]
    news = new_holder.run_round()
    for holder in (new_holder, other):
        holder.receive(news if holder is other else [])
        holder.receive(late)
    for _ in range(ROUNDS):
        settle([new_holder, other])
    assert certified(setting, gather_tasks(setting, [new_holder, other], shards))
    slow.receive(
        [totals._replace(serial=totals.serial + 1) for totals in new_holder.run_round() or news]
    )
    assert slow.tasks() == {}
    assert slow.run_round() == []


def test_unchanged_totals_are_not_sent() -> None:
    problem = Problem.from_arrays([[4.0], [2.0]], [[1.0], [1.0]], eligible=[[1, 0], [0, 1]])
    holders, _ = split_into_holders(AsynchronousSetting(problem, 1.0), 2)
    assert [len(holder.run_round()) for holder in holders] == [1, 1]
    assert [len(holder.run_round()) for holder in holders] == [0, 0]
