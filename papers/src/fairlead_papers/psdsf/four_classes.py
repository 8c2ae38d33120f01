"""Reproduce section V of Khamse-Ashari et al. 2017: Tables III and IV, Figure 6."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fairlead.mechanisms.catalogue import solve
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.report.numbers import number, percent
from fairlead_papers.distributed.convergence import (
    COMPARED,
    Settlement,
    changes_text,
    compare_with_exact,
)
from fairlead_papers.distributed.network_setting import AsynchronousSetting, Delay, JoinOrLeave
from fairlead_papers.distributed.simulated_run import run_asynchronously
from fairlead_papers.psdsf import PAPER
from fairlead_papers.psdsf._two_servers import EXACT, possible_tasks, range_over_placements
from fairlead_papers.reproduction import (
    Finding,
    PrintedClaim,
    Reading,
    Reproduction,
    TextTable,
    compare_amount,
)
from fairlead_papers.setting import Setting

CLASSES = ("A", "B", "C", "D")
USERS = ("user 1", "user 2", "user 3", "user 4")
# Table III: tasks that each user may run alone on each class.
PRINTED_GAMMA = (
    (80.0, 340.0, 82.5, 55.0),
    (40.0, 170.0, 41.25, 41.25),
    (0.0, 0.0, 82.5, 27.5),
    (0.0, 0.0, 27.5, 27.5),
)
# Table IV: tasks of each user on each class.
PRINTED_PS_DSF = (
    (40.0, 170.0, 0.0, 0.0),
    (20.0, 85.0, 0.0, 0.0),
    (0.0, 0.0, 82.5, 0.0),
    (0.0, 0.0, 0.0, 27.5),
)
PRINTED_TSF = (
    (35.0, 170.0, 0.0, 0.0),
    (22.5, 85.0, 0.0, 0.0),
    (0.0, 0.0, 58.33, 0.0),
    (0.0, 0.0, 8.05, 27.5),
)


# "Quick to settle": within this time after a change.
SECONDS_TO_SETTLE = 5.0
# Seconds after a change before utilisation is compared.
SECONDS_BEFORE_COMPARISON = 10.0
ROUNDING = 1e-6
NOTE_OF_FIGURE_6 = (
    "The paper prints gamma, not demands, and gamma does not determine the CPU demand of user 2; "
    "here it is 2/15, the largest that gamma allows (papers/docs/distributed.md). TSF and C-DRFH "
    "determine users' total tasks, not where they run, so their use of a class lies in a range; "
    "PS-DSF is compared with its upper end."
)
USER_4_LEAVES, USER_4_RETURNS, END = 100.0, 250.0, 300.0
CLASSES_SHOWN = (2, 3)  # C and D, by index
CPU = 0
# The largest demand that Table III allows; with it every statement about the figure holds.
CPU_OF_USER_2 = 2 / 15


@PAPER.reproduces(
    "figure-6",
    "Figure 6",
    "CPU use of two classes of servers that divide themselves, while a user is away",
    "PS-DSF uses more than TSF and C-DRFH, and settles quickly after each change",
    "two seconds",
)
def reproduce_figure_6(setting: Setting) -> Reproduction:
    """Let 120 servers divide themselves, and compare with exact answers."""
    figure = figure_6(seed=setting.seed)
    return Reproduction(
        setting=(
            "120 servers in classes A to D, each divides itself once a second; user 4 away from "
            f"100 to 250 s; seed {setting.seed}."
        ),
        claims=_claims(figure),
        note=NOTE_OF_FIGURE_6,
        tables=(_use_table_of_figure_6(figure),),
        data={
            "times": figure.times,
            "ps_dsf": figure.ps_dsf.T,
            "tsf": figure.tsf.T,
            "c_drfh": figure.c_drfh.T,
        },
    )


def _claims(figure: Figure6) -> tuple[PrintedClaim, ...]:
    """Judge whether PS-DSF uses most CPU once settled, and settles quickly."""
    settled = figure.settlement.settled
    slowest = max(np.inf if s.certified is None else s.certified for s in settled)
    begins = np.array([s.phase.start for s in settled])
    since = figure.times - begins[np.searchsorted(begins, figure.times, side="right") - 1]
    steady = since >= SECONDS_BEFORE_COMPARISON
    others = np.maximum(figure.tsf_range[:, :, 1], figure.c_drfh_range[:, :, 1])
    behind = float((others - figure.ps_dsf)[steady].max())
    return (
        PrintedClaim(
            "PS-DSF uses at least as much CPU of both classes as TSF and C-DRFH can, once settled",
            behind <= ROUNDING,
            "never less" if behind <= ROUNDING else f"up to {percent(behind)} less",
        ),
        PrintedClaim(
            f"the servers settle within {SECONDS_TO_SETTLE:g} s of every change: violations stay "
            "below 1e-6",
            bool(slowest <= SECONDS_TO_SETTLE),
            f"{number(float(slowest))} s at most",
        ),
    )


def _use_table_of_figure_6(figure: Figure6) -> TextTable:
    settlement, rows = figure.settlement, []
    for settled in settlement.settled:
        phase = settled.phase
        last = np.flatnonzero(figure.times < phase.end)[-1]
        for k, name in enumerate(("C", "D")):
            rows.append(
                [
                    f"{name}, until {phase.end:g} s ({changes_text(settlement, phase)})",
                    percent(float(figure.ps_dsf[last, k])),
                    _range(figure.tsf_range[last, k].tolist()),
                    _range(figure.c_drfh_range[last, k].tolist()),
                ]
            )
    return TextTable("CPU used once settled.", ["class, when", "PS-DSF", "TSF", "C-DRFH"], rows)


def _range(ends: list[float]) -> str:
    low, high = (percent(end) for end in ends)
    return low if low == high else f"{low} to {high}"


def cluster_of_section_5(cpu_of_user_2: float = CPU_OF_USER_2) -> Problem:
    """Return the cluster of section V, with the given CPU demand of user 2.

    Gamma is that of Table III for any demand above 0 and up to 2/15.
    """
    return Problem.from_arrays(
        capacity=[[1.0, 1.0], [0.5, 0.5], [0.5, 0.25], [0.5, 0.75]],
        demand=[[0.1, 0.1], [cpu_of_user_2, 0.2], [0.2, 0.1], [0.2, 0.3]],
        count=[8, 68, 33, 11],
        weight=[2, 2, 1, 1],
        eligible=[[1, 1, 1, 1], [1, 1, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]],
        resources=["cpu", "memory"],
        groups=["A", "B", "C", "D"],
        users=["user 1", "user 2", "user 3", "user 4"],
    )


@dataclass(frozen=True, eq=False)
class Figure6:
    """CPU utilisation of classes C and D at each second."""

    times: FloatArray  # (T,): seconds
    ps_dsf: FloatArray  # (T, 2): under PS-DSF, by the asynchronous server procedure
    # (T, 2): by one exact answer of TSF, and of C-DRFH, for the present users.
    tsf: FloatArray
    c_drfh: FloatArray
    # (T, 2, 2): the least and the largest utilisation that users' totals allow.
    tsf_range: FloatArray
    c_drfh_range: FloatArray
    settlement: Settlement  # the run, and the exact answers


def figure_6(
    cpu_of_user_2: float = CPU_OF_USER_2,
    *,
    apart: bool = True,
    delay: Delay | None = None,
    seed: int = 0,
) -> Figure6:
    """Compute Fig. 6, starting as Algorithm I does: DRF on each server by itself. Two seconds.

    `apart` lets each of the 120 servers decide by itself, as in the paper; otherwise each class
    decides as one server. Without a `delay` messages take no time, as in the paper.
    """
    problem = cluster_of_section_5(cpu_of_user_2)
    setting = AsynchronousSetting(
        problem,
        until=END,
        changes=(
            JoinOrLeave(USER_4_LEAVES, 3, joins=False),
            JoinOrLeave(USER_4_RETURNS, 3, joins=True),
        ),
        delay=Delay() if delay is None else delay,
        apart=apart,
        seed=seed,
    )
    run = run_asynchronously(setting, start=solve(problem, "drf-per-server").tasks, sample=1.0)
    settlement = compare_with_exact(run)
    begins = [phase.start for phase in run.phases]
    phase_of = np.searchsorted(begins, run.times, side="right") - 1
    shown = list(CLASSES_SHOWN)
    exact, ranges = {}, {}
    for name in COMPARED:
        phases = range(len(run.phases))
        used = [settlement.exact_utilisation(name, k)[shown, CPU] for k in phases]
        free = [possible_use(problem, settlement.exact_tasks(name, k)) for k in phases]
        exact[name], ranges[name] = np.array(used)[phase_of], np.array(free)[phase_of]
    return Figure6(
        times=run.times,
        ps_dsf=run.utilisation[:, shown, CPU],
        tsf=exact["tsf"],
        c_drfh=exact["drfh"],
        tsf_range=ranges["tsf"],
        c_drfh_range=ranges["drfh"],
        settlement=settlement,
    )


def possible_use(problem: Problem, user_tasks: FloatArray) -> FloatArray:
    """Return the least and the largest CPU use of classes C and D for (N,) totals, (2, 2)."""
    cpu = np.zeros((len(CLASSES_SHOWN), problem.n_users, problem.n_groups))
    for k, group in enumerate(CLASSES_SHOWN):
        cpu[k, :, group] = use_per_task(problem)[CPU, :, group]
    return np.clip(range_over_placements(problem, user_tasks, cpu), 0.0, 1.0)


# CPU demands of user 2 that give the printed gamma.
TRIED_CPU = (0.05, 0.1, CPU_OF_USER_2)
NOTE_OF_TABLE_3 = (
    "The paper prints no demands. Ours follow from gamma and the classes: (0.1, 0.1), (2/15, 0.2), "
    "(0.2, 0.1) and (0.2, 0.3) of CPU and memory. The CPU demand of user 2 may be any up to 2/15, "
    "since its memory limits it on every class; for all of these gamma, and so this table, is the "
    "same."
)


@PAPER.reproduces(
    "table-3",
    "Table III",
    "tasks that each user may run alone on each of four classes of servers",
    "80, 340, 82.5 and 55 for user 1, and so on",
    "at once",
)
def reproduce_table_3(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
    """Compute gamma from capacity and demand."""
    gamma = cluster_of_section_5().gamma
    others = [cluster_of_section_5(cpu).gamma for cpu in TRIED_CPU]
    beyond = cluster_of_section_5(1.01 * CPU_OF_USER_2).gamma
    return Reproduction(
        setting="120 servers in four classes as printed; demands of our choice (see below).",
        readings=tuple(
            compare_amount(f"{user}, class {name}", gamma[n, g], PRINTED_GAMMA[n][g], EXACT)
            for n, user in enumerate(USERS)
            for g, name in enumerate(CLASSES)
        ),
        claims=judge_freedom(others, beyond),
        findings=(
            Finding(
                "V prints gamma, not demands.",
                "Gamma determines all demands but the CPU of user 2, which may be any up to "
                f"{number(CPU_OF_USER_2)}; above that gamma is different. Fig. 6 depends on it, "
                "the tables do not.",
                "fairlead reproduce psdsf/table-3",
            ),
        ),
        note=NOTE_OF_TABLE_3,
        tables=(_tasks_table("Tasks alone; in brackets the paper's.", gamma, PRINTED_GAMMA),),
        data={"gamma": gamma},
    )


def judge_freedom(gammas: list[FloatArray], beyond: FloatArray) -> tuple[PrintedClaim, ...]:
    """Judge whether gamma, (4, 4), is the same for all tried CPU demands of user 2.

    The last of `gammas` is for the largest such demand, `beyond` for a larger one.
    """
    apart = max(float(np.abs(one - other).max()) for one, other in pairwise(gammas))
    changed = float(np.abs(beyond - gammas[-1]).max())
    return (
        PrintedClaim(
            "gamma is the same for any CPU demand of user 2 up to 2/15, and different above that",
            apart <= EXACT < changed,
            f"{apart:.2g} apart; {number(changed)} with one hundredth more",
        ),
    )


# One unit of the last printed digit of TSF's tasks, by user and class.
DIGITS_TSF = (
    (1.0, 1.0, 1.0, 1.0),
    (0.1, 1.0, 1.0, 1.0),
    (1.0, 1.0, 0.01, 1.0),
    (1.0, 1.0, 0.01, 0.1),
)
TOTALS_TSF = tuple(sum(row) for row in PRINTED_TSF)
# Tasks; linear programmes that allow for rounding leave fewer than this possible.
NOTICEABLE = 1e-3
NOTE_OF_TABLE_4 = (
    "TSF determines each user's total tasks, not where they run. The interval of a number on a "
    "class is the range over all allocations with the same totals, which a table below shows."
)


@PAPER.reproduces(
    "table-4",
    "Table IV",
    "tasks of four users on four classes of servers, PS-DSF and TSF",
    "PS-DSF gives class C to user 3 and class D to user 4 entirely; TSF lets user 4 have some of "
    "class C, too",
    "a second",
)
def reproduce_table_4(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
    """Divide the four classes by both mechanisms."""
    problem = cluster_of_section_5()
    ps_dsf, tsf, c_drfh = (solve(problem, name) for name in ("ps-dsf", "tsf", "drfh"))
    ends = possible_tasks(problem, tsf.user_tasks)
    called = {"PS-DSF": ps_dsf, "TSF": tsf, "C-DRFH": c_drfh}
    cpu = {name: cpu_of_a_and_b(problem, one.user_tasks) for name, one in called.items()}
    used = {name: _used(problem, called[name]) for name in ("PS-DSF", "TSF")}
    return Reproduction(
        setting="120 servers in four classes, all users active; demands as in psdsf/table-3.",
        readings=(*_ps_dsf_readings(ps_dsf), *_tsf_readings(tsf, ends)),
        claims=judge_table(ps_dsf.tasks, tsf.user_tasks, ends),
        findings=_findings(problem, tsf.user_tasks, cpu),
        note=NOTE_OF_TABLE_4,
        tables=(
            _tasks_table("PS-DSF; in brackets the paper's.", ps_dsf.tasks, PRINTED_PS_DSF),
            _tasks_table(
                "TSF, one of its answers; in brackets the paper's.", tsf.tasks, PRINTED_TSF
            ),
            _range_table(ends),
            _use_table(used),
        ),
        data={"ps_dsf": ps_dsf.tasks, "tsf": tsf.tasks, "tsf_range": ends},
    )


def _ps_dsf_readings(ps_dsf: Allocation) -> list[Reading]:
    return [
        compare_amount(
            f"PS-DSF, {user} on class {name}", ps_dsf.tasks[n, g], PRINTED_PS_DSF[n][g], EXACT
        )
        for n, user in enumerate(USERS)
        for g, name in enumerate(CLASSES)
    ]


def _tsf_readings(tsf: Allocation, ends: FloatArray) -> list[Reading]:
    """Compare users' totals, and tasks by class with the range of these as interval."""
    totals = [
        compare_amount(f"TSF, total of {user}", mine, printed, min(digits))
        for user, mine, printed, digits in zip(
            USERS, tsf.user_tasks, TOTALS_TSF, DIGITS_TSF, strict=True
        )
    ]
    # Half a digit more than the range, as printed numbers are rounded.
    return totals + [
        compare_amount(
            f"TSF, {user} on class {name}",
            tsf.tasks[n, g],
            PRINTED_TSF[n][g],
            DIGITS_TSF[n][g],
            float(np.ptp(ends[n, g])) + DIGITS_TSF[n][g] / 2,
        )
        for n, user in enumerate(USERS)
        for g, name in enumerate(CLASSES)
    ]


