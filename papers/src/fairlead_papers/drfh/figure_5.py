"""Figure 5 of Wang, Liang and Li 2014: use of CPU and memory over the day."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.report.numbers import percent
from fairlead_papers.drfh import PAPER
from fairlead_papers.reproduction import Reproduction, TextTable
from fairlead_papers.setting import Setting
from fairlead_papers.verdict import PrintedClaim

POLICIES = {
    "drf/best-fit": "Best-Fit DRFH",
    "drf/first-fit": "First-Fit DRFH",
    "slots:14": "Slots, 14",
}
# Best-Fit counts as not below First-Fit when it is at most a point below at a moment, and a tenth
# of a point in the mean of the day, in which chance weighs less.
TOLERANCE, TOLERANCE_OF_MEAN = 0.01, 0.001
MOST_OF_THE_TIME = 0.9
# Slots use at most so much of what First-Fit uses, in the mean of the day.
WELL_BELOW = 0.75
SECONDS_PER_HOUR = 3600.0
NOTE = (
    "The paper says that Best-Fit uses more than First-Fit at all times; here the two are hardly "
    "told apart. Tasks of the generated day are small, in the mean a tenth of the CPU of most "
    "servers, and First-Fit leaves as little unused. A task that one of the two starts a little "
    "sooner also ends sooner, so single moments go either way."
)


@PAPER.reproduces(
    "figure-5",
    "Figure 5",
    "use of CPU and memory over the day, Best-Fit, First-Fit and Slots",
    "Best-Fit uses more than First-Fit at all times, and both use much more than Slots",
    "half a minute",
)
def reproduce(setting: Setting) -> Reproduction:
    """Replay the day under Best-Fit, First-Fit and 14 slots; half a minute."""
    summaries = setting.replay_day(*POLICIES)
    used = {name: summary.utilization for name, summary in summaries.items()}
    # The first 24 hours, which is all that `Setting.replay_day` measures.
    share = np.stack([used[name].share for name in POLICIES])
    mean = np.stack([used[name].mean for name in POLICIES])
    return Reproduction(
        setting=f"{setting.day_text} Means over 5 minutes.",
        claims=judge_uses(share, mean),
        note=NOTE,
        tables=(_table(mean),),
        data={
            "edges": used["drf/best-fit"].edges,
            "utilization": {name: u.share.T for name, u in used.items()},
            "mean": {name: u.mean for name, u in used.items()},
        },
    )


def judge_uses(share: FloatArray, mean: FloatArray) -> tuple[PrintedClaim, ...]:
    """Check whether Best-Fit uses at least what First-Fit uses, and both much more than slots.

    `share` (3, B, R) is the use by Best-Fit, First-Fit and slots over time, `mean` (3, R) that of
    the whole day.
    """
    best, first, slots = share
    not_below = (best >= first - TOLERANCE).mean(axis=0)
    ahead = mean[0] - mean[1]
    ratio = mean[2] / mean[1]
    above_slots = (first > slots).mean(axis=0)
    return (
        PrintedClaim(
            "in the mean of the day Best-Fit uses at least as much CPU and memory as First-Fit, to "
            f"{100 * TOLERANCE_OF_MEAN:g} points",
            bool((ahead >= -TOLERANCE_OF_MEAN).all()),
            f"CPU {100 * ahead[0]:+.2f} points, memory {100 * ahead[1]:+.2f} points",
        ),
        PrintedClaim(
            f"it does so, to {100 * TOLERANCE:g} point, in at least "
            f"{100 * MOST_OF_THE_TIME:g} % of the time",
            bool((not_below >= MOST_OF_THE_TIME).all()),
            f"CPU {percent(float(not_below[0]))}, memory {percent(float(not_below[1]))}",
        ),
        PrintedClaim(
            f"slots use at most {100 * WELL_BELOW:g} % of what First-Fit uses",
            bool((ratio <= WELL_BELOW).all()),
            f"CPU {percent(float(ratio[0]))}, memory {percent(float(ratio[1]))}; less in "
            f"{percent(float(above_slots.min()))} of the time or more",
        ),
    )


def _table(mean: FloatArray) -> TextTable:
    rows = [
        [name, *(percent(value) for value in row.tolist())]
        for name, row in zip(POLICIES.values(), mean, strict=True)
    ]
    return TextTable("Mean use over the 24 hours.", ["policy", "CPU used", "memory used"], rows)
