"""The random runs of Tables 1 and 2 of Metin, beside the printed numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fairlead.mechanisms.pdrf import precompute_tasks
from fairlead.model.problem import Problem
from fairlead.model.quanta import to_whole_pool
from fairlead.solvers.level_bisection import serve_by_turns, top_up
from fairlead_papers.reproduction import Reading, amount
from fairlead_papers.setting import Parameter, Setting

N_USERS = 1_000
RUNS = 1_000


@dataclass(frozen=True)
class PrintedRow:
    """A row of the tables, over 1,000 runs."""

    table: int
    n_resources: int
    demands: tuple[int, int]  # least and largest
    # Mean and standard deviation of the number of users with less and with more than by DRF.
    under: tuple[float, float]
    over: tuple[float, float]
    # Mean number of users with one, two, and more tasks too many.
    over_by: tuple[float, float, float]
    most_over: int  # tasks that a user had too many
    reserves: tuple[int, int] = (50_000, 100_000)  # least and largest

    @property
    def name(self) -> str:
        """The demands, as the tables name their rows."""
        return f"{self.demands[0]:,}-{self.demands[1]:,}"


# Most tasks that a user had too few, in every row.
MOST_UNDER = 1
ROWS = (
    PrintedRow(1, 10, (1, 10), (477.623, 86.373), (0.694, 2.137), (0.693, 0.001, 0.0), 2),
    PrintedRow(1, 10, (1, 20), (474.932, 38.381), (0.192, 0.526), (0.191, 0.001, 0.0), 2),
    PrintedRow(1, 10, (10, 20), (486.521, 50.526), (0.0, 0.0), (0.0, 0.0, 0.0), 0),
    PrintedRow(2, 2, (1, 100), (423.517, 36.429), (50.407, 25.814), (44.689, 5.588, 0.48), 3),
    PrintedRow(2, 2, (1, 1_000), (407.902, 26.373), (83.959, 36.376), (56.541, 14.519, 12.989), 32),
)
# With the reserves that are printed, fewer users have any task than the last row says are short of
# one; with ten times as much it is like the row before it.
UNLIKELY = ROWS[-1]
LIKELIER = replace(UNLIKELY, reserves=(500_000, 1_000_000))


RUNS_OF_ROW = Parameter("runs", RUNS, quick=100)
DIGIT = 0.001
# 95 % of a normal distribution are within this many standard deviations.
NORMAL = 1.96
ALL_ROWS = (*ROWS, LIKELIER)
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sample:
    """A whole number for each of T runs."""

    values: Counts

    @property
    def mean(self) -> float:
        """Over the runs."""
        return float(self.values.mean())

    @property
    def sd(self) -> float:
        """Sample standard deviation of one run."""
        return float(self.values.std(ddof=1))

    @property
    def error_of_sd(self) -> float:
        """Standard error of the standard deviation of one run, for a sample of one.

        For T of them divide by the square root of T. Many runs have no over-allocation and some
        have dozens, so that it is not that of a normal distribution.
        """
        apart = self.values - self.values.mean()
        variance = float((apart**2).mean())
        if variance == 0:
            return 0.0
        kurtosis = float((apart**4).mean()) / variance**2
        return float(np.sqrt(variance * (kurtosis - 1) / 4))


@dataclass(frozen=True, eq=False)
class Counted:
    """Counts of a row's runs: users with other tasks by PDRF's formula than by DRF."""

    row: PrintedRow
    runs: int
    # Users with less and with more.
    under: Sample
    over: Sample
    over_by: tuple[Sample, Sample, Sample]  # users with one, two, and more tasks too many
    most_under: int  # tasks
    most_over: int
    served: Sample  # users who have any task by DRF
    # Users with less after the top-up than by turns in which users that do not fit leave.
    still_under: Sample
    most_still_under: int


def count_row(row: PrintedRow, found: Deviations) -> Counted:
    """Count users by what the formula gives them and DRF's Algorithm 1 does not."""
    beside = found.first_misfit

    def users(chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Sample:
        return Sample(chosen.sum(axis=1))

    return Counted(
        row,
        len(beside),
        under=users(beside < 0),
        over=users(beside > 0),
        over_by=(users(beside == 1), users(beside == 2), users(beside > 2)),
        most_under=max(0, -int(beside.min())),
        most_over=max(0, int(beside.max())),
        served=users(found.exact > 0),
        still_under=users(found.topped_up < 0),
        most_still_under=max(0, -int(found.topped_up.min())),
    )


def count_table_1(setting: Setting) -> list[Counted]:
    """Run the rows of Table 1; ten seconds."""
    return _count_rows(1, setting)


def count_table_2(setting: Setting) -> list[Counted]:
    """Run the rows of Table 2, then its last one with ten times the reserves; ten seconds."""
    return _count_rows(2, setting)


def runs_text(counted: list[Counted], setting: Setting) -> str:
    """Describe the runs."""
    quickly = "" if counted[0].runs == RUNS else f" (not the {RUNS:,} of the paper)"
    return (
        f"{counted[0].runs:,} runs{quickly} of each row with {N_USERS:,} users, demands and "
        f"reserves whole and uniform, seed {setting.seed}. Counted are users that PDRF's formula "
        "gives less or more than DRF's Algorithm 1. Intervals are 1.96 standard errors of the "
        "difference of two samples, and half a digit; of what has no printed deviation ours "
        "stands for it."
    )


def _count_rows(table: int, setting: Setting) -> list[Counted]:
    places = [k for k, row in enumerate(ALL_ROWS) if row.table == table]
    count = partial(_count, setting.seed, setting.value(RUNS_OF_ROW))
    return setting.do_all(f"rows of Table {table}", count, places)


def _count(seed: int, runs: int, place: int) -> Counted:
    row = ALL_ROWS[place]
    # Each row has its own generator, so that rows can be computed one by one.
    return count_row(row, measure(np.random.default_rng([seed, place]), row, runs))


@dataclass(frozen=True)
class Deviations:
    """Tasks by the formula less tasks by turns, (T, N): one row a run, one column a user."""

    # (T, N): of the formula and its top-up by one task each, against turns in which users that do
    # not fit leave.
    topped_up: Counts
    # (T, N): of the formula, against DRF's Algorithm 1, which ends with the first who does not fit.
    first_misfit: Counts
    exact: Counts  # (T, N): the tasks by turns in which users that do not fit leave


def measure(rng: np.random.Generator, row: PrintedRow, runs: int) -> Deviations:
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


def read_row(counted: Counted) -> Iterator[Reading]:
    """Compare a row: means, deviations and maxima of users with too few and too many tasks."""
    row, runs = counted.row, counted.runs
    yield from _read_sample(f"{row.name}, too few", counted.under, row.under, runs)
    yield amount(f"{row.name}, too few, most tasks", counted.most_under, MOST_UNDER, 1)
    for by, sample, printed in zip(("1", "2", "> 2"), counted.over_by, row.over_by, strict=True):
        # An event seen once in a thousand runs varies at least as such counts do.
        theirs = max(sample.sd, float(np.sqrt(printed)))
        interval = mean_interval(sample.sd, theirs, runs)
        yield amount(f"{row.name}, too many by {by}", sample.mean, printed, DIGIT, interval)
    yield from _read_sample(f"{row.name}, too many", counted.over, row.over, runs)
    yield amount(f"{row.name}, too many, most tasks", counted.most_over, row.most_over, 1)


def mean_interval(ours_sd: float, paper_sd: float, runs: int) -> float:
    """Return how far means of two samples may be apart, with half a digit; 95 %.

    Deviations are those of the samples: ours of `runs`, the paper's of 1,000.
    """
    return NORMAL * float(np.sqrt(ours_sd**2 / runs + paper_sd**2 / RUNS)) + DIGIT / 2


def _read_sample(
    what: str, ours: Sample, printed: tuple[float, float], runs: int
) -> Iterator[Reading]:
    mean, sd = printed
    yield amount(f"{what}, users", ours.mean, mean, DIGIT, mean_interval(ours.sd, sd, runs))
    interval = NORMAL * ours.error_of_sd * float(np.sqrt(1 / runs + 1 / RUNS)) + DIGIT / 2
    yield amount(f"{what}, sd of users", ours.sd, sd, DIGIT, interval)
