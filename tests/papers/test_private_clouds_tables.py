"""Tables II to V of Kesidis et al.: verdicts, claims on made-up numbers, and misprints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from fairlead_papers.entries import find_entries, reproduce
from fairlead_papers.private_clouds._tables_2_to_5 import (
    count_near,
    find_drawing,
    find_impossible_sds,
    find_other_best_fit,
    find_unused_of_others,
    judge_tasks,
    judge_unused,
    judge_unused_variation,
    judge_variation,
)
from fairlead_papers.private_clouds._trials_of_schedulers import (
    BF_DRF,
    DRF,
    PS_DSF,
    RANDOM_ROWS,
    ROWS,
    RPS_DSF,
    RRR_PS_DSF,
    RRR_RPS_DSF,
    TRIALS,
    Study,
    StudyOutcome,
    compare_tasks,
    compare_tasks_sd,
    compare_unused,
    draw_trials,
    least_unused_sd,
    run_study,
    unused_of,
)
from fairlead_papers.reproduction import EQUAL, FARTHER, SHAPE, WITHIN, PrintedClaim
from fairlead_papers.setting import Setting

COMMAND = "fairlead reproduce"
# Half a digit of each of a user's two numbers, times what a task takes.
DIGITS = 0.005 * (5 + 1) + 0.005 + 1e-9


def as_printed() -> dict[str, StudyOutcome]:
    """Return the printed numbers of all tables as outcomes."""
    nothing = (0.0,) * 4
    outcomes = {
        row.name: StudyOutcome(
            np.reshape(row.tasks, (2, 2)),
            np.reshape(row.tasks_sd or nothing, (2, 2)),
            row.total,
            0.0,
            np.reshape(row.unused, (2, 2)),
            np.reshape(row.unused_sd or nothing, (2, 2)),
        )
        for row in ROWS
    }
    return outcomes | {RRR_RPS_DSF: outcomes[RPS_DSF]}


PRINTED = as_printed()


def changed(name: str, **values: object) -> dict[str, StudyOutcome]:
    return PRINTED | {name: replace(PRINTED[name], **values)}  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def setting() -> Setting:
    """The setting of all tests of this file, which share its trials."""
    return Setting(seed=0, quick=True)


@pytest.fixture(scope="module")
def study(setting: Setting) -> Study:
    return setting.compute_once(run_study)


@pytest.mark.parametrize("table", [2, 3, 4, 5])
def test_all_statements_hold_and_numbers_of_rounds_are_off(setting: Setting, table: int) -> None:
    (entry,) = find_entries([f"private-clouds/table-{table}"])
    found = reproduce(entry, setting)
    assert found.verdict == SHAPE
    assert all(claim.holds for claim in found.claims)
    verdicts = [reading.verdict for reading in found.readings]
    # Rows without chance are as printed; the paper's random rows are not of rounds.
    n_random = sum(reading.interval is not None for reading in found.readings)
    assert verdicts.count(EQUAL) >= len(verdicts) - n_random
    assert verdicts.count(FARTHER) >= 1
    assert len(found.findings) == {2: 3, 3: 0, 4: 1, 5: 1}[table]


def test_drawn_servers_give_the_printed_numbers_and_rounds_do_not(study: Study) -> None:
    def near(outcomes: dict[str, StudyOutcome], trials: int) -> int:
        readings = [
            reading
            for row in RANDOM_ROWS
            for compare in (compare_tasks, compare_tasks_sd)
            for reading in compare(row, outcomes[row.name], trials)
        ]
        assert len(readings) == 27
        return count_near(readings)[0]

    assert near(study.drawn, study.drawn_trials) >= 23
    assert near(study.outcomes, study.trials) <= 18
    # In rounds users mirror each other, so that 1.15 and 1.07 cannot be of rounds.
    in_rounds = study.outcomes[RRR_PS_DSF].tasks
    assert in_rounds[0, 1] == in_rounds[1, 0]
    said = find_drawing(study, COMMAND).found
    assert said.startswith("The printed numbers come from drawing a server for each task")
    swapped = replace(study, outcomes=study.drawn, drawn=study.outcomes)
    assert find_drawing(swapped, COMMAND).found.startswith("The printed numbers do not come from")


@cache
def expected_total(tasks: tuple[int, int, int, int]) -> Fraction:
    """Return the expected final number of tasks, given those of (1,1), (1,2), (2,1), (2,2).

    Both users have equal scores per task.
    """
    left = unused_of(np.reshape(tasks, (2, 2)).astype(float))
    fitting = [[n for n in (0, 1) if (left[i] >= [(5, 1), (1, 5)][n]).all()] for i in (0, 1)]
    usable = [i for i in (0, 1) if fitting[i]]
    if not usable:
        return Fraction(sum(tasks))
    has = (tasks[0] + tasks[1], tasks[2] + tasks[3])
    total = Fraction(0)
    for i in usable:
        least = [n for n in fitting[i] if has[n] == min(has[m] for m in fitting[i])]
        for n in least:
            after = list(tasks)
            after[2 * n + i] += 1
            share = Fraction(1, len(usable) * len(least))
            total += share * expected_total((after[0], after[1], after[2], after[3]))
    return total


@pytest.mark.parametrize("criterion", ["drf", "tsf"])
def test_drawn_servers_run_the_expected_number_of_tasks(criterion: str) -> None:
    tasks = draw_trials(criterion, 1_000, np.random.default_rng(3))
    # The smaller resource of each server is used up: no task fits any more.
    assert not unused_of(tasks)[:, [0, 1], [1, 0]].any()
    total = tasks.sum(axis=(1, 2))
    expected = float(expected_total((0, 0, 0, 0)))
    assert abs(total.mean() - expected) < 4 * total.std() / np.sqrt(1_000)
    # Both printed totals are within two standard errors of 200 trials from it.
    for row in RANDOM_ROWS[:2]:
        assert abs(row.total - expected) < 2 * total.std() / np.sqrt(TRIALS)


WILD_TASKS = np.array([[0.59, 1.2], [1.0, 0.49]])


@pytest.mark.parametrize(
    ("judge", "outcomes", "failing"),
    [
        (judge_tasks, PRINTED, []),
        (judge_tasks, changed(DRF, total=30.0), [0, 1]),
        (judge_tasks, changed(PS_DSF, total=30.0), [0, 2, 3]),
        (judge_tasks, changed(BF_DRF, total=33.0), [1]),
        (judge_tasks, changed(RRR_PS_DSF, total=40.0), [2]),
        (judge_tasks, changed(RPS_DSF, total=41.0), [3]),
        (judge_tasks, changed(RRR_RPS_DSF, tasks=np.array([[19.0, 2.0], [2.0, 18.99]])), [4]),
        (judge_tasks, changed(RRR_RPS_DSF, tasks_sd=np.full((2, 2), 0.1)), [4]),
        (judge_variation, PRINTED, []),
        (judge_variation, changed(DRF, tasks_sd=np.full((2, 2), 1.0)), [0]),
        (judge_variation, changed(RRR_PS_DSF, tasks_sd=WILD_TASKS), [1]),
        (judge_unused, PRINTED, []),
        (judge_unused, changed(DRF, unused=np.array([[45.0, 0.0], [0.0, 62.0]])), [0]),
        (judge_unused, changed(DRF, unused=np.array([[62.0, 0.1], [0.0, 62.0]])), [1]),
        (judge_unused, changed(PS_DSF, unused=np.array([[3.0, 1.0], [11.0, 0.0]])), [2]),
        (judge_unused_variation, PRINTED, []),
        (judge_unused_variation, changed(DRF, unused_sd=np.array([[11, 0.1], [0, 11]])), [0]),
        (judge_unused_variation, changed(RRR_PS_DSF, unused_sd=np.full((2, 2), 4.0)), [1]),
    ],
)
def test_claims(
    judge: Callable[[dict[str, StudyOutcome]], tuple[PrintedClaim, ...]],
    outcomes: dict[str, StudyOutcome],
    failing: list[int],
) -> None:
    assert [k for k, claim in enumerate(judge(outcomes)) if not claim.holds] == failing


def test_intervals_follow_the_standard_errors() -> None:
    row = RANDOM_ROWS[0]
    ours = replace(PRINTED[DRF], tasks=PRINTED[DRF].tasks + 0.4)
    verdicts = [reading.verdict for reading in compare_tasks(row, ours, TRIALS)]
    # 1.96 x 2.31 / 10 is 0.45, 1.96 x 0.46 / 10 is 0.09; the total is unchanged.
    assert verdicts == [WITHIN, FARTHER, FARTHER, WITHIN, EQUAL]
    # With few trials of ours larger differences are within chance.
    assert [r.verdict for r in compare_tasks(row, ours, 4)] == [WITHIN] * 4 + [EQUAL]
    # The printed row of rPS-DSF has no chance in it.
    off = replace(PRINTED[RPS_DSF], unused=PRINTED[RPS_DSF].unused + 0.1)
    assert {r.verdict for r in compare_unused(ROWS[-1], off, TRIALS)} == {FARTHER}


def test_the_printed_bf_drf_chooses_among_all_servers(study: Study) -> None:
    found = find_other_best_fit(study, COMMAND)
    assert "gives 19, 2, 2, 19 and 42 tasks. The printed 20, 2, 0, 19 come" in found.found


def test_table_4_follows_from_table_2_except_one_row() -> None:
    found = find_unused_of_others(COMMAND)
    assert found.found.startswith("RRR-PS-DSF's tasks of Table II leave 1.73, 5.21, 4.83, 1.75")
    for row in ROWS:
        left = unused_of(np.reshape(row.tasks, (2, 2))).ravel()
        assert (np.abs(left - row.unused) <= DIGITS).all() == (row.name != RRR_PS_DSF)


def test_table_5_cannot_repeat_table_3() -> None:
    found = find_impossible_sds(COMMAND)
    assert found.found.startswith("RRR-PS-DSF has 0.59, 0.99, 1, 0.49, its row of Table III again")
    for row in RANDOM_ROWS:
        least = least_unused_sd(np.reshape(row.tasks_sd, (2, 2))).ravel()
        assert (least <= np.array(row.unused_sd) + DIGITS).all() == (row.name != RRR_PS_DSF)
