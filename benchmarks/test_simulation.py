"""Traces replayed: a million tasks on Google's park, how time grows, and the plain way beside it.

Run with ``make bench``; the figures are listed at the end, and the growth is drawn as a page in
``.benchmarks/``.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import plotly.io
import pytest

from fairlead.model.workload import Workload
from fairlead.simulation.replay import replay
from fairlead.traces.generator import generate_day
from oracles.plain_replay import plain_replay

SIZES = (260, 820, 2_600, 8_200, 26_000)
LOADS = (0.8, 2.0)


def day(jobs: int, load: float) -> Workload:
    """Return a day of jobs with 38 tasks each on average, on the 12,583 servers of Table I."""
    return generate_day(12_583, exact=True, jobs=jobs, load=load, seed=1)


def seconds(workload: Workload, policy: str) -> float:
    replay(generate_day(5, jobs=20, seed=1), policy)  # warms up
    begin = time.perf_counter()
    log = replay(workload, policy)
    assert len(log.task) == workload.n_tasks
    return time.perf_counter() - begin


@pytest.mark.parametrize("policy", ["drf/best-fit", "drf/first-fit", "ps-dsf/joint", "slots:14"])
def test_a_million_tasks(policy: str, report: Callable[[str], None]) -> None:
    for load in LOADS:
        workload = day(SIZES[-1], load)
        took = seconds(workload, policy)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        report(
            f"{policy}, {workload.n_tasks:,} tasks at load {load:g} on 12,583 servers: "
            f"{took:.1f} s, {1e6 * took / workload.n_tasks:.1f} us a task, peak {peak:.2f} GB"
        )


def test_growth(report: Callable[[str], None]) -> None:
    """Ten thousand to a million tasks: the time of one task stays nearly the same."""
    rows = [(day(jobs, 0.8), jobs) for jobs in SIZES]
    tasks = np.array([workload.n_tasks for workload, _ in rows])
    took = np.array([seconds(workload, "drf/best-fit") for workload, _ in rows])
    exponent = float(np.polyfit(np.log(tasks), np.log(took), 1)[0])
    listed = ", ".join(f"{n:,}: {t:.2f} s" for n, t in zip(tasks, took, strict=True))
    report(f"drf/best-fit, growth with tasks^{exponent:.2f} ({listed})")
    draw_growth(tasks, took)


def test_beside_the_plain_way(report: Callable[[str], None]) -> None:
    workload = generate_day(60, users=20, jobs=40, load=1.2, seed=2)
    fast = seconds(workload, "drf/best-fit")
    begin = time.perf_counter()
    plain = plain_replay(workload, "drf/best-fit")
    slow = time.perf_counter() - begin
    log = replay(workload, "drf/best-fit")
    assert np.array_equal(log.task, plain.task)
    assert np.array_equal(log.server, plain.server)
    report(
        f"drf/best-fit, {workload.n_tasks:,} tasks on 60 servers: {slow / fast:,.0f} times faster "
        f"than scanning everything ({fast:.3f} s, {slow:.1f} s), the same log"
    )


def draw_growth(tasks: np.ndarray, took: np.ndarray) -> None:
    """Draw measured times and the straight line through the first."""
    axis = {"type": "log", "dtick": 1}
    figure = {
        "data": [
            {"x": tasks.tolist(), "y": took.tolist(), "name": "measured", "mode": "lines+markers"},
            {
                "x": tasks.tolist(),
                "y": (took[0] * tasks / tasks[0]).tolist(),
                "name": "as the first, for each task",
                "mode": "lines",
                "line": {"dash": "dot"},
            },
        ],
        "layout": {
            "title": {"text": "drf/best-fit on 12,583 servers"},
            "xaxis": axis | {"title": {"text": "tasks"}},
            "yaxis": axis | {"title": {"text": "seconds"}},
        },
    }
    page = Path(".benchmarks/simulation-growth.html")
    page.parent.mkdir(exist_ok=True)
    plotly.io.write_html(figure, page, include_plotlyjs=True)
