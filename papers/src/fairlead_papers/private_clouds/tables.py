"""Tables II to V of Kesidis et al. 2018: two users on two servers, eight ways to fill them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fairlead_papers.private_clouds import PAPER
from fairlead_papers.private_clouds.claims import (
    Outcomes,
    find_drawing,
    find_impossible_sds,
    find_other_best_fit,
    find_unused_of_others,
    find_wrong_example,
    judge_tasks,
    judge_unused,
    judge_unused_variation,
    judge_variation,
)
from fairlead_papers.private_clouds.printed import PLACES, RANDOM_ROWS, ROWS, PrintedTrials
from fairlead_papers.private_clouds.study import (
    Study,
    StudyOutcome,
    read_tasks,
    read_tasks_sd,
    read_unused,
    read_unused_sd,
    run_study,
)
from fairlead_papers.reproduction import Finding, Reproduction, TextTable
from fairlead_papers.setting import Setting
from fairlead_papers.verdict import PrintedClaim, Reading

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
)
def reproduce_table_2(setting: Setting) -> Reproduction:
    """Fill by each scheduler, and show the tasks; two seconds, for all four tables."""
    command = _command(2, setting)
    study = setting.share(run_study)
    best_fit = find_other_best_fit(study, command)
    findings = (
        find_drawing(study, command),
        find_wrong_example(command),
        *(() if best_fit is None else (best_fit,)),
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
)
def reproduce_table_4(setting: Setting) -> Reproduction:
    """Show what is left over."""
    found = find_unused_of_others(ROWS, _command(4, setting))
    return _reproduction(
        setting.share(run_study),
        ROWS,
        read_unused,
        judge_unused,
        "Unused by (server, resource).",
        () if found is None else (found,),
    )


@PAPER.reproduces(
    "table-5",
    "Table V",
    "how far what is unused varies over 200 trials",
    "sample deviations are 11.09 and 10.99 under DRF and TSF; PS-DSF's are Table III's",
    "two seconds",
)
def reproduce_table_5(setting: Setting) -> Reproduction:
    """Show the sample standard deviations of what is left over."""
    found = find_impossible_sds(RANDOM_ROWS, _command(5, setting))
    return _reproduction(
        setting.share(run_study),
        RANDOM_ROWS,
        read_unused_sd,
        judge_unused_variation,
        "Sample standard deviations of what is unused by (server, resource).",
        () if found is None else (found,),
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
