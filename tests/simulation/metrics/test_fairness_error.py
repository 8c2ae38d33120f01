"""The fairness error: users, tasks and servers of an instant, and examples by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import Problem, solve
from fairlead.model.quantity import exact
from fairlead.simulation.metrics.fairness_error import FairnessError, measure_fairness
from fairlead.simulation.metrics.task_outcomes import follow_tasks
from fairlead.simulation.metrics.utilization import capacity_over_time
from oracles.plain_metrics import PlainMetrics
from random_runs import Run, jobs_on_a_server, run_by_hand, runs


def errors_of(run: Run, until: float, **options: Any) -> FairnessError:
    return measure_fairness(*run, follow_tasks(*run), until, capacity_over_time(run[0]), **options)


def plain_fair(run: Run, t: Fraction, mechanism: str) -> list[Fraction]:
    """Weighted dominant shares, by the definition, of kinds as users of a problem."""
    workload, plain = run[0], PlainMetrics(*run)
    there, servers = plain.total(t), plain.servers(t)
    kinds: dict[tuple[int, int, tuple[bool, ...]], list[int]] = {}
    for task in plain.active(t):
        if not workload.weight[plain.user_of[task]]:
            continue
        place = int(workload.set_place[plain.set_of[task]])
        takes = tuple(d > 0 for d in plain.demand[task])
        kinds.setdefault((plain.user_of[task], place, takes), []).append(task)
    groups = [i for i, is_there in enumerate(servers) if is_there]
    rows = [plain.capacity[plain.group_of[i]] for i in groups]
    served = {}
    for (u, place, takes), tasks in kinds.items():
        open_to = [
            bool(workload.places[place][plain.group_of[i]])
            and all(c > 0 for c, takes_it in zip(row, takes, strict=True) if takes_it)
            for i, row in zip(groups, rows, strict=True)
        ]
        if any(open_to):
            served[u, place, takes] = (tasks, open_to)
    fair = [Fraction(0)] * workload.n_users
    if not served:
        return fair
    sums = {key: column_sums(plain, tasks) for key, (tasks, _) in served.items()}
    whole = {
        u: dominant(
            [sum(s) for s in zip(*(v for k, v in sums.items() if k[0] == u), strict=True)], there
        )
        for u, _, _ in served
    }
    problem = Problem.from_arrays(
        np.array(rows, dtype=float),
        np.array([[float(s / len(served[key][0])) for s in sums[key]] for key in served]),
        weight=[
            float(exact(workload.weight[key[0]]) * dominant(sums[key], there) / whole[key[0]])
            for key in served
        ],
        eligible=np.array([open_to for _, open_to in served.values()]),
        task_limit=[len(tasks) for tasks, _ in served.values()],
    )
    tasks = solve(problem, mechanism).user_tasks
    for u in {u for u, _, _ in served}:
        mine = [(k, key) for k, key in enumerate(served) if key[0] == u]
        given_to = [
            sum(Fraction(float(tasks[k])) * sums[key][r] / len(served[key][0]) for k, key in mine)
            for r in range(len(there))
        ]
        fair[u] = dominant(given_to, there) / exact(workload.weight[u])
    return fair


def column_sums(plain: PlainMetrics, tasks: list[int]) -> list[Fraction]:
    return [
        sum(column, Fraction(0)) for column in zip(*(plain.demand[t] for t in tasks), strict=True)
    ]


def dominant(amounts: list[Fraction], there: list[Fraction]) -> Fraction:
    return max(a / c if c else Fraction(0) for a, c in zip(amounts, there, strict=True))


@settings(max_examples=8)
@given(runs(), st.integers(1, 4), st.sampled_from([None, 1, 3]))
def test_held_and_fair_at_each_instant(run: Run, instants: int, half: int | None) -> None:
    """Some instants are whole seconds, at which tasks arrive, start and end."""
    workload, plain = run[0], PlainMetrics(*run)
    until = max(run[1].makespan, 4.0) if half is None else 2.0 * half * instants
    found = errors_of(run, until, instants=instants)
    assert found.unsolved == 0
    errors = []
    for i in range(instants):
        t = Fraction((i + 0.5) / instants * until)
        users = {plain.user_of[task] for task in plain.active(t)}
        users = {u for u in users if workload.weight[u]}
        assert found.active[i].tolist() == [u in users for u in range(workload.n_users)]
        held = [
            plain.share(t, u) / exact(weight) if weight else Fraction(0)
            for u, weight in enumerate(workload.weight)
        ]
        fair = plain_fair(run, t, "drfh")
        np.testing.assert_allclose(found.held[i], np.array(held, dtype=float), atol=1e-12)
        np.testing.assert_allclose(found.fair[i], np.array(fair, dtype=float), atol=1e-7)
        if users:
            apart = sum(abs(h - f) for h, f in zip(held, fair, strict=True))
            errors.append(float(apart / sum(fair)) if sum(fair) else 0.0)
            assert found.error[i] == pytest.approx(errors[-1], abs=1e-6)
        else:
            assert np.isnan(found.error[i])
    expected = sum(errors) / len(errors) if errors else float("nan")
    assert found.mean == pytest.approx(expected, nan_ok=True, abs=1e-6)


def test_two_users_by_hand() -> None:
    """Weights 1 and 3: of 8, two and six are fair; held are four and three."""
    rows = [(user, 0.0, 1.0, 10.0) for user in (0, 1) for _ in range(9)]
    workload = jobs_on_a_server(8.0, rows, users=["ana", "bo", "cy"], weight=[1.0, 3.0, 1.0])
    starts = [0.0] * 4 + [nan] * 5 + [0.0] * 3 + [nan] * 6
    run = run_by_hand(workload, starts)
    found = errors_of(run, 10.0, instants=2)
    assert found.time.tolist() == [2.5, 7.5]
    np.testing.assert_allclose(found.fair, [[0.25, 0.25, 0.0]] * 2)
    np.testing.assert_allclose(found.held, [[0.5, 0.125, 0.0]] * 2)
    np.testing.assert_allclose(found.error, [0.75, 0.75])
    np.testing.assert_allclose(found.user_error, [0.25, 0.125, np.nan])
    np.testing.assert_allclose(found.user_fair, [0.25, 0.25, np.nan])
    np.testing.assert_allclose(found.user_held, [0.5, 0.125, np.nan])
    assert found.mean == pytest.approx(0.75)
    assert found.jain == pytest.approx(2.5**2 / 2 / (2.0**2 + 0.5**2))
    owed = [-0.25 * 10 / 3600, 0.125 * 3 * 10 / 3600, 0]
    np.testing.assert_allclose(found.owed, owed)
    assert found.over(10.0) == pytest.approx(0.75)
    assert np.isnan(found.over(9.0))


def test_a_window_makes_up_for_what_was_held_before() -> None:
    """Two users have the cluster in turn, half an hour each; both are due half at all times."""
    time = (np.arange(8) + 0.5) * 900.0
    turn = np.repeat([[1.0, 0.0], [0.0, 1.0]], 2, axis=0)
    held = np.concatenate([turn, turn])
    always = np.ones((8, 2), dtype=bool)
    found = FairnessError("drfh", time, held, np.full((8, 2), 0.5), always, np.ones(2), 900.0)
    assert found.mean == 1.0
    assert found.over(1800.0) == 1.0
    assert found.over(3600.0) == 0.0
    assert found.over(5400.0) == pytest.approx((1 / 3 + 1) / 2)
    assert found.owed.tolist() == [0.0, 0.0]
    held[0] = [0.0, 0.0]  # ana held nothing for a quarter of an hour
    assert found.owed.tolist() == [0.25, 0.0]
    found.fair[1] = np.nan  # an instant without proof: it counts for nobody
    assert found.owed.tolist() == [0.375, -0.125]
    assert (found.unsolved, found.mean) == (1, 1.0)
    # Windows begin with the first instant: both quarters of an hour are in one.
    later = replace(found, since=1800.0, time=time + 1800.0)
    assert later.over(5400.0) == found.over(5400.0)
