"""Gangs in replays start, are withdrawn and are lost as the plain replay has it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_open_core import IN_TURN

from fairlead.simulation import replay as replaying
from oracles.plain_replay import plain_replay
from oracles.random_workloads import crowded_workload, odd_amounts_workload, random_workload

MAKERS = (random_workload, crowded_workload, odd_amounts_workload)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("portion", [2, replaying.PORTION])
@pytest.mark.parametrize("policy", IN_TURN)
def test_gangs_are_replayed_as_they_are_plainly(
    policy: str, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "PORTION", portion)  # gangs are larger than two
    gangs = lost = withdrawn = 0
    for seed, make in enumerate(MAKERS * 3):
        workload = make(seed)
        is_gang = workload.job_gang & (workload.job_tasks > 1)
        is_withdrawn = is_gang & (np.arange(workload.n_jobs) % 3 > 0)
        cancel = np.where(is_withdrawn, workload.job_submit + 2.0, workload.job_cancel)
        workload, strict = replace(workload, job_cancel=cancel), seed % 2 > 0
        log = replaying.replay(workload, policy, strict_fifo=strict)
        plain = plain_replay(workload, policy, strict_fifo=strict)
        for name in ("task", "server", "start", "end", "lost"):
            assert np.array_equal(getattr(log, name), getattr(plain, name))
        job = workload.set_job[np.searchsorted(workload.first_task, log.task, side="right") - 1]
        gangs += int(is_gang.sum())
        lost += int((log.lost & is_gang[job]).sum())
        withdrawn += int(is_withdrawn.sum())
    assert gangs >= 10
    assert lost >= 3
    assert withdrawn >= 3