def judge_table(
    ps_dsf: FloatArray, tsf_totals: FloatArray, ends: FloatArray
) -> tuple[PrintedClaim, ...]:
    """Judge whether the answers are as the text describes them.

    `ps_dsf` are tasks under PS-DSF, (4, 4); `tsf_totals` users' tasks under TSF, (4,); `ends` the
    minimum and maximum of each user's tasks on each class under TSF, (4, 4, 2).
    """
    mixed = float(max(ps_dsf[:2, 2:].max(), ps_dsf[2:, :2].max()))
    exchanged = float(max(ps_dsf[3, 2], ps_dsf[2, 3]))
    elsewhere = float(ends[:2, 2:].max())
    printed, half = np.array(PRINTED_TSF)[:2, :2], np.array(DIGITS_TSF)[:2, :2] / 2
    outside = np.maximum(ends[:2, :2, 0] - printed, printed - ends[:2, :2, 1]) - half
    less = bool(tsf_totals[2] < ps_dsf[2].sum() and tsf_totals[3] > ps_dsf[3].sum())
    return (
        PrintedClaim(
            "under PS-DSF users 1 and 2 have classes A and B, users 3 and 4 classes C and D",
            mixed <= ROUNDING,
            f"at most {mixed:.2g} tasks of a user elsewhere",
        ),
        PrintedClaim(
            "under PS-DSF user 3 has all of class C, user 4 all of class D",
            exchanged <= ROUNDING,
            f"at most {exchanged:.2g} tasks of the other",
        ),
        PrintedClaim(
            "under TSF users 1 and 2 have no tasks on classes C and D",
            elsewhere <= NOTICEABLE,
            f"at most {elsewhere:.2g} tasks there",
        ),
        PrintedClaim(
            "the printed division of classes A and B is possible under TSF, but for rounding",
            float(outside.max()) <= 0,
            f"beyond the possible range by {max(0.0, float(outside.max())):.2g} tasks",
        ),
        PrintedClaim(
            "TSF gives user 3 less than PS-DSF does, and user 4 more",
            less,
            f"{number(float(tsf_totals[2]))} and {number(float(tsf_totals[3]))}",
        ),
    )


