"""Dynamic DRF: a million arrivals, and how the stack of stairs grows beside halving.

Run with ``make bench``; the figures are listed at the end, and the growth is drawn in
``.benchmarks/dynamic-growth.html``.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fairlead.certificates.dynamic_levels import certify_dynamic
from fairlead.mechanisms.dynamic_drf import DynamicDRF

MILLION = 1_000_000
RESOURCES = 4
PICTURE = Path(__file__).resolve().parents[1] / ".benchmarks" / "dynamic-growth.html"

# Halving takes O(n^2) in all: seconds for the last of these, hours for a million.
SIZES = {
    "stack": (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    "halving": (1_000, 3_000, 10_000),
    "water": (1_000, 3_000, 10_000),
}


def demands(n_agents: int, zeros: float = 0.0) -> np.ndarray:
    random = np.random.default_rng(1)
    demand = random.uniform(0.01, 1.0, (n_agents, RESOURCES))
    demand[random.random(demand.shape) < zeros] = 0.0
    demand[~(demand > 0).any(axis=1), 0] = 1.0
    return demand


def arrive(demand: np.ndarray, solver: str = "stack") -> DynamicDRF:
    agents = DynamicDRF(*demand.shape, solver=solver)
    agents.arrive_all(demand)
    return agents


@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_a_million_arrivals(
    benchmark: BenchmarkFixture, report: Callable[[str], None], zeros: float
) -> None:
    demand = demands(MILLION, zeros)
    agents = benchmark.pedantic(lambda: arrive(demand), rounds=5, warmup_rounds=1)
    weight = np.ones(MILLION)
    certify_dynamic(demand[:10], weight[:10], 10.0, arrive(demand[:10]).log)  # warms up
    start = time.perf_counter()
    certificate = certify_dynamic(demand, weight, float(MILLION), agents.log)
    proving = time.perf_counter() - start
    assert certificate.holds
    start = time.perf_counter()
    shares = agents.shares
    reading = time.perf_counter() - start
    assert (shares >= (1 - 1e-9) / MILLION).all()
    kinds = int(agents.log.kind.max()) + 1
    report(
        f"dynamic DRF, a million arrivals, {RESOURCES} resources, {kinds} kind(s) of demand: "
        f"{benchmark.stats.stats.median:.2f} s; certificate {proving:.2f} s (violation "
        f"{certificate.violation:.0e}); everybody's share {reading * 1e3:.0f} ms"
    )


def test_one_by_one(benchmark: BenchmarkFixture, report: Callable[[str], None]) -> None:
    rows = demands(100_000).tolist()

    def run() -> DynamicDRF:
        agents = DynamicDRF(len(rows), RESOURCES)
        for row in rows:
            agents.arrive(row)
        return agents

    benchmark.pedantic(run, rounds=5, warmup_rounds=1)
    each = benchmark.stats.stats.median / len(rows)
    report(f"dynamic DRF, one arrival at a time from Python: {each * 1e6:.1f} us each")


def test_memory_is_linear(report: Callable[[str], None]) -> None:
    arrive(demands(10))  # warms up
    peaks = {}
    for n_agents in (10_000, 100_000, 1_000_000):
        demand = demands(n_agents)
        tracemalloc.start()
        agents = arrive(demand)
        peaks[n_agents] = tracemalloc.get_traced_memory()[1] / n_agents
        tracemalloc.stop()
        assert agents.arrived == n_agents
    assert max(peaks.values()) < 3 * min(peaks.values())
    listed = ", ".join(f"{peak:.0f} for {n:,}" for n, peak in peaks.items())
    report(f"dynamic DRF, bytes per agent at the peak, its demands aside: {listed}")


def test_growth(report: Callable[[str], None]) -> None:
    """Seconds for all arrivals, by size; the slope in a log-log picture is the exponent."""
    times: dict[str, list[float]] = {}
    for solver, sizes in SIZES.items():
        arrive(demands(10), solver)
        times[solver] = []
        for n_agents in sizes:
            demand = demands(n_agents)
            rounds = 5 if n_agents <= 100_000 and solver == "stack" else 1
            seconds = []
            for _ in range(rounds):
                start = time.perf_counter()
                arrive(demand, solver)
                seconds.append(time.perf_counter() - start)
            times[solver].append(min(seconds))
        exponent = _exponent(sizes, times[solver])
        listed = ", ".join(f"{n:,}: {t:.3g} s" for n, t in zip(sizes, times[solver], strict=True))
        report(f"dynamic DRF by {solver}: exponent {exponent:.2f} of the largest sizes ({listed})")
    ratio = times["halving"][-1] / times["stack"][SIZES["stack"].index(SIZES["halving"][-1])]
    report(f"dynamic DRF, {SIZES['halving'][-1]:,} arrivals: stack {ratio:,.0f} times faster")
    _draw(times)
    report(f"dynamic DRF, growth drawn in {PICTURE.relative_to(PICTURE.parents[1])}")


def _exponent(sizes: tuple[int, ...], seconds: list[float]) -> float:
    """Fit the slope of the three largest sizes."""
    return float(np.polyfit(np.log(sizes[-3:]), np.log(seconds[-3:]), 1)[0])


def _draw(times: dict[str, list[float]]) -> None:
    import plotly.graph_objects as go

    figure = go.Figure()
    for solver, seconds in times.items():
        name = f"{solver}, n^{_exponent(SIZES[solver], seconds):.2f}"
        figure.add_scatter(x=SIZES[solver], y=seconds, mode="lines+markers", name=name)
    figure.update_xaxes(type="log", title="agents, n", dtick=1)
    figure.update_yaxes(type="log", title="seconds for all n arrivals", dtick=1)
    figure.update_layout(
        title=f"Dynamic DRF, {RESOURCES} resources", template="simple_white", width=900, height=600
    )
    PICTURE.parent.mkdir(exist_ok=True)
    figure.write_html(PICTURE, include_plotlyjs=True)
