"""Table IV of Khamse-Ashari et al. 2017: tasks on each class under PS-DSF and TSF."""

from __future__ import annotations

import numpy as np

from fairlead.mechanisms.catalogue import solve
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.report.numbers import number, percent
from fairlead_papers.psdsf import PAPER
from fairlead_papers.psdsf.examples import EXACT, possible_tasks
from fairlead_papers.psdsf.figure_6 import cluster_of_section_5
from fairlead_papers.psdsf.section_5 import (
    CLASSES,
    PRINTED_PS_DSF,
    PRINTED_TSF,
    USERS,
)
from fairlead_papers.reproduction import Finding, Reproduction, TextTable
from fairlead_papers.setting import Setting
from fairlead_papers.verdict import PrintedClaim, Reading

CPU = 0
# What one unit of the last digit is worth, of what is printed of TSF by class, and of its sums.
DIGITS_TSF = (
    (1.0, 1.0, 1.0, 1.0),
    (0.1, 1.0, 1.0, 1.0),
    (1.0, 1.0, 0.01, 1.0),
    (1.0, 1.0, 0.01, 0.1),
)
TOTALS_TSF = tuple(sum(row) for row in PRINTED_TSF)
ROUNDING = 1e-6
# Of what linear programmes with a little room for rounding leave possible.
NOTICEABLE = 1e-3
NOTE = (
    "TSF fixes what each user has in all, not where it has it. Of each number on a class, the "
    "interval is as far as other answers with the same totals reach: the table says between what."
)


