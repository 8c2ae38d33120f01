"""Figure 3 of Khamse-Ashari et al. 2017: PS-DSF of the example in Fig. 2."""

from __future__ import annotations

import numpy as np

from fairlead.mechanisms.catalogue import solve
from fairlead.model.cluster import FloatArray
from fairlead.report.numbers import number
from fairlead_papers.psdsf import PAPER
from fairlead_papers.psdsf.definition import largest_gain, virtual_shares
from fairlead_papers.psdsf.examples import (
    EXACT,
    example_of_figure_2,
    table_of_tasks,
)
from fairlead_papers.reproduction import Finding, Reproduction, TextTable
from fairlead_papers.setting import Setting
from fairlead_papers.verdict import PrintedClaim, Reading

# Tasks of users 1 to 4 on servers 1 and 2.
PRINTED = ((3.6, 0.0), (3.6, 0.0), (0.0, 8.0), (0.0, 8.0))
# Virtual dominant shares, by user and server, counted from 0, with the text's fractions.
PRINTED_SHARES = {
    (0, 0): 0.6,
    (1, 0): 0.6,
    (2, 0): 8 / 12,
    (3, 0): 12 / 12,
    (2, 1): 8 / 12,
    (3, 1): 8 / 12,
}
# What is printed of user 4 on server 1 is not what the paper's own definition gives.
MISPRINT = (3, 0)
ROUNDING = 1e-6


@PAPER.reproduces(
    "figure-3",
    "Figure 3",
    "PS-DSF of the example in Fig. 2, four users on two servers",
    "3.6 tasks each for users 1 and 2 on server 1, 8 each for users 3 and 4 on server 2",
    "at once",
)
def reproduce(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
    """Divide the two servers by PS-DSF, and count shares as each sees them; under a second."""
    problem = example_of_figure_2()
    answer = solve(problem, "ps-dsf")
    shares = virtual_shares(problem, answer.tasks)
    gain = largest_gain(problem, answer.tasks)
    ours, paper = float(shares[MISPRINT]), PRINTED_SHARES[MISPRINT]
    alone = float(problem.fitting[MISPRINT])
    tasks = float(answer.user_tasks[MISPRINT[0]])
    return Reproduction(
        setting="Two servers and four users as printed; the exact answer under resource division.",
        readings=(
            *(
                Reading(
                    f"tasks of user {n + 1} on server {g + 1}",
                    float(answer.tasks[n, g]),
                    printed,
                    EXACT,
                    is_share=False,
                )
                for n, row in enumerate(PRINTED)
                for g, printed in enumerate(row)
            ),
            *(
                Reading(
                    f"virtual dominant share of user {n + 1} on server {g + 1}",
                    float(shares[n, g]),
                    printed,
                    EXACT,
                )
                for (n, g), printed in PRINTED_SHARES.items()
            ),
        ),
        claims=judge_levels(shares, gain),
        findings=(
            Finding(
                f"III-A prints {number(paper)} for the virtual dominant share of user 4 on the "
                "first server, as 12 of 12 tasks.",
                f"The user has {number(tasks)} tasks, and server 1 runs {number(alone)} of them "
                f"(9 cores, one for each task), so it is {number(tasks)}/{number(alone)} = "
                f"{number(ours)}. Nothing depends on it: it is above the others' all the same.",
                "fairlead reproduce psdsf/figure-3",
            ),
        ),
        note="One printed share is a misprint, so that not all numbers are as printed.",
        tables=(table_of_tasks(answer, "Tasks."), _table(shares)),
        data={
            "tasks": answer.tasks,
            "virtual_dominant_share": np.where(problem.runnable, shares, np.nan),
        },
    )


def judge_levels(shares: FloatArray, gain: float) -> tuple[PrintedClaim, ...]:
    """Check whether the answer is PS-DSF: (4, 2) virtual dominant shares by user and server.

    `gain` is by how much somebody's tasks could be raised, relative, at the expense of higher
    shares only.
    """
    first, second = shares[:, 0], shares[2:, 1]
    return (
        PrintedClaim(
            "nobody can be given more without taking from somebody with no higher share on that "
            "server",
            gain <= ROUNDING,
            f"by {gain:.2g} of its tasks at most",
        ),
        PrintedClaim(
            "server 1 serves the two users whose shares are least there, which are equal",
            bool(abs(first[0] - first[1]) <= ROUNDING and max(first[:2]) < min(first[2:])),
            ", ".join(number(v) for v in first.tolist()),
        ),
        PrintedClaim(
            "on server 2 shares of users 3 and 4 are equal",
            bool(abs(second[0] - second[1]) <= ROUNDING),
            ", ".join(number(v) for v in second.tolist()),
        ),
    )


def _table(shares: FloatArray) -> TextTable:
    rows = [
        [f"user {n + 1}", number(row[0]), number(row[1]) if n > 1 else "may not run there"]
        for n, row in enumerate(shares.tolist())
    ]
    return TextTable("Virtual dominant shares.", ["", "server 1", "server 2"], rows)
