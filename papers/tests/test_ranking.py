"""The published ranking on the quick day, as `fairlead reproduce --quick` runs it."""

from __future__ import annotations

import pytest

from fairlead.executors.executor import Processes
from fairlead.simulation.metrics.summary import Summary
from fairlead_papers import setting as setting_module
from fairlead_papers.entries import CATALOGUE, reproduce
from fairlead_papers.setting import Setting

RUNS = ("drf/best-fit", "slots:14")


def test_the_ranking_holds_and_no_run_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(quick=True, executor=Processes(1))
    found = {
        name: reproduce(CATALOGUE[f"drfh/{name}"], setting)
        for name in ("figure-5", "table-2", "figure-6", "figure-7", "figure-8")
    }
    for name in ("figure-5", "table-2", "figure-6", "figure-8"):
        assert all(claim.holds for claim in found[name].claims), found[name].reason
    assert found["figure-8"].readings[0].ours <= 0.05
    # Fewer users than printed complete more under Best-Fit; most complete no less.
    few = found["figure-7"]
    assert few.claims[0].holds, few.reason
    assert few.data["all_tasks_can_end_in_time"] >= (
        sum(ratio >= 1 for ratio in few.data["completion_ratio"]["drf/best-fit"]) / 100
    )
    gain = found["figure-6"].data["mean_reduction"]
    assert gain[-1] > gain[0]

    before = setting.replay_day(*RUNS, dedicated=True)
    assert list(before) == [*RUNS, "drf/best-fit, dedicated"]
    assert all(isinstance(summary, Summary) for summary in before.values())

    def fails(*_: object, **__: object) -> None:
        raise AssertionError("it ran again")

    monkeypatch.setattr(setting_module, "run_policies", fails)
    after = setting.replay_day(*RUNS, dedicated=True)
    assert all(after[name] is before[name] for name in after)
    with pytest.raises(AssertionError, match="it ran again"):
        setting.replay_day("slots:11")
