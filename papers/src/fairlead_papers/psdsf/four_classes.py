"""Section V of Khamse-Ashari et al. 2017 (Tables III, IV, Figure 6): four classes of servers."""

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
    amount,
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


# Quick to settle: within this many runs of each server's procedure.
SECONDS_TO_SETTLE = 5.0
# Use before it has settled is not compared.
SETTLES = 10.0
ROUNDING = 1e-6
NOTE_OF_FIGURE_6 = (
    "The paper prints gamma, not demands, and gamma leaves open how much CPU a task of user 2 "
    "takes; here 2/15, the most it allows (papers/docs/distributed.md). TSF and C-DRFH fix the "
    "number of a user's tasks, not where: what they use of a class can be chosen within a range, "
    "whose upper end is taken for the comparison."
)
LEAVES, COMES_BACK, END = 100.0, 250.0, 300.0
CLASSES_SHOWN = (2, 3)
CPU = 0
# The largest that Table III allows, with which every statement about the figure is right.
CPU_OF_USER_2 = 2 / 15


@PAPER.reproduces(
    "figure-6",
    "Figure 6",
    "CPU used of two classes of servers while a user is away, servers deciding themselves",
    "PS-DSF uses more than TSF and C-DRFH, and settles quickly after each change",
    "two seconds",
)
def reproduce_figure_6(setting: Setting) -> Reproduction:
    """Let 120 servers divide themselves, beside exact answers at each second; two seconds."""
    figure = figure_6(seed=setting.seed)
    return Reproduction(
        setting=(
            "120 servers in classes A to D, each by itself, once a second; user 4 away from 100 to "
            f"250 s; seed {setting.seed}."
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
    settled = figure.settlement.settled
    slowest = max(np.inf if s.certified is None else s.certified for s in settled)
    begins = np.array([s.phase.begin for s in settled])
    since = figure.times - begins[np.searchsorted(begins, figure.times, side="right") - 1]
    steady = since >= SETTLES
    others = np.maximum(figure.tsf_range[:, :, 1], figure.c_drfh_range[:, :, 1])
    behind = float((others - figure.ps_dsf)[steady].max())
    return (
        PrintedClaim(
            "PS-DSF uses at least as much CPU of both classes as TSF and C-DRFH can, once settled",
            behind <= ROUNDING,
            "never less" if behind <= ROUNDING else f"up to {percent(behind)} less",
        ),
        PrintedClaim(
            f"the servers settle within {SECONDS_TO_SETTLE:g} s of every change, to 1e-6",
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
    """Return the cluster of section V; a task of user 2 takes CPU above 0, to 2/15.

    Gamma is that of Table III all the same.
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
    ps_dsf: FloatArray  # (T, 2): under PS-DSF by the servers' own procedure
    # (T, 2): under TSF and C-DRFH, exact at each second.
    tsf: FloatArray
    c_drfh: FloatArray
    # (T, 2, 2): the least and the largest utilisation that their totals leave possible.
    tsf_range: FloatArray
    c_drfh_range: FloatArray
    settlement: Settlement  # all there is to know about the run


def figure_6(
    cpu_of_user_2: float = CPU_OF_USER_2,
    *,
    apart: bool = True,
    delay: Delay | None = None,
    seed: int = 0,
) -> Figure6:
    """Compute Fig. 6, from Algorithm I's start: DRF on each server by itself. Two seconds.

    `apart` lets each of the 120 servers decide by itself, as in the paper; otherwise each class
    does. Messages take no time when `delay` is absent, as in the paper.
    """
    problem = cluster_of_section_5(cpu_of_user_2)
    setting = AsynchronousSetting(
        problem,
        until=END,
        changes=(JoinOrLeave(LEAVES, 3, joins=False), JoinOrLeave(COMES_BACK, 3, joins=True)),
        delay=Delay() if delay is None else delay,
        apart=apart,
        seed=seed,
    )
    run = run_asynchronously(setting, start=solve(problem, "drf-per-server").tasks, sample=1.0)
    settlement = compare_with_exact(run)
    begins = [phase.begin for phase in run.phases]
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
    """Return (2, 2) least and largest CPU use of classes C and D that the (N,) totals allow."""
    cpu = np.zeros((len(CLASSES_SHOWN), problem.n_users, problem.n_groups))
    for k, group in enumerate(CLASSES_SHOWN):
        cpu[k, :, group] = use_per_task(problem)[CPU, :, group]
    return np.clip(range_over_placements(problem, user_tasks, cpu), 0.0, 1.0)


# CPU of one task of user 2: three numbers that gamma admits.
TRIED = (0.05, 0.1, CPU_OF_USER_2)
NOTE_OF_TABLE_3 = (
    "The paper prints no demands. Those here were found from gamma and the classes: (0.1, 0.1), "
    "(2/15, 0.2), (0.2, 0.1) and (0.2, 0.3) of CPU and memory. User 2's CPU is open up to 2/15, "
    "since its memory binds on every class; with all of these gamma is the same, and so is every "
    "number of this table."
)


@PAPER.reproduces(
    "table-3",
    "Table III",
    "tasks that each user may run alone on each of four classes of servers",
    "80, 340, 82.5 and 55 for user 1, and so on",
    "at once",
)
def reproduce_table_3(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
    """Count tasks by capacity over demand; at once."""
    gamma = cluster_of_section_5().gamma
    others = [cluster_of_section_5(cpu).gamma for cpu in TRIED]
    beyond = cluster_of_section_5(1.01 * CPU_OF_USER_2).gamma
    return Reproduction(
        setting="120 servers in four classes as printed; demands of ours (see below).",
        readings=tuple(
            amount(f"{user}, class {name}", gamma[n, g], PRINTED_GAMMA[n][g], EXACT)
            for n, user in enumerate(USERS)
            for g, name in enumerate(CLASSES)
        ),
        claims=judge_freedom(others, beyond),
        findings=(
            Finding(
                "V prints gamma, not demands.",
                "Gamma settles all demands but the CPU of user 2, which may be anything up to "
                f"{number(CPU_OF_USER_2)} a task; above that gamma is another. Fig. 6 depends on "
                "it, the tables do not.",
                "fairlead reproduce psdsf/table-3",
            ),
        ),
        note=NOTE_OF_TABLE_3,
        tables=(_tasks_table("Tasks alone; in brackets the paper's.", gamma, PRINTED_GAMMA),),
        data={"gamma": gamma},
    )


def judge_freedom(gammas: list[FloatArray], beyond: FloatArray) -> tuple[PrintedClaim, ...]:
    """Describe what gamma, (4, 4), leaves open.

    The last of `gammas` has the largest CPU demand of user 2 said to be open; `beyond` has a larger
    one.
    """
    apart = max(float(np.abs(one - other).max()) for one, other in pairwise(gammas))
    changed = float(np.abs(beyond - gammas[-1]).max())
    return (
        PrintedClaim(
            "gamma is the same for any CPU demand of user 2 up to 2/15, and another above that",
            apart <= EXACT < changed,
            f"{apart:.2g} apart; {number(changed)} with one hundredth more",
        ),
    )


# One unit of the last printed digit, of TSF by class and of its sums.
DIGITS_TSF = (
    (1.0, 1.0, 1.0, 1.0),
    (0.1, 1.0, 1.0, 1.0),
    (1.0, 1.0, 0.01, 1.0),
    (1.0, 1.0, 0.01, 0.1),
)
TOTALS_TSF = tuple(sum(row) for row in PRINTED_TSF)
# Of what linear programmes with a little room for rounding leave possible.
NOTICEABLE = 1e-3
NOTE_OF_TABLE_4 = (
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
def reproduce_table_4(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
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
        amount(f"PS-DSF, {user} on class {name}", ps_dsf.tasks[n, g], PRINTED_PS_DSF[n][g], EXACT)
        for n, user in enumerate(USERS)
        for g, name in enumerate(CLASSES)
    ]


def _tsf_readings(tsf: Allocation, ends: FloatArray) -> list[Reading]:
    totals = [
        amount(f"TSF, {user} in all", mine, printed, min(digits))
        for user, mine, printed, digits in zip(
            USERS, tsf.user_tasks, TOTALS_TSF, DIGITS_TSF, strict=True
        )
    ]
    # Half a digit besides, as printed numbers are rounded.
    return totals + [
        amount(
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
