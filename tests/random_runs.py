"""Runs of small workloads by a plain simulation, by seed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from hypothesis import strategies as st

from fairlead.model.cluster import Cluster
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload

POLICIES = ("drf/best-fit", "ps-dsf/first-fit", "drf/first-fit", "tsf/best-fit")
Run = tuple[Workload, RunLog]


@cache
def run_by_seed(seed: int) -> Run:
    """A run; in one of three a user has weight 0 afterwards, and the placements stay."""
    workload = random_workload(seed)
    log = plain_replay(workload, POLICIES[seed % len(POLICIES)])
    if seed % 3 == 0:
        weight = workload.weight.copy()
        weight[seed % workload.n_users] = 0.0
        workload = replace(workload, weight=weight)
    return workload, log


def one_server(amount: float) -> Cluster:
    """One server with one resource."""
    return Cluster(
        groups=("all",),
        resources=("cpu",),
        capacity=np.array([[amount]]),
        count=np.array([1]),
        units=("",),
        labels=({},),
    )


def runs() -> st.SearchStrategy[Run]:
    return st.integers(0, 9_999).map(run_by_seed)
