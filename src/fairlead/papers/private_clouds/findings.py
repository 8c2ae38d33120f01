"""What Tables II to V of Kesidis et al. 2018 got wrong or left open."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fairlead.papers.private_clouds.printed import (
    BF_DRF,
    RANDOM_ROWS,
    RRR_PS_DSF,
    TRIALS,
    TSF,
    Row,
    least_unused_sd,
    unused_of,
)
from fairlead.papers.private_clouds.readings import read_tasks, read_tasks_sd
from fairlead.papers.private_clouds.study import Outcome, Study, kesidis_problem
from fairlead.papers.reproduction import Finding
from fairlead.papers.verdict import FARTHER, Reading
from fairlead.report.numbers import number
from fairlead.scheduler.filling import fill

BY_NAME = {row.name: row for row in RANDOM_ROWS}
# Printed to so many: half a digit of each of a user's two numbers, times what a task takes.
DIGITS = 0.005 * (5 + 1) + 0.005 + 1e-9


def count_near(readings: Iterable[Reading]) -> tuple[int, int]:
    """Return how many numbers are as printed or within their interval, and of how many."""
    verdicts = [reading.verdict for reading in readings]
    return len(verdicts) - verdicts.count(FARTHER), len(verdicts)


def find_drawing(study: Study, command: str) -> Finding:
    """Say that the printed numbers are those of servers drawn for each task, not of rounds."""
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


def _of_random(outcomes: dict[str, Outcome], trials: int) -> list[Reading]:
    return [
        reading
        for row in RANDOM_ROWS
        for read in (read_tasks, read_tasks_sd)
        for reading in read(row, outcomes[row.name], trials)
    ]


def find_other_best_fit(study: Study, command: str) -> Finding | None:
    """Say that best-fit among servers that fit does not give the printed row; None if it does."""
    tasks = fill(kesidis_problem(), "drf", "best-fit").tasks
    as_printed = study.outcomes[BF_DRF].tasks
    if (tasks == as_printed).all():
        return None
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
    """Say that the example of an interval takes the mean of one number and the sd of another."""
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


def find_unused_of_others(rows: Iterable[Row], command: str) -> Finding | None:
    """Say where Table IV is not what Table II leaves over, beyond rounding; None if nowhere."""
    wrong = []
    for row in rows:
        left = unused_of(np.reshape(row.tasks, (2, 2))).ravel()
        if (np.abs(left - row.unused) > DIGITS).any():
            texts = [", ".join(f"{value:.4g}" for value in values) for values in (left, row.unused)]
            wrong.append(f"{row.name}'s tasks of Table II leave {texts[0]}; printed are {texts[1]}")
    if not wrong:
        return None
    return Finding(
        "Table IV is what the allocations of Table II leave unused",
        f"{'; '.join(wrong)}. Means of the same trials cannot be so.",
        command,
    )


def find_impossible_sds(rows: Iterable[Row], command: str) -> Finding | None:
    """Say where Table V is less than Table III allows, beyond rounding; None if nowhere."""
    wrong = []
    for row in rows:
        assert row.tasks_sd is not None
        assert row.unused_sd is not None
        least = least_unused_sd(np.reshape(row.tasks_sd, (2, 2))).ravel()
        if (least > np.array(row.unused_sd) + DIGITS).any():
            texts = [", ".join(map(number, values)) for values in (row.unused_sd, least.tolist())]
            again = " again" if row.unused_sd == row.tasks_sd else ""
            wrong.append(
                f"{row.name} has {texts[0]}{', its row of Table III' if again else ''}{again}; "
                f"with the deviations of Table III it is at least {texts[1]}"
            )
    if not wrong:
        return None
    return Finding(
        "Table V has the sample deviations of the unused capacities",
        f"{'; '.join(wrong)}, because 5 X + Y varies by at least 5 sd(X) - sd(Y).",
        command,
    )
