"""Numbers of the tables of Kesidis et al. 2018 beside ours, with intervals of chance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.papers.private_clouds.printed import DRF, PLACES, RRR_PS_DSF, TRIALS, TSF, Row
from fairlead.papers.private_clouds.study import Outcome
from fairlead.papers.verdict import Reading

DIGIT = 0.01
# Of a normal distribution, 95 % are within so many standard deviations.
NORMAL = 1.96


def mean_interval(ours_sd: float, paper_sd: float, trials: int) -> float:
    """Return how far means of two samples may be apart, with half a digit; 95 %.

    Deviations are those of the samples: ours of `trials`, the paper's of 200.
    """
    return NORMAL * float(np.sqrt(ours_sd**2 / trials + paper_sd**2 / TRIALS)) + DIGIT / 2


def sd_interval(ours_sd: float, paper_sd: float, trials: int) -> float:
    """Return how far sample deviations of two samples may be apart, with half a digit; 95 %.

    As of normal distributions, whose deviations vary by ``sd / sqrt(2 T)``: for counts that are
    mostly one of two numbers that is more than they do.
    """
    errors = ours_sd**2 / (2 * trials) + paper_sd**2 / (2 * TRIALS)
    return NORMAL * float(np.sqrt(errors)) + DIGIT / 2


def read_tasks(row: Row, ours: Outcome, trials: int) -> Iterator[Reading]:
    """Compare a row of Table II. The total has no printed deviation: ours stands for it."""
    yield from _read_means(
        f"{row.name}, tasks of", row.tasks, row.tasks_sd, ours.tasks, ours.tasks_sd, trials
    )
    interval = None
    if row.tasks_sd is not None:
        interval = mean_interval(ours.total_sd, ours.total_sd, trials)
    yield Reading(f"{row.name}, total", ours.total, row.total, DIGIT, interval, is_share=False)


def read_tasks_sd(row: Row, ours: Outcome, trials: int) -> Iterator[Reading]:
    """Compare a row of Table III."""
    yield from _read_sds(f"{row.name}, sd of tasks of", row.tasks_sd, ours.tasks_sd, trials)


def read_unused(row: Row, ours: Outcome, trials: int) -> Iterator[Reading]:
    """Compare a row of Table IV.

    For PS-DSF in rounds our deviation stands for the printed one, which cannot be right.
    """
    sd = row.unused_sd if row.name in (DRF, TSF) else None
    if row.name == RRR_PS_DSF:
        sd = tuple(ours.unused_sd.ravel().tolist())
    yield from _read_means(
        f"{row.name}, unused", row.unused, sd, ours.unused, ours.unused_sd, trials
    )


def read_unused_sd(row: Row, ours: Outcome, trials: int) -> Iterator[Reading]:
    """Compare a row of Table V."""
    yield from _read_sds(f"{row.name}, sd of unused", row.unused_sd, ours.unused_sd, trials)


def _read_means(
    what: str,
    paper: tuple[float, ...],
    paper_sd: tuple[float, ...] | None,
    ours: FloatArray,
    ours_sd: FloatArray,
    trials: int,
) -> Iterator[Reading]:
    means, deviations = ours.ravel().tolist(), ours_sd.ravel().tolist()
    for k, place in enumerate(PLACES):
        interval = None
        if paper_sd is not None:
            interval = mean_interval(deviations[k], paper_sd[k], trials)
        yield Reading(f"{what} {place}", means[k], paper[k], DIGIT, interval, is_share=False)


def _read_sds(
    what: str, paper: tuple[float, ...] | None, ours: FloatArray, trials: int
) -> Iterator[Reading]:
    if paper is None:
        return
    for place, mine, theirs in zip(PLACES, ours.ravel().tolist(), paper, strict=True):
        interval = sd_interval(mine, theirs, trials)
        yield Reading(f"{what} {place}", mine, theirs, DIGIT, interval, is_share=False)
