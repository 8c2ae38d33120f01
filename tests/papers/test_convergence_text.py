"""The document of `fairlead converge` shows the numbers of the run."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.model.problem import Problem
from fairlead.report.terminal import to_terminal
from fairlead_papers.distributed.convergence import (
    Settlement,
    changes_text,
    compare_with_exact,
    convergence_document,
)
from fairlead_papers.distributed.network_setting import AsynchronousSetting, Delay, JoinOrLeave
from fairlead_papers.distributed.simulated_run import run_asynchronously
from random_problems import random_problem


def text_of(settlement: Settlement) -> str:
    return to_terminal(convergence_document(settlement, "x"), width=None, plain=True)


def test_a_mechanism_without_an_answer_is_named() -> None:
    problem = Problem.from_arrays([[1.0]], [[1.0]] * 2, rates=[[1.0], [2.0]])
    run = run_asynchronously(AsynchronousSetting(problem, 5.0, time_shared=True))
    refused = "TSF: its definition does not admit given rates"
    assert refused in text_of(compare_with_exact(run))


def test_phases_users_and_groups_are_listed() -> None:
    problem = random_problem(np.random.default_rng(1), 4, 2, 2)
    leaves_and_returns = (JoinOrLeave(7.0, 0, False), JoinOrLeave(19.0, 0, True))
    setting = AsynchronousSetting(problem, 60.0, leaves_and_returns, delay=Delay(0.02, 0.1))
    settlement = compare_with_exact(run_asynchronously(setting, sample=0.5))
    run = settlement.run
    lines = [" ".join(line.split()) for line in text_of(settlement).splitlines()]
    assert [changes_text(settlement, phase) for phase in run.phases] == [
        "start",
        "u1 leaves",
        "u1 joins",
    ]
    for settled, begin in zip(settlement.settled, ("0 s", "7 s", "19 s"), strict=True):
        seconds = [
            "not settled" if s is None else f"{s:.4g} s" for s in (settled.close, settled.certified)
        ]
        present, changes = len(settled.phase.users), changes_text(settlement, settled.phase)
        assert f"{begin} {changes} {present} {' '.join(seconds)}" in lines
    for g, group in enumerate(run.setting.problem.cluster.groups):
        used = " ".join(f"{100 * part:.2f} %" for part in run.utilisation[-1, g])
        assert f"{group} {used}" in lines
    for n, user in enumerate(run.setting.problem.users.names):
        (row,) = [line.split() for line in lines if line.startswith(f"{user} ")]
        tasks = [
            run.user_tasks[-1, n],
            *(settlement.exact_tasks(m, 2)[n] for m in settlement.exact),
        ]
        assert [float(cell) for cell in row[3:]] == pytest.approx(tasks, rel=1e-3)
