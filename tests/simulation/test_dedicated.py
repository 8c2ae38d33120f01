"""Users alone on their own parts of the servers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.problem import Problem
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.simulation._dedicated import dedicated_servers, replay_dedicated
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload


def park(count: list[int], weight: list[float]) -> Workload:
    """Groups with these numbers of servers, and users of these weights."""
    return Workload.from_arrays(
        Problem.from_arrays(np.ones((len(count), 1)), [[1.0]], count=count).cluster,
        [f"u{n}" for n in range(len(weight))],
        weight=weight,
        job_user=[0],
        job_submit=[0],
        set_job=[0],
        set_tasks=[1],
        shapes=[[1.0]],
        task_duration=[1],
    )


def parts(count: list[int], weight: list[float]) -> list[list[int]]:
    """Return how many servers of each group each user has: a row a user."""
    workload = park(count, weight)
    owner = dedicated_servers(workload)
    group = np.repeat(np.arange(len(count)), count)
    return [
        [int(((owner == n) & (group == g)).sum()) for g in range(len(count))]
        for n in range(len(weight))
    ]


def test_what_is_left_over_goes_round() -> None:
    assert parts([1, 1, 1, 1], [1, 1, 1]) == [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]]
    assert parts([5, 5], [3, 2]) == [[3, 3], [2, 2]]
    assert parts([3], [1, 1, 1, 1, 1]) == [[1], [1], [1], [0], [0]]


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.lists(st.integers(1, 5), min_size=1, max_size=9),
)
def test_everybody_has_its_part_of_every_group_rounded(count: list[int], weight: list[int]) -> None:
    rows = parts(count, [float(w) for w in weight])
    assert [sum(column) for column in zip(*rows, strict=True)] == count
    for w, row in zip(weight, rows, strict=True):
        for c, has in zip(count, row, strict=True):
            due = Fraction(c * w, sum(weight))
            assert has in (floor(due), ceil(due))
    if len(set(weight)) == 1:
        assert {sum(row) for row in rows} <= {
            floor(Fraction(sum(count), len(weight))),
            ceil(Fraction(sum(count), len(weight))),
        }


def one_server_a_group(workload: Workload, owner: list[int]) -> Workload:
    """Keep users to their own servers by placement constraints, on the same cluster.

    A last server without room is the place of users without another.
    """
    group = np.repeat(np.arange(len(workload.cluster.groups)), workload.cluster.count)
    user = workload.job_user[workload.set_job]
    places = workload.places[workload.set_place][:, group] & (np.array(owner) == user[:, None])
    places = np.column_stack([places, ~places.any(axis=1)])
    capacity = workload.cluster.capacity[group]
    capacity = np.vstack([capacity, np.full_like(capacity[:1], 1e-6)])
    cluster = Problem.from_arrays(capacity, np.ones((1, capacity.shape[1]))).cluster
    # Sets stay apart, as none is merged with another.
    return replace(
        workload,
        cluster=cluster,
        places=places,
        set_place=np.arange(workload.n_sets, dtype=np.int32),
    )


@given(st.integers(0, 2**32))
def test_it_is_what_placement_constraints_would_do(seed: int) -> None:
    workload = random_workload(seed, gangs=False)  # the order in a gang depends on the pool
    owner = dedicated_servers(workload).tolist()
    expected = plain_replay(one_server_a_group(workload, owner), "drf/first-fit")
    seen: list[tuple[int, float]] = []
    found = replay_dedicated(
        workload,
        "drf/first-fit",
        plain_replay,
        on_progress=lambda starts, moment: seen.append((starts, moment)),
    )

    def starts(log: RunLog) -> list[tuple[float, ...]]:
        columns = (log.start, log.task, log.server, log.end, log.lost)
        return sorted(zip(*(column.tolist() for column in columns), strict=True))

    assert starts(found) == starts(expected)
    assert found.set_unplaceable.tolist() == expected.set_unplaceable.tolist()
    assert (np.diff(found.start) >= 0).all()
    assert [len(found.task), found.policy] == [len(found.start), "drf/first-fit"]
    assert len(seen) <= workload.n_users
    assert max(seen, default=(0, 0.0))[0] == len(found.task)
    assert max((moment for _, moment in seen), default=0.0) == found.makespan


@pytest.mark.parametrize("gang", [True, False])
def test_a_gang_with_an_unplaceable_set_is_unplaceable(gang: bool) -> None:
    workload = Workload.from_arrays(
        park([1, 1], [1, 1]).cluster,
        ["ana", "bo"],
        job_user=[0],
        job_submit=[0],
        job_gang=[gang],
        set_job=[0, 0],
        set_tasks=[1, 1],
        shapes=[[1.0], [1.0]],
        places=[[True, False], [False, True]],
        task_duration=[1, 1],
    )
    assert dedicated_servers(workload).tolist() == [0, 1]
    log = replay_dedicated(workload, "drf/first-fit", plain_replay)
    assert log.task.tolist() == ([] if gang else [0])
    assert log.set_unplaceable.tolist() == [gang, True]
