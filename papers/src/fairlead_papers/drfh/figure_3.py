"""Figures 1 to 3 of Wang, Liang and Li 2014: two unlike servers, divided apart and together."""

from __future__ import annotations

import numpy as np

from fairlead.mechanisms.catalogue import solve
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.report.numbers import number
from fairlead_papers.drfh import PAPER
from fairlead_papers.reproduction import Reproduction
from fairlead_papers.setting import Setting
from fairlead_papers.verdict import PrintedClaim, Reading

# By user and server.
PER_SERVER_TASKS = np.array([[5.0, 1.0], [1.0, 5.0]])
TOGETHER_TASKS = np.array([[10.0, 0.0], [0.0, 10.0]])
DOMINANT_SHARE = 5 / 7


def figure_1() -> Problem:
    """Return the example: a server of much memory, one of much CPU, and users alike."""
    return Problem.from_arrays(
        [[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]], resources=["cpu", "memory"], units=["", "GB"]
    )


@PAPER.reproduces(
    "figure-3",
    "Figures 1 to 3",
    "two unlike servers and two users, by DRF server by server and by DRFH",
    "6 tasks each, 5 of them on the better server, when each server is divided by DRF; 10 each, "
    "with a global dominant share of 5/7, under DRFH",
    "a second",
)
def reproduce(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing of it is random)
    """Divide the two servers by DRF each, and by DRFH both together."""
    problem = figure_1()
    apart, together = solve(problem, "drf-per-server"), solve(problem, "drfh")
    readings = (
        *_readings("DRF server by server", apart.tasks, PER_SERVER_TASKS),
        *_readings("DRFH", together.tasks, TOGETHER_TASKS),
        Reading(
            "global dominant share under DRFH",
            float(together.dominant_share.min()),
            DOMINANT_SHARE,
            1e-6,
            is_share=False,
        ),
    )
    return Reproduction(
        setting="Two servers with 2 CPU and 12 GB, and 12 CPU and 2 GB; tasks of (0.2 CPU, 1 GB) "
        "and (1 CPU, 0.2 GB); divisible.",
        readings=readings,
        claims=judge_division(apart.tasks, together.tasks),
        data={"per_server": apart.tasks, "drfh": together.tasks},
    )


def judge_division(apart: FloatArray, together: FloatArray) -> tuple[PrintedClaim, ...]:
    """Judge what is said of the two allocations, (N, S) tasks each."""
    both = np.stack([apart.sum(axis=1), together.sum(axis=1)])
    return (
        PrintedClaim(
            "divided server by server the allocation is not Pareto optimal: all can have more",
            bool((both[1] > both[0] + 1e-9).all()),
            "; ".join(
                f"user {n + 1}: {number(apart_)} and {number(together_)} tasks"
                for n, (apart_, together_) in enumerate(both.T.tolist())
            ),
        ),
    )


def _readings(how: str, ours: FloatArray, printed: FloatArray) -> list[Reading]:
    return [
        Reading(
            f"{how}: tasks of user {n + 1} on server {i + 1}",
            float(ours[n, i]),
            float(printed[n, i]),
            1e-6,
            is_share=False,
        )
        for n in range(2)
        for i in range(2)
    ]
