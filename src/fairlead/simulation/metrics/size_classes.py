"""By how much sooner jobs are complete than under another policy, by their number of tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.simulation.metrics.job_times import JobTimes

# The largest number of tasks of each class but the last.
WANG_CLASSES = (50, 100, 500, 1000)


@dataclass(frozen=True, eq=False)
class Reduction:
    """Reduction of completion time by job size; C classes.

    A reduction of 0.25 says that a job is complete in three quarters of the time; negative ones
    that it takes longer.
    """

    # (C,): tasks of a job of the class; `most` of the last is 0, for any number.
    least: tuple[int, ...]
    most: tuple[int, ...]
    jobs: IntArray  # (C,): jobs that are complete under both policies; the others do not count
    # (C,): mean of the jobs' reductions, ``1 - ours / theirs``; not a number without jobs.
    mean: FloatArray
    of_means: FloatArray  # (C,): reduction of the mean, ``1 - mean(ours) / mean(theirs)``
    # (C,): jobs that are complete sooner, and later, by more than rounding.
    shortened: IntArray
    lengthened: IntArray

    @property
    def labels(self) -> tuple[str, ...]:
        """Of each class, such as ``51-100`` and ``>1000``."""
        pairs = zip(self.least, self.most, strict=True)
        return tuple(f"{low}-{high}" if high else f">{low - 1}" for low, high in pairs)


def reduction_by_size(
    tasks: IntArray,
    ours: JobTimes,
    theirs: JobTimes,
    classes: tuple[int, ...] = WANG_CLASSES,
) -> Reduction:
    """Compare completion times of the jobs that are complete under both policies.

    Parameters
    ----------
    tasks : (J,) int
        Number of tasks of each job.
    ours, theirs : JobTimes
        Under a policy, and under the baseline.
    classes : tuple of int
        The largest number of tasks of each class but the last, ascending.

    Notes
    -----
    Cost O(J log C). Wang, Liang and Li 2015, Fig. 6b, which does not say whether it shows the mean
    of reductions or the reduction of the mean.
    """
    both: BoolArray = ours.completed & theirs.completed
    kind = np.searchsorted(classes, tasks[both])
    one, other = ours.completion[both], theirs.completion[both]
    n_classes = len(classes) + 1

    def total(values: FloatArray) -> FloatArray:
        return np.bincount(kind, values, minlength=n_classes).astype(np.float64)

    jobs = np.bincount(kind, minlength=n_classes)
    some = jobs > 0
    mean, of_means = np.full((2, n_classes), np.nan)
    mean[some] = total(1.0 - one / other)[some] / jobs[some]
    of_means[some] = 1.0 - total(one)[some] / total(other)[some]
    differs = ~np.isclose(one, other, rtol=1e-9, atol=0.0)
    return Reduction(
        least=(1, *(size + 1 for size in classes)),
        most=(*classes, 0),
        jobs=jobs.astype(np.int64),
        mean=mean,
        of_means=of_means,
        shortened=np.bincount(kind[differs & (one < other)], minlength=n_classes),
        lengthened=np.bincount(kind[differs & (one > other)], minlength=n_classes),
    )
