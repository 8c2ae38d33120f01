"""Measure how much message delay self-dividing servers tolerate, and the cost of their runs.

    python benchmarks/asynchronous.py

The table is in papers/docs/distributed.md, which defines the crowd.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from fairlead_papers.distributed.convergence import CLOSE, settling_time
from fairlead_papers.distributed.network_setting import AsynchronousSetting, Clocks, Delay
from fairlead_papers.distributed.simulated_run import run_asynchronously

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from random_problems import random_problem

PROBLEMS = 12
PERIODS = 300.0
# Mean numbers of servers that run while a message is under way.
CROWDS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def measure_runs(delay: Delay) -> None:
    """Print the time of 100 periods on a large problem."""
    problem = random_problem(np.random.default_rng(1), 1_000, 100, 2)
    run_asynchronously(AsynchronousSetting(problem, 1.0))  # warms up
    begin = time.perf_counter()
    run = run_asynchronously(AsynchronousSetting(problem, 100.0, delay=delay))
    seconds = time.perf_counter() - begin
    print(
        f"1,000 users on 100 servers, 100 periods, delay {delay.shortest:g} to {delay.longest:g}: "
        f"{seconds:.1f} s, {seconds / run.runs * 1e6:.0f} us for each run of a server; violation "
        f"{run.violation[-1]:.0e} in the end"
    )


def count_settled(servers: int, damping: float) -> None:
    """Print, by crowd, the number of problems on which the servers settle, and the median time."""
    found = []
    for crowd in CROWDS:
        times = []
        for seed in range(PROBLEMS):
            setting = AsynchronousSetting(
                random_problem(np.random.default_rng(seed), 10, servers, 2),
                PERIODS,
                clocks=Clocks(jitter=0.1),
                delay=Delay(crowd / servers, crowd / servers),
                damping=damping,
                seed=seed,
            )
            run = run_asynchronously(setting)
            settled = settling_time(run, run.phases[0], CLOSE)
            times.append(np.inf if settled is None else settled)
        median = np.median(times)
        shown = f", {median:.0f} s" if np.isfinite(median) else ""
        found.append(f"{crowd:g}: {np.isfinite(times).sum()}{shown}")
    print(
        f"{servers} servers, damping {damping:g}: of {PROBLEMS} random problems settled within "
        f"{PERIODS:.0f} periods, and the median time, by crowd: {'; '.join(found)}"
    )


if __name__ == "__main__":
    for message_delay in (Delay(0, 0), Delay(0.5, 1.5)):
        measure_runs(message_delay)
    for n_servers in (3, 10, 30):
        for weight in (0.0, 0.5, 0.8):
            count_settled(n_servers, weight)
