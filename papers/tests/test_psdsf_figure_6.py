"""Fig. 6 of Khamse-Ashari et al. 2017, and the measurement of convergence."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from fairlead import Problem
from fairlead_papers.distributed.convergence import settling_time
from fairlead_papers.distributed.network_setting import AsynchronousSetting, JoinOrLeave
from fairlead_papers.distributed.simulated_run import run_asynchronously
from fairlead_papers.psdsf.four_classes import (
    CPU_OF_USER_2,
    Figure6,
    cluster_of_section_5,
    figure_6,
)

TABLE_III = [
    [80, 340, 82.5, 55],
    [40, 170, 41.25, 41.25],
    [0, 0, 82.5, 27.5],
    [0, 0, 27.5, 27.5],
]
FEW_SECONDS = 5.0
PHASES = ((0, 100), (100, 250), (250, 301))
C, D = 0, 1


@cache
def figure(cpu: float = CPU_OF_USER_2, *, apart: bool) -> Figure6:
    """Compute the figure once for each set of arguments: server by server it takes seconds."""
    return figure_6(cpu, apart=apart)


def settled_in(drawn: Figure6, first: int, last: int) -> np.ndarray:
    return (drawn.times >= first + FEW_SECONDS) & (drawn.times < last)


@pytest.mark.parametrize("cpu", [0.05, 0.1, CPU_OF_USER_2])
def test_table_iii_leaves_the_cpu_of_user_2_open(cpu: float) -> None:
    assert cluster_of_section_5(cpu).gamma == pytest.approx(np.array(TABLE_III))


@pytest.mark.parametrize("apart", [True, False])
def test_it_converges_within_seconds_of_each_change(apart: bool) -> None:
    drawn = figure(apart=apart)
    assert len(drawn.settlement.settled) == 3
    for settled in drawn.settlement.settled:
        assert settled.close is not None
        assert settled.certified is not None
        assert settled.close <= settled.certified <= FEW_SECONDS
    assert drawn.settlement.run.overuse <= 1e-9
    assert drawn.times.tolist() == list(range(301))


@pytest.mark.parametrize("apart", [True, False])
def test_ps_dsf_is_highest_on_c_and_d_in_every_phase(apart: bool) -> None:
    drawn = figure(apart=apart)
    for phase in PHASES:
        there = settled_in(drawn, *phase)
        ours = drawn.ps_dsf[there]
        assert ours == pytest.approx(1.0, abs=1e-6)
        # On whichever servers TSF and C-DRFH place users' tasks.
        for most in (drawn.tsf_range[there, :, 1], drawn.c_drfh_range[there, :, 1]):
            assert (ours[:, C] > most[:, C] + 0.05).all()
            assert (ours[:, D] >= most[:, D] - 1e-6).all()
    for name in ("tsf", "c_drfh"):
        drawn_split, free = getattr(drawn, name), getattr(drawn, f"{name}_range")
        assert (drawn_split >= free[:, :, 0] - 1e-6).all()
        assert (drawn_split <= free[:, :, 1] + 1e-6).all()


def test_with_less_cpu_for_user_2_class_d_is_not_full() -> None:
    drawn = figure(0.1, apart=False)  # where it settles is the same
    for first, last in PHASES:
        there = settled_in(drawn, first, last)
        away = first == 100  # user 4
        assert drawn.ps_dsf[there, C] == pytest.approx(1.0, abs=1e-6)
        assert drawn.ps_dsf[there, D] == pytest.approx(0.75 if away else 1.0, abs=1e-6)
        assert (drawn.tsf_range[there, C, 1] < 0.95).all()
        if away:  # where TSF puts its tasks decides
            assert drawn.tsf_range[there, D] == pytest.approx(np.array([[0.75, 1.0]] * there.sum()))


def test_the_totals_are_those_of_table_iv() -> None:
    settlement = figure(apart=True).settlement
    run = settlement.run
    assert run.user_tasks[99] == pytest.approx([210, 105, 82.5, 27.5], rel=1e-6)
    assert run.user_tasks[-1] == pytest.approx([210, 105, 82.5, 27.5], rel=1e-6)
    # Without user 4, class D goes to user 2, and A and B are shared so that levels are equal.
    assert run.user_tasks[200] == pytest.approx([251.25, 125.625, 82.5, 0], rel=1e-6)
    tsf = settlement.exact_tasks("tsf", 0)
    assert tsf == pytest.approx([205, 107.5, 58.33, 35.55], rel=1e-3)


def test_settling_time_ends_at_the_first_lasting_sample() -> None:
    problem = Problem.from_arrays([[1.0]], [[1.0]] * 2)
    run = run_asynchronously(
        AsynchronousSetting(problem, 10.0, (JoinOrLeave(6.0, 1, joins=False),))
    )
    run.violation[:] = [1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0]
    assert settling_time(run, run.phases[0], 0.5) == 4.0
    assert settling_time(run, run.phases[1], 0.5) == 2.0
    assert settling_time(run, run.phases[1], 2.0) == 0.0
    run.violation[-1] = np.inf
    assert settling_time(run, run.phases[1], 0.5) is None
    run.violation[-1] = np.nan
    assert settling_time(run, run.phases[1], 0.5) is None
