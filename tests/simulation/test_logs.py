"""Logs from file to figures: one of MetaCentrum's and Alibaba's openb pods."""

from __future__ import annotations

import pytest

import fairlead
from oracles.log_checks import check_log

POLICIES = ["drf/best-fit", "ps-dsf/joint", "slots:14"]


@pytest.mark.parametrize("log", ["metacentrum_log", "openb_folder"], indirect=True)
def test_a_log_from_file_to_figures(log, tmp_path):
    outcomes = fairlead.simulate(log, POLICIES, folder=tmp_path)
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
    again = fairlead.simulate(log, POLICIES, folder=tmp_path)
    for name, outcome in again.items():
        assert outcome.to_dict() == outcomes[name].to_dict()
