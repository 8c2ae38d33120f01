"""The compiled replay gives the run log that the definitions give, start for start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest

from effort import cases
from fairlead.errors import InputError, RefusalError
from fairlead.model.queues import read_queues
from fairlead.model.run_log import RunLog
from fairlead.model.workload import LEAVE, Workload
from fairlead.scheduler.event_loop import PORTION
from fairlead.simulation import replay as replay_module
from fairlead.simulation.replay import replay
from oracles.plain_replay import plain_replay
from oracles.random_workloads import crowded_workload, odd_amounts_workload, random_workload
from random_runs import jobs_on_a_server, one_server
from random_trees import random_queues

POLICIES = [
    *(f"{by}/{fit}" for by in ("drf", "tsf", "ps-dsf") for fit in ("first-fit", "best-fit")),
    *(f"{by}/{fit}/residual" for by in ("drf", "tsf") for fit in ("first-fit", "best-fit")),
    *("ps-dsf/joint", "ps-dsf/joint/residual", "drf/best-fit-first"),
    *("tsf/best-fit-first/residual", "slots:3", "slots:7"),
    *(f"{by}/{fit}" for by in ("fifo", "easy") for fit in ("first-fit", "best-fit")),
    *(f"{by}/rrr{rest}" for by in ("drf", "tsf", "ps-dsf") for rest in ("", "/residual")),
    *("drf/rrr/oblivious", "ps-dsf/rrr/oblivious"),
]


def assert_same_log(fast: RunLog, plain: RunLog) -> None:
    for name in ("task", "server", "start", "end", "lost", "set_unplaceable"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(plain, name), err_msg=name)
    assert fast.policy == plain.policy


@cache
def drawn(seed: int) -> Workload:
    """Every other one has gangs."""
    return random_workload(seed, gangs=seed % 2 == 0)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_replay_is_what_the_definitions_say(policy: str) -> None:
    """Each policy meets three workloads of its own, in strict order or passing jobs over."""
    for k in range(cases(3)):
        seed = 3 * POLICIES.index(policy) + k
        options: dict[str, Any] = {"strict_fifo": k % 2 == 1}
        if "/rrr" in policy:
            options |= {"seed": seed, "refuse_seconds": 2.0}
        workload = drawn(seed)
        plain = plain_replay(workload, policy, **options)
        assert_same_log(replay(workload, policy, **options), plain)


# Of the first five hundred crowded workloads, some where a user's bound outlived its task, and
# some where a kind was blocked behind another one.
OUTLIVED, BEHIND = (75, 242, 447), (81, 428)


@pytest.mark.parametrize(
    ("policy", "strict", "seeds"),
    [
        ("ps-dsf/joint", False, OUTLIVED),
        ("ps-dsf/joint/residual", False, OUTLIVED),
        ("fifo/best-fit", False, (0, 3)),
        ("easy/first-fit", False, (0, 3)),
        *((policy, True, BEHIND) for policy in ("drf/first-fit", "ps-dsf/joint", "drf/rrr")),
    ],
)
def test_crowded_servers_are_what_the_definitions_say(
    policy: str, strict: bool, seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        workload = crowded_workload(seed)
        plain = plain_replay(workload, policy, strict_fifo=strict)
        assert_same_log(replay(workload, policy, strict_fifo=strict), plain)


def in_queues(workload: Workload, seed: int) -> Workload:
    rows, of_user = random_queues(Random(seed), workload.n_users)
    return replace(workload, queues=read_queues(rows, of_user, workload.users))


def limited(workload: Workload, _: int) -> Workload:
    first, last = workload.users[0], workload.users[-1]
    limits = {first: {"tasks": 2}, last: {workload.cluster.resources[0]: 2}}
    return replace(workload, limits=limits)


def guaranteed(workload: Workload, _: int) -> Workload:
    resources, groups = workload.cluster.resources, workload.cluster.groups
    rows = [{resources[0]: 2.0}, {resources[0]: 1.0, "where": [groups[0]]}]
    return replace(
        workload, quotas={workload.users[-1]: rows, workload.users[0]: [{resources[-1]: 1.1}]}
    )


CHANGES = [
    *((in_queues, policy) for policy in ("drf/first-fit", "slots:3")),
    *((limited, policy) for policy in ("drf/best-fit", "ps-dsf/joint", "drf/rrr")),
    *((limited, policy) for policy in ("fifo/best-fit", "easy/first-fit")),
    (guaranteed, "drf/best-fit"),
]


@pytest.mark.parametrize(("change", "policy"), CHANGES)
def test_queues_limits_and_quotas_count_in_a_replay(
    change: Callable[[Workload, int], Workload], policy: str
) -> None:
    unlike = 0
    for seed in range(3, 3 + cases(5)):
        changed = change(drawn(seed), seed)
        log = replay(changed, policy)
        assert_same_log(log, plain_replay(changed, policy))
        unlike += not np.array_equal(log.start, replay(drawn(seed), policy).start)
    assert unlike


def test_quotas_on_the_same_servers_all_count() -> None:
    """Four tasks of bo are within its quota on all servers and within the two on their only one."""
    workload = jobs_on_a_server(9.0, [(0, 0.0, 1.0, 5.0)] * 9 + [(1, 0.0, 1.0, 5.0)] * 9)
    rows = [{"cpu": 4.0}, {"cpu": 6.0, "where": ["all"]}, {"cpu": 8.0, "where": ["all", "b"]}]
    for quotas in (rows, rows[::-1]):
        log = replay(replace(workload, quotas={"bo": quotas}), "drf/first-fit")
        assert (log.task[:4] >= 9).all()
        assert (log.task[:9] >= 9).sum() == 4


def test_limits_are_the_decimals_that_they_are_written_as() -> None:
    """Three tasks of 1.1 are within 3.3, though the float of 3.3 is a little smaller."""
    workload = jobs_on_a_server(9.9, [(0, 0.0, 1.1, 5.0)] * 4)
    log = replay(replace(workload, limits={workload.users[0]: {"cpu": 3.3}}), "drf/first-fit")
    assert log.start.tolist() == [0.0, 0.0, 0.0, 5.0]


def test_withdrawn_tasks_do_not_wait_again_when_lost() -> None:
    """The only task of a job runs at its withdrawal, and then loses its server."""
    workload = jobs_on_a_server(1.0, [(0, 0.0, 1.0, 9.0)])
    workload = replace(
        workload,
        cluster=replace(workload.cluster, count=np.array([2])),
        job_cancel=np.array([3.0]),
        server_time=np.array([5.0]),
        server_event=np.array([LEAVE], dtype=np.int8),
        server=np.array([0], dtype=np.int32),
    )
    log = replay(workload, "drf/first-fit")
    assert (log.start.tolist(), log.end.tolist(), log.lost.tolist()) == ([0.0], [5.0], [True])


def test_a_policy_without_quotas_refuses_them() -> None:
    with pytest.raises(RefusalError):
        replay(guaranteed(drawn(1), 1), "tsf/first-fit")


@pytest.mark.parametrize("policy", ["drf/first-fit/half-life:3", "drf/best-fit/half-life:1"])
def test_past_use_counts_in_a_replay(policy: str) -> None:
    unlike = 0
    for seed in range(cases(6)):
        log = replay(drawn(seed), policy)
        assert_same_log(log, plain_replay(drawn(seed), policy))
        without = replay(drawn(seed), policy.partition("/half")[0])
        unlike += not np.array_equal(log.start, without.start)
    assert unlike


@pytest.mark.parametrize("policy", ["drf/first-fit", "drf/best-fit", "slots:3"])
def test_a_replay_preempts_as_a_scheduler_does(policy: str) -> None:
    lost = 0
    for seed in range(cases(6)):
        workload = drawn(seed)
        resource = workload.cluster.resources[0]
        if not policy.startswith("slots"):
            workload = replace(workload, quotas={workload.users[-1]: [{resource: 2.0}]})
        log = replay(workload, f"{policy}/over-share")
        assert_same_log(log, plain_replay(workload, f"{policy}/over-share"))
        lost += int(log.lost.sum()) - int(replay(workload, policy).lost.sum())
        shielded = replay(workload, f"{policy}/over-share:1000")
        assert_same_log(replace(shielded, policy=policy), replay(workload, policy))
    assert lost > 0


def test_preemption_waits_until_tasks_have_run_for_the_least_time() -> None:
    rows = [(user, submit, 1.0, 100.0) for user, submit in ((0, 0.0), (0, 0.0), (1, 5.0), (1, 5.0))]
    log = replay(jobs_on_a_server(2.0, rows), "drf/best-fit/over-share:20")
    assert log.start.tolist() == [0.0, 0.0, 20.0, 100.0, 120.0]
    assert log.end.tolist() == [20.0, 100.0, 120.0, 200.0, 220.0]
    assert log.lost.tolist() == [True, False, False, False, False]


@pytest.mark.parametrize(
    "policy", ["drf/first-fit", "ps-dsf/joint", "drf/best-fit/residual", "drf/rrr"]
)
def test_what_is_held_fits_the_words_that_it_is_counted_in(policy: str) -> None:
    for seed in range(3):
        workload = odd_amounts_workload(seed)
        assert_same_log(replay(workload, policy), plain_replay(workload, policy))


@pytest.mark.parametrize("wrong", [{"strict_fifo": "no"}, {"refuse_seconds": -1.0}])
def test_wrong_arguments_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        replay(drawn(2), "drf/rrr/oblivious", **wrong)


TASKS = 3 * PORTION + 7


def much_at_once() -> Workload:
    """All jobs come at one moment, and some tasks have to wait."""
    return Workload.from_arrays(
        replace(one_server(PORTION), count=np.array([3])),
        ["ana", "bo"],
        job_user=[0, 1],
        job_submit=[0, 0],
        set_job=[0, 1],
        set_shape=[0, 0],
        shapes=[[1]],
        set_tasks=[TASKS, TASKS],
        task_duration=np.arange(1, 2 * TASKS + 1) % 5 + 1.0,
    )


@pytest.mark.parametrize("policy", ["drf/best-fit", "drf/first-fit/residual", "ps-dsf/rrr"])
def test_a_replay_pauses_after_some_placements(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_module, "STEPS", 1)
    monkeypatch.setattr(replay_module, "SECONDS_BETWEEN_REPORTS", -1.0)
    seen: list[tuple[int, float]] = []
    workload = much_at_once()
    log = replay(workload, policy, on_progress=lambda *found: seen.append(found))
    assert_same_log(log, plain_replay(workload, policy))
    starts = [0, *(starts for starts, _ in seen)]
    assert max(np.diff(starts)) == PORTION
    assert [moment for _, moment in seen].count(0.0) >= 3
    assert starts[-1] == len(log.task) == 2 * TASKS
    assert starts == sorted(starts)