@PAPER.reproduces(
    "table-4",
    "Table IV",
    "tasks of four users on four classes of servers, PS-DSF and TSF",
    "PS-DSF gives class C to user 3 and class D to user 4 entirely; TSF lets user 4 have some of "
    "class C, too",
    "a second",
)
def reproduce(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
    """Divide the four classes by both mechanisms; under a second."""
    problem = cluster_of_section_5()
    ps_dsf, tsf, c_drfh = (solve(problem, name) for name in ("ps-dsf", "tsf", "drfh"))
    ends = possible_tasks(problem, tsf.user_tasks)
    called = {"PS-DSF": ps_dsf, "TSF": tsf, "C-DRFH": c_drfh}
    cpu = {name: cpu_of_a_and_b(problem, one.user_tasks) for name, one in called.items()}
    used = {name: _used(problem, called[name]) for name in ("PS-DSF", "TSF")}
    return Reproduction(
        setting="120 servers in four classes, all users active; demands of ours (see table-3).",
        readings=(*_ps_dsf_readings(ps_dsf), *_tsf_readings(tsf, ends)),
        claims=judge_table(ps_dsf.tasks, tsf.user_tasks, ends),
        findings=_findings(problem, tsf.user_tasks, cpu),
        note=NOTE,
        tables=(
            _table("PS-DSF; in brackets the paper's.", ps_dsf.tasks, PRINTED_PS_DSF),
            _table("TSF, one of its answers; in brackets the paper's.", tsf.tasks, PRINTED_TSF),
            _range_table(ends),
            _use_table(used),
        ),
        data={"ps_dsf": ps_dsf.tasks, "tsf": tsf.tasks, "tsf_range": ends},
    )


def _ps_dsf_readings(ps_dsf: Allocation) -> list[Reading]:
    return [
        Reading(
            f"PS-DSF, {user} on class {name}",
            float(ps_dsf.tasks[n, g]),
            PRINTED_PS_DSF[n][g],
            EXACT,
            is_share=False,
        )
        for n, user in enumerate(USERS)
        for g, name in enumerate(CLASSES)
    ]


def _tsf_readings(tsf: Allocation, ends: FloatArray) -> list[Reading]:
    totals = [
        Reading(f"TSF, {user} in all", float(mine), printed, min(digits), is_share=False)
        for user, mine, printed, digits in zip(
            USERS, tsf.user_tasks, TOTALS_TSF, DIGITS_TSF, strict=True
        )
    ]
    # Half a digit besides: what is printed is rounded.
    return totals + [
        Reading(
            f"TSF, {user} on class {name}",
            float(tsf.tasks[n, g]),
            PRINTED_TSF[n][g],
            DIGITS_TSF[n][g],
            float(np.ptp(ends[n, g])) + DIGITS_TSF[n][g] / 2,
            is_share=False,
        )
        for n, user in enumerate(USERS)
        for g, name in enumerate(CLASSES)
    ]


def judge_table(
    ps_dsf: FloatArray, tsf_totals: FloatArray, ends: FloatArray
) -> tuple[PrintedClaim, ...]:
    """Check whether the answers are as the text describes them.

    `ps_dsf` has (4, 4) tasks, `tsf_totals` (4,) tasks of each user, `ends` (4, 4, 2) between what
    each user's tasks on each class can lie under TSF.
    """
    mixed = float(max(ps_dsf[:2, 2:].max(), ps_dsf[2:, :2].max()))
    strangers = float(max(ps_dsf[3, 2], ps_dsf[2, 3]))
    elsewhere = float(ends[:2, 2:].max())
    printed, half = np.array(PRINTED_TSF)[:2, :2], np.array(DIGITS_TSF)[:2, :2] / 2
    outside = np.maximum(ends[:2, :2, 0] - printed, printed - ends[:2, :2, 1]) - half
    less = bool(tsf_totals[2] < ps_dsf[2].sum() and tsf_totals[3] > ps_dsf[3].sum())
    return (
        PrintedClaim(
            "under PS-DSF classes A and B are the first two users', C and D the last two's",
            mixed <= ROUNDING,
            f"at most {mixed:.2g} tasks of anybody elsewhere",
        ),
        PrintedClaim(
            "under PS-DSF class C is entirely user 3's, class D entirely user 4's",
            strangers <= ROUNDING,
            f"at most {strangers:.2g} tasks of the other",
        ),
        PrintedClaim(
            "TSF leaves the first two users no room on classes C and D",
            elsewhere <= NOTICEABLE,
            f"at most {elsewhere:.2g} tasks there",
        ),
        PrintedClaim(
            "the printed division of classes A and B is one of those that TSF leaves open, but for "
            "rounding",
            float(outside.max()) <= 0,
            f"beyond them by {max(0.0, float(outside.max())):.2g} tasks",
        ),
        PrintedClaim(
            "TSF gives user 3 less than PS-DSF does, and user 4 more",
            less,
            f"{number(float(tsf_totals[2]))} and {number(float(tsf_totals[3]))}",
        ),
    )


def cpu_of_a_and_b(problem: Problem, user_tasks: FloatArray) -> float:
    """Return the part of the CPU of classes A and B that users 1 and 2 use with all their tasks.

    Both run nowhere else under any of the three mechanisms, or it would be less yet.
    """
    used = float(user_tasks[:2] @ problem.demand[:2, CPU])
    return used / float(problem.group_capacity[:2, CPU].sum())


def tsf_shares_as_printed(problem: Problem) -> FloatArray:
    """Return (4,) the shares by weight that TSF is to equalise, of the tasks that are printed."""
    alone = problem.unconstrained_gamma.sum(axis=1)
    shares: FloatArray = np.array(TOTALS_TSF) / (alone * problem.weight)
    return shares


def _findings(problem: Problem, totals: FloatArray, cpu: dict[str, float]) -> tuple[Finding, ...]:
    alone = problem.unconstrained_gamma.sum(axis=1) * problem.weight
    printed, ours = tsf_shares_as_printed(problem), totals / alone
    return (
        Finding(
            "Table IV prints 205, 107.5, 58.33 and 35.55 tasks in all for TSF.",
            "These are rounded to more than the printed digits. What TSF makes equal is "
            f"{printed[0]:.5f} and {printed[1]:.5f} for users 1 and 2, {printed[2]:.5f} and "
            f"{printed[3]:.5f} for 3 and 4; with {totals[0]:.2f}, {totals[1]:.2f}, {totals[2]:.2f} "
            f"and {totals[3]:.2f} tasks it is {ours[0]:.5f} for the former and {ours[2]:.5f} for "
            "the latter, and nothing is left over.",
            "fairlead reproduce psdsf/table-4",
        ),
        Finding(
            "V says (of Fig. 6) that the CPU of the first two classes is fully used under all "
            "mechanisms.",
            "Not with the gamma of Table III and the tasks of Table IV. Gamma lets user 2 take at "
            "most 2/15 of CPU a task. With that, users 1 and 2 use of both classes' CPU "
            f"{', '.join(f'{percent(part)} under {name}' for name, part in cpu.items())}. What is "
            "used up is their memory.",
            "fairlead reproduce psdsf/table-4",
        ),
    )


def _used(problem: Problem, answer: Allocation) -> FloatArray:
    use: FloatArray = (answer.tasks.T @ problem.demand) / problem.group_capacity
    return use


def _table(caption: str, tasks: FloatArray, printed: tuple[tuple[float, ...], ...]) -> TextTable:
    rows = [
        [
            user,
            *(
                f"{number(0.0 if ours <= ROUNDING else ours)} ({number(paper)})"
                for ours, paper in zip(tasks[n].tolist(), printed[n], strict=True)
            ),
        ]
        for n, user in enumerate(USERS)
    ]
    return TextTable(caption, ["tasks on", *CLASSES], rows)


def _range_table(ends: FloatArray) -> TextTable:
    rows = [
        [
            user,
            *(
                number(low) if high - low <= ROUNDING else f"{number(low)} to {number(high)}"
                for low, high in ends[n].tolist()
            ),
        ]
        for n, user in enumerate(USERS)
    ]
    return TextTable(
        "TSF: between what they can lie, totals being given.", ["tasks on", *CLASSES], rows
    )


def _use_table(used: dict[str, FloatArray]) -> TextTable:
    rows = [
        [f"{name}, {resource}", *(percent(v) for v in use[:, r].tolist())]
        for name, use in used.items()
        for r, resource in enumerate(("CPU", "memory"))
    ]
    return TextTable("What is used of each class.", ["", *CLASSES], rows)