def cpu_of_a_and_b(problem: Problem, user_tasks: FloatArray) -> float:
    """Return the fraction of the CPU of classes A and B that all tasks of users 1 and 2 use.

    It bounds the use of these classes from above: no other users may run there.
    """
    used = float(user_tasks[:2] @ problem.demand[:2, CPU])
    return used / float(problem.group_capacity[:2, CPU].sum())


def tsf_shares_as_printed(problem: Problem) -> FloatArray:
    """Return the shares over weights that TSF equalises, of the printed tasks, (4,)."""
    alone = problem.unconstrained_gamma.sum(axis=1)
    shares: FloatArray = np.array(TOTALS_TSF) / (alone * problem.weight)
    return shares


def _findings(problem: Problem, totals: FloatArray, cpu: dict[str, float]) -> tuple[Finding, ...]:
    """Return the findings; `totals` are TSF's, `cpu` is `cpu_of_a_and_b` by mechanism."""
    alone = problem.unconstrained_gamma.sum(axis=1) * problem.weight
    printed, ours = tsf_shares_as_printed(problem), totals / alone
    return (
        Finding(
            "Table IV prints 205, 107.5, 58.33 and 35.55 tasks in all for TSF.",
            "They are less exact than their digits. The shares that TSF makes equal would be "
            f"{printed[0]:.5f} and {printed[1]:.5f} for users 1 and 2, {printed[2]:.5f} and "
            f"{printed[3]:.5f} for 3 and 4. With {totals[0]:.2f}, {totals[1]:.2f}, {totals[2]:.2f} "
            f"and {totals[3]:.2f} tasks they are {ours[0]:.5f} for 1 and 2 and {ours[2]:.5f} for 3 "
            "and 4, and no more tasks fit.",
            "fairlead reproduce psdsf/table-4",
        ),
        Finding(
            "V says (of Fig. 6) that the CPU of the first two classes is fully used under all "
            "mechanisms.",
            "Not with the gamma of Table III and the tasks of Table IV. By gamma a task of user 2 "
            "takes at most 2/15 CPU. Then users 1 and 2 use of the CPU of both classes "
            f"{', '.join(f'{percent(part)} under {name}' for name, part in cpu.items())}. It is "
            "their memory that is used up.",
            "fairlead reproduce psdsf/table-4",
        ),
    )


def _used(problem: Problem, answer: Allocation) -> FloatArray:
    use: FloatArray = (answer.tasks.T @ problem.demand) / problem.group_capacity
    return use


def _tasks_table(
    caption: str, tasks: FloatArray, printed: tuple[tuple[float, ...], ...]
) -> TextTable:
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
    return TextTable("TSF: possible tasks, given the totals.", ["tasks on", *CLASSES], rows)


def _use_table(used: dict[str, FloatArray]) -> TextTable:
    rows = [
        [f"{name}, {resource}", *(percent(v) for v in use[:, r].tolist())]
        for name, use in used.items()
        for r, resource in enumerate(("CPU", "memory"))
    ]
    return TextTable("Use of each class.", ["", *CLASSES], rows)
