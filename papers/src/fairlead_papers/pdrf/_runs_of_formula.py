"""Run the random trials of Tables 1 and 2 of Metin, and compare the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fairlead.mechanisms.drf import precompute_tasks
from fairlead.model.problem import Problem
from fairlead.model.quanta import to_whole_pool
from fairlead.solvers.level_bisection import serve_by_turns, top_up
from fairlead_papers.reproduction import Reading, compare_amount
from fairlead_papers.setting import Parameter, Setting

N_USERS = 1_000
RUNS = 1_000


@dataclass(frozen=True)
class PrintedRow:
    """A printed row of the tables, over 1,000 runs."""

    table: int
    n_resources: int
    demands: tuple[int, int]  # smallest and largest
    # Mean and standard deviation of the number of users with fewer and with more tasks than DRF.
    under: tuple[float, float]
    over: tuple[float, float]
    # Mean number of users with one, two, and more tasks too many.
    over_by: tuple[float, float, float]
    most_over: int  # largest number of tasks that a user has too many
    reserves: tuple[int, int] = (50_000, 100_000)  # smallest and largest capacity

    @property
    def name(self) -> str:
        """The demands, as the tables name their rows."""
        return f"{self.demands[0]:,}-{self.demands[1]:,}"


# Largest number of tasks that a user has too few, in every row.
MOST_UNDER = 1
ROWS = (
    PrintedRow(1, 10, (1, 10), (477.623, 86.373), (0.694, 2.137), (0.693, 0.001, 0.0), 2),
    PrintedRow(1, 10, (1, 20), (474.932, 38.381), (0.192, 0.526), (0.191, 0.001, 0.0), 2),
    PrintedRow(1, 10, (10, 20), (486.521, 50.526), (0.0, 0.0), (0.0, 0.0, 0.0), 0),
    PrintedRow(2, 2, (1, 100), (423.517, 36.429), (50.407, 25.814), (44.689, 5.588, 0.48), 3),
    PrintedRow(2, 2, (1, 1_000), (407.902, 26.373), (83.959, 36.376), (56.541, 14.519, 12.989), 32),
)
# With the printed reserves of the last row fewer users have any task than the row has users with
# too few; with ten times the reserves it is similar to the row before.
LAST_ROW = ROWS[-1]
TEN_TIMES_RESERVES = replace(LAST_ROW, reserves=(500_000, 1_000_000))


RUNS_OF_ROW = Parameter("runs", RUNS, quick=100)
DIGIT = 0.001
# 95 % of a normal distribution are within this many standard deviations.
NORMAL = 1.96
ALL_ROWS = (*ROWS, TEN_TIMES_RESERVES)
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sample:
    """A whole number for each of T runs."""

    values: Counts

    @property
    def mean(self) -> float:
        """The mean over the runs."""
        return float(self.values.mean())

    @property
    def sd(self) -> float:
        """The sample standard deviation."""
        return float(self.values.std(ddof=1))

    @property
    def error_of_sd(self) -> float:
        """The standard error of `sd`, times the square root of the number of runs.

        It is not that of a normal distribution: many runs have no over-allocation, some have
        dozens.
        """
        apart = self.values - self.values.mean()
        variance = float((apart**2).mean())
        if variance == 0:
            return 0.0
        kurtosis = float((apart**4).mean()) / variance**2
        return float(np.sqrt(variance * (kurtosis - 1) / 4))


@dataclass(frozen=True, eq=False)
class CountedRow:
    """Counts of a row's runs: users with too few or too many tasks by PDRF's formula."""

    row: PrintedRow
    runs: int
    # Users with fewer and with more tasks than under DRF's Algorithm 1.
    under: Sample
    over: Sample
    over_by: tuple[Sample, Sample, Sample]  # users with one, two, and more tasks too many
    most_under: int  # largest number of tasks that a user has too few
    most_over: int  # and too many
    served: Sample  # users that have any task under DRF
    # Users with fewer tasks after the top-up than under DRF in which users that do not fit leave.
    still_under: Sample
    most_still_under: int  # largest number of tasks that such a user has too few


def count_row(row: PrintedRow, found: Deviations) -> CountedRow:
    """Count users by the difference of their tasks under PDRF and DRF."""
    difference = found.first_misfit

    def users(chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Sample:
        return Sample(chosen.sum(axis=1))

    return CountedRow(
        row,
        len(difference),
        under=users(difference < 0),
        over=users(difference > 0),
        over_by=(users(difference == 1), users(difference == 2), users(difference > 2)),
        most_under=max(0, -int(difference.min())),
        most_over=max(0, int(difference.max())),
        served=users(found.exact > 0),
        still_under=users(found.topped_up < 0),
        most_still_under=max(0, -int(found.topped_up.min())),
    )


def count_table_1(setting: Setting) -> list[CountedRow]:
    """Run the rows of Table 1."""
    return _count_rows(1, setting)


def count_table_2(setting: Setting) -> list[CountedRow]:
    """Run the rows of Table 2, then its last one with ten times the reserves."""
    return _count_rows(2, setting)


def runs_text(counted: list[CountedRow], setting: Setting) -> str:
    """Describe the runs."""
    quickly = "" if counted[0].runs == RUNS else f" (not the {RUNS:,} of the paper)"
    return (
        f"{counted[0].runs:,} runs{quickly} of each row with {N_USERS:,} users, demands and "
        f"reserves whole and uniform, seed {setting.seed}. The counts are of users with fewer or "
        "more tasks by PDRF's formula than by DRF's Algorithm 1. Intervals are 1.96 standard "
        "errors of the difference of two samples, and half a digit; where no deviation is printed, "
        "ours is used."
    )


def _count_rows(table: int, setting: Setting) -> list[CountedRow]:
    rows = [k for k, row in enumerate(ALL_ROWS) if row.table == table]
    count = partial(_run_row, setting.seed, setting.value(RUNS_OF_ROW))
    return setting.do_all(f"rows of Table {table}", count, rows)


def _run_row(seed: int, runs: int, index: int) -> CountedRow:
    """Run and count row `index` of `ALL_ROWS`."""
    row = ALL_ROWS[index]
    # Each row has its own generator, so that rows can be computed one by one.
    return count_row(row, measure_deviations(np.random.default_rng([seed, index]), row, runs))


@dataclass(frozen=True)
class Deviations:
    """Differences of tasks between PDRF and DRF in T runs of N users."""

    # (T, N): the formula with its top-up, less DRF in which users that do not fit leave.
    topped_up: Counts
    # (T, N): the formula, less DRF's Algorithm 1, which stops at the first user that does not fit.
    first_misfit: Counts
    exact: Counts  # (T, N): tasks under DRF in which users that do not fit leave


def measure_deviations(rng: np.random.Generator, row: PrintedRow, runs: int) -> Deviations:
    """Compare PDRF with DRF on pools drawn as in the paper."""
    topped_up, first_misfit, turns = np.zeros((3, runs, N_USERS), dtype=np.int64)
    for k in range(runs):
        reserves = rng.integers(*row.reserves, (1, row.n_resources), endpoint=True)
        demands = rng.integers(*row.demands, (N_USERS, row.n_resources), endpoint=True)
        pool = to_whole_pool(Problem.from_arrays(reserves, demands))
        exact, base = serve_by_turns(pool, stops=False), precompute_tasks(pool)
        topped_up[k] = top_up(pool, base) - exact
        first_misfit[k] = base - serve_by_turns(pool, stops=True)
        turns[k] = exact
    return Deviations(topped_up, first_misfit, turns)


def compare_row(counted: CountedRow) -> Iterator[Reading]:
    """Compare a row: means, deviations and maxima of users with too few and too many tasks."""
    row, runs = counted.row, counted.runs
    yield from _compare_sample(f"{row.name}, too few", counted.under, row.under, runs)
    yield compare_amount(f"{row.name}, too few, most tasks", counted.most_under, MOST_UNDER, 1)
    for by, sample, printed in zip(("1", "2", "> 2"), counted.over_by, row.over_by, strict=True):
        # Rare events vary at least as a Poisson count with the printed mean.
        theirs = max(sample.sd, float(np.sqrt(printed)))
        interval = mean_interval(sample.sd, theirs, runs)
        yield compare_amount(f"{row.name}, too many by {by}", sample.mean, printed, DIGIT, interval)
    yield from _compare_sample(f"{row.name}, too many", counted.over, row.over, runs)
    yield compare_amount(f"{row.name}, too many, most tasks", counted.most_over, row.most_over, 1)


def mean_interval(ours_sd: float, paper_sd: float, runs: int) -> float:
    """Return the half-width of the 95 % interval of the difference of two means, plus half a digit.

    Deviations are those of single runs: ours of `runs`, the paper's of 1,000.
    """
    return NORMAL * float(np.sqrt(ours_sd**2 / runs + paper_sd**2 / RUNS)) + DIGIT / 2


def _compare_sample(
    what: str, ours: Sample, printed: tuple[float, float], runs: int
) -> Iterator[Reading]:
    mean, sd = printed
    yield compare_amount(f"{what}, users", ours.mean, mean, DIGIT, mean_interval(ours.sd, sd, runs))
    interval = NORMAL * ours.error_of_sd * float(np.sqrt(1 / runs + 1 / RUNS)) + DIGIT / 2
    yield compare_amount(f"{what}, sd of users", ours.sd, sd, DIGIT, interval)
