"""Problems, fillings and replays whose GPUs come in devices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

import fairlead
from effort import cases
from fairlead.certificates.filling_replay import certify_filling
from fairlead.formats.problem_file import dump
from fairlead.mechanisms.comparison import TwoProblems
from fairlead.model.holdings import Holdings
from fairlead.model.problem import Problem
from fairlead.model.workload import Workload
from fairlead.scheduler.policies import parse_policy
from fairlead.simulation.filling import fill_by
from fairlead.simulation.replay import replay
from fairlead.traces.parquet_trace import read_parquet, write_parquet
from oracles.plain_replay import plain_fill, plain_replay

TEXT = """
fairlead: 1
resources: [cpu, gpu]
devices: [gpu]
servers: [{name: a, count: 2, capacity: {cpu: 8, gpu: 2}}]
users:
  - {name: ana, demand: {cpu: 1, gpu: 0.6}}
  - {name: bo, demand: {cpu: 1, gpu: 1}, tasks: 1}
"""
PARTS = [0.0, 0.1, 0.3, 0.4, 0.5, 0.6, 1 / 3, 0.1 + 0.2, 1.0, 1.0, 2.0]


def read(tmp_path: Path, text: str) -> Problem:
    (tmp_path / "problem.yaml").write_text(text)
    return fairlead.load(tmp_path / "problem.yaml")


def random_problem(seed: int) -> Problem:
    random = Random(seed)
    users, groups = random.randint(1, 5), random.randint(1, 3)
    capacity = [[random.randint(3, 12), random.choice([0, 2, 2, 4])] for _ in range(groups)]
    capacity[0][1] = 4
    return Problem.from_arrays(
        capacity,
        [[random.choice([0.5, 1, 2]), random.choice(PARTS)] for _ in range(users)],
        count=[random.randint(1, 3) for _ in range(groups)],
        weight=[random.choice([1, 1, 2, 0.3]) for _ in range(users)],
        task_limit=[random.choice([np.inf, np.inf, 3]) for _ in range(users)],
        resources=["cpu", "gpu"],
        devices=["gpu"],
    )


def random_workload(seed: int) -> Workload:
    random = Random(seed)
    jobs = 30
    return Workload.from_arrays(
        random_problem(seed).cluster,
        ["ana", "bo", "cy"],
        job_user=[random.randrange(3) for _ in range(jobs)],
        job_submit=sorted(random.randrange(40) for _ in range(jobs)),
        job_gang=[random.random() < 0.2 for _ in range(jobs)],
        set_job=range(jobs),
        set_tasks=[1 + k % 3 for k in range(jobs)],
        shapes=[[random.choice([0.5, 1, 2]), random.choice(PARTS)] for _ in range(jobs)],
        task_duration=[random.randint(1, 20) for k in range(jobs) for _ in range(1 + k % 3)],
    )


def test_a_file_names_devices_and_is_written_again(tmp_path: Path) -> None:
    problem = read(tmp_path, TEXT)
    assert problem.cluster.devices == ("gpu",)
    dump(problem, tmp_path / "again.json")
    assert fairlead.load(tmp_path / "again.json").cluster.devices == ("gpu",)
    filled = fairlead.fill(problem, select="first-fit")
    assert filled.tasks.tolist() == [[3], [1]]
    assert filled.certificate.holds
    as_one_amount = read(tmp_path, TEXT.replace("devices: [gpu]\n", ""))
    assert fairlead.fill(as_one_amount, select="first-fit").tasks.tolist() == [[4], [1]]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("gpu: 0.6", "gpu: 1.6", r"users\[0\].demand.gpu: must be a part of one device"),
        ("gpu: 2}", "gpu: 1.5}", r"servers\[0\].capacity.gpu: must be a whole number of devices"),
        ("gpu: 2}", "gpu: 1e6}", r"servers\[0\].capacity.gpu: .* at most 100000, not 1000000.0"),
        ("devices: [gpu]", "devices: [disk]", "devices: must be names of resources"),
        ("devices: [gpu]", "devices: [gpu, gpu]", "devices: must be names of resources"),
        ("devices: [gpu]", "devices: gpu", "devices: must be a list"),
    ],
)
def test_wrong_devices_are_one_fault(tmp_path: Path, old: str, new: str, fault: str) -> None:
    with pytest.raises(fairlead.InputError, match=fault):
        read(tmp_path, TEXT.replace(old, new))


@pytest.mark.parametrize("policy", ["drf/best-fit", "ps-dsf/joint", "drf/rrr"])
def test_a_filling_by_device_is_as_defined(policy: str) -> None:
    for seed in range(cases(4)):
        problem = random_problem(seed)
        filled = fill_by(problem, parse_policy(policy), seed)
        assert [tuple(row) for row in filled.order.tolist()] == plain_fill(problem, policy, seed)
        assert filled.certificate.holds


def test_a_filling_across_devices_is_no_answer() -> None:
    """Three tasks of .6 on two devices fit as one amount only."""
    problem = Problem.from_arrays([[3, 2]], [[1, 0.6]], resources=["cpu", "gpu"], devices=["gpu"])
    plain = replace(problem, cluster=replace(problem.cluster, devices=()))
    order = fairlead.fill(plain, select="first-fit").order
    assert len(order) == 3
    assert certify_filling(plain, "drf", "first-fit", False, order).holds
    assert not certify_filling(problem, "drf", "first-fit", False, order).holds
    assert certify_filling(problem, "drf", "first-fit", False, order[:2]).holds
    assert not certify_filling(problem, "drf", "first-fit", False, order[:1]).holds


@pytest.mark.parametrize("policy", ["ps-dsf/joint", "easy/first-fit", "drf/first-fit/over-share"])
def test_a_replay_by_device_is_as_defined(policy: str) -> None:
    unlike = 0
    for seed in range(cases(3)):
        workload = random_workload(seed)
        log = replay(workload, policy)
        plain = plain_replay(workload, policy)
        for name in ("task", "server", "start", "end", "lost", "set_unplaceable"):
            np.testing.assert_array_equal(getattr(log, name), getattr(plain, name), err_msg=name)
        merged = replace(workload, cluster=replace(workload.cluster, devices=()))
        unlike += not np.array_equal(log.start, replay(merged, policy).start)
    assert unlike


def test_traces_keep_devices(tmp_path: Path) -> None:
    write_parquet(random_workload(2), tmp_path / "trace.parquet")
    assert read_parquet(tmp_path / "trace.parquet").cluster.devices == ("gpu",)


def test_an_absurd_demand_of_an_idle_user_changes_nothing() -> None:
    options = {"resources": ["cpu", "gpu"], "devices": ["gpu"]}
    problem = Problem.from_arrays([[10, 4]], [[1, 1e19], [1, 1 / 3]], task_limit=[0, 30], **options)
    filled = fairlead.fill(problem)
    assert filled.tasks.tolist() == [[0], [10]]
    assert filled.certificate.holds


def test_problems_that_differ_in_devices_are_compared(tmp_path: Path) -> None:
    before = read(tmp_path, TEXT)
    changed = TEXT.replace("devices: [gpu]", "").replace("gpu: 2}", "gpu: 2.5}")
    after = read(tmp_path, changed.replace("gpu: 0.6", "gpu: 1.5"))
    (difference, *_) = TwoProblems(before, after).differences()
    assert TwoProblems(before, after).with_one(difference).cluster.capacity[0, 1] == 2.5


PROPERTIES = ("feasibility", "non-wastefulness", "pareto-optimality")


def audited(demand: float, tasks: list[list[float]]) -> dict[str, str]:
    """Return the verdicts on whole tasks of parts of GPUs, and of whole ones, on one server."""
    options = {"resources": ["cpu", "gpu"], "devices": ["gpu"]}
    problem = Problem.from_arrays([[64, 4]], [[1, demand], [1, 1]], **options)
    holdings = Holdings(problem, np.array(tasks, dtype=float), whole_tasks=True)
    found = fairlead.audit(problem, holdings, properties=PROPERTIES, lies=0)
    return {name: found[name].verdict for name in PROPERTIES}


def test_an_audit_of_whole_tasks_knows_devices() -> None:
    assert audited(0.6, [[6], [0]])["feasibility"] == "fails"
    assert audited(0.6, [[4], [0]])["feasibility"] == "holds"
    assert audited(0.6, [[3], [2]])["feasibility"] == "fails"
    assert audited(0.5, [[6], [1]])["feasibility"] == "holds"
    assert audited(0.35, [[10], [0]])["feasibility"] == "unknown"
    found = audited(0.6, [[4], [0]])  # 1.6 GPUs are free, and no device has .6
    assert (found["non-wastefulness"], found["pareto-optimality"]) == ("unknown", "unknown")
    assert audited(0.6, [[0], [2]])["non-wastefulness"] == "fails"


def test_parts_of_devices_fit_one_by_one() -> None:
    """Of tasks of 0.6 GPUs one fits on each of two GPUs, not three on both."""
    problem = Problem.from_arrays(
        [[2.0, 9.0]], [[0.6, 1.0]], resources=["gpu", "cpu"], devices=["gpu"]
    )
    nothing = Holdings(problem, np.zeros((1, 1)), whole_tasks=True)
    found = fairlead.audit(problem, nothing, properties=PROPERTIES, lies=0)
    assert found["non-wastefulness"].witness["tasks"] == 2
    assert found["pareto-optimality"].witness["better"] == {"u1": {"g1": 2.0}}
