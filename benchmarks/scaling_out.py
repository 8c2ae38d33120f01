"""Measure the speed-up by a Ray cluster over one process, and its overhead.

    python benchmarks/scaling_out.py

Starts a cluster of two nodes with one processor each on this machine, and runs the same jobs in one
process and on the nodes. Seconds are processor time, because other load changes wall time: of one
process; of the busier node and of both; and of this process, which distributes and collects. The
time of one process over that of the busier node is the speed-up if nodes are separate machines.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from statistics import median
from time import monotonic, process_time
from typing import Any

import numpy as np

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
import ray
from ray.cluster_utils import Cluster

from fairlead.executors.executor import Executor, Processes
from fairlead.executors.ray_tasks import ray_executor
from fairlead.model.problem import Problem
from fairlead.scheduler.policies import find_policy
from fairlead.simulation.planned_runs import PlannedRun
from fairlead.simulation.runs import ReplayJob
from fairlead.simulation.trials import _fill_some
from fairlead.traces.generator import generate_day
from fairlead_papers.surveys.random_problems import Distribution
from fairlead_papers.surveys.survey import SurveyJob, audit_job

STORE = 200 * 2**20
EMPTY_JOBS = 1000


def timed(work: Callable[..., Any], job: Any) -> tuple[str, float]:
    """Run a job; return the id of the node, and the processor seconds."""
    began = process_time()
    work(job)
    node = ray.get_runtime_context().get_node_id() if ray.is_initialized() else ""
    return node, process_time() - began


def measure(executor: Executor, work: Callable[..., Any], jobs: list[Any]) -> dict[str, float]:
    """Return seconds: of the busier node, of all nodes, of this process, and of wall time."""
    spent: Counter[str] = Counter()

    def add(_: int, answer: tuple[str, float]) -> None:
        spent[answer[0]] += answer[1]

    wall, here = monotonic(), process_time()
    executor.do_all(partial(timed, work), jobs, add)
    here = process_time() - here
    total = sum(spent.values())
    return {
        "busier": max(spent.values()),
        "all": total,
        "here": here - (total if isinstance(executor, Processes) else 0.0),
        "wall": monotonic() - wall,
    }


def benchmark_jobs() -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    """Return functions and their jobs, by name."""
    names = ("drfh", "tsf", "ps-dsf", "ps-dsf-tdm")
    properties = ("envy-freeness", "pareto-optimality", "strategy-proofness")
    surveys = [
        SurveyJob(names, properties, Distribution(), 0, range(k, k + 5), 10)
        for k in range(0, 100, 5)
    ]
    day = generate_day(1000, users=150, seed=0)
    policies = ("drf/best-fit", "drf/first-fit", "ps-dsf/joint", "slots:14", "tsf/best-fit")
    replays = [ReplayJob(PlannedRun(policy), day) for policy in policies]
    random = np.random.default_rng(0)
    pool = Problem.from_arrays(random.uniform(50, 150, (100, 2)), random.uniform(1, 5, (200, 2)))
    fill = partial(_fill_some, pool, find_policy("drf", "rrr"), 0)
    trials = [range(k, k + 10) for k in range(1, 201, 10)]
    return {
        "audit --random 100": (audit_job, surveys),
        "simulate, 5 policies": (ReplayJob.replay, replays),
        "fill --trials 200": (fill, trials),
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": STORE}
    )
    for name in ("n0", "n1"):
        cluster.add_node(num_cpus=1, object_store_memory=STORE, node_name=name)
    work = benchmark_jobs()
    with ray_executor(cluster.address) as nodes:
        nodes.do_all(abs, list(range(EMPTY_JOBS)), lambda *_: None)
        began, spent = monotonic(), process_time()
        nodes.do_all(abs, list(range(EMPTY_JOBS)), lambda *_: None)
        each = (process_time() - spent) / EMPTY_JOBS, (monotonic() - began) / EMPTY_JOBS
        print(f"an empty job: {each[0] * 1e3:.2f} ms here, {each[1] * 1e3:.2f} ms of wall time")
        for name, (function, jobs) in work.items():
            alone, spread = [], []
            for round_ in range(rounds + 1):
                one = measure(Processes(1), function, jobs)
                two = measure(nodes, function, jobs)
                if round_:  # the first warms up
                    alone.append(one)
                    spread.append(two)
            one = {key: median(row[key] for row in alone) for key in alone[0]}
            two = {key: median(row[key] for row in spread) for key in spread[0]}
            print(
                f"{name}: one process {one['all']:.2f} s (wall {one['wall']:.2f}); busier node "
                f"{two['busier']:.2f} s, both {two['all']:.2f} s, distributing {two['here']:.2f} s "
                f"(wall {two['wall']:.2f}); {one['all'] / two['busier']:.2f} times by CPU time, "
                f"{one['wall'] / two['wall']:.2f} by wall time"
            )
    cluster.shutdown()


if __name__ == "__main__":
    main()
