"""The random runs that Tables 1 and 2 of Metin are of, and what is counted in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.papers.pdrf.deviations import Counts, Deviations, measure
from fairlead.papers.pdrf.printed import LIKELIER, N_USERS, ROWS, RUNS, Row
from fairlead.papers.setting import Setting

QUICK_RUNS = 100
ALL_ROWS = (*ROWS, LIKELIER)


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
    """What is counted of a row's runs: users, by what PDRF's formula gives and DRF does not.

    Attributes
    ----------
    under, over : Sample
        Users with less and with more.
    over_by : 3 Samples
        Users with one, two, and more tasks too many.
    most_under, most_over, most_still_under : int
        Tasks.
    served : Sample
        Users who have any task by DRF.
    still_under : Sample
        Users with less after the top-up than by turns in which users that do not fit leave.
    """

    row: Row
    runs: int
    under: Sample
    over: Sample
    over_by: tuple[Sample, Sample, Sample]
    most_under: int
    most_over: int
    served: Sample
    still_under: Sample
    most_still_under: int


def count_row(row: Row, found: Deviations) -> Counted:
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
    return [_count(k, setting) for k, row in enumerate(ALL_ROWS) if row.table == 1]


def count_table_2(setting: Setting) -> list[Counted]:
    """Run the rows of Table 2, then its last one with ten times the reserves; ten seconds."""
    return [_count(k, setting) for k, row in enumerate(ALL_ROWS) if row.table == 2]


def runs_text(counted: list[Counted], setting: Setting) -> str:
    """Say what was run."""
    quickly = f" (quick: not the {RUNS:,} of the paper)" if setting.quick else ""
    return (
        f"{counted[0].runs:,} runs{quickly} of each row with {N_USERS:,} users, demands and "
        f"reserves whole and uniform, seed {setting.seed}. Counted are users whom PDRF's formula "
        "gives less or more than DRF's Algorithm 1. Intervals are 1.96 standard errors of the "
        "difference of two samples, and half a digit; of what has no printed deviation ours "
        "stands for it."
    )


def _count(place: int, setting: Setting) -> Counted:
    row, runs = ALL_ROWS[place], QUICK_RUNS if setting.quick else RUNS
    # A generator of its own for each row: the tables can be had one by one.
    rng = np.random.default_rng([setting.seed, place])
    what = f"demands {row.name}, reserves {row.reserves[0]:,}-{row.reserves[1]:,}"
    return count_row(row, measure(rng, row, runs, setting.steps(what, runs)))
