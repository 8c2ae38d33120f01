"""Real traces from file to figures: MetaCentrum's log and Alibaba's openb pods."""

from __future__ import annotations

import pytest

import fairlead
from oracles.log_checks import check_log
from shared_traces import OPENB, WAGAP

POLICIES = ["drf/best-fit", "ps-dsf/joint", "slots:14"]


@pytest.mark.parametrize("trace", [WAGAP, OPENB], ids=["metacentrum", "openb"])
def test_a_real_trace_from_file_to_figures(trace, tmp_path):
    outcomes = fairlead.simulate(trace, POLICIES, folder=tmp_path)
    assert list(outcomes) == POLICIES
    for name, outcome in outcomes.items():
        check_log(outcome.workload, outcome.log)
        figures = outcome.to_dict()
        tasks = outcome.workload.n_tasks
        assert figures["completed"] + figures["unplaceable"] == figures["tasks"] == tasks, name
        assert figures["completed"] > 0.9 * tasks
        assert all(0 < used < 1 for used in figures["utilization"].values() if used is not None)
        assert figures["mean_wait"] >= 0
        assert sum(user["completed"] for user in figures["users"].values()) == figures["completed"]
    again = fairlead.simulate(trace, POLICIES, folder=tmp_path)
    for name, outcome in again.items():
        assert outcome.to_dict() == outcomes[name].to_dict()
