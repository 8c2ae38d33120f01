"""Figure 7 of Wang, Liang and Li 2014: which part of each user's tasks is done in a day."""

from __future__ import annotations

import numpy as np

from fairlead.metrics.summary import Summary
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.papers.drawing import bubbles, diagonal, square
from fairlead.papers.reproduction import Picture, Reproduction, Table
from fairlead.papers.setting import Setting
from fairlead.papers.verdict import Claim, Reading
from fairlead.report.figures import plain
from fairlead.report.numbers import percent

BEST_FIT, SLOTS_14 = "drf/best-fit", "slots:14"
ALL_DONE_ONLY_UNDER_BEST_FIT = 0.20
# "Around 20 %" is taken as 15 to 25 %.
INTERVAL = 0.05
# "Almost all": so many have a ratio that is not lower.
ALMOST_ALL = 0.9
NOTE = (
    "A few users submit most of the jobs (measured, docs/traces.md); the others ask for less than "
    "their fair share, and max-min fairness serves them at once, over slots as over resources. So "
    "they are equally well off, and only those who ask for much can gain. The paper's workload, of "
    "which that part is not printed, must have had more users who asked for more than slots gave."
)


def reproduce(setting: Setting) -> Reproduction:
    """Replay the day under Best-Fit and 14 slots, and compare users."""
    summaries = setting.replay_day(BEST_FIT, SLOTS_14)
    best, slots = (summaries[name].users.completion_ratio for name in (BEST_FIT, SLOTS_14))
    tasks = setting.day.n_tasks
    only = float(all_done_only_here(best, slots).mean())
    return Reproduction(
        setting=f"{setting.day_text} Ratios at 24 hours.",
        readings=(
            Reading(
                "users with all tasks done under Best-Fit and not in slots",
                only,
                ALL_DONE_ONLY_UNDER_BEST_FIT,
                0.01,
                INTERVAL,
            ),
        ),
        claims=judge_ratios(best, slots),
        note=NOTE,
        tables=(ratio_table(best, slots, "under Best-Fit", "in 14 slots"),),
        pictures=(
            ratio_picture(
                summaries[BEST_FIT],
                best,
                slots,
                ("completed under Best-Fit", "completed in 14 slots"),
            ),
        ),
        data={
            "tasks": tasks,
            "completion_ratio": {BEST_FIT: best, SLOTS_14: slots},
            "user_tasks": summaries[BEST_FIT].users.tasks,
            "all_done_only_under_best_fit": only,
            "higher": float((best > slots).mean()),
            "lower": float((best < slots).mean()),
        },
    )


def all_done_only_here(ours: FloatArray, theirs: FloatArray) -> BoolArray:
    """Return (N,) whether a user has all of its tasks done in one place and not in the other."""
    only: BoolArray = (ours >= 1.0) & (theirs < 1.0)
    return only


def judge_ratios(best: FloatArray, slots: FloatArray) -> tuple[Claim, ...]:
    """Say whether almost all users have at least as much done under Best-Fit, and most more.

    Parameters
    ----------
    best, slots : (N,) float
        Completion ratios.
    """
    not_lower, higher = float((best >= slots).mean()), float((best > slots).mean())
    return (
        Claim(
            f"almost all users, {100 * ALMOST_ALL:g} % or more, have at least as large a part of "
            "their tasks done under Best-Fit",
            not_lower >= ALMOST_ALL,
            percent(not_lower),
        ),
        Claim("most users have a larger part done", higher > 0.5, percent(higher)),
    )


def ratio_table(ours: FloatArray, theirs: FloatArray, here: str, there: str) -> Table:
    """Count users by which of two completion ratios is larger."""
    rows = [
        (f"larger part done {here}", ours > theirs),
        ("equal parts", ours == theirs),
        (f"larger part done {there}", ours < theirs),
        (f"all done {here}", ours >= 1.0),
        (f"all done {there}", theirs >= 1.0),
        (f"all done {here}, not {there}", all_done_only_here(ours, theirs)),
    ]
    return Table(
        "Users by the part of their tasks that is done after 24 hours.",
        ["users", "number", "share"],
        [[name, f"{int(which.sum()):,}", percent(float(which.mean()))] for name, which in rows],
    )


def ratio_picture(
    summary: Summary, across: FloatArray, up: FloatArray, names: tuple[str, str]
) -> Picture:
    """Draw a circle for each user at its two ratios."""
    tasks = summary.users.tasks
    hover = [
        f"<b>{plain(user)}</b>, {n:,} tasks<br>{names[0]}: {percent(a)}<br>{names[1]}: {percent(b)}"
        for user, n, a, b in zip(
            summary.workload.users, tasks.tolist(), across.tolist(), up.tolist(), strict=True
        )
    ]
    return Picture(
        "Part of the tasks completed, a circle for each user; its size is logarithmic in the "
        "number of tasks. Below the dotted line the first is larger.",
        square(names[0], names[1], [diagonal(), bubbles(across, up, np.asarray(tasks), hover)]),
        f"Part of each user's tasks {names[0]} against {names[1]}; counts are in the table",
    )
