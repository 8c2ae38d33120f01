"""Studies of several traces and variations: pairs over the same jobs, with intervals."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp

import fairlead
from fairlead.cli.main import run
from fairlead.errors import InputError
from fairlead.model.workload import Workload
from fairlead.report.study_document import change_figure
from fairlead.scheduler.own_rules import ClusterView, GroupView
from fairlead.simulation.simulate import simulate
from fairlead.simulation.studies import MEASURES, Study, figures_of, interval_of, study
from fairlead.traces.generator import generate_day
from fairlead.traces.time_window import time_window
from fairlead.traces.what_if import resampled, with_load
from random_runs import jobs_on_a_server

pytestmark = pytest.mark.usefixtures("few_instants")
LOGS = Path(__file__).parents[2] / "examples" / "logs"


def a_day(jobs: int) -> Workload:
    return generate_day(servers=4, users=3, jobs=jobs, hours=60, seed=3)


@cache
def of_two_policies() -> Study:
    return study(a_day(40), ["drf/first-fit", "fifo/first-fit"], seeds=4, load=2, processes=1)


def test_intervals_are_those_of_scipy() -> None:
    for seed in range(20):
        values = np.random.default_rng(seed).normal(size=2 + seed)
        found, known = interval_of(values), ttest_1samp(values, 0).confidence_interval(0.95)
        assert (found.low, found.high) == pytest.approx((known.low, known.high))
        assert found.mean == pytest.approx(values.mean())


def test_missing_figures_are_left_out_of_pairs() -> None:
    found = interval_of(np.array([1.0, np.nan, 3.0, np.inf]))
    assert (found.mean, found.count) == (2.0, 2)
    assert interval_of(np.array([np.nan])).count == 0
    single = interval_of(np.array([5.0]))
    assert (single.mean, single.count, single.is_clear) == (5.0, 1, False)
    assert np.isnan(single.low)


def test_each_variation_is_replayed_under_every_policy() -> None:
    day = a_day(20)
    policies = ["drf/first-fit", "drf/rrr"]
    found = study({"day": day}, policies, seeds=3, seed=7)
    assert found.policies == tuple(policies)
    assert [str(each) for each in found.variations] == [f"day, seed {k}" for k in (7, 8, 9)]
    for column, seed in enumerate((7, 8, 9)):
        outcomes = simulate(resampled(day, seed), policies, seed=seed, processes=1)
        for row, policy in enumerate(policies):
            expected = figures_of(outcomes[policy])
            got = {name: rows[row, column] for name, rows in found.figures.items()}
            assert got == pytest.approx(expected, nan_ok=True)
    rows = found.figures["mean_wait"]
    assert found.difference("mean_wait", "drf/rrr") == interval_of(rows[1] - rows[0])


def served_first(view: ClusterView) -> object:
    return next((group for group in view.waiting if view.fits(group)), None)


def test_traces_under_a_load_are_those_of_single_replays() -> None:
    day = a_day(40)
    windows = {"first": time_window(day, 0, 36_000), "next": time_window(day, 36_000, 90_000)}
    policies = {"own": served_first}
    found = study(windows, policies, load=1.5, processes=1)
    rows = found.to_frame().filter(measure="mean_wait").to_dicts()
    assert [row["trace"] for row in rows] == ["first", "next"]
    for row in rows:
        part = windows[row["trace"]]
        by_option = simulate(part, policies, load=1.5, processes=1)["own"]
        run = simulate(with_load(part, 1.5), policies, processes=1)["own"]
        assert by_option.to_dict() == run.to_dict()
        assert row["value"] == pytest.approx(figures_of(run)["mean_wait"])
        assert (row["seed"], row["policy"]) == (None, "own")


def test_frames_have_the_intervals() -> None:
    found = of_two_policies()
    for what, policy, interval in (
        ("means", "drf/first-fit", found.mean),
        ("differences", "fifo/first-fit", found.difference),
    ):
        (row,) = found.to_frame(what).filter(policy=policy, measure="mean_wait").to_dicts()
        known = interval("mean_wait", policy)
        assert (row["mean"], row["low"], row["high"]) == (known.mean, known.low, known.high)


def test_a_picture_has_the_intervals() -> None:
    found = of_two_policies()
    for name in ("mean_wait", "mean_slowdown"):
        figure, expected = change_figure(found, name), found.difference(name, "fifo/first-fit")
        assert figure is not None
        low, high, _ = figure.traces[1].x
        assert high / low == pytest.approx(expected.high / expected.low, rel=1e-4)
        assert name.replace("_", " ") in found.plot(name).title
    with pytest.raises(InputError, match="mean_wait"):
        found.plot("waits")


@pytest.mark.parametrize(
    ("options", "place"),
    [
        *(({"seeds": seeds}, "seeds") for seeds in (1, 2.5, "3", 10**9)),
        *(({"load": load}, "load") for load in (0.0, [2])),
        ({"policies": "recorded"}, "recorded"),
    ],
)
def test_unusable_parts_of_studies_are_refused(options: Any, place: str) -> None:
    with pytest.raises(InputError, match=place):
        study(a_day(20), **({"policies": "drf/first-fit", "processes": 1} | options))


def test_files_are_traces_of_a_study() -> None:
    files = [LOGS / "lab.swf", str(LOGS / "metacentrum.swf.gz")]
    found = study(files, "drf/first-fit", until=20_000.0, processes=1)
    assert [each.trace for each in found.variations] == [str(file) for file in files]
    with pytest.raises(InputError, match="twice"):
        study([files[0], str(files[0])], "drf/first-fit")


def test_the_command_shows_what_study_returns(capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(LOGS / "lab.swf")
    policies = ["drf/first-fit", "fifo/first-fit"]
    words = [word for policy in policies for word in ("-p", policy)]
    assert run(["simulate", trace, *words, "--seeds", "2", "--load", "0.5", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    found = study(trace, policies, seeds=2, load=0.5).to_dict()
    assert {name: shown[name] for name in found} == found


@pytest.mark.parametrize("more", [["--runs", "x"], ["--explain", "ana"], [str(LOGS)]])
def test_options_of_one_replay_are_refused(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    trace = str(LOGS / "lab.swf")
    assert run(["simulate", trace, "-p", "drf/first-fit", "--seeds", "2", *more]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def small_only(view: ClusterView) -> GroupView | None:
    """Start tasks of one core; larger ones wait for ever."""
    return next((g for g in view.waiting if g.demand["cpu"] == 1 and view.fits(g)), None)


def never(view: ClusterView) -> None:
    """Start nothing."""


def one_large_and_two_small() -> Workload:
    """Return jobs of 4, 1 and 1 cores for a server of 4, of 10 s, the last one 20 s later."""
    rows = [(0, 0.0, 4.0, 10.0), (0, 0.0, 1.0, 10.0), (0, 20.0, 1.0, 10.0)]
    return jobs_on_a_server(4.0, rows, users=["ana"])


def differences_in(found: Study, policy: str) -> dict[str, float | None]:
    rows = found.to_frame("differences").filter(policy=policy).to_dicts()
    return {row["measure"]: row["mean"] for row in rows}


def test_pairs_are_over_the_jobs_complete_under_both() -> None:
    policies = ["fifo/first-fit", small_only, never]
    found = study(one_large_and_two_small(), policies, processes=1)
    assert found.mean("mean_wait", "fifo/first-fit").mean == pytest.approx(10 / 3)
    assert found.mean("mean_wait", "small_only").mean == 0
    # The small jobs wait 10 s and 0 s under fifo, where the large one is before them.
    small = differences_in(found, "small_only")
    assert small["mean_wait"] == -5
    assert small["p95_wait"] == -10
    assert small["mean_completion_time"] == -5
    assert small["mean_slowdown"] == small["mean_bounded_slowdown"] == -0.5
    assert small["waiting"] == 1
    assert list(small) == list(MEASURES)
    assert small["makespan"] is None  # its work is not done
    nothing = differences_in(found, "never")
    assert nothing["waiting"] == 3
    # Until the last submission; under fifo some task of ana runs all that time.
    assert found.mean("longest_without", "never").mean == 20
    assert found.mean("longest_without", "fifo/first-fit").mean == 0
    assert nothing["mean_wait"] is nothing["makespan"] is nothing["mean_slowdown"] is None


def test_answers_name_policies_that_leave_tasks_waiting() -> None:
    policies = ["fifo/first-fit", small_only, never]
    traces = {"a": one_large_and_two_small(), "b": one_large_and_two_small()}
    found = study(traces, policies, processes=1)
    small, nothing = found.cautions
    assert "under small_only 2 tasks still wait at the end, in 2 of 2 variations" in small
    assert "under never 6 tasks" in nothing
    assert small in repr(found)
    runs = fairlead.simulate(one_large_and_two_small(), policies, processes=1)
    assert "1 task still waits" in repr(runs)
    assert runs.to_frame()["waiting"].to_list() == [0, 1, 3]
    warm = fairlead.simulate(one_large_and_two_small(), never, processes=1, warm_up=10)
    assert repr(warm) == "<never: 0 starts, until 0 s; 1 task still waits>"


@pytest.mark.parametrize(
    ("measure", "policy", "place"),
    [
        ("mean wait", "fifo/first-fit", "measure: must be one of mean_wait"),
        ("mean_wait", "nope", "policy: must be one of fifo/first-fit"),
        (["mean_wait"], "fifo/first-fit", "measure"),
        ("mean_wait", ["nope"], "policy"),
    ],
)
def test_unknown_measures_and_policies_are_named(measure: Any, policy: Any, place: str) -> None:
    found = study(one_large_and_two_small(), "fifo/first-fit", processes=1)
    for ask in (found.mean, found.difference):
        with pytest.raises(InputError, match=place):
            ask(measure, policy)
