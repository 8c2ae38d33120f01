"""Reproduce Tables II to V of Kesidis et al. 2018: schedulers fill two servers for two users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from fairlead.report.numbers import number
from fairlead.simulation.filling import fill
from fairlead_papers.private_clouds import PAPER
from fairlead_papers.private_clouds._trials_of_schedulers import (
    BF_DRF,
    COLUMNS,
    DRAWN_TRIALS,
    DRF,
    PS_DSF,
    RANDOM_ROWS,
    ROWS,
    RPS_DSF,
    RRR_PS_DSF,
    RRR_RPS_DSF,
    TRIALS,
    TSF,
    PrintedTrials,
    Study,
    StudyOutcome,
    compare_tasks,
    compare_tasks_sd,
    compare_unused,
    compare_unused_sd,
    kesidis_problem,
    least_unused_sd,
    run_study,
    unused_of,
)
from fairlead_papers.reproduction import (
    FARTHER,
    Finding,
    PrintedClaim,
    Reading,
    Reproduction,
    TextTable,
)
from fairlead_papers.setting import Setting

Outcomes = Mapping[str, StudyOutcome]

# "Superior in terms of task efficiency": the printed totals are 1.8 times those of DRF and TSF.
MUCH_MORE = 1.5
# "Comparable": largest relative difference of totals; the printed ones are 0.2 % apart.
COMPARABLE = 0.02
# "Modest": the printed improvement is 2.4 %.
MODEST = 0.05
# Least ratio of the deviations of DRF and TSF to those of PS-DSF; printed, 3.9 to 4.7.
VARIES_MORE = 3.0
# Least unused fraction of the larger resource under DRF and TSF; printed, 62.6 and 62.8 %.
MOSTLY_LEFT = 0.5
# Most unused units, of 100 or 30, under the other schedulers; printed, at most 10.
LITTLE_LEFT = 10.0
# Schedulers whose scores are of the whole cluster, and of each server.
GLOBAL = (DRF, TSF)
BY_SERVER = (RRR_PS_DSF, PS_DSF, RPS_DSF)
BY_NAME = {row.name: row for row in RANDOM_ROWS}


def judge_tasks(outcomes: Outcomes) -> tuple[PrintedClaim, ...]:
    """Judge whether schedulers with scores by server run more tasks (Table II)."""
    total = {name: outcome.total for name, outcome in outcomes.items()}
    most_global = max(total[name] for name in GLOBAL)
    least = min(total[name] for name in BY_SERVER)
    apart = abs(total[RRR_PS_DSF] / total[PS_DSF] - 1)
    better = total[RPS_DSF] / total[PS_DSF] - 1
    as_jointly = np.array_equal(outcomes[RRR_RPS_DSF].tasks, outcomes[RPS_DSF].tasks)
    always = not outcomes[RRR_RPS_DSF].tasks_sd.any()
    return (
        PrintedClaim(
            "PS-DSF and rPS-DSF run far more tasks than DRF and TSF under RRR: at least "
            f"{MUCH_MORE:g} times as many",
            least >= MUCH_MORE * most_global,
            f"{number(least)} at least, {number(most_global)} at most",
        ),
        PrintedClaim(
            "choosing the server by best-fit makes DRF run far more tasks, too",
            total[BF_DRF] >= MUCH_MORE * total[DRF],
            f"{number(total[BF_DRF])}, and {number(total[DRF])} under RRR",
        ),
        PrintedClaim(
            f"PS-DSF under RRR is comparable to joint PS-DSF: within {100 * COMPARABLE:g} %",
            apart <= COMPARABLE,
            f"{number(total[RRR_PS_DSF])} and {number(total[PS_DSF])} tasks",
        ),
        PrintedClaim(
            f"scoring by free amounts runs more tasks, but modestly: up to {100 * MODEST:g} %",
            0 < better <= MODEST,
            f"{number(total[RPS_DSF])} and {number(total[PS_DSF])} tasks",
        ),
        PrintedClaim(
            "rPS-DSF under RRR gives the tasks of joint rPS-DSF in every trial",
            as_jointly and always,
            "no trial differs" if as_jointly and always else "trials differ",
        ),
    )


def judge_variation(outcomes: Outcomes) -> tuple[PrintedClaim, ...]:
    """Judge whether PS-DSF varies little, and DRF and TSF much (Table III)."""
    steady = float(outcomes[RRR_PS_DSF].tasks_sd.diagonal().max())
    varying = min(float(outcomes[name].tasks_sd.diagonal().min()) for name in GLOBAL)
    across = float(outcomes[RRR_PS_DSF].tasks_sd.max())
    return (
        PrintedClaim(
            "tasks of (1,1) and (2,2) vary far less under RRR-PS-DSF than under DRF and TSF, "
            f"whose deviations are at least {VARIES_MORE:g} times as large",
            varying >= VARIES_MORE * steady,
            f"sd {number(varying)} at least, {number(steady)} at most",
        ),
        PrintedClaim(
            "under RRR-PS-DSF all tasks vary by about one at most: sd at most 1.1",
            across <= 1.1,
            f"sd {number(across)} at most",
        ),
    )


def judge_unused(outcomes: Outcomes) -> tuple[PrintedClaim, ...]:
    """Judge which schedulers leave much capacity unused (Table IV)."""
    large = min(float(outcomes[name].unused.diagonal().min()) for name in GLOBAL) / 100
    small = max(float(outcomes[name].unused[[0, 1], [1, 0]].max()) for name in GLOBAL)
    others = max(float(outcomes[name].unused.max()) for name in (*BY_SERVER, BF_DRF))
    return (
        PrintedClaim(
            "DRF and TSF leave most of the larger resource of each server unused: more than "
            f"{100 * MOSTLY_LEFT:g} %",
            large > MOSTLY_LEFT,
            f"{number(100 * large)} % at least",
        ),
        PrintedClaim(
            "DRF and TSF use up the smaller resource of each server",
            small == 0,
            f"{number(small)} left at most",
        ),
        PrintedClaim(
            f"the others leave at most {LITTLE_LEFT:g} units of each resource",
            others <= LITTLE_LEFT,
            f"{number(others)} at most",
        ),
    )


def judge_unused_variation(outcomes: Outcomes) -> tuple[PrintedClaim, ...]:
    """Judge how the unused capacity varies (Table V)."""
    of_small = max(float(outcomes[name].unused_sd[[0, 1], [1, 0]].max()) for name in GLOBAL)
    of_large = min(float(outcomes[name].unused_sd.diagonal().min()) for name in GLOBAL)
    steady = float(outcomes[RRR_PS_DSF].unused_sd.diagonal().max())
    return (
        PrintedClaim(
            "DRF and TSF use up the smaller resource of each server in every trial",
            of_small == 0,
            f"sd {number(of_small)} at most",
        ),
        PrintedClaim(
            "the unused amount of the larger resource varies far less under RRR-PS-DSF than under "
            f"DRF and TSF, whose deviations are at least {VARIES_MORE:g} times as large",
            of_large >= VARIES_MORE * steady,
            f"sd {number(of_large)} at least, {number(steady)} at most",
        ),
    )


def count_near(readings: Iterable[Reading]) -> tuple[int, int]:
    """Count the numbers that are as printed or within their interval, and all numbers."""
    verdicts = [reading.verdict for reading in readings]
    return len(verdicts) - verdicts.count(FARTHER), len(verdicts)


def find_drawing(study: Study, command: str) -> Finding:
    """Return the finding whether drawn servers instead of rounds give the printed numbers."""
    rounds = count_near(_compare_random_rows(study.outcomes, study.trials))
    drawn = count_near(_compare_random_rows(study.drawn, study.drawn_trials))
    in_rounds, by_task = study.outcomes[RRR_PS_DSF].tasks, study.drawn[RRR_PS_DSF].tasks
    printed = BY_NAME[RRR_PS_DSF].tasks
    totals = ", ".join(
        f"{row.name} {study.drawn[row.name].total:.2f} ({study.outcomes[row.name].total:.2f} in "
        f"rounds; printed {row.total:g})"
        for row in RANDOM_ROWS
    )
    come = "come" if drawn[0] > rounds[0] else "do not come"
    return Finding(
        "VI: servers are taken in round-robin fashion, in an order that is permuted each round",
        f"The printed numbers {come} from drawing a server for each task, without rounds. "
        f"Of the {drawn[1]} numbers of random schedulers in Tables II and III {drawn[0]} are "
        f"within their intervals with drawn servers, {rounds[0]} in rounds. Totals: {totals}. "
        f"In rounds PS-DSF has {in_rounds[0, 1]:.2f} and {in_rounds[1, 0]:.2f} tasks of (1,2) and "
        f"(2,1); {printed[1]:g} and {printed[2]:g} are printed, and drawn servers give "
        f"{by_task[0, 1]:.2f} and {by_task[1, 0]:.2f}.",
        command,
    )


def _compare_random_rows(outcomes: dict[str, StudyOutcome], trials: int) -> list[Reading]:
    """Compare the random rows of Tables II and III with the printed ones."""
    return [
        reading
        for row in RANDOM_ROWS
        for compare in (compare_tasks, compare_tasks_sd)
        for reading in compare(row, outcomes[row.name], trials)
    ]


def find_other_best_fit(study: Study, command: str) -> Finding:
    """Return the finding that the printed BF-DRF is not best-fit among the servers that fit."""
    tasks = fill(kesidis_problem(), "drf", "best-fit").tasks
    as_printed = study.outcomes[BF_DRF].tasks
    ours, printed = (", ".join(f"{x:g}" for x in t.ravel()) for t in (tasks, as_printed))
    return Finding(
        "VI: BF-DRF takes the server whose free amounts match the demand best; not said is whether "
        "servers on which the task does not fit are left out",
        f"The best of the servers that fit, as Wang, Liang and Li define Best-Fit, gives {ours} "
        f"and {tasks.sum():g} tasks. The printed {printed} come from the best of all servers, with "
        "the next user's turn if the task does not fit there.",
        command,
    )


def find_wrong_example(command: str) -> Finding:
    """Return the finding that an example mixes the mean of (1,1) with the sd of (1,2)."""
    row = BY_NAME[TSF]
    assert row.tasks_sd is not None
    mean, sd = row.tasks[1], row.tasks_sd[1]
    margin = 2 * sd / np.sqrt(TRIALS)
    return Finding(
        "VI: the 95 % interval of TSF's (n,i) = (1,2) is (6.43, 6.57)",
        f"6.5 is the mean of (1,1), {sd:g} the deviation of (1,2). With the mean of (1,2), {mean:g}"
        f", it is ({mean - margin:.2f}, {mean + margin:.2f}).",
        command,
    )


def find_unused_of_others(command: str) -> Finding:
    """Return the finding that a row of Table IV contradicts Table II."""
    row = BY_NAME[RRR_PS_DSF]
    left = unused_of(np.reshape(row.tasks, (2, 2))).ravel()
    texts = [", ".join(f"{value:.4g}" for value in values) for values in (left, row.unused)]
    return Finding(
        "Table IV is what the allocations of Table II leave unused",
        f"{row.name}'s tasks of Table II leave {texts[0]}; printed are {texts[1]}. Means of the "
        "same trials have to agree.",
        command,
    )


def find_impossible_sds(command: str) -> Finding:
    """Return the finding that a row of Table V is smaller than Table III allows."""
    row = BY_NAME[RRR_PS_DSF]
    assert row.tasks_sd is not None
    assert row.unused_sd is not None
    least = least_unused_sd(np.reshape(row.tasks_sd, (2, 2))).ravel()
    texts = [", ".join(map(number, values)) for values in (row.unused_sd, least.tolist())]
    return Finding(
        "Table V has the sample deviations of the unused capacities",
        f"{row.name} has {texts[0]}, its row of Table III again; with the deviations of Table III "
        f"it is at least {texts[1]}, because 5 X + Y varies by at least 5 sd(X) - sd(Y).",
        command,
    )


RowComparison = Callable[[PrintedTrials, StudyOutcome, int], Iterable[Reading]]

NOTE = (
    "Random rows take servers in rounds, as the paper says. They differ because the paper's "
    "numbers come from drawing servers another way; see the findings on Table II. BF-DRF is the "
    "selection best-fit-first."
)


@PAPER.reproduces(
    "table-2",
    "Table II",
    "tasks of two users on two servers under six schedulers, and their totals",
    "DRF and TSF under RRR run 22.48 and 22.4 tasks, PS-DSF 41.08 under RRR and 41 jointly, "
    "rPS-DSF 42",
    "two seconds",
    parameters=(DRAWN_TRIALS,),
)
def reproduce_table_2(setting: Setting) -> Reproduction:
    """Fill the servers by each scheduler, and compare tasks."""
    command = _command(2, setting)
    study = setting.compute_once(run_study)
    findings = (
        find_drawing(study, command),
        find_wrong_example(command),
        find_other_best_fit(study, command),
    )
    return _reproduction(
        study, ROWS, compare_tasks, judge_tasks, "Tasks by (user, server), and in total.", findings
    )


@PAPER.reproduces(
    "table-3",
    "Table III",
    "standard deviations of the tasks over 200 trials",
    "sample deviations are up to 2.31 under DRF and TSF, and at most 1 under PS-DSF",
    "two seconds",
    parameters=(DRAWN_TRIALS,),
)
def reproduce_table_3(setting: Setting) -> Reproduction:
    """Compare the sample standard deviations of the tasks."""
    study = setting.compute_once(run_study)
    return _reproduction(
        study,
        RANDOM_ROWS,
        compare_tasks_sd,
        judge_variation,
        "Sample standard deviations of tasks by (user, server).",
        (),
    )


@PAPER.reproduces(
    "table-4",
    "Table IV",
    "unused amounts of two resources on two servers under six schedulers",
    "DRF and TSF leave 62.6 and 62.8 of 100 units, the others at most 10",
    "two seconds",
    parameters=(DRAWN_TRIALS,),
)
def reproduce_table_4(setting: Setting) -> Reproduction:
    """Compare the unused amounts."""
    return _reproduction(
        setting.compute_once(run_study),
        ROWS,
        compare_unused,
        judge_unused,
        "Unused by (server, resource).",
        (find_unused_of_others(_command(4, setting)),),
    )


@PAPER.reproduces(
    "table-5",
    "Table V",
    "standard deviations of the unused amounts over 200 trials",
    "sample deviations are 11.09 and 10.99 under DRF and TSF; PS-DSF's are Table III's",
    "two seconds",
    parameters=(DRAWN_TRIALS,),
)
def reproduce_table_5(setting: Setting) -> Reproduction:
    """Compare the sample standard deviations of the unused amounts."""
    return _reproduction(
        setting.compute_once(run_study),
        RANDOM_ROWS,
        compare_unused_sd,
        judge_unused_variation,
        "Sample standard deviations of unused amounts by (server, resource).",
        (find_impossible_sds(_command(5, setting)),),
    )


def _command(table: int, setting: Setting) -> str:
    return f"fairlead reproduce private-clouds/table-{table} --seed {setting.seed}"


def _reproduction(
    study: Study,
    rows: tuple[PrintedTrials, ...],
    compare: RowComparison,
    judge: Callable[[Outcomes], tuple[PrintedClaim, ...]],
    caption: str,
    findings: tuple[Finding, ...],
) -> Reproduction:
    """Reproduce one table: compare its rows, judge the claims, and tabulate."""
    readings = {
        row.name: tuple(compare(row, study.outcomes[row.name], study.trials)) for row in rows
    }
    drawn = {
        row.name: tuple(compare(row, study.drawn[row.name], study.drawn_trials))
        for row in RANDOM_ROWS
    }
    return Reproduction(
        setting=study.text,
        readings=tuple(reading for row in readings.values() for reading in row),
        claims=judge(study.outcomes),
        findings=findings,
        note=NOTE,
        tables=(_table(caption, readings, drawn),),
        data={"in_rounds": _values(readings), "drawn_for_each_task": _values(drawn)},
    )


def _table(
    caption: str,
    readings: dict[str, tuple[Reading, ...]],
    drawn: dict[str, tuple[Reading, ...]],
) -> TextTable:
    """Tabulate each printed row, and below it ours."""
    rows = []
    for name, ours in readings.items():
        rows.append([f"{name}, paper", *(f"{reading.paper:g}" for reading in ours)])
        rows.append(["    ours", *(f"{reading.ours:.4g}" for reading in ours)])
        if name in drawn:
            values = (f"{reading.ours:.4g}" for reading in drawn[name])
            rows.append(["    a server drawn for each task", *values])
    columns = max(len(row) for row in readings.values())
    return TextTable(caption, ["scheduler", *(*COLUMNS, "total")[:columns]], rows)


def _values(readings: dict[str, tuple[Reading, ...]]) -> dict[str, Any]:
    return {name: [reading.ours for reading in row] for name, row in readings.items()}
