"""Compare a policy written as a rule in plain Python with the same policy compiled.

    python benchmarks/own_rules.py [--jobs 600]

Replays a generated day under ``drf/first-fit`` and under a rule that starts the same tasks.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np

from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.scheduler.own_rules import ClusterView, UserView
from fairlead.scheduler.policies import OwnPolicy, Policy
from fairlead.simulation.replay import replay
from fairlead.traces.generator import generate_day

ROUNDS = 3


def drf(view: ClusterView) -> object:
    """Return the first group that fits of the user with the least dominant share over weight."""
    total = view.total

    def share(user: UserView) -> float:
        return max(held / total[r] for r, held in user.held.items()) / user.weight

    order = {name: k for k, name in enumerate(view.users)}
    shares = {name: share(user) for name, user in view.users.items() if user.waiting}
    waiting = view.waiting
    for name in sorted(shares, key=lambda name: (shares[name], order[name])):
        for group in waiting:
            if group.user.name == name and view.fits(group):
                return group
    return None


def timed(workload: Workload, policy: str | Policy) -> tuple[float, RunLog]:
    """Return the seconds of a replay and its log."""
    began = perf_counter()
    log = replay(workload, policy)
    return perf_counter() - began, log


def main() -> None:
    """Print the times of both, their ratio, and whether their run logs are equal."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=600)
    options = parser.parse_args()
    day = generate_day(servers=200, users=25, jobs=options.jobs, load=0.8, hours=8, seed=1)
    print(f"{day.n_jobs:,} jobs, {day.n_tasks:,} tasks, {day.n_servers} servers")
    ratios = []
    for _ in range(ROUNDS):
        fast, log = timed(day, "drf/first-fit")
        slow, rule_log = timed(day, OwnPolicy("rule", drf))
        same = np.array_equal(log.task, rule_log.task)
        same &= np.array_equal(log.server, rule_log.server)
        ratios.append(slow / fast)
        print(f"compiled {fast:.3f} s, rule {slow:.2f} s, ratio {slow / fast:.0f}; same: {same}")
    print(f"median ratio {np.median(ratios):.0f}")


if __name__ == "__main__":
    main()
