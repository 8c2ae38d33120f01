"""Which runs are asked for, and what tells them apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.simulation.planned_runs import PlannedRun, fingerprint, plan_runs, workload_digest
from fairlead.traces.what_if import change_workload
from oracles.random_workloads import random_workload


def names(*policies: str, **more: Any) -> list[str]:
    return [run.name for run in plan_runs(policies, **more)]


def test_each_run_is_planned_once() -> None:
    change = "weight:ana=3"
    asked = names("ps-dsf/joint", "slots:14", "ps-dsf/joint", what_if=[change, change])
    assert asked == ["ps-dsf/joint", "slots:14", "ps-dsf/joint, weight:ana=3"]


def test_runs_without_meaning_are_refused() -> None:
    with pytest.raises(InputError, match="name at least one policy"):
        plan_runs([])
    with pytest.raises(InputError, match="named 'dfr"):
        plan_runs(["drf/best-fit", "dfr/best-fit"])
    with pytest.raises(RefusalError, match="drf/joint"):
        plan_runs(["drf/joint"])


ARRAYS = [
    name
    for name, value in vars(random_workload(0)).items()
    if isinstance(value, np.ndarray) and name != "job_names"
]


@pytest.mark.parametrize("name", ARRAYS)
def test_each_array_matters_to_the_digest(name: str) -> None:
    workload = random_workload(0)
    values = getattr(workload, name).copy()
    assert values.size
    values.flat[-1] = not values.flat[-1] if values.dtype == bool else values.flat[-1] + 1
    if name == "task_start":
        values[-1] = workload.job_submit[-1]
    if name in ("job_cancel", "job_limit"):
        values.flat[-1] = 1234.5
    assert workload_digest(replace(workload, **{name: values})) != workload_digest(workload)


def test_digests_depend_on_names_and_servers_not_on_notes() -> None:
    workload = random_workload(0)
    digest = workload_digest(workload)
    renamed = workload.job_names.astype(object)
    renamed[0] += "x"
    cluster = workload.cluster
    for other in (
        replace(workload, job_names=renamed.astype(np.str_)),
        replace(workload, users=("new", *workload.users[1:])),
        change_workload(workload, f"servers:{cluster.groups[0]}+1"),
        replace(workload, cluster=replace(cluster, capacity=cluster.capacity * 2)),
        replace(workload, cluster=replace(cluster, groups=("new", *cluster.groups[1:]))),
    ):
        assert workload_digest(other) != digest
    wider = workload.job_names.astype(f"U{workload.job_names.itemsize}")
    same = replace(workload, origin="elsewhere", notes={"x": 1}, job_names=wider)
    assert same.job_names.dtype != workload.job_names.dtype
    assert workload_digest(same) == digest == workload_digest(random_workload(0))


def test_options_and_sources_matter_to_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    run = PlannedRun("drf/best-fit")
    mark = fingerprint("x", run, seed=0, strict_fifo=False)
    assert mark == fingerprint("x", PlannedRun("drf/best-fit"), seed=0, strict_fifo=False)
    others = {
        fingerprint("y", run, seed=0, strict_fifo=False),
        fingerprint("x", run, seed=1, strict_fifo=False),
        fingerprint("x", run, seed=0, strict_fifo=True),
        fingerprint("x", PlannedRun("drf/best-fit", "weight:a=2"), seed=0, strict_fifo=False),
        fingerprint("x", PlannedRun("drf/best-fit", dedicated=True), seed=0, strict_fifo=False),
    }
    monkeypatch.setattr("fairlead.simulation.planned_runs.digest_of_sources", lambda: "other")
    others.add(fingerprint("x", run, seed=0, strict_fifo=False))
    assert len(others | {mark}) == 7
