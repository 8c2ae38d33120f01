"""The 100 servers of Fig. 4: their totals, and the shares on them."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.model.workload import Workload
from fairlead.traces.generator import TABLE_I
from fairlead_papers.drfh._three_users import figure_4_park, shares_over_time
from fairlead_papers.entries import CATALOGUE, reproduce
from fairlead_papers.reproduction import EQUAL, WITHIN
from fairlead_papers.setting import Setting
from oracles.plain_replay import plain_replay

# Table I prints two digits of the trace's memory sizes.
UNROUNDED = {0.5: 0.4995, 0.25: 0.2493, 0.75: 0.749, 0.12: 0.1241, 1.0: 1.0}


def test_the_totals_are_those_of_the_paper() -> None:
    park = figure_4_park()
    assert park.count.sum() == 100
    assert {tuple(row) for row in park.capacity} <= {row[1:] for row in TABLE_I}
    cpu, memory = park.count @ park.capacity
    assert cpu == pytest.approx(52.75)
    assert memory == pytest.approx(51.37)
    unrounded = sum(
        count * UNROUNDED[size]
        for count, size in zip(park.count.tolist(), park.capacity[:, 1].tolist(), strict=True)
    )
    assert unrounded == pytest.approx(51.32, abs=0.005)


def test_the_shares_are_within_two_points_of_the_papers() -> None:
    for seed in (0, 1):
        found = reproduce(CATALOGUE["drfh/figure-4"], Setting(seed=seed))
        assert [reading.paper for reading in found.readings] == [0.4, 0.62, 0.44, 0.26]
        for reading in found.readings:
            assert abs(reading.ours - reading.paper) <= 0.02
            assert reading.verdict in (EQUAL, WITHIN)
        assert found.verdict == WITHIN


def test_shares_over_time_follow_the_definition() -> None:
    """Compute shares by hand on a small workload, replayed by the plain simulator."""
    workload = Workload.from_arrays(
        figure_4_park(),
        ["ana", "bo"],
        job_user=[0, 1],
        job_submit=[0.0, 3.0],
        set_job=[0, 1],
        set_tasks=[4, 3],
        shapes=[[0.2, 0.3], [0.5, 0.1]],
        task_duration=[2.0, 4.0, 1.0, 3.0, 2.0, 2.0, 5.0],
    )
    log = plain_replay(workload, "drf/best-fit")
    series = shares_over_time(workload, log, np.array([0.0, 2.0, 5.0, 9.0]))
    total = figure_4_park().total_capacity
    # Task seconds of Ana in each bin: 2 + 2 + 1 + 2, then 2 + 1, then 0; Bo starts at 3 s.
    ana, bo = np.array([7 / 2, 3 / 3, 0.0]), np.array([0.0, 6 / 3, 3 / 4])
    assert series[0] == pytest.approx(np.outer(ana, [0.2, 0.3] / total))
    assert series[1] == pytest.approx(np.outer(bo, [0.5, 0.1] / total))
    assert series[1].max(axis=1) == pytest.approx(bo * 0.5 / total[0])
