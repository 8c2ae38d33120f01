"""Figure 1 of Khamse-Ashari et al. 2017: memory is everybody's bottleneck."""

from __future__ import annotations

import numpy as np

from fairlead.mechanisms.catalogue import solve
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import IntArray
from fairlead.model.problem import Problem
from fairlead.model.ties import first_largest_of_rows
from fairlead.properties.audit import audit
from fairlead_papers.psdsf import PAPER
from fairlead_papers.psdsf.examples import (
    EXACT,
    THIRD_DECIMAL,
    example_of_figure_1,
    table_of_tasks,
)
from fairlead_papers.reproduction import Reproduction
from fairlead_papers.setting import Setting
from fairlead_papers.verdict import PrintedClaim, Reading

# Mechanism, what it is called there, total tasks of users 1 to 3 as printed (II-B), and a digit.
PRINTED = (
    ("ps-dsf", "PS-DSF", (3.0, 3.0, 6.0), EXACT),
    ("drfh", "C-DRFH", (2.609, 3.130, 6.261), THIRD_DECIMAL),
    ("tsf", "TSF", (2.0, 2.0, 8.0), EXACT),
)
# Of user 3 on servers 1 and 2.
PRINTED_SPLIT = {"PS-DSF": (0.0, 6.0), "C-DRFH": (0.261, 6.0), "TSF": (2.0, 6.0)}
# What each user could run alone on both servers, constraints left aside.
PRINTED_GAMMA = (6.0, 6.0, 12.0)
BOTTLENECK = "bottleneck-fairness"
ROUNDING = 1e-9


@PAPER.reproduces(
    "figure-1",
    "Figure 1",
    "three users whose bottleneck is the memory, two servers, three mechanisms",
    "PS-DSF gives 3, 3 and 6 tasks, which divides the memory fairly; C-DRFH 2.609, 3.130 and "
    "6.261; TSF 2, 2 and 8",
    "at once",
)
def reproduce(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
    """Divide the two servers by the three mechanisms; a fraction of a second."""
    problem = example_of_figure_1()
    answers = {called: solve(problem, name) for name, called, _, _ in PRINTED}
    fair = {
        called: audit(problem, answer, properties=(BOTTLENECK,)).holds
        for called, answer in answers.items()
    }
    dominant = tuple(problem.cluster.resources[r] for r in dominant_of_all(problem).tolist())
    return Reproduction(
        setting="Two servers and three users as printed; each mechanism's exact answer.",
        readings=readings(answers, problem),
        claims=judge_fairness(fair, dominant, bottlenecks(problem)),
        tables=tuple(table_of_tasks(answer, f"{name}.") for name, answer in answers.items()),
        data={
            "tasks": {name: answer.tasks for name, answer in answers.items()},
            "bottleneck_fair": fair,
        },
    )


def readings(answers: dict[str, Allocation], problem: Problem) -> tuple[Reading, ...]:
    """Set totals, the split of user 3, and gamma beside what is printed."""
    totals = [
        Reading(
            f"tasks of user {n + 1}, {called}",
            float(answers[called].user_tasks[n]),
            paper,
            digit,
            is_share=False,
        )
        for _, called, printed, digit in PRINTED
        for n, paper in enumerate(printed)
    ]
    split = [
        Reading(
            f"... and of that user 3 on server {g + 1}, {called}",
            float(answers[called].tasks[2, g]),
            paper,
            THIRD_DECIMAL,
            is_share=False,
        )
        for called, printed in PRINTED_SPLIT.items()
        for g, paper in enumerate(printed)
    ]
    alone = problem.unconstrained_gamma.sum(axis=1)
    gamma = [
        Reading(
            f"tasks that user {n + 1} could run alone",
            float(alone[n]),
            paper,
            EXACT,
            is_share=False,
        )
        for n, paper in enumerate(PRINTED_GAMMA)
    ]
    return (*totals, *split, *gamma)


def dominant_of_all(problem: Problem) -> IntArray:
    """Return (N,) the resource that each user needs most of both servers together."""
    return first_largest_of_rows(problem.demand / problem.total_capacity)


def bottlenecks(problem: Problem) -> tuple[str, ...]:
    """Name the resources that everybody needs most of every server where it may run."""
    with np.errstate(divide="ignore", invalid="ignore"):
        part = problem.demand[:, None, :] / problem.group_capacity[None, :, :]
    part = np.where(problem.demand[:, None, :] > 0, part, 0.0)[problem.runnable]
    most = part >= part.max(axis=1, keepdims=True) * (1 - ROUNDING)
    names = problem.cluster.resources
    return tuple(names[r] for r in np.flatnonzero(most.all(axis=0)).tolist())


def judge_fairness(
    fair: dict[str, bool], dominant: tuple[str, ...], shared: tuple[str, ...]
) -> tuple[PrintedClaim, ...]:
    """Describe which mechanism is max-min fair on the bottleneck.

    `dominant` has what each user needs most of all servers together, `shared` what everybody needs
    most of every server where it may run.
    """
    said = {True: "max-min fair in memory", False: "not max-min fair in memory"}
    one = PrintedClaim(
        "memory is what everybody needs most of every server where it may run",
        shared == ("memory",),
        ", ".join(shared) or "there is no such resource",
    )
    two = PrintedClaim(
        "C-DRFH takes bandwidth for the dominant resource of user 1, memory for that of users 2 "
        "and 3",
        dominant == ("bandwidth", "memory", "memory"),
        ", ".join(dominant),
    )
    three = PrintedClaim("PS-DSF divides the memory fairly", fair["PS-DSF"], said[fair["PS-DSF"]])
    others = [
        PrintedClaim(f"{name} does not", not fair[name], said[fair[name]])
        for name in ("C-DRFH", "TSF")
    ]
    return (one, two, three, *others)
