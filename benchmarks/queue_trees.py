"""Search random trees of queues for violations of properties, and time large trees.

    python benchmarks/queue_trees.py [--problems N]

Times large trees, and the same users without queues. Then counts the random problems in which a lie
pays, those in which another property fails, and those without an answer.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from time import process_time

import numpy as np

from fairlead.errors import NoConvergenceError
from fairlead.mechanisms.catalogue import solve
from fairlead.model.allocation import Allocation
from fairlead.model.problem import Problem
from fairlead.properties.audit import audit
from fairlead.properties.envy import measure_envy
from fairlead.properties.queue_guarantees import SHARES as GUARANTEE
from fairlead.properties.sharing import measure_slices

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from random_trees import random_tree

LITTLE = 1e-6
LIES = 6  # of each user
SERVERS = {"drf": 1, "drfh": 3, "ps-dsf": 3}


def failures(problem: Problem, answer: Allocation) -> set[str]:
    """Name the properties that an answer violates."""
    problem, tasks = answer.problem, answer.user_tasks
    queues = problem.users.queues
    assert queues is not None
    wants = tasks < problem.task_limit * (1 - LITTLE)
    one_server = problem.part * problem.gamma.max(axis=1)
    siblings = [queues.of_user == q for q in range(-1, len(queues.names))]
    held = [np.where(rows[:, None], answer.tasks, 0.0) for rows in siblings]
    found = {
        "sharing incentive": (tasks < measure_slices(problem) * (1 - LITTLE)).any(),
        "part of one server": (wants & (tasks < one_server * (1 - LITTLE))).any(),
        "queue's part": audit(problem, answer, properties=[GUARANTEE])[GUARANTEE].verdict
        == "fails",
        "envy-freeness": (measure_envy(problem, answer.tasks).gain > LITTLE).any(),
        "envy-freeness of siblings": any(
            (measure_envy(problem, part).gain[rows] > LITTLE).any()
            for rows, part in zip(siblings, held, strict=True)
        ),
    }
    return {name for name, fails in found.items() if fails}


def survey(problems: int) -> None:
    """Print for each mechanism the number of random problems that violate each property."""
    for mechanism, servers in SERVERS.items():
        for limits in (False, True):
            count: Counter[str] = Counter()
            for seed in range(problems):
                problem = random_tree(Random(seed), servers=servers, limits=limits)
                try:
                    answer = solve(problem, mechanism)
                except NoConvergenceError:
                    count["no answer"] += 1
                    continue
                count.update(failures(problem, answer))
            kind = "finite tasks" if limits else "unlimited"
            lacking = ", ".join(f"{name} {n}" for name, n in sorted(count.items())) or "none"
            print(f"{mechanism}, {problems} problems, {kind}: lacking {lacking}")


def lies(problems: int) -> None:
    """Print the number of random pools in which a lie about demands pays, by resources."""
    tried: Counter[int] = Counter()
    paid: Counter[int] = Counter()
    largest = 0.0
    for seed in range(problems):
        random = Random(seed)
        problem = random_tree(random)
        tried[problem.n_resources] += 1
        truth = solve(problem, "drf").user_tasks
        gain = 0.0
        for n in range(problem.n_users):
            for _ in range(LIES):
                demand = problem.demand.copy()
                unit = demand[n].max()
                for r in range(problem.n_resources):
                    factor = random.choice([1, 1, 1.3, 2, 0.5, 0.8])
                    demand[n, r] = demand[n, r] * factor or unit * random.choice([0, 0, 0.1, 1])
                declared = replace(problem, users=replace(problem.users, demand=demand))
                with np.errstate(divide="ignore", invalid="ignore"):
                    worth = np.nanmin(demand[n] / problem.demand[n])
                gain = max(gain, worth * solve(declared, "drf").user_tasks[n] / truth[n] - 1)
        paid[problem.n_resources] += gain > LITTLE
        largest = max(largest, gain)
    for width, count in sorted(tried.items()):
        print(f"drf, {count} pools of {width} resources: a lie pays in {paid[width]}")
    print(f"largest gain {largest:.2%}")


def timings() -> None:
    """Print the seconds of an answer with its proof, without queues and in 40 queues."""
    for mechanism, n_users, n_groups in (
        ("drf", 100, 1),
        ("drf", 1000, 1),
        ("drfh", 50, 10),
        ("drfh", 200, 10),
        ("ps-dsf", 50, 10),
        ("ps-dsf", 200, 10),
    ):
        rng = np.random.default_rng(1)
        plain = Problem.from_arrays(
            rng.uniform(10, 20, (n_groups, 3)), rng.uniform(0.1, 1, (n_users, 3))
        )
        rows = [{"name": f"q{k}", "parent": None if k < 10 else f"q{k % 10}"} for k in range(40)]
        in_tree = plain.with_queues(rows, [f"q{k % 40}" for k in range(n_users)])
        seconds = []
        for problem in (plain, in_tree):
            solve(problem, mechanism)
            began = process_time()
            solve(problem, mechanism)
            seconds.append(process_time() - began)
        print(
            f"{mechanism}, {n_users} users on {n_groups} groups: "
            f"{seconds[0]:.3f} s, in 40 queues {seconds[1]:.3f} s"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=2000)
    asked = parser.parse_args()
    timings()
    lies(asked.problems)
    survey(asked.problems)
