"""Reproduce Table II and Figures 5 to 8 of Wang, Liang and Li 2014: a replayed day."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.ties import first_largest
from fairlead.model.workload import Workload
from fairlead.report.numbers import number, percent
from fairlead.simulation.metrics.comparison import Reduction, reduction_by_size
from fairlead.simulation.metrics.distribution import cumulative_distribution, percentile
from fairlead.simulation.metrics.summary import Summary
from fairlead.simulation.metrics.task_outcomes import JobTimes
from fairlead_papers.drfh import PAPER
from fairlead_papers.reproduction import PrintedClaim, Reading, Reproduction, TextTable
from fairlead_papers.setting import DAY, OF_DAY, Setting

BEST_FIT, DEDICATED, SLOTS_14 = "drf/best-fit", "drf/best-fit, dedicated", "slots:14"
# By slots of the largest server, the printed utilisation of CPU and memory.
PRINTED = {
    10: (0.351, 0.234),
    12: (0.422, 0.274),
    14: (0.439, 0.280),
    16: (0.454, 0.242),
    20: (0.406, 0.200),
}
# "Well below": slots use at most this fraction of what Best-Fit uses; in Fig. 5 it is about half.
WELL_BELOW = 0.75
NOTE_OF_TABLE_2 = (
    "The paper's day is from Google's trace, ours is generated. So only two things can be "
    "compared: how utilisation depends on the size of a slot, and how far it is below Best-Fit. "
    "Demands for CPU are generated in steps of a 32nd of the largest server in order that one size "
    "is best (papers/docs/reproducing.md)."
)


@PAPER.reproduces(
    "table-2",
    "Table II",
    "use of CPU and memory by the Slots scheduler, for five sizes of slots",
    "14 slots of the largest server give the highest overall use: 43.9 % of the CPU, 28.0 % of the"
    " memory",
    "a minute or two",
    parameters=OF_DAY,
)
def reproduce_table_2(setting: Setting) -> Reproduction:
    """Replay the day under five sizes of slots, and under Best-Fit."""
    policies = [f"slots:{slots}" for slots in PRINTED]
    summaries = setting.replay_day(BEST_FIT, *policies)
    used = {name: summary.horizon_utilization for name, summary in summaries.items()}
    with_slots = np.stack([used[policy] for policy in policies])
    return Reproduction(
        setting=f"{setting.day_text} Means over the 24 hours.",
        readings=tuple(
            Reading(f"{resource} used, {slots} slots", float(with_slots[k, r]), printed[r], 0.001)
            for k, (slots, printed) in enumerate(PRINTED.items())
            for r, resource in enumerate(("CPU", "memory"))
        ),
        claims=judge_slots(with_slots, used[BEST_FIT]),
        note=NOTE_OF_TABLE_2,
        tables=(_slots_table(with_slots, used[BEST_FIT]),),
        data={"utilization": used},
    )


def judge_slots(with_slots: FloatArray, best_fit: FloatArray) -> tuple[PrintedClaim, ...]:
    """Judge whether slots of one size are best, and well below Best-Fit.

    `with_slots` is the utilisation (S, R) with each of S sizes, the largest slots first; `best_fit`
    that under Best-Fit, (R,).
    """
    together = with_slots.sum(axis=1)
    best = first_largest(together)
    rises = bool((np.diff(together[: best + 1]) > 0).all())
    falls = bool((np.diff(together[best:]) < 0).all())
    share = float((with_slots.max(axis=0) / best_fit).max())
    sizes = list(PRINTED)
    return (
        PrintedClaim(
            "a size of slots in between is best: the farther from it, the less CPU and memory "
            "together are used",
            rises and falls and 0 < best < len(together) - 1,
            f"{sizes[best]} slots of {', '.join(map(str, sizes))} use most",
        ),
        PrintedClaim(
            "even the best size of slots uses well below what Best-Fit uses: at most "
            f"{100 * WELL_BELOW:g} %",
            share <= WELL_BELOW,
            f"up to {percent(share)} of what Best-Fit uses",
        ),
    )


def _slots_table(with_slots: FloatArray, best_fit: FloatArray) -> TextTable:
    rows = [
        [
            f"{slots} slots",
            *(
                text
                for r in (0, 1)
                for text in (percent(float(row[r])), f"{100 * printed[r]:.1f} %")
            ),
        ]
        for row, (slots, printed) in zip(with_slots, PRINTED.items(), strict=True)
    ]
    rows.append(["Best-Fit DRFH", percent(float(best_fit[0])), "", percent(float(best_fit[1])), ""])
    headings = ["per largest server", "CPU used", "paper", "memory used", "paper"]
    return TextTable("Mean use over the 24 hours.", headings, rows)


POLICIES = {
    BEST_FIT: "Best-Fit DRFH",
    "drf/first-fit": "First-Fit DRFH",
    SLOTS_14: "Slots, 14",
}
# Best-Fit counts as not below First-Fit if it uses at most one point less in an interval of five
# minutes, and at most a tenth of a point less in the mean of the day, which varies less by chance.
TOLERANCE, TOLERANCE_OF_MEAN = 0.01, 0.001
MOST_OF_THE_TIME = 0.9
NOTE_OF_FIGURE_5 = (
    "The paper says that Best-Fit uses more than First-Fit at all times; here the two hardly "
    "differ. Tasks of the generated day are small, on average a tenth of the CPU of most servers, "
    "so First-Fit leaves as little unused. A task that one of the two starts a little sooner also "
    "ends sooner, so at single times either may be higher."
)


@PAPER.reproduces(
    "figure-5",
    "Figure 5",
    "use of CPU and memory over the day, Best-Fit, First-Fit and Slots",
    "Best-Fit uses more than First-Fit at all times, and both use much more than Slots",
    "half a minute",
    parameters=OF_DAY,
)
def reproduce_figure_5(setting: Setting) -> Reproduction:
    """Replay the day under Best-Fit, First-Fit and 14 slots."""
    summaries = setting.replay_day(*POLICIES)
    used = {name: summary.utilization for name, summary in summaries.items()}
    # The first 24 hours, which is all that `Setting.replay_day` measures.
    share = np.stack([used[name].share for name in POLICIES])
    mean = np.stack([used[name].mean for name in POLICIES])
    return Reproduction(
        setting=f"{setting.day_text} Means over 5 minutes.",
        claims=judge_uses(share, mean),
        note=NOTE_OF_FIGURE_5,
        tables=(_use_table(mean),),
        data={
            "edges": used[BEST_FIT].edges,
            "utilization": {name: u.share.T for name, u in used.items()},
            "mean": {name: u.mean for name, u in used.items()},
        },
    )


def judge_uses(share: FloatArray, mean: FloatArray) -> tuple[PrintedClaim, ...]:
    """Judge whether Best-Fit uses at least as much as First-Fit, and both much more than slots.

    `share` is the utilisation under Best-Fit, First-Fit and slots in B bins of time, (3, B, R),
    `mean` that of the whole day, (3, R).
    """
    best, first, slots = share
    not_below = (best >= first - TOLERANCE).mean(axis=0)
    ahead = mean[0] - mean[1]
    ratio = mean[2] / mean[1]
    above_slots = (first > slots).mean(axis=0)
    return (
        PrintedClaim(
            "in the mean of the day Best-Fit uses at least as much CPU and memory as First-Fit, "
            f"give or take {100 * TOLERANCE_OF_MEAN:g} points",
            bool((ahead >= -TOLERANCE_OF_MEAN).all()),
            f"CPU {100 * ahead[0]:+.2f} points, memory {100 * ahead[1]:+.2f} points",
        ),
        PrintedClaim(
            f"Best-Fit uses as much, give or take {100 * TOLERANCE:g} point, for at least "
            f"{100 * MOST_OF_THE_TIME:g} % of the time",
            bool((not_below >= MOST_OF_THE_TIME).all()),
            f"CPU {percent(float(not_below[0]))}, memory {percent(float(not_below[1]))}",
        ),
        PrintedClaim(
            f"slots use at most {100 * WELL_BELOW:g} % of what First-Fit uses",
            bool((ratio <= WELL_BELOW).all()),
            f"CPU {percent(float(ratio[0]))}, memory {percent(float(ratio[1]))}; less "
            f"for at least {percent(float(above_slots.min()))} of the time",
        ),
    )


def _use_table(mean: FloatArray) -> TextTable:
    rows = [
        [name, *(percent(value) for value in row.tolist())]
        for name, row in zip(POLICIES.values(), mean, strict=True)
    ]
    return TextTable("Mean use over the 24 hours.", ["policy", "CPU used", "memory used"], rows)


POINTS = 400  # of the cumulative distribution
# "No improvement for small jobs": a reduction or an increase below this fraction.
SMALL_JOBS_REDUCTION = 0.1
# The least reduction of classes with more than 100 tasks.
LARGE_JOBS_REDUCTION = 0.1
# By chance, the reduction of a class may be so much below that of the next smaller class.
REDUCTION_TOLERANCE = 0.05
SAME_TIME = 1.01  # ratio of completion times that count as equal
NOTE_OF_FIGURE_6 = (
    "Only jobs that complete within the 24 hours under both policies count, as in the paper. "
    "Fig. 6b is taken as the mean of the jobs' reductions in each class; the table also has the "
    "reduction of the mean completion time, which depends mostly on the longest jobs. Job sizes of "
    "the generated day differ between users in order that small jobs gain nothing "
    "(papers/docs/reproducing.md)."
)


@PAPER.reproduces(
    "figure-6",
    "Figure 6",
    "job completion times under Best-Fit and Slots, and their reduction by size of job",
    "no improvement for small jobs, a significant one for jobs of more tasks; generally, the "
    "larger the job, the larger the reduction",
    "half a minute",
    parameters=OF_DAY,
)
def reproduce_figure_6(setting: Setting) -> Reproduction:
    """Replay the day under Best-Fit and 14 slots, and compare the jobs that both complete."""
    summaries = setting.replay_day(BEST_FIT, SLOTS_14)
    best, slots = (within_the_day(summaries[name]) for name in (BEST_FIT, SLOTS_14))
    workload = setting.day
    reduction = reduction_by_size(workload.job_tasks, best, slots)
    both = best.completed & slots.completed
    best_times, slots_times = best.completion[both], slots.completion[both]
    return Reproduction(
        setting=f"{setting.day_text} {int(both.sum()):,} jobs are complete in both.",
        claims=judge_times(best_times, slots_times, reduction),
        note=NOTE_OF_FIGURE_6,
        tables=(_reductions_table(reduction),),
        data={
            "completion_time": {
                name: dict(
                    zip(("seconds", "part"), cumulative_distribution(v, POINTS), strict=True)
                )
                for name, v in ((BEST_FIT, best_times), (SLOTS_14, slots_times))
            },
            "classes": list(reduction.labels),
            "jobs": reduction.jobs,
            "mean_reduction": reduction.mean,
            "reduction_of_mean": reduction.of_means,
        },
    )


def within_the_day(summary: Summary) -> JobTimes:
    """Return job times of a run, NaN for jobs that are not complete within 24 hours."""
    jobs, submit = summary.jobs, summary.workload.job_submit
    done = submit + jobs.completion <= DAY
    times = {each.name: getattr(jobs, each.name) for each in fields(jobs)}
    return JobTimes(**{name: np.where(done, each, np.nan) for name, each in times.items()})


def judge_times(
    best: FloatArray, slots: FloatArray, reduction: Reduction
) -> tuple[PrintedClaim, ...]:
    """Judge whether jobs complete sooner under Best-Fit, and large jobs most.

    `best` and `slots` are the completion times of J jobs under Best-Fit and with slots, (J,).
    """
    percents = (25, 50, 75, 90)
    pairs = [(percentile(best, p), percentile(slots, p)) for p in percents]
    small, large = reduction.mean[0], reduction.mean[2:]
    classes = reduction.mean[~np.isnan(reduction.mean)]
    reductions_text = ", ".join(_share(value) for value in reduction.mean.tolist())
    quantiles = "; ".join(
        f"{p} %: {number(one)} s, {number(other)} s"
        for p, (one, other) in zip(percents, pairs, strict=True)
    )
    return (
        PrintedClaim(
            "quartiles and ninth decile of completion times are at most 1 % longer under Best-Fit",
            all(one <= other * SAME_TIME for one, other in pairs),
            quantiles,
        ),
        PrintedClaim(
            "jobs of 1 to 50 tasks gain and lose nothing: less than "
            f"{100 * SMALL_JOBS_REDUCTION:g} %",
            bool(abs(small) < SMALL_JOBS_REDUCTION),
            _share(float(small)),
        ),
        PrintedClaim(
            "jobs of more than 100 tasks gain much: every class "
            f"{100 * LARGE_JOBS_REDUCTION:g} % or more",
            bool(
                (large[~np.isnan(large)] >= LARGE_JOBS_REDUCTION).all()
                and not np.isnan(large).all()
            ),
            f"by size {reductions_text}",
        ),
        PrintedClaim(
            "the larger the job, the larger the reduction: no class gains less than the one "
            f"before by more than {100 * REDUCTION_TOLERANCE:g} points",
            bool((np.diff(classes) >= -REDUCTION_TOLERANCE).all()),
            f"by size {reductions_text}",
        ),
    )


def _reductions_table(reduction: Reduction) -> TextTable:
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
        "Reduction of job completion times, from 14 slots to Best-Fit.", headings, rows
    )


def _share(value: float) -> str:
    return "no job" if np.isnan(value) else percent(value)


ALL_DONE_ONLY_UNDER_BEST_FIT = 0.20
# "Around 20 %" is taken as 15 to 25 %.
INTERVAL_OF_FIGURE_7 = 0.05
# "Almost all": this fraction of users has a ratio that is not lower.
ALMOST_ALL = 0.9
NOTE_OF_FIGURE_7 = (
    "{less} of the users ask for less than their fair share of the day, as a few users ask for "
    "most of it (papers/docs/reproducing.md). Max-min fairness serves them at once, with slots or "
    "resources, so they complete the same tasks. If each task started at its submission, all tasks "
    "of {possible} of the users would end within the day; no scheduler can complete all tasks of "
    "more users. The paper prints neither number for its day, in which more users presumably asked "
    "for more than slots gave."
)


@PAPER.reproduces(
    "figure-7",
    "Figure 7",
    "fraction of each user's tasks that complete in a day, Best-Fit and Slots",
    "Best-Fit completes a larger fraction for almost all users; around 20 % have all tasks "
    "completed under Best-Fit and not under Slots",
    "half a minute",
    known_to_differ=True,
    parameters=OF_DAY,
)
def reproduce_figure_7(setting: Setting) -> Reproduction:
    """Replay the day under Best-Fit and 14 slots, and compare users."""
    summaries = setting.replay_day(BEST_FIT, SLOTS_14)
    best, slots = (summaries[name].users.completion_ratio for name in (BEST_FIT, SLOTS_14))
    only = float(all_done_only_here(best, slots).mean())
    less, possible = (
        float(which.mean()) for which in (asks_for_less(setting.day), all_can_end(setting.day))
    )
    return Reproduction(
        setting=f"{setting.day_text} Ratios at 24 hours.",
        readings=(
            Reading(
                "users with all tasks done under Best-Fit, but not with slots",
                only,
                ALL_DONE_ONLY_UNDER_BEST_FIT,
                0.01,
                INTERVAL_OF_FIGURE_7,
            ),
        ),
        claims=judge_ratios(best, slots),
        note=NOTE_OF_FIGURE_7.format(less=percent(less), possible=percent(possible)),
        tables=(ratio_table(best, slots, "under Best-Fit", "with 14 slots"),),
        data={
            "completion_ratio": {BEST_FIT: best, SLOTS_14: slots},
            "user_tasks": summaries[BEST_FIT].users.tasks,
            "all_done_only_under_best_fit": only,
            "higher": float((best > slots).mean()),
            "lower": float((best < slots).mean()),
            "asks_for_less_than_fair_share": less,
            "all_tasks_can_end_in_time": possible,
        },
    )


def all_done_only_here(here: FloatArray, there: FloatArray) -> BoolArray:
    """Return (N,) whether a user completes all tasks in one run only; from completion ratios."""
    only: BoolArray = (here >= 1.0) & (there < 1.0)
    return only


def asks_for_less(workload: Workload) -> BoolArray:
    """Return (N,) whether a user's tasks take less than its fair share of the day.

    Tasks take their dominant shares for their durations; a fair share is the user's weight over all
    weights.
    """
    share_of_shape = (workload.shapes / workload.cluster.total_capacity).max(axis=1)
    # (K,): cluster-seconds of each set of equal tasks, and its user.
    seconds_of_set = np.add.reduceat(workload.task_duration, workload.first_task[:-1])
    work_of_set = share_of_shape[workload.set_shape] * seconds_of_set
    user_of_set = workload.job_user[workload.set_job]
    share = np.bincount(user_of_set, work_of_set, minlength=workload.n_users) / DAY
    less: BoolArray = share < workload.weight / workload.weight.sum()
    return less


def all_can_end(workload: Workload) -> BoolArray:
    """Return (N,) whether all tasks of a user would end within the day without waiting."""
    job_of_task = workload.set_job.repeat(workload.set_tasks)
    is_late = workload.job_submit[job_of_task] + workload.task_duration > DAY
    user_of_task = workload.job_user[job_of_task]
    can: BoolArray = np.bincount(user_of_task, is_late, minlength=workload.n_users) == 0
    return can


def judge_ratios(best: FloatArray, slots: FloatArray) -> tuple[PrintedClaim, ...]:
    """Judge whether Best-Fit completes more tasks of most users; both are ratios, (N,)."""
    not_lower, higher = float((best >= slots).mean()), float((best > slots).mean())
    return (
        PrintedClaim(
            f"almost all users, {100 * ALMOST_ALL:g} % or more, complete at least as large a "
            "fraction of their tasks under Best-Fit",
            not_lower >= ALMOST_ALL,
            percent(not_lower),
        ),
        PrintedClaim("most users complete a larger fraction", higher > 0.5, percent(higher)),
    )


def ratio_table(one: FloatArray, other: FloatArray, here: str, there: str) -> TextTable:
    """Count users by the larger of their two completion ratios, and by all tasks completed.

    `one` has the completion ratios (N,) of the run called `here`, `other` those of `there`.
    """
    rows = [
        (f"more tasks done {here}", one > other),
        ("as many tasks done", one == other),
        (f"more tasks done {there}", one < other),
        (f"all done {here}", one >= 1.0),
        (f"all done {there}", other >= 1.0),
        (f"all done {here}, not {there}", all_done_only_here(one, other)),
    ]
    return TextTable(
        "Users by their completed tasks after 24 hours.",
        ["users", "number", "share"],
        [[name, f"{int(which.sum()):,}", percent(float(which.mean()))] for name, which in rows],
    )


WORSE_WHEN_SHARING = 0.02
# 2 % of 250 users are 5, by chance 1 to 9; and 2 % is rounded.
INTERVAL_OF_FIGURE_8 = 0.02
NOTE_OF_FIGURE_8 = (
    "The dedicated servers of a user are its share, by weight, of every group of servers, in whole "
    "servers; the rest is spread so that users of equal weight have equally many, give or take one "
    "(docs/simulating.md). With 250 users on 2,000 servers "
    "that is 8 each; the paper had over 900 users, so 2 each."
)


@PAPER.reproduces(
    "figure-8",
    "Figure 8",
    "fraction of each user's tasks that complete in a day, sharing and on dedicated clouds",
    "only 2 % of the users complete fewer tasks when sharing, and only slightly fewer",
    "half a minute",
    parameters=OF_DAY,
)
def reproduce_figure_8(setting: Setting) -> Reproduction:
    """Replay the day with all users sharing, and with each user on dedicated servers."""
    summaries = setting.replay_day(BEST_FIT, dedicated=True)
    shared, alone = (summaries[name].users.completion_ratio for name in (BEST_FIT, DEDICATED))
    return Reproduction(
        setting=f"{setting.day_text} Ratios at 24 hours.",
        readings=(
            Reading(
                "users with fewer tasks done when sharing",
                float((shared < alone).mean()),
                WORSE_WHEN_SHARING,
                0.01,
                INTERVAL_OF_FIGURE_8,
            ),
        ),
        claims=judge_sharing(shared, alone),
        note=NOTE_OF_FIGURE_8,
        tables=(ratio_table(shared, alone, "when sharing", "when alone"),),
        data={
            "completion_ratio": {"shared": shared, "dedicated": alone},
            "user_tasks": summaries[BEST_FIT].users.tasks,
            "worse_when_sharing": float((shared < alone).mean()),
        },
    )


def judge_sharing(shared: FloatArray, alone: FloatArray) -> tuple[PrintedClaim, ...]:
    """Judge whether more users gain than lose by sharing, and lose little; both ratios, (N,)."""
    worse, better = float((shared < alone).mean()), float((shared > alone).mean())
    loss = float((alone - shared).max())
    return (
        PrintedClaim(
            "sharing benefits most of the users that feel a difference",
            better > worse,
            f"{percent(better)} of the users gain, {percent(worse)} lose",
        ),
        PrintedClaim(
            "users that lose, lose little: at most 10 points of completion ratio",
            loss <= 0.1,
            f"{100 * max(0.0, loss):.2f} points at most",
        ),
    )
