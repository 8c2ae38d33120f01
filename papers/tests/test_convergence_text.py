"""The document of `fairlead converge` shows the numbers of the run."""

from __future__ import annotations

import numpy as np

from fairlead.model.problem import Problem
from fairlead.report.terminal import to_terminal
from fairlead_papers.distributed.convergence import (
    Settlement,
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


def test_each_phase_has_a_row() -> None:
    problem = random_problem(np.random.default_rng(1), 4, 2, 2)
    changes = (JoinOrLeave(7.0, 0, False), JoinOrLeave(19.0, 0, True))
    setting = AsynchronousSetting(problem, 60.0, changes, delay=Delay(0.02, 0.1))
    settlement = compare_with_exact(run_asynchronously(setting, sample=0.5))
    lines = [" ".join(line.split()) for line in text_of(settlement).splitlines()]
    what = ("0 s start", "7 s u1 leaves", "19 s u1 joins")
    for settled, said in zip(settlement.settled, what, strict=True):
        seconds = [
            "not settled" if s is None else f"{s:.4g} s" for s in (settled.close, settled.certified)
        ]
        assert f"{said} {len(settled.phase.users)} {' '.join(seconds)}" in lines
