"""The 100 servers of Fig. 4: their totals, the shares on them, and why 26 % is impossible."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product
from math import ceil

import numpy as np
import pytest

from fairlead.model.workload import Workload
from fairlead.traces.google_park import TABLE_I
from fairlead_papers.drfh._figure_4_workload import USERS, figure_4, figure_4_park
from fairlead_papers.drfh._three_users import shares_over_time
from fairlead_papers.entries import CATALOGUE, reproduce
from fairlead_papers.reproduction import EQUAL, WITHIN
from fairlead_papers.setting import Setting
from oracles.plain_replay import plain_replay

# Table I prints two digits of the trace's memory sizes.
UNROUNDED = {0.5: 0.4995, 0.25: 0.2493, 0.75: 0.749, 0.12: 0.1241, 1.0: 1.0}
CPU, MEMORY = F("52.75"), F("51.32")  # the printed totals
DEMAND = [(F(str(cpu)), F(str(memory))) for cpu, memory, _ in USERS]


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


def tasks_at(share: F, users: tuple[int, ...]) -> F:
    """Return the number of all tasks if each user has this dominant share."""
    return sum((share / max(DEMAND[n][0] / CPU, DEMAND[n][1] / MEMORY) for n in users), start=F(0))


def test_120_tasks_of_three_users_are_more_than_26_percent() -> None:
    at_least = tasks_at(F("0.435"), (0, 1))
    assert at_least >= 120
    assert float(tasks_at(F(1), (0, 1))) == pytest.approx(276.57, abs=0.01)
    assert float(tasks_at(F(1), (0, 1, 2))) == pytest.approx(447.63, abs=0.01)
    share = 120 / tasks_at(F(1), (0, 1, 2))
    assert float(share) == pytest.approx(0.268, abs=0.0005)
    assert share > F("0.265")
    # User 2 has at most 46 tasks before and at least 28 after, so at most 18 are replaced.
    before = ceil(F("0.435") / (DEMAND[1][0] / CPU))
    after = int(share / (DEMAND[1][0] / CPU))
    assert (before, after, before - after) == (46, 28, 18)


def test_tasks_of_user_3_fit_in_place_of_users_1_and_2() -> None:
    """Try all sets of tasks that fit on a server, for each class but one with 3 servers."""
    for count, cpu, memory in TABLE_I:
        if (cpu, memory) == (1.0, 0.5):
            assert count == 3
            continue
        capacity = (F(str(cpu)), F(str(memory)))
        fits = [
            tasks
            for tasks in product(range(6), repeat=3)
            if all(
                sum(k * d[r] for k, d in zip(tasks, DEMAND, strict=True)) <= capacity[r]
                for r in (0, 1)
            )
        ]
        for one, two, three in fits:
            if three == 0 and one:
                assert (one - 1, two, 1) in fits
            if three == 0 and two and memory >= 0.5:
                assert (one + 1, two - 1, 0) in fits
                assert (one, two - 1, 1) in fits


def test_few_servers_are_too_small_for_the_exchange() -> None:
    """With these totals there are 4 more servers with 0.25 memory than with 0.75."""
    park = figure_4_park()
    count = dict(zip(map(tuple, park.capacity.tolist()), park.count.tolist(), strict=True))
    assert count[0.5, 0.25] == count[0.5, 0.75] + 4
    assert sum(n for (_, memory), n in count.items() if memory < 0.3) <= 46 - 18


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


def test_no_user_runs_out_of_tasks() -> None:
    workload = figure_4()
    assert workload.n_servers == 100
    assert workload.cluster.total_capacity == pytest.approx([52.75, 51.37])
    assert workload.shapes[workload.set_shape].tolist() == [[0.2, 0.3], [0.5, 0.1], [0.1, 0.3]]
    assert workload.job_submit.tolist() == [0, 200, 500]
    assert workload.job_cancel.tolist() == [1080, 1500, 1500]
    # Even alone, a user cannot run all of its tasks until it leaves.
    room = workload.cluster.capacity[:, None, :] / workload.shapes[None, :, :]
    at_once = (np.floor(room.min(axis=2) + 1e-9) * workload.cluster.count[:, None]).sum(axis=0)
    stays = workload.job_cancel - workload.job_submit
    assert (workload.job_tasks * 30 > 1.5 * at_once * stays).all()
    assert figure_4(1).task_duration.tolist() != workload.task_duration.tolist()
    assert figure_4().task_duration.tolist() == workload.task_duration.tolist()
