"""Utilisation, dominant shares and capacities, against sums over pieces of time."""

from __future__ import annotations

from fractions import Fraction
from math import fsum, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fairlead.model.quantity import exact
from fairlead.simulation.metrics.dominant_shares import Shares, measure_shares
from fairlead.simulation.metrics.starvation import measure_starvation
from fairlead.simulation.metrics.task_outcomes import follow_tasks
from fairlead.simulation.metrics.utilization import (
    capacity_over_time,
    measure_utilization,
    time_averages,
    time_grid,
)
from oracles.plain_metrics import PlainMetrics
from random_runs import Run, jobs_on_a_server, run_by_hand, runs

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def edges_of(run: Run, bins: int, stretch: float, begin: float = 0.0) -> NDArray[np.float64]:
    """A grid that ends before or after the last task does."""
    until = max(run[1].makespan, 1.0) * stretch
    return time_grid(until, bins, min(begin, until / 2))


grids = {
    "run": runs(),
    "bins": st.integers(1, 5),
    "stretch": st.sampled_from([0.5, 1.0, 1.3]),
    "begin": st.sampled_from([0.0, 0.0, 1.5]),
}


def averages(plain: PlainMetrics, begin: float, end: float, what: object) -> list[Fraction]:
    rows = [(what(t), length) for t, length in plain.intervals(begin, end)]  # type: ignore[operator]
    over = Fraction(end) - Fraction(begin)
    return [sum(row[k] * length for row, length in rows) / over for k in range(len(rows[0][0]))]


@settings(max_examples=8)
@given(**grids)
def test_utilization_is_an_integral(run: Run, bins: int, stretch: float, begin: float) -> None:
    edges, plain = edges_of(run, bins, stretch, begin), PlainMetrics(*run)
    found = measure_utilization(*run, edges, capacity_over_time(run[0]))
    used, there = [], []
    for b in range(bins):
        used.append(averages(plain, edges[b], edges[b + 1], plain.held))
        there.append(averages(plain, edges[b], edges[b + 1], plain.total))
        for r in range(len(found.resources)):
            if there[b][r]:
                np.testing.assert_allclose(
                    found.share[b, r], float(used[b][r] / there[b][r]), **CLOSE
                )
            else:
                assert np.isnan(found.share[b, r])
    np.testing.assert_allclose(found.used, np.array(used, dtype=float), **CLOSE)
    np.testing.assert_allclose(found.available, np.array(there, dtype=float), **CLOSE)
    widths = [exact(e) - exact(f) for e, f in zip(edges[1:], edges, strict=False)]
    for r in range(len(found.resources)):
        total = sum(there[b][r] * widths[b] for b in range(bins))
        taken = sum(used[b][r] * widths[b] for b in range(bins))
        mean = float(taken / total) if total else float("nan")
        np.testing.assert_allclose(found.mean[r], mean, **CLOSE)


@settings(max_examples=8)
@given(**grids)
def test_shares_are_integrals(run: Run, bins: int, stretch: float, begin: float) -> None:
    (workload, _), plain = run, PlainMetrics(*run)
    edges = edges_of(run, bins, stretch, begin)
    found = shares_of(run, edges)
    everybody = range(workload.n_users)
    weighted = found.weighted[:, workload.weight > 0] * workload.weight[workload.weight > 0]
    np.testing.assert_allclose(weighted, found.dominant[:, workload.weight > 0], **CLOSE)
    for b in range(bins):

        def dominant(t: Fraction) -> list[Fraction]:
            return [plain.share(t, u) for u in everybody]

        def active(t: Fraction) -> list[int]:
            users = {plain.user_of[task] for task in plain.active(t)}
            return [int(u in users) for u in everybody]

        for name, what in (("dominant", dominant), ("active", active)):
            expected = averages(plain, edges[b], edges[b + 1], what)
            np.testing.assert_allclose(
                getattr(found, name)[b], np.array(expected, dtype=float), **CLOSE
            )
        pieces = [(plain.least(t), length) for t, length in plain.intervals(edges[b], edges[b + 1])]
        pieces = [(least, length) for least, length in pieces if least is not None]
        time = sum(length for _, length in pieces)
        assert found.part_active[b] == pytest.approx(float(time / exact(edges[b + 1] - edges[b])))
        least = sum(least * length for least, length in pieces)
        expected_least = float(least / time) if time else float("nan")
        assert found.least[b] == pytest.approx(expected_least, nan_ok=True, abs=1e-12)


def shares_of(run: Run, edges: NDArray[np.float64]) -> Shares:
    return measure_shares(*run, follow_tasks(*run), edges, capacity_over_time(run[0]))


@given(runs(), st.integers(2, 7))
def test_the_figures_do_not_depend_on_the_grid(run: Run, bins: int) -> None:
    one, many = shares_of(run, edges_of(run, 1, 1.0)), shares_of(run, edges_of(run, bins, 1.0))
    np.testing.assert_allclose(one.mean_while_active, many.mean_while_active, **CLOSE)
    np.testing.assert_allclose(one.mean_least, many.mean_least, **CLOSE)


def test_who_holds_nothing_holds_nothing() -> None:
    """Not what adding and taking away 0.1, 0.2 and 0.3 leaves."""
    rows = [(0, 0.0, 0.1, 1.0), (0, 0.0, 0.2, 2.0), (0, 0.0, 0.3, 3.0)]
    run = run_by_hand(jobs_on_a_server(4.0, rows), [0.0] * 3)
    assert shares_of(run, time_grid(8.0, 2)).dominant[1].tolist() == [0.0] * 2


def test_a_task_that_waits_for_ever_is_active_for_its_user_only() -> None:
    run = run_by_hand(jobs_on_a_server(4.0, [(0, 2.0, 1.0, 1.0), (1, 4.0, 1.0, 1.0)]), [nan, 5.0])
    found = shares_of(run, time_grid(8.0, 2))
    assert found.active.tolist() == [[0.5, 0.0], [1.0, 0.5]]
    starvation = measure_starvation(*run, follow_tasks(*run), 4.0, until=8.0)
    assert starvation.longest.tolist() == [6.0, 1.0]


def test_averages_of_a_million_amounts_keep_their_digits() -> None:
    """Amounts that come and go leave no rounding errors."""
    rng = np.random.default_rng(1)
    begin, seconds = rng.uniform(0, 8e4, 10**6), rng.exponential(1.0, 10**6)
    amount = rng.uniform(0, 1, (10**6, 1))
    found = time_averages(begin, begin + seconds, amount, np.array([0.0, 1e5]))
    expected = fsum((amount[:, 0] * ((begin + seconds) - begin)).tolist()) / 1e5
    assert found[0, 0] == pytest.approx(expected, rel=1e-12)
