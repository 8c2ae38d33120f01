"""Figure 6 of Wang, Liang and Li 2014: how long jobs take under Best-Fit and under Slots."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.report.numbers import number, percent
from fairlead.simulation.metrics.comparison import Reduction, reduction_by_size
from fairlead.simulation.metrics.distribution import cumulative_distribution, percentile
from fairlead.simulation.metrics.summary import Summary
from fairlead.simulation.metrics.task_outcomes import JobTimes
from fairlead_papers.drfh import PAPER
from fairlead_papers.reproduction import Reproduction, TextTable
from fairlead_papers.setting import DAY, Setting
from fairlead_papers.verdict import PrintedClaim

BEST_FIT, SLOTS_14 = "drf/best-fit", "slots:14"
POINTS = 400
# "No improvement for small jobs": less than a tenth, either way.
NONE = 0.1
# Classes of more than 100 tasks gain at least so much.
MUCH = 0.1
# A class may gain so much less than the one of smaller jobs, for chance.
CHANCE = 0.05
SAME_TIME = 1.01
NOTE = (
    "Only jobs that both complete within the 24 hours count, as in the paper. Fig. 6b is taken as "
    "the mean of the jobs' reductions in each class; the table also has the reduction of the mean "
    "completion time, which the longest jobs decide. That small jobs gain nothing was a reason to "
    "generate days in which job sizes differ between users (docs/reproducing.md)."
)


@PAPER.reproduces(
    "figure-6",
    "Figure 6",
    "job completion times under Best-Fit and Slots, and their reduction by size of job",
    "no improvement for small jobs, a significant one for jobs of more tasks; generally the larger"
    " the job, the more",
    "half a minute",
)
def reproduce(setting: Setting) -> Reproduction:
    """Replay the day under Best-Fit and 14 slots, and compare the jobs that both complete."""
    summaries = setting.replay_day(BEST_FIT, SLOTS_14)
    best, slots = (within_the_day(summaries[name]) for name in (BEST_FIT, SLOTS_14))
    workload = setting.day
    reduction = reduction_by_size(workload.job_tasks, best, slots)
    both = best.completed & slots.completed
    ours, theirs = best.completion[both], slots.completion[both]
    return Reproduction(
        setting=f"{setting.day_text} {int(both.sum()):,} jobs are complete in both.",
        claims=judge_times(ours, theirs, reduction),
        note=NOTE,
        tables=(_table(reduction),),
        data={
            "completion_time": {
                name: dict(
                    zip(("seconds", "part"), cumulative_distribution(v, POINTS), strict=True)
                )
                for name, v in ((BEST_FIT, ours), (SLOTS_14, theirs))
            },
            "classes": list(reduction.labels),
            "jobs": reduction.jobs,
            "mean_reduction": reduction.mean,
            "reduction_of_mean": reduction.of_means,
        },
    )


def within_the_day(summary: Summary) -> JobTimes:
    """Return the times of the jobs that are complete within 24 hours, no number of the others."""
    jobs, submit = summary.jobs, summary.workload.job_submit
    done = submit + jobs.completion <= DAY
    times = (jobs.completion, jobs.slowdown, jobs.wait)
    return JobTimes(*(np.where(done, values, np.nan) for values in times))


def judge_times(
    ours: FloatArray, theirs: FloatArray, reduction: Reduction
) -> tuple[PrintedClaim, ...]:
    """Check whether jobs complete sooner, large ones more so; times are (J,), of jobs in both."""
    percents = (25, 50, 75, 90)
    pairs = [(percentile(ours, p), percentile(theirs, p)) for p in percents]
    small, large = reduction.mean[0], reduction.mean[2:]
    classes = reduction.mean[~np.isnan(reduction.mean)]
    said = ", ".join(_share(value) for value in reduction.mean.tolist())
    quantiles = "; ".join(
        f"{p} %: {number(one)} s, {number(other)} s"
        for p, (one, other) in zip(percents, pairs, strict=True)
    )
    return (
        PrintedClaim(
            "jobs are complete no later under Best-Fit at quartiles and the ninth decile, to 1 %",
            all(one <= other * SAME_TIME for one, other in pairs),
            quantiles,
        ),
        PrintedClaim(
            f"jobs of 1 to 50 tasks gain nothing: less than {100 * NONE:g} %",
            bool(abs(small) < NONE),
            _share(float(small)),
        ),
        PrintedClaim(
            f"jobs of more than 100 tasks gain much: every class {100 * MUCH:g} % or more",
            bool((large[~np.isnan(large)] >= MUCH).all() and not np.isnan(large).all()),
            f"by size {said}",
        ),
        PrintedClaim(
            "the larger the job the more: no class gains less than the one before, "
            f"{100 * CHANCE:g} points for chance",
            bool((np.diff(classes) >= -CHANCE).all()),
            f"by size {said}",
        ),
    )


def _table(reduction: Reduction) -> TextTable:
    rows = [
        [f"{label} tasks", f"{jobs:,}", _share(mean), _share(of_means)]
        for label, jobs, of_means, mean in zip(
            reduction.labels,
            reduction.jobs.tolist(),
            reduction.of_means.tolist(),
            reduction.mean.tolist(),
            strict=True,
        )
    ]
    headings = ["size of job", "jobs", "mean of the reductions", "reduction of the mean"]
    return TextTable(
        "By how much sooner jobs are complete under Best-Fit than in 14 slots.", headings, rows
    )


def _share(value: float) -> str:
    return "no job" if np.isnan(value) else percent(value)
