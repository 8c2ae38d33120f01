"""Figure 4 of Khamse-Ashari et al. 2017: two users share three wireless channels by their rates."""

from __future__ import annotations

import numpy as np

from fairlead.mechanisms.catalogue import solve
from fairlead.model.cluster import FloatArray
from fairlead.report.numbers import number, percent
from fairlead_papers.psdsf import PAPER
from fairlead_papers.psdsf.examples import EXACT, channels_of_figure_4
from fairlead_papers.reproduction import Reproduction, TextTable
from fairlead_papers.setting import Setting
from fairlead_papers.verdict import PrintedClaim, Reading

# Mb/s of users 1 and 2.
PRINTED = (1.5, 1.0)
# Part of each channel's time, by user.
PRINTED_TIME = ((1.0, 0.5, 0.0), (0.0, 0.5, 1.0))
ROUNDING = 1e-6
NOTE = (
    "The rates stand in the picture, which we do not have. Those used here were chosen to give "
    "the two rates and the division that the text prints; many others do. What is shown is that "
    "the printed answer is one of PS-DSF for some rates, not that it is for the paper's."
)


@PAPER.reproduces(
    "figure-4",
    "Figure 4",
    "two users share three wireless channels by given rates",
    "1.5 and 1 Mb/s; a channel each, and half of the one between",
    "at once",
)
def reproduce(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
    """Divide the channels' time by PS-DSF with given rates; a fraction of a second."""
    problem = channels_of_figure_4()
    answer, by_resource = (solve(problem, name) for name in ("ps-dsf-tdm", "ps-dsf"))
    time = answer.tasks / problem.gamma
    apart = float(np.abs(by_resource.user_tasks - answer.user_tasks).max())
    rates = [
        [f"{user}, {what}", *map(written, row)]
        for n, user in enumerate(problem.users.names)
        for what, written, row in (
            ("Mb/s when alone", number, problem.gamma[n].tolist()),
            ("part of the time", percent, time[n].tolist()),
        )
    ]
    return Reproduction(
        setting="Three channels, two users of equal weight, rates of our own choice (see below).",
        readings=tuple(
            Reading(f"Mb/s of user {n + 1}", float(mine), printed, EXACT, is_share=False)
            for n, (mine, printed) in enumerate(zip(answer.user_tasks, PRINTED, strict=True))
        ),
        claims=judge_channels(time, apart),
        note=NOTE,
        tables=(
            TextTable("Rates, and who has the channels.", ["", *problem.cluster.groups], rates),
        ),
        data={"rates": problem.gamma, "time": time, "served": answer.tasks},
    )


def judge_channels(time: FloatArray, apart: float) -> tuple[PrintedClaim, ...]:
    """Check whether the channels are divided as the text says: (2, 3) parts of each channel's time.

    `apart` is the largest difference in Mb/s between dividing time and dividing the only resource.
    """
    off = float(np.abs(time - np.array(PRINTED_TIME)).max())
    return (
        PrintedClaim(
            "user 1 has all of the first channel, user 2 all of the third, each half of the second",
            off <= ROUNDING,
            f"parts of the time are at most {off:.2g} off",
        ),
        PrintedClaim(
            "with one resource it is the same whether time or the resource is divided",
            apart <= ROUNDING,
            f"at most {apart:.2g} Mb/s apart",
        ),
    )
