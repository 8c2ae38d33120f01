"""Table II of Wang, Liang and Li 2014: what the Slots scheduler uses, by the size of its slots."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.ties import first_largest
from fairlead.report.numbers import percent
from fairlead_papers.drfh import PAPER
from fairlead_papers.reproduction import Reproduction, TextTable
from fairlead_papers.setting import Setting
from fairlead_papers.verdict import PrintedClaim, Reading

BEST_FIT = "drf/best-fit"
# Slots of the largest server, and the shares of CPU and memory that are used.
PRINTED = {
    10: (0.351, 0.234),
    12: (0.422, 0.274),
    14: (0.439, 0.280),
    16: (0.454, 0.242),
    20: (0.406, 0.200),
}
# Well below: slots use at most so much of what Best-Fit uses. The paper's Fig. 5 shows about half.
WELL_BELOW = 0.75
NOTE = (
    "The paper's day is one of Google's trace, the day here is generated: what can be compared is "
    "how use goes with the size of a slot, and how far it stays below Best-Fit. That one size is "
    "best was a reason to generate demands for CPU in steps of a 32nd of the largest server "
    "(docs/reproducing.md)."
)


@PAPER.reproduces(
    "table-2",
    "Table II",
    "use of CPU and memory by the Slots scheduler, for five sizes of slots",
    "14 slots of the largest server give the highest overall use: 43.9 % of the CPU, 28.0 % of the"
    " memory",
    "a minute or two",
)
def reproduce(setting: Setting) -> Reproduction:
    """Replay the day under five sizes of slots, and under Best-Fit; a minute or two."""
    policies = [f"slots:{slots}" for slots in PRINTED]
    summaries = setting.replay_day(BEST_FIT, *policies)
    used = {name: summary.horizon_utilization for name, summary in summaries.items()}
    ours = np.stack([used[policy] for policy in policies])
    return Reproduction(
        setting=f"{setting.day_text} Means over the 24 hours.",
        readings=tuple(
            Reading(f"{resource} used, {slots} slots", float(ours[k, r]), printed[r], 0.001)
            for k, (slots, printed) in enumerate(PRINTED.items())
            for r, resource in enumerate(("CPU", "memory"))
        ),
        claims=judge_slots(ours, used[BEST_FIT]),
        note=NOTE,
        tables=(_table(ours, used[BEST_FIT]),),
        data={"utilization": used},
    )


def judge_slots(ours: FloatArray, best_fit: FloatArray) -> tuple[PrintedClaim, ...]:
    """Check whether slots of one size are best, and well below Best-Fit.

    `ours` has the (S, R) shares used with S sizes, the largest slots first, `best_fit` (R,) those
    of Best-Fit.
    """
    together = ours.sum(axis=1)
    best = first_largest(together)
    rises = bool((np.diff(together[: best + 1]) > 0).all())
    falls = bool((np.diff(together[best:]) < 0).all())
    share = float((ours.max(axis=0) / best_fit).max())
    sizes = list(PRINTED)
    return (
        PrintedClaim(
            "one size of slots in between is best: larger and smaller ones use less CPU and memory "
            "together, the less the farther from it",
            rises and falls and 0 < best < len(together) - 1,
            f"{sizes[best]} slots of {', '.join(map(str, sizes))} use most",
        ),
        PrintedClaim(
            f"at best slots use well less than Best-Fit: at most {100 * WELL_BELOW:g} % of it",
            share <= WELL_BELOW,
            f"up to {percent(share)} of what Best-Fit uses",
        ),
    )


def _table(ours: FloatArray, best_fit: FloatArray) -> TextTable:
    rows = [
        [
            f"{slots} slots",
            *(
                text
                for r in (0, 1)
                for text in (percent(float(row[r])), f"{100 * printed[r]:.1f} %")
            ),
        ]
        for row, (slots, printed) in zip(ours, PRINTED.items(), strict=True)
    ]
    rows.append(["Best-Fit DRFH", percent(float(best_fit[0])), "", percent(float(best_fit[1])), ""])
    headings = ["per largest server", "CPU used", "paper", "memory used", "paper"]
    return TextTable("Mean use over the 24 hours.", headings, rows)
