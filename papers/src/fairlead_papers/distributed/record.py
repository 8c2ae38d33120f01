"""What is written down of a run, sample by sample."""

from __future__ import annotations

from math import floor, isfinite
from typing import Protocol

import numpy as np

from fairlead.errors import InputError
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead_papers.distributed.presence import Phase

# Numbers kept of all samples: 400 MB.
LARGEST_RECORD = 50_000_000


class Watched(Protocol):
    """What is looked at: a cluster at a moment."""

    def group_tasks(self) -> FloatArray:
        """Return (N, G) tasks on each whole group."""

    def certificate(self) -> Certificate:
        """Certify what really runs, among those who are there."""


class Samples:
    """Samples at even distances from 0, and one at the end, at `until`, all in seconds.

    Attributes
    ----------
    times : (T,) float
    user_tasks : (T, N) float
    utilisation : (T, G, R) float
    violation : (T,) float
    tasks_over_time : (T, N, G) float or None

    Raises
    ------
    InputError
        For a time between samples that is not positive, or more samples than fit in memory.
    """

    def __init__(self, problem: Problem, every: float, until: float, keep_tasks: bool) -> None:
        if not (isfinite(every) and every > 0):
            raise InputError(f"must be a positive number of seconds, not {every}", "sample")
        shape = (problem.n_groups, problem.n_resources)
        each = problem.n_users + shape[0] * shape[1] + 1
        if keep_tasks:
            each += problem.n_users * problem.n_groups
        if not (until / every + 2) * each < LARGEST_RECORD:
            raise InputError(
                f"{until / every:,.0f} samples of {each:,} numbers each are too many to keep; at "
                f"most {LARGEST_RECORD // each:,}",
                "sample",
            )
        steps = floor(until / every * (1 + 1e-12))
        times = every * np.arange(steps + 1, dtype=np.float64)
        self.times: FloatArray = np.append(times[times < until - 1e-9 * every], until)
        self._problem = problem
        length = len(self.times)
        self.user_tasks = np.zeros((length, problem.n_users))
        self.utilisation = np.zeros((length, *shape))
        self.violation = np.zeros(length)
        self.tasks_over_time: FloatArray | None = None
        if keep_tasks:
            self.tasks_over_time = np.zeros((length, problem.n_users, problem.n_groups))

    def samples_of(self, phase: Phase) -> range:
        """Return the samples of a phase, that at its end only if it is the last."""
        first, after = np.searchsorted(self.times, [phase.begin, phase.end]).tolist()
        return range(first, len(self.times) if phase.end == self.times[-1] else after)

    def take(self, k: int, cluster: Watched) -> None:
        """Write down the true state."""
        tasks = cluster.group_tasks()
        capacity = self._problem.group_capacity
        self.user_tasks[k] = tasks.sum(axis=1)
        used = tasks.T @ self._problem.demand
        np.divide(used, capacity, out=self.utilisation[k], where=capacity > 0)
        self.violation[k] = cluster.certificate().violation
        if self.tasks_over_time is not None:
            self.tasks_over_time[k] = tasks
