"""The published ranking on the quick day, as `fairlead reproduce --quick` runs it."""

from __future__ import annotations

import pytest

from fairlead.executors.local_processes import Processes
from fairlead.simulation.metrics.summary import Summary
from fairlead_papers import setting as setting_module
from fairlead_papers.entries import CATALOGUE, reproduce
from fairlead_papers.setting import Setting


@pytest.fixture(scope="module")
def setting() -> Setting:
    """One day for all tests of this file, whose runs they share."""
    return Setting(quick=True, executor=Processes(1))


@pytest.mark.parametrize("key", [f"drfh/{name}" for name in ("figure-5", "table-2", "figure-6")])
def test_all_claims_hold(setting: Setting, key: str) -> None:
    found = reproduce(CATALOGUE[key], setting)
    assert all(claim.holds for claim in found.claims), found.reason


def test_resources_are_used_far_better_than_in_slots(setting: Setting) -> None:
    """Moments go either way on so few servers, so only means are held here."""
    in_the_mean, _, above_slots = reproduce(CATALOGUE["drfh/figure-5"], setting).claims
    assert in_the_mean.holds, in_the_mean.measured
    assert above_slots.holds, above_slots.measured


def test_one_size_of_slots_is_best(setting: Setting) -> None:
    one_is_best, _ = reproduce(CATALOGUE["drfh/table-2"], setting).claims
    assert one_is_best.holds, one_is_best.measured


def test_few_lose_by_sharing(setting: Setting) -> None:
    found = reproduce(CATALOGUE["drfh/figure-8"], setting)
    assert found.readings[0].ours <= 0.05
    assert all(claim.holds for claim in found.claims), found.reason


def test_almost_nobody_has_less_done_than_in_slots(setting: Setting) -> None:
    found = reproduce(CATALOGUE["drfh/figure-7"], setting)
    assert found.claims[0].holds, found.reason
    assert found.data["all_tasks_can_end_in_time"] >= (
        sum(ratio >= 1 for ratio in found.data["completion_ratio"]["drf/best-fit"]) / 100
    )


def test_large_jobs_gain_more_than_small_ones(setting: Setting) -> None:
    found = reproduce(CATALOGUE["drfh/figure-6"], setting)
    mean = found.data["mean_reduction"]
    assert mean[-1] > mean[0]
    assert found.claims[0].holds, found.reason


def test_runs_are_not_repeated(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise AssertionError("it ran again")

    before = setting.replay_day("drf/best-fit", "slots:14", dedicated=True)
    monkeypatch.setattr(setting_module, "run_policies", fails)
    after = setting.replay_day("drf/best-fit", "slots:14", dedicated=True)
    assert list(after) == ["drf/best-fit", "slots:14", "drf/best-fit, dedicated"]
    assert all(isinstance(summary, Summary) for summary in after.values())
    assert all(after[name] is before[name] for name in after)
    with pytest.raises(AssertionError, match="it ran again"):
        setting.replay_day("slots:11")
