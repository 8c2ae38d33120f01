"""Studies of several traces and variations: differences in pairs, with intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp

import fairlead
from fairlead.cli.main import run
from fairlead.errors import InputError
from fairlead.scheduler.own_rules import ClusterView
from fairlead.simulation.simulate import simulate
from fairlead.simulation.studies import figures_of, interval_of, study
from fairlead.traces.generator import generate_day
from fairlead.traces.resampling import resampled
from fairlead.traces.time_window import time_window
from fairlead.traces.what_if import with_load

pytestmark = pytest.mark.usefixtures("few_instants")


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
    day = generate_day(servers=4, users=3, jobs=20, hours=60, seed=3)
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


@pytest.mark.parametrize("seeds", [1, 2.5, "3", 10**9])
def test_wrong_numbers_of_seeds_are_refused(seeds: int) -> None:
    day = generate_day(servers=4, users=3, jobs=20, hours=60)
    with pytest.raises(InputError):
        study({"day": day}, ["drf/first-fit"], seeds=seeds)


def test_a_recorded_run_is_refused() -> None:
    day = generate_day(servers=4, users=3, jobs=20, hours=60)
    with pytest.raises(InputError):
        study({"day": day}, ["drf/first-fit", "recorded"])


def served_first(view: ClusterView) -> object:
    return next((group for group in view.waiting if view.fits(group)), None)


def test_traces_under_a_load_are_those_of_single_replays() -> None:
    day = generate_day(servers=4, users=3, jobs=40, hours=60, seed=3)
    windows = {"first": time_window(day, 0, 36_000), "next": time_window(day, 36_000, 90_000)}
    policies = {"own": served_first}
    found = fairlead.study(windows, policies, load=1.5, processes=1)
    rows = found.to_frame().filter(measure="mean_wait").to_dicts()
    assert [row["trace"] for row in rows] == ["first", "next"]
    for row in rows:
        part = windows[row["trace"]]
        by_option = simulate(part, policies, load=1.5, processes=1)["own"]
        run = simulate(with_load(part, 1.5), policies, processes=1)["own"]
        assert by_option.to_dict() == run.to_dict()
        assert row["value"] == pytest.approx(figures_of(run)["mean_wait"])
        assert (row["seed"], row["policy"]) == (None, "own")


def test_frames_have_intervals_of_means_and_differences() -> None:
    day = generate_day(servers=4, users=3, jobs=40, hours=60, seed=3)
    policies = ["drf/first-fit", "fifo/first-fit"]
    found = fairlead.study({"day": day}, policies, seeds=4, load=2, processes=1)
    runs = found.to_frame().filter(measure="mean_wait")
    means, differences = found.to_frame("means"), found.to_frame("differences")
    of = {p: runs.filter(policy=p)["value"].to_numpy() for p in policies}
    for policy, values in of.items():
        (row,) = means.filter(policy=policy, measure="mean_wait").to_dicts()
        known = ttest_1samp(values, 0).confidence_interval(0.95)
        assert row["runs"] == 4
        assert (row["mean"], row["low"], row["high"]) == pytest.approx(
            (values.mean(), known.low, known.high)
        )
    (row,) = differences.filter(measure="mean_wait").to_dicts()
    change = of["fifo/first-fit"] - of["drf/first-fit"]
    shown = runs.filter(policy="fifo/first-fit")["difference"]
    assert shown.to_list() == pytest.approx(change.tolist())  # all jobs are complete
    known = ttest_1samp(change, 0).confidence_interval(0.95)
    assert (row["policy"], row["pairs"]) == ("fifo/first-fit", 4)
    assert (row["mean"], row["low"], row["high"]) == pytest.approx(
        (change.mean(), known.low, known.high)
    )
    assert repr(found) == "<Study of drf/first-fit, fifo/first-fit: 4 variations>"


def test_a_picture_has_the_intervals() -> None:
    day = generate_day(servers=4, users=3, jobs=40, hours=60, seed=3)
    found = fairlead.study(day, ["drf/first-fit", "fifo/first-fit"], seeds=3, processes=1)
    for name in ("mean_wait", "mean_slowdown"):
        drawn, expected = found.plot(name), found.difference(name, "fifo/first-fit")
        low, high, _ = drawn.data[1].x
        assert high / low == pytest.approx(expected.high / expected.low, rel=1e-4)
        assert name.replace("_", " ") in drawn.layout.title.text
    with pytest.raises(InputError, match="mean_wait"):
        found.plot("waits")
    alone = fairlead.study(day, "drf/first-fit", seeds=2, processes=1)
    assert "two policies" in alone.plot().layout.title.text


def test_a_rule_that_raises_ends_the_study() -> None:
    def wrong(view: ClusterView) -> object:
        return view.waiting[9999]

    day = generate_day(servers=4, users=3, jobs=20, hours=60)
    with pytest.raises(fairlead.FairleadError, match="wrong: IndexError"):
        fairlead.study(day, {"wrong": wrong}, seeds=2, processes=1)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"load": 0.0}, "load"),
        ({"load": [2]}, "load"),
    ],
)
def test_unusable_parts_of_studies_are_refused(options: Any, place: str) -> None:
    day = generate_day(servers=4, users=3, jobs=20, hours=60)
    with pytest.raises(InputError, match=place):
        fairlead.study(day, "drf/first-fit", processes=1, **options)


def test_files_are_traces_of_a_study() -> None:
    files = [LOGS / "lab.swf", str(LOGS / "metacentrum.swf.gz")]
    found = fairlead.study(files, "drf/first-fit", until=20_000.0, processes=1)
    assert [each.trace for each in found.variations] == [str(file) for file in files]
    with pytest.raises(InputError, match="twice"):
        fairlead.study([files[0], str(files[0])], "drf/first-fit")


def test_the_command_shows_what_study_returns(capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(LOGS / "lab.swf")
    policies = ["drf/first-fit", "fifo/first-fit"]
    words = [word for policy in policies for word in ("-p", policy)]
    assert run(["simulate", trace, *words, "--seeds", "2", "--load", "0.5", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    found = fairlead.study(trace, policies, seeds=2, load=0.5).to_dict()
    assert {name: shown[name] for name in found} == found


LOGS = Path(__file__).parents[2] / "examples" / "logs"


@pytest.mark.parametrize("more", [["--runs", "x"], ["--explain", "ana"], [str(LOGS)]])
def test_options_of_one_replay_are_refused(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    trace = str(LOGS / "lab.swf")
    assert run(["simulate", trace, "-p", "drf/first-fit", "--seeds", "2", *more]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
