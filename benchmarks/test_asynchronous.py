"""Servers that divide themselves: what a run costs, and how much delay it bears.

Run with ``make bench``; the figures are listed at the end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fairlead_papers.distributed.convergence import CLOSE, settling_time
from fairlead_papers.distributed.network_setting import AsynchronousSetting, Clocks, Delay
from fairlead_papers.distributed.simulated_run import AsynchronousRun, run_asynchronously
from random_problems import random_problem

PROBLEMS = 12
PERIODS = 300.0
# Servers that run while a message is under way.
CROWDS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@pytest.mark.parametrize("delay", [Delay(0, 0), Delay(0.5, 1.5)])
def test_large(benchmark: BenchmarkFixture, report: Callable[[str], None], delay: Delay) -> None:
    problem = random_problem(np.random.default_rng(1), 1_000, 100, 2)
    run_asynchronously(AsynchronousSetting(problem, 1.0))  # warms up
    setting = AsynchronousSetting(problem, 100.0, delay=delay)
    run: AsynchronousRun = benchmark.pedantic(
        run_asynchronously, (setting,), rounds=1, warmup_rounds=0
    )
    seconds = benchmark.stats.stats.median
    assert run.overuse <= 1e-9
    report(
        f"asynchronous, 1,000 users on 100 servers, 100 periods, delay {delay.shortest:g} to "
        f"{delay.longest:g}: {seconds:.1f} s, {seconds / run.runs * 1e6:.0f} us for each run of a "
        f"server; violation {run.violation[-1]:.0e} in the end"
    )


@pytest.mark.parametrize("damping", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("servers", [3, 10, 30])
def test_how_much_delay_it_bears(
    report: Callable[[str], None], servers: int, damping: float
) -> None:
    said = []
    for crowd in CROWDS:
        times = []
        for seed in range(PROBLEMS):
            problem = random_problem(np.random.default_rng(seed), 10, servers, 2)
            setting = AsynchronousSetting(
                problem,
                PERIODS,
                clocks=Clocks(jitter=0.1),
                delay=Delay(crowd / servers, crowd / servers),
                damping=damping,
                seed=seed,
            )
            run = run_asynchronously(setting)
            time = settling_time(run, run.phases[0], CLOSE)
            times.append(np.inf if time is None else time)
        median = np.median(times)
        shown = f", {median:.0f} s" if np.isfinite(median) else ""
        said.append(f"{crowd:g}: {np.isfinite(times).sum()}{shown}")
    report(
        f"asynchronous, {servers} servers, damping {damping:g}: of {PROBLEMS} random problems "
        f"settled within {PERIODS:.0f} periods, and the median time, by crowd: {'; '.join(said)}"
    )
