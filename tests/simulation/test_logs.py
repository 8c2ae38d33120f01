"""Logs from file to figures: one of MetaCentrum's and Alibaba's openb pods."""

from __future__ import annotations

import numpy as np
import pytest

import fairlead
from oracles.log_checks import check_log

pytestmark = pytest.mark.usefixtures("few_instants")


@pytest.mark.parametrize(
    ("log", "policies"),
    [
        ("metacentrum_log", ["drf/best-fit", "ps-dsf/joint"]),
        ("openb_folder", ["drf/best-fit", "slots:14", "ps-dsf/joint"]),
    ],
    indirect=["log"],
)
def test_a_log_from_file_to_figures(log, policies, tmp_path, pytestconfig):
    if pytestconfig.getoption("traces") is None:  # joint takes long to compile
        policies = policies[:-1]
    outcomes = fairlead.simulate(log, policies, folder=tmp_path)
    assert list(outcomes) == policies
    for name, outcome in outcomes.items():
        check_log(outcome.workload, outcome.log)
        figures = outcome.to_dict()
        tasks = outcome.workload.n_tasks
        assert figures["completed"] + figures["unplaceable"] == figures["tasks"] == tasks, name
        assert figures["completed"] > 0.9 * tasks
        assert all(0 < used < 1 for used in figures["utilization"].values() if used is not None)
        assert figures["mean_wait"] >= 0
        assert sum(user["completed"] for user in figures["users"].values()) == figures["completed"]
    again = fairlead.simulate(log, policies, folder=tmp_path)
    for name, outcome in again.items():
        for column in ("task", "server", "start", "end", "lost", "set_unplaceable"):
            found, ran = (getattr(o.log, column) for o in (outcome, outcomes[name]))
            np.testing.assert_array_equal(found, ran, err_msg=column)
