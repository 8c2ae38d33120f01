"""Tables II to V of Kesidis et al.: verdicts, claims on made-up numbers, and misprints."""

from __future__ import annotations

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
)
from fairlead_papers.private_clouds._trials_of_schedulers import (
    RANDOM_ROWS,
    ROWS,
    RRR_PS_DSF,
    TRIALS,
    Study,
    StudyOutcome,
    compare_tasks,
    compare_tasks_sd,
    draw_trials,
    least_unused_sd,
    run_study,
    unused_of,
)
from fairlead_papers.reproduction import EQUAL, FARTHER, SHAPE
from fairlead_papers.setting import Setting

COMMAND = "fairlead reproduce"
# Half a digit of each of a user's two numbers, times what a task takes.
DIGITS = 0.005 * (5 + 1) + 0.005 + 1e-9


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
    swapped = replace(study, outcomes=study.drawn, drawn=study.outcomes)
    for given, said in ((study, "come"), (swapped, "do not come")):
        assert f"The printed numbers {said} from" in find_drawing(given, COMMAND).found


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
