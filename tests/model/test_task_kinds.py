"""Rows of users of several kinds of tasks are found by the names that a converted trace gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster
from fairlead.model.task_kinds import rows_of_split_users
from fairlead.traces.problem_at_time import problem_at
from oracles.random_workloads import random_workload

CLUSTER = Cluster(
    ("n1..n4", "g1", "a+b", "c:d"),
    ("cpu", "nvidia.com/gpu"),
    np.ones((4, 2)),
    np.ones(4, dtype=np.int64),
    ("", ""),
    ({},) * 4,
)


@given(st.integers(0, 10_000), st.booleans())
def test_kinds_of_traces_are_found_again(seed: int, has_names_of_kinds: bool) -> None:
    workload = random_workload(seed)
    if has_names_of_kinds:
        first, groups = workload.users[0], (*workload.cluster.groups, "all", "all (2)")
        others = (f"{first}@{groups[n % len(groups)]}" for n in range(workload.n_users - 1))
        users = (first, *dict.fromkeys(others))
        workload = replace(workload, users=(*users, *workload.users[len(users) :]))
    try:
        found = problem_at(workload, float(workload.job_submit[-1]))
    except InputError:
        reject()
    names, cluster = found.problem.users.names, found.problem.cluster
    rows = rows_of_split_users(names, cluster)
    assert {user: [names[n] for n in of] for user, of in rows.items()} == found.kinds


@pytest.mark.parametrize(
    "kinds",
    [
        ["all", "g1"],
        ["n1..n4+g1", "a+b"],
        ["a+b+g1", "a+b+1 more"],
        ["g1:cpu", "g1:cpu+nvidia.com/gpu"],
        ["c:d", "c:d:cpu"],
        ["all", "all (2)"],
    ],
)
def test_each_form_of_a_name_is_read(kinds: list[str]) -> None:
    names = ["bo", *(f"dee@uni.edu@{kind}" for kind in kinds)]
    assert rows_of_split_users(names, CLUSTER) == {"dee@uni.edu": [1, 2]}


@pytest.mark.parametrize(
    "names",
    [
        ["ana@uni.edu", "ana@lab.org"],
        ["ana@g1", "bo@g1"],
        ["ana@all:disk", "ana@g1:"],
        ["ana@g1+x more", "ana@g1"],
        ["@g1", "@all"],
    ],
)
def test_other_names_are_left_alone(names: list[str]) -> None:
    assert rows_of_split_users(names, CLUSTER) == {}
