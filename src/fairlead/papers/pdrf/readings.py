"""Numbers of Metin's Tables 1 and 2 beside ours, with intervals of chance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.papers.pdrf.printed import MOST_UNDER, RUNS
from fairlead.papers.pdrf.runs import Counted, Sample
from fairlead.papers.verdict import Reading

DIGIT = 0.001
# Of a normal distribution, 95 % are within so many standard deviations.
NORMAL = 1.96


def read_row(counted: Counted) -> Iterator[Reading]:
    """Compare a row: means, deviations and maxima of users with too few and too many tasks."""
    row, runs = counted.row, counted.runs
    yield from _read_sample(f"{row.name}, too few", counted.under, row.under, runs)
    yield Reading(
        f"{row.name}, too few, most tasks", counted.most_under, MOST_UNDER, 1, is_share=False
    )
    for by, sample, printed in zip(("1", "2", "> 2"), counted.over_by, row.over_by, strict=True):
        # What is seen once in a thousand runs varies at least as such counts do.
        theirs = max(sample.sd, float(np.sqrt(printed)))
        interval = mean_interval(sample.sd, theirs, runs)
        what = f"{row.name}, too many by {by}"
        yield Reading(what, sample.mean, printed, DIGIT, interval, is_share=False)
    yield from _read_sample(f"{row.name}, too many", counted.over, row.over, runs)
    yield Reading(
        f"{row.name}, too many, most tasks", counted.most_over, row.most_over, 1, is_share=False
    )


def mean_interval(ours_sd: float, paper_sd: float, runs: int) -> float:
    """Return how far means of two samples may be apart, with half a digit; 95 %.

    Deviations are those of the samples: ours of `runs`, the paper's of 1,000.
    """
    return NORMAL * float(np.sqrt(ours_sd**2 / runs + paper_sd**2 / RUNS)) + DIGIT / 2


def _read_sample(
    what: str, ours: Sample, printed: tuple[float, float], runs: int
) -> Iterator[Reading]:
    mean, sd = printed
    yield Reading(
        f"{what}, users", ours.mean, mean, DIGIT, mean_interval(ours.sd, sd, runs), is_share=False
    )
    interval = NORMAL * ours.error_of_sd * float(np.sqrt(1 / runs + 1 / RUNS)) + DIGIT / 2
    yield Reading(f"{what}, sd of users", ours.sd, sd, DIGIT, interval, is_share=False)
