"""Shards of servers that know users' totals elsewhere: in any order, late, and taken over."""

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

ROUNDS = 400


def random(seed: int, users: int = 6, groups: int = 5) -> Problem:
    return random_problem(np.random.default_rng(seed), users, groups, 2, weighted=True)


def parted(setting: AsynchronousSetting, count: int) -> tuple[list[ShardHolder], list[FloatArray]]:
    shards = np.array_split(np.arange(setting.servers), count)
    return [ShardHolder(setting, shards, own) for own in range(count)], shards


def gathered(
    setting: AsynchronousSetting, holders: Sequence[ShardHolder], shards: Sequence[FloatArray]
) -> FloatArray:
    tasks = np.full((setting.problem.n_users, setting.servers), np.nan)
    for holder in holders:
        for shard, part in holder.tasks().items():
            assert np.isnan(tasks[:, shards[shard]]).all(), "two have it"
            tasks[:, shards[shard]] = part
    assert not np.isnan(tasks).any(), "nobody has it"
    return tasks


def certified(setting: AsynchronousSetting, tasks: FloatArray) -> bool:
    certify = certify_time_sharing if setting.time_shared else certify_bottleneck
    return certify(setting.servers_as_groups[0], tasks).violation <= 1e-6


def test_one_shard_of_all_servers_sweeps() -> None:
    problem = random(3)
    setting = AsynchronousSetting(problem, 1.0)
    (alone,), shards = parted(setting, 1)
    for _ in range(19):  # the first is that of its beginning
        alone.run_round()
    sweeps = prepare_sweeps(problem, "ps-dsf")
    sweeps.run(np.zeros((problem.n_users, problem.n_groups)), 1, enough=-1.0)  # twenty sweeps
    assert gathered(setting, [alone], shards) == pytest.approx(sweeps.last, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("time_shared", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_late_messages_in_any_order_end_certified(seed: int, time_shared: bool) -> None:
    """Each message arrives after some rounds of others; older ones may come after newer ones."""
    problem, chance = random(seed), np.random.default_rng(seed)
    setting = AsynchronousSetting(problem, 1.0, time_shared=time_shared)
    holders, shards = parted(setting, 3)
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
        assert measure(problem, gathered(setting, holders, shards)) <= 1e-9
    for to, news in under_way:
        holders[to].receive(news)
    for _ in range(100):
        settle(holders)
    assert certified(setting, gathered(setting, holders, shards))
    assert max(holder.overuse for holder in holders) <= 1e-9


def settle(holders: Sequence[ShardHolder]) -> None:
    """Run each in turn, and send its message to the others at once."""
    for holder in holders:
        news = holder.run_round()
        for other in holders:
            if other is not holder:
                other.receive(news)


@pytest.mark.parametrize("seed", range(2))
def test_shards_of_a_lost_holder_are_taken_over(seed: int) -> None:
    """The heir knows its totals: where each has one server, nothing changes; it ends certified."""
    problem = random(seed)
    setting = AsynchronousSetting(problem, 1.0)
    holders, shards = parted(setting, 5)
    for _ in range(ROUNDS):
        settle(holders)
    before = gathered(setting, holders, shards)
    assert certified(setting, before)
    lost = holders.pop(2)
    holders[0].take_over(2, tenure=1)
    assert gathered(setting, holders, shards) == pytest.approx(before, rel=1e-4, abs=1e-4)
    for _ in range(ROUNDS):
        settle(holders)
    assert certified(setting, gathered(setting, holders, shards))
    assert lost.tasks().keys() == {2}


def test_a_holder_taken_to_be_lost_gives_up() -> None:
    setting = AsynchronousSetting(random(1), 1.0)
    holders, shards = parted(setting, 3)
    for _ in range(5):
        settle(holders)
    slow, heir, other = holders
    heir.take_over(0, tenure=1)
    late = [Totals(0, 0, 10**6, np.full(setting.problem.n_users, 1e6))]
    news = heir.run_round()
    for holder in (heir, other):
        holder.receive(news if holder is other else [])
        holder.receive(late)
    for _ in range(ROUNDS):
        settle([heir, other])
    assert certified(setting, gathered(setting, [heir, other], shards))
    slow.receive([totals._replace(serial=totals.serial + 1) for totals in heir.run_round() or news])
    assert slow.tasks() == {}
    assert slow.run_round() == []


def test_nothing_is_said_when_nothing_changes() -> None:
    problem = Problem.from_arrays([[4.0], [2.0]], [[1.0], [1.0]], eligible=[[1, 0], [0, 1]])
    holders, _ = parted(AsynchronousSetting(problem, 1.0), 2)
    assert [len(holder.run_round()) for holder in holders] == [1, 1]
    assert [len(holder.run_round()) for holder in holders] == [0, 0]
