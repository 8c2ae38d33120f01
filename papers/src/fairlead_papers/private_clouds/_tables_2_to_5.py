"""Tables II to V of Kesidis et al. 2018: two users on two servers, eight ways to fill them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from fairlead.report.numbers import number
from fairlead.simulation.filling import fill
from fairlead_papers.private_clouds import PAPER
from fairlead_papers.private_clouds._trials_of_schedulers import (
    BF_DRF,
    DRAWN_TRIALS,
    DRF,
    PLACES,
    PS_DSF,
    RANDOM_ROWS,
    RESIDUAL,
    ROWS,
    RRR_PS_DSF,
    RRR_RESIDUAL,
    TRIALS,
    TSF,
    PrintedTrials,
    Study,
    StudyOutcome,
    kesidis_problem,
    least_unused_sd,
    read_tasks,
    read_tasks_sd,
    read_unused,
    read_unused_sd,
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
# "Comparable", of the total; the printed ones are 0.2 % apart.
COMPARABLE = 0.02
# "Modest": the printed improvement is 2.4 %.
MODEST = 0.05
# How many times as much the tasks of DRF and TSF vary; printed, 3.9 to 4.7 times.
VARIES_MORE = 3.0
# What DRF and TSF leave over of what they do not use up; printed, 62.6 and 62.8 %.
MOSTLY_LEFT = 0.5
# Unused, of 100 or 30 units, under the others; printed, at most 10.
LITTLE_LEFT = 10.0
GLOBAL = (DRF, TSF)
BY_SERVER = (RRR_PS_DSF, PS_DSF, RESIDUAL)
BY_NAME = {row.name: row for row in RANDOM_ROWS}


def judge_tasks(outcomes: Outcomes) -> tuple[PrintedClaim, ...]:
    """Check whether schedulers that look at each server run more tasks (Table II)."""
    total = {name: outcome.total for name, outcome in outcomes.items()}
    most_global = max(total[name] for name in GLOBAL)
    least = min(total[name] for name in BY_SERVER)
    apart = abs(total[RRR_PS_DSF] / total[PS_DSF] - 1)
    better = total[RESIDUAL] / total[PS_DSF] - 1
    as_jointly = np.array_equal(outcomes[RRR_RESIDUAL].tasks, outcomes[RESIDUAL].tasks)
    always = not outcomes[RRR_RESIDUAL].tasks_sd.any()
    return (
        PrintedClaim(
            "PS-DSF and rPS-DSF run far more tasks than DRF and TSF in rounds: at least "
            f"{MUCH_MORE:g} times as many",
            least >= MUCH_MORE * most_global,
            f"{number(least)} at least, {number(most_global)} at most",
        ),
        PrintedClaim(
            "choosing the server by best-fit makes DRF run far more tasks, too",
            total[BF_DRF] >= MUCH_MORE * total[DRF],
            f"{number(total[BF_DRF])}, and {number(total[DRF])} in rounds",
        ),
        PrintedClaim(
            f"PS-DSF in rounds is comparable to choosing jointly: within {100 * COMPARABLE:g} %",
            apart <= COMPARABLE,
            f"{number(total[RRR_PS_DSF])} and {number(total[PS_DSF])} tasks",
        ),
        PrintedClaim(
            f"scoring by what is free runs more tasks, but modestly: up to {100 * MODEST:g} %",
            0 < better <= MODEST,
            f"{number(total[RESIDUAL])} and {number(total[PS_DSF])} tasks",
        ),
        PrintedClaim(
            "rPS-DSF in rounds is as rPS-DSF in every trial",
            as_jointly and always,
            "no trial differs" if as_jointly and always else "trials differ",
        ),
    )


def judge_variation(outcomes: Outcomes) -> tuple[PrintedClaim, ...]:
    """Check whether PS-DSF varies little, and DRF and TSF much (Table III)."""
    steady = float(outcomes[RRR_PS_DSF].tasks_sd.diagonal().max())
    varying = min(float(outcomes[name].tasks_sd.diagonal().min()) for name in GLOBAL)
    across = float(outcomes[RRR_PS_DSF].tasks_sd.max())
    return (
        PrintedClaim(
            "tasks of (1,1) and (2,2) vary far less under PS-DSF in rounds than under DRF and "
            f"TSF: those are at least {VARIES_MORE:g} times as far off",
            varying >= VARIES_MORE * steady,
            f"sd {number(varying)} at least, {number(steady)} at most",
        ),
        PrintedClaim(
            "under PS-DSF in rounds nothing varies by more than about a task: sd at most 1.1",
            across <= 1.1,
            f"sd {number(across)} at most",
        ),
    )


def judge_unused(outcomes: Outcomes) -> tuple[PrintedClaim, ...]:
    """Describe who leaves much of what (Table IV)."""
    large = min(float(outcomes[name].unused.diagonal().min()) for name in GLOBAL) / 100
    small = max(float(outcomes[name].unused[[0, 1], [1, 0]].max()) for name in GLOBAL)
    others = max(float(outcomes[name].unused.max()) for name in (*BY_SERVER, BF_DRF))
    return (
        PrintedClaim(
            "DRF and TSF leave over most of the larger resource of each server: more than "
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
            f"the others leave at most {LITTLE_LEFT:g} units of anything",
            others <= LITTLE_LEFT,
            f"{number(others)} at most",
        ),
    )


def judge_unused_variation(outcomes: Outcomes) -> tuple[PrintedClaim, ...]:
    """Describe how the leftover capacity varies (Table V)."""
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
            "what is left of the larger resource varies far less under PS-DSF in rounds than "
            f"under DRF and TSF: those are at least {VARIES_MORE:g} times as far off",
            of_large >= VARIES_MORE * steady,
            f"sd {number(of_large)} at least, {number(steady)} at most",
        ),
    )


def count_near(readings: Iterable[Reading]) -> tuple[int, int]:
    """Return how many numbers are as printed or within their interval, and of how many."""
    verdicts = [reading.verdict for reading in readings]
    return len(verdicts) - verdicts.count(FARTHER), len(verdicts)


def find_drawing(study: Study, command: str) -> Finding:
    """Check that the printed numbers are those of servers drawn for each task, not of rounds."""
    rounds = count_near(_of_random(study.outcomes, study.trials))
    drawn = count_near(_of_random(study.drawn, study.drawn_trials))
    in_rounds, by_task = study.outcomes[RRR_PS_DSF].tasks, study.drawn[RRR_PS_DSF].tasks
    printed = BY_NAME[RRR_PS_DSF].tasks
    totals = ", ".join(
        f"{row.name} {study.drawn[row.name].total:.2f} ({study.outcomes[row.name].total:.2f} in "
        f"rounds; printed {row.total:g})"
        for row in RANDOM_ROWS
    )
    said = "come" if drawn[0] > rounds[0] else "do not come"
    return Finding(
        "VI: servers are taken in round-robin fashion, in an order that is permuted each round",
        f"The printed numbers {said} of drawing a server for each task by itself, without rounds. "
        f"Of the {drawn[1]} numbers of random schedulers in Tables II and III {drawn[0]} are "
        f"within their intervals if servers are drawn, {rounds[0]} in rounds. Totals: {totals}. "
        f"In rounds PS-DSF has {in_rounds[0, 1]:.2f} and {in_rounds[1, 0]:.2f} tasks of (1,2) and "
        f"(2,1); {printed[1]:g} and {printed[2]:g} are printed, and drawn servers give "
        f"{by_task[0, 1]:.2f} and {by_task[1, 0]:.2f}.",
        command,
    )


def _of_random(outcomes: dict[str, StudyOutcome], trials: int) -> list[Reading]:
    return [
        reading
        for row in RANDOM_ROWS
        for read in (read_tasks, read_tasks_sd)
        for reading in read(row, outcomes[row.name], trials)
    ]


def find_other_best_fit(study: Study, command: str) -> Finding:
    """Return what best-fit among servers that fit gives in place of the printed row."""
    tasks = fill(kesidis_problem(), "drf", "best-fit").tasks
    as_printed = study.outcomes[BF_DRF].tasks
    ours, printed = (", ".join(f"{x:g}" for x in t.ravel()) for t in (tasks, as_printed))
    return Finding(
        "VI: BF-DRF takes the server whose free amounts match the demand best; left open is what "
        "comes first, that or that the task fits",
        f"The best of the servers that fit, as the authors of best-fit have it, gives {ours} and "
        f"{tasks.sum():g} tasks. The printed {printed} come of the best of all servers, and of "
        "passing to the next user if the task does not fit there.",
        command,
    )


def find_wrong_example(command: str) -> Finding:
    """Check that the example of an interval takes the mean of one number and the sd of another."""
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
    """Return the row of Table IV that is not what Table II leaves over."""
    row = BY_NAME[RRR_PS_DSF]
    left = unused_of(np.reshape(row.tasks, (2, 2))).ravel()
    texts = [", ".join(f"{value:.4g}" for value in values) for values in (left, row.unused)]
    return Finding(
        "Table IV is what the allocations of Table II leave unused",
        f"{row.name}'s tasks of Table II leave {texts[0]}; printed are {texts[1]}. Means of the "
        "same trials cannot be so.",
        command,
    )


def find_impossible_sds(command: str) -> Finding:
    """Return the row of Table V that is less than Table III allows."""
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


Reader = Callable[[PrintedTrials, StudyOutcome, int], Iterable[Reading]]

NOTE = (
    "Rows with chance are of rounds, as the paper says; what differs comes of the paper's having "
    "drawn servers otherwise. BF-DRF is best-fit-first. See what was found of Table II."
)


@PAPER.reproduces(
    "table-2",
    "Table II",
    "tasks of two users on two servers under six schedulers, and their totals",
    "DRF and TSF in rounds run 22.48 and 22.4 tasks, PS-DSF 41.08 in rounds and 41 jointly, "
    "rPS-DSF 42",
    "two seconds",
    parameters=(DRAWN_TRIALS,),
)
def reproduce_table_2(setting: Setting) -> Reproduction:
    """Fill by each scheduler, and show the tasks; two seconds, for all four tables."""
    command = _command(2, setting)
    study = setting.share(run_study)
    findings = (
        find_drawing(study, command),
        find_wrong_example(command),
        find_other_best_fit(study, command),
    )
    return _reproduction(
        study, ROWS, read_tasks, judge_tasks, "Tasks by (user, server), and all.", findings
    )


@PAPER.reproduces(
    "table-3",
    "Table III",
    "how far those tasks vary over 200 trials",
    "sample deviations are up to 2.31 under DRF and TSF, and at most 1 under PS-DSF",
    "two seconds",
    parameters=(DRAWN_TRIALS,),
)
def reproduce_table_3(setting: Setting) -> Reproduction:
    """Show the sample standard deviations of the tasks."""
    study = setting.share(run_study)
    return _reproduction(
        study,
        RANDOM_ROWS,
        read_tasks_sd,
        judge_variation,
        "Sample standard deviations of tasks by (user, server).",
        (),
    )


@PAPER.reproduces(
    "table-4",
    "Table IV",
    "what is left unused of two resources on two servers under six schedulers",
    "DRF and TSF leave 62.6 and 62.8 of 100 units, the others at most 10",
    "two seconds",
    parameters=(DRAWN_TRIALS,),
)
def reproduce_table_4(setting: Setting) -> Reproduction:
    """Show the unused amounts."""
    return _reproduction(
        setting.share(run_study),
        ROWS,
        read_unused,
        judge_unused,
        "Unused by (server, resource).",
        (find_unused_of_others(_command(4, setting)),),
    )


@PAPER.reproduces(
    "table-5",
    "Table V",
    "how far what is unused varies over 200 trials",
    "sample deviations are 11.09 and 10.99 under DRF and TSF; PS-DSF's are Table III's",
    "two seconds",
    parameters=(DRAWN_TRIALS,),
)
def reproduce_table_5(setting: Setting) -> Reproduction:
    """Show the sample standard deviations of the unused amounts."""
    return _reproduction(
        setting.share(run_study),
        RANDOM_ROWS,
        read_unused_sd,
        judge_unused_variation,
        "Sample standard deviations of what is unused by (server, resource).",
        (find_impossible_sds(_command(5, setting)),),
    )


def _command(table: int, setting: Setting) -> str:
    return f"fairlead reproduce private-clouds/table-{table} --seed {setting.seed}"


def _reproduction(
    study: Study,
    rows: tuple[PrintedTrials, ...],
    read: Reader,
    judge: Callable[[Outcomes], tuple[PrintedClaim, ...]],
    caption: str,
    findings: tuple[Finding, ...],
) -> Reproduction:
    readings = {row.name: tuple(read(row, study.outcomes[row.name], study.trials)) for row in rows}
    drawn = {
        row.name: tuple(read(row, study.drawn[row.name], study.drawn_trials)) for row in RANDOM_ROWS
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
    """Lay out ours and the paper's below each other, as the paper has its rows."""
    rows = []
    for name, ours in readings.items():
        rows.append([f"{name}, paper", *(f"{reading.paper:g}" for reading in ours)])
        rows.append(["    ours", *(f"{reading.ours:.4g}" for reading in ours)])
        if name in drawn:
            values = (f"{reading.ours:.4g}" for reading in drawn[name])
            rows.append(["    a server drawn for each task", *values])
    columns = max(len(row) for row in readings.values())
    return TextTable(caption, ["scheduler", *(*PLACES, "total")[:columns]], rows)


def _values(readings: dict[str, tuple[Reading, ...]]) -> dict[str, Any]:
    return {name: [reading.ours for reading in row] for name, row in readings.items()}
