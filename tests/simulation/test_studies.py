"""Studies of several traces and variations: differences in pairs, with intervals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from fairlead.cli.main import run
from fairlead.errors import InputError
from fairlead.simulation.simulate import simulate
from fairlead.simulation.studies import figures_of, paired, study
from fairlead.traces.generator import generate_day
from fairlead.traces.resampling import resampled


def test_intervals_are_those_of_scipy() -> None:
    for seed in range(20):
        values = np.random.default_rng(seed).normal(size=2 + seed)
        found, known = paired(values), ttest_1samp(values, 0).confidence_interval(0.95)
        assert (found.low, found.high) == pytest.approx((known.low, known.high))
        assert found.mean == pytest.approx(values.mean())


def test_about_95_of_100_intervals_hold_the_mean() -> None:
    rng = np.random.default_rng(1)
    found = [paired(rng.normal(3.0, 2.0, size=8)) for _ in range(2000)]
    assert 0.93 < np.mean([each.low <= 3.0 <= each.high for each in found]) < 0.97


def test_missing_figures_are_left_out_of_pairs() -> None:
    found = paired(np.array([1.0, np.nan, 3.0, np.inf]))
    assert (found.mean, found.pairs) == (2.0, 2)
    assert paired(np.array([np.nan])).pairs == 0
    single = paired(np.array([5.0]))
    assert (single.mean, single.pairs, single.is_clear) == (5.0, 1, False)
    assert np.isnan(single.low)


def test_each_variation_is_replayed_under_every_policy() -> None:
    day = generate_day(servers=12, users=5, jobs=150, hours=60, seed=3)
    policies = ["drf/best-fit", "drf/rrr"]
    found = study({"day": day}, policies, seeds=3, seed=7)
    assert found.policies == tuple(policies)
    assert found.variations == ("day, seed 7", "day, seed 8", "day, seed 9")
    for column, seed in enumerate((7, 8, 9)):
        outcomes = simulate(resampled(day, seed), policies, seed=seed, processes=1)
        for row, policy in enumerate(policies):
            expected = figures_of(outcomes[policy])
            got = {name: rows[row, column] for name, rows in found.figures.items()}
            assert got == pytest.approx(expected, nan_ok=True)
    rows = found.figures["mean wait"]
    assert found.difference("mean wait", "drf/rrr") == paired(rows[1] - rows[0])


@pytest.mark.parametrize("seeds", [0, 1, -1, 2.5, "3", 10**9])
def test_wrong_numbers_of_seeds_are_refused(seeds: int) -> None:
    day = generate_day(servers=12, users=5, jobs=50, hours=60)
    with pytest.raises(InputError):
        study({"day": day}, ["drf/best-fit"], seeds=seeds)


def test_a_recorded_run_is_refused() -> None:
    day = generate_day(servers=12, users=5, jobs=50, hours=60)
    with pytest.raises(InputError):
        study({"day": day}, ["drf/best-fit", "recorded"])


LOGS = Path(__file__).parents[2] / "examples" / "logs"


def test_the_command_compares_several_traces(capsys: pytest.CaptureFixture[str]) -> None:
    traces = [str(LOGS / name) for name in ("lab.swf", "metacentrum.swf.gz")]
    policies = ["-p", "drf/best-fit", "-p", "fifo/best-fit"]
    assert run(["simulate", *traces, *policies, "--seeds", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["variations"]) == 4
    difference = found["differences"]["fifo/best-fit"]["mean wait"]
    assert difference["pairs"] == 4
    assert difference["low"] <= difference["mean"] <= difference["high"]
    assert run(["simulate", *traces, *policies]) == 0
    assert "in 2 variations" in capsys.readouterr().out


@pytest.mark.parametrize(
    "more", [["--runs", "x"], ["--explain", "ana"], ["--today", "drf/best-fit"], [str(LOGS)]]
)
def test_options_of_one_replay_are_refused(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    trace = str(LOGS / "lab.swf")
    assert run(["simulate", trace, "-p", "drf/best-fit", "--seeds", "2", *more]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
