"""The pictures of a simulation, against the measured figures."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from fairlead.model.cluster import Cluster, FloatArray, IntArray
from fairlead.model.workload import Workload
from fairlead.report._against_today import compare_with_today
from fairlead.report._simulation_figures import (
    LEAST_REDUCTION,
    completion_figure,
    policy_styles,
    reduction_figure,
    shares_figure,
    slowdown_figure,
    users_drawn,
    utilisation_figure,
)
from fairlead.report.charts import Figure, Trace, css
from fairlead.simulation.metrics.summary import summarise
from fairlead.simulation.simulate import Outcome
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload

POLICIES = ("drf/best-fit", "slots:4", "tsf/first-fit")
# Small workloads: under some, a policy completes nothing (5, 12), nobody waits and no fair shares
# are known (9), or a time has no error (6).
SEEDS = (0, 5, 6, 9, 12, 18)
CLOSE = 1e-3  # pictures have four digits


@cache
def outcomes_by_seed(seed: int) -> dict[str, Outcome]:
    workload = random_workload(seed)
    outcomes = {name: Outcome(name, workload, plain_replay(workload, name)) for name in POLICIES}
    for outcome in outcomes.values():
        vars(outcome)["summary"] = summarise(workload, outcome.log, instants=4)
    return outcomes


def heights(trace: Trace) -> FloatArray:
    """Return the drawn values of a line, NaN where it has a gap."""
    return np.array([np.nan if y is None else y for y in trace["y"]])


@pytest.mark.parametrize("seed", SEEDS)
def test_distributions_are_parts_of_what_was_measured(seed: int) -> None:
    outcomes = outcomes_by_seed(seed)
    styles = policy_styles(POLICIES, POLICIES[0])
    measured = {
        completion_figure: lambda o: o.summary.jobs.completion,
        slowdown_figure: lambda o: o.summary.jobs.slowdown,
    }
    for draw, measure in measured.items():
        values = [measure(o)[~np.isnan(measure(o))] for o in outcomes.values()]
        figure = draw(outcomes, styles)
        assert (figure is None) == (not any(map(len, values)))
        if figure is None:
            continue
        low, high = 10 ** np.array(figure["layout"]["xaxis"]["range"])
        some = [v for v in values if len(v)]
        for trace, there in zip(figure["data"], some, strict=True):
            assert trace["y"][-1] == 1
            for x, part in zip(trace["x"], trace["y"], strict=True):
                assert low <= x * (1 + CLOSE)
                assert x * (1 - CLOSE) <= high
                assert (there <= x * (1 + CLOSE)).mean() >= part * (1 - CLOSE)
                below = (there < x * (1 - CLOSE)).mean()
                assert below <= part * (1 + CLOSE)


def dated(shown: bool) -> dict[str, Outcome]:
    """Three days of one server from Monday 3 March 2025, 06:00."""
    workload = Workload.from_arrays(
        Cluster(("s",), ("cpu",), np.ones((1, 1)), np.array([1]), ("",), ({},)),
        ["ana"],
        job_user=[0, 0],
        job_submit=[0.0, 2 * 86_400.0],
        set_job=[0, 1],
        set_tasks=[1, 1],
        shapes=[[1.0]],
        set_shape=[0, 0],
        task_duration=[86_400.0, 86_400.0],
        start_date=1_740_981_600.0 if shown else None,
    )
    outcome = Outcome("drf/best-fit", workload, plain_replay(workload, "drf/best-fit"))
    return {"drf/best-fit": outcome}


def shares_of(outcome: Outcome, users: IntArray, until: float) -> Figure:
    return shares_figure(outcome.workload, outcome.summary.shares, users, until)


def test_axes_of_time_have_dates_where_the_log_has() -> None:
    outcomes = dated(shown=True)
    styles = policy_styles(list(outcomes), "")
    users, until = users_drawn([o.summary.shares for o in outcomes.values()]), 3 * 86_400.0
    shares = shares_of(outcomes["drf/best-fit"], users, until)
    for figure in (utilisation_figure(outcomes, styles, 0), shares):
        assert "Tue 4 Mar" in figure["layout"]["xaxis"]["ticktext"]
        axis = figure["layout"]["xaxis"]
        marks = dict(zip(axis["ticktext"], axis["tickvals"], strict=True))
        # Eighteen hours after the start.
        size = {" d": 86_400, " h": 3600}[axis["ticksuffix"]]
        assert marks["Tue 4 Mar"] * size == pytest.approx(18 * 3600)
        assert re.search(r"\w{3} \d Mar \d\d:\d\d$", figure["data"][0]["hovertext"][0])
    plain = dated(shown=False)
    figure = utilisation_figure(plain, styles, 0)
    assert "ticktext" not in figure["layout"]["xaxis"]
    assert figure["data"][0]["hovertext"][0].endswith(" d")


@pytest.mark.parametrize("seed", SEEDS)
def test_lines_over_time_are_the_averages_of_bins(seed: int) -> None:
    outcomes = outcomes_by_seed(seed)
    styles = policy_styles(POLICIES, POLICIES[0])
    figure = utilisation_figure(outcomes, styles, 0)
    size = {"d": 86_400, "h": 3600, "min": 60, "s": 1}[
        figure["layout"]["xaxis"]["ticksuffix"].strip()
    ]
    for trace, outcome in zip(figure["data"], outcomes.values(), strict=True):
        found = outcome.summary.utilization
        assert heights(trace) == pytest.approx(found.share[:, 0], rel=CLOSE, nan_ok=True)
        middles = (found.edges[1:] + found.edges[:-1]) / 2
        assert np.array(trace["x"]) * size == pytest.approx(middles, rel=CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_bands_add_up_to_what_everybody_holds(seed: int) -> None:
    outcomes = outcomes_by_seed(seed)
    users = users_drawn([o.summary.shares for o in outcomes.values()])
    held = [
        sum(
            float(np.diff(o.summary.shares.edges) @ o.summary.shares.dominant[:, n])
            for o in outcomes.values()
        )
        for n in range(len(next(iter(outcomes.values())).workload.users))
    ]
    assert [held[n] for n in users] == sorted(held, reverse=True)[: len(users)]
    for outcome in outcomes.values():
        figure = shares_of(outcome, users, outcome.summary.until)
        total = np.sum([trace["y"] for trace in figure["data"]], axis=0)
        everybody = outcome.summary.shares.dominant.sum(axis=1)
        assert total == pytest.approx(everybody, rel=CLOSE, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_reductions_are_drawn_by_class(seed: int) -> None:
    standing = compare_with_today(outcomes_by_seed(seed), "slots:4", None)
    figure = reduction_figure(standing.others, policy_styles(POLICIES, "slots:4"))
    n_jobs = sum(a.comparison.reduction.jobs for a in standing.others)
    labels = [
        label
        for label, n in zip(standing.others[0].comparison.reduction.labels, n_jobs, strict=True)
        if n
    ]
    if figure is None:
        assert not labels
        return
    assert figure["layout"]["xaxis"]["ticktext"] == labels
    for trace, against in zip(figure["data"], standing.others, strict=True):
        drawn = heights(trace)
        expected = np.maximum(against.comparison.reduction.of_means[n_jobs > 0], LEAST_REDUCTION)
        assert drawn == pytest.approx(expected, rel=CLOSE, nan_ok=True, abs=1e-12)


def test_no_two_policies_look_alike() -> None:
    names = [f"policy-{k}" for k in range(25)]
    styles = policy_styles(names, "policy-3")
    assert css(styles["policy-3"].colour) == "var(--ink)"
    assert len({(s.colour, s.dash) for s in styles.values()}) == 25
    assert list(styles) == names
