"""What Tables II to V of Kesidis et al. 2018 print."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray

TRIALS = 200
# Of tasks: user and server. Of what is unused: server and resource.
PLACES = ("(1,1)", "(1,2)", "(2,1)", "(2,2)")

DEMAND = ((5, 1), (1, 5))
CAPACITY = ((100, 30), (30, 100))


class PrintedTrials(NamedTuple):
    """A row of the tables, by the paper's name; deviations only where chance has a part."""

    name: str
    # Of our policy; `residual` says that it scores by free amounts.
    criterion: str
    select: str
    residual: bool
    tasks: tuple[float, ...]  # by user, then by server
    total: float
    unused: tuple[float, ...]  # by server, then by resource
    tasks_sd: tuple[float, ...] | None = None
    unused_sd: tuple[float, ...] | None = None


DRF, TSF, RRR_PS_DSF = "DRF", "TSF", "RRR-PS-DSF"
BF_DRF, PS_DSF, RESIDUAL = "BF-DRF", "PS-DSF", "rPS-DSF"
# Of this one no table has a row: the text says that it is as rPS-DSF in all trials.
RRR_RESIDUAL = "RRR-rPS-DSF"

ROWS = (
    PrintedTrials(
        DRF,
        "drf",
        "rrr",
        False,
        (6.55, 4.69, 4.69, 6.55),
        22.48,
        (62.56, 0, 0, 62.56),
        (2.31, 0.46, 0.46, 2.31),
        (11.09, 0, 0, 11.09),
    ),
    PrintedTrials(
        TSF,
        "tsf",
        "rrr",
        False,
        (6.5, 4.7, 4.7, 6.5),
        22.4,
        (62.8, 0, 0, 62.8),
        (2.29, 0.46, 0.46, 2.29),
        (10.99, 0, 0, 10.99),
    ),
    PrintedTrials(
        RRR_PS_DSF,
        "ps-dsf",
        "rrr",
        False,
        (19.44, 1.15, 1.07, 19.42),
        41.08,
        (1.8, 4.6, 4.86, 1.92),
        (0.59, 0.99, 1.0, 0.49),
        (0.59, 0.99, 1.0, 0.49),
    ),
    PrintedTrials(BF_DRF, "drf", "best-fit-first", False, (20, 2, 0, 19), 41, (0, 10, 1, 3)),
    PrintedTrials(PS_DSF, "ps-dsf", "joint", False, (19, 0, 2, 20), 41, (3, 1, 10, 0)),
    PrintedTrials(RESIDUAL, "ps-dsf", "joint", True, (19, 2, 2, 19), 42, (3, 1, 1, 3)),
)
RANDOM_ROWS = tuple(row for row in ROWS if row.tasks_sd is not None)


def unused_of(tasks: FloatArray) -> FloatArray:
    """Return what is left, (..., 2, 2) by server and resource, of tasks by user and server."""
    used: FloatArray = np.swapaxes(tasks, -1, -2) @ np.array(DEMAND, dtype=float)
    return np.array(CAPACITY, dtype=float) - used


def least_unused_sd(tasks_sd: FloatArray) -> FloatArray:
    """Return how little the unused amounts can vary when the tasks vary as given.

    Both are (2, 2) sample standard deviations: of tasks by user and server, returned by server and
    resource. The least is that of ``d[1,r] x[1,i] + d[2,r] x[2,i]`` with two terms that move
    against each other.
    """
    demand = np.array(DEMAND, dtype=float)
    terms = demand[:, None, :] * tasks_sd[:, :, None]
    least: FloatArray = np.abs(terms[0] - terms[1])
    return least
