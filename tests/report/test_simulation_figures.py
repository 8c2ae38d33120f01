"""The pictures of a simulation, against the measured figures."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fairlead.report._policy_comparison import compare_with_reference
from fairlead.report._simulation_figures import (
    LEAST_REDUCTION,
    completion_figure,
    policy_styles,
    reduction_figure,
    running_figure,
    shares_figure,
    slowdown_figure,
    users_drawn,
    utilisation_figure,
)
from fairlead.report.charts import css
from fairlead.report.plots import figure_of
from fairlead.simulation.metrics.distribution import cumulative_distribution
from fairlead.simulation.metrics.summary import summarise
from fairlead.simulation.simulate import Outcome
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload
from random_runs import jobs_on_a_server

POLICIES = ("drf/best-fit", "slots:4", "tsf/first-fit")
STYLES = policy_styles(POLICIES, POLICIES[0])
# Small workloads: under one a policy completes nothing (5), under one nobody waits (9).
SEEDS = (0, 5, 9)
CLOSE = 1e-3  # pictures have four digits


@cache
def outcomes_by_seed(seed: int) -> dict[str, Outcome]:
    workload = random_workload(seed)
    outcomes = {name: Outcome(name, workload, plain_replay(workload, name)) for name in POLICIES}
    for outcome in outcomes.values():
        vars(outcome)["summary"] = summarise(workload, outcome.log, instants=4)
    return outcomes


@pytest.mark.parametrize("seed", SEEDS)
def test_lines_have_the_measured_values(seed: int) -> None:
    outcomes = outcomes_by_seed(seed)
    last = len(outcomes[POLICIES[0]].workload.cluster.resources) - 1
    lines = utilisation_figure(outcomes, STYLES, last).traces
    for trace, outcome in zip(lines, outcomes.values(), strict=True):
        found = outcome.summary.utilization.share[:, last]
        assert trace.y == pytest.approx(found, nan_ok=True)
    for draw, time in ((completion_figure, "completion"), (slowdown_figure, "slowdown")):
        measured = [getattr(outcome.summary.jobs, time) for outcome in outcomes.values()]
        known = [times for times in measured if not np.isnan(times).all()]
        figure = draw(outcomes, STYLES)
        assert (figure is None) == (not known)
        for trace, times in zip(figure.traces if figure else [], known, strict=True):
            value, part = cumulative_distribution(times)
            assert trace.y == pytest.approx(part, rel=CLOSE)
            assert figure.x.ends[0] <= trace.x[0] <= trace.x[-1] <= figure.x.ends[1]
            assert trace.x == pytest.approx(np.maximum(value, trace.x[0]), rel=CLOSE)


def test_axes_of_time_have_dates_where_the_log_has() -> None:
    """A server has a task for each of three days from Monday 3 March 2025, 06:00."""
    rows = [(0, submit, 1.0, 86_400.0) for submit in (0.0, 2 * 86_400.0)]
    workload = jobs_on_a_server(1.0, rows, users=["ana"], start_date=1_740_981_600.0)
    name = POLICIES[0]
    dated = Outcome(name, workload, plain_replay(workload, name))
    shares = shares_figure(workload, dated.summary.shares, np.array([0]), 3 * 86_400.0)
    for figure in (utilisation_figure({name: dated}, STYLES, 0), shares):
        marks = {label: value for value, label in figure.x.marks or ()}
        size = {"d": 86_400, "h": 3600}[figure.x.unit]
        assert marks["Tue 4 Mar"] * size == pytest.approx(18 * 3600)  # after the start
        assert re.search(r"\w{3} \d Mar \d\d:\d\d$", figure.traces[0].texts[0])
    plain = Outcome(name, replace(workload, start_date=None), dated.log)
    figure = utilisation_figure({name: plain}, STYLES, 0)
    assert figure.x.marks is None
    assert figure.traces[0].texts[0].endswith(" d")


@pytest.mark.parametrize("seed", SEEDS)
def test_bands_add_up_to_what_everybody_holds(seed: int) -> None:
    runs = [outcome.summary.shares for outcome in outcomes_by_seed(seed).values()]
    users = users_drawn(runs)
    held = np.sum([np.diff(shares.edges) @ shares.dominant for shares in runs], axis=0)
    assert held[users].tolist() == sorted(held, reverse=True)[: len(users)]
    for outcome in outcomes_by_seed(seed).values():
        shares = outcome.summary.shares
        figure = shares_figure(outcome.workload, shares, users, outcome.summary.until)
        total = np.sum([trace.y for trace in figure.traces], axis=0)
        assert total == pytest.approx(shares.dominant.sum(axis=1), rel=CLOSE, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_reductions_are_drawn_by_class(seed: int) -> None:
    others = compare_with_reference(outcomes_by_seed(seed), POLICIES[1], None).others
    reductions = [against.comparison.reduction for against in others]
    has_jobs = sum(reduction.jobs for reduction in reductions) > 0
    figure = reduction_figure(others, STYLES)
    assert (figure is None) == (not has_jobs.any())
    if figure is None:
        return
    labels = [label for label, some in zip(reductions[0].labels, has_jobs, strict=True) if some]
    assert [label for _, label in figure.x.marks] == labels
    for trace, reduction in zip(figure.traces, reductions, strict=True):
        expected = np.maximum(reduction.of_means[has_jobs], LEAST_REDUCTION)
        assert trace.y == pytest.approx(expected, rel=CLOSE, nan_ok=True, abs=1e-12)


def test_no_two_policies_look_alike() -> None:
    names = [f"policy-{k}" for k in range(25)]
    styles = policy_styles(names, "policy-3")
    assert css(styles["policy-3"]["colour"]) == "var(--ink)"
    assert len({(s["colour"], s["dash"]) for s in styles.values()}) == 25
    assert list(styles) == names


def test_running_tasks_are_drawn_after_each_change() -> None:
    log = outcomes_by_seed(0)[POLICIES[0]].log
    figure = running_figure(log)
    assert figure is not None
    (running,) = figure.traces
    size = log.end.max() / max(running.x)
    for x, y in zip(running.x, running.y, strict=True):
        # Written times have six digits: a moment after is past the change.
        moment = x * size * (1 + 1e-5) + 1e-6
        assert y == ((log.start <= moment) & (log.end > moment)).sum()


def test_shares_are_drawn_until_the_last_submission() -> None:
    """A task of 1,000 h ends long after the last submission, at 2 h."""
    rows = [(0, 0.0, 1.0, 3_600_000.0), (1, 0.0, 1.0, 3600.0), (0, 7200.0, 1.0, 60.0)]
    workload = jobs_on_a_server(2.0, rows)
    run = Outcome("drf/best-fit", workload, plain_replay(workload, "drf/best-fit"))
    _, figure = figure_of(run)
    assert figure is not None
    ana, bo = figure.traces
    end = figure.x.ends[1]
    assert end == pytest.approx(2)  # hours
    assert 1.9 < max(ana.x) < end
    assert set(ana.y) == {0.5}
    # bo held its half for an hour.
    assert all(y == (0.5 if x < 1 else 0) for x, y in zip(bo.x, bo.y, strict=True))


def test_short_times_are_drawn_at_the_end_of_the_axis() -> None:
    workload = jobs_on_a_server(2.0, [(0, 0.0, 1.0, 0.25), (0, 0.0, 1.0, 60.0)])
    outcome = Outcome("drf/best-fit", workload, plain_replay(workload, "drf/best-fit"))
    figure = completion_figure({outcome.name: outcome}, policy_styles([outcome.name], ""))
    assert figure is not None
    assert list(figure.traces[0].x) == [1.0, 60.0]
