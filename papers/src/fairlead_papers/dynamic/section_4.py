"""Section 4 of Li et al. 2019: shares can sum up to more than under DRF with full knowledge."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.mechanisms.competitive_ratio import full_knowledge_levels, worst_case_max_sum
from fairlead.model.cluster import FloatArray
from fairlead.report.numbers import number
from fairlead_papers.dynamic import PAPER
from fairlead_papers.dynamic.sequences import divide
from fairlead_papers.reproduction import Reproduction, TextTable
from fairlead_papers.setting import Setting
from fairlead_papers.verdict import PrintedClaim, Reading

RESOURCES = range(2, 9)
# What agents want of the resources that are not theirs; the paper's numbers are limits.
SMALL = 1e-6
DIGIT = 1e-9
NOTE = (
    f"The paper's numbers are limits as epsilon goes to 0; here it is {SMALL:g}, and the interval "
    "is what that accounts for, 2 m times as much for each share. That x_1 is m times x_n agrees "
    "with the limits: m/(m+1) and 1/(m+1)."
)


class SharesInTheEnd(NamedTuple):
    """Dominant shares in the end, of one number of resources."""

    first: FloatArray  # (m,): of the agents that want one resource each
    last: float  # of the agent that wants all
    known: float  # everybody's under DRF with full knowledge

    @property
    def sums(self) -> tuple[float, float]:
        """The sums of shares, dynamic and with full knowledge."""
        return float(self.first.sum()) + self.last, self.known * (len(self.first) + 1)


@PAPER.reproduces(
    "section-4",
    "Section 4",
    "sums of dominant shares beside those of DRF with full knowledge",
    "all but the last agent have m/(m+1), the last 1/(m+1), under DRF all 1/2: the sum can be "
    "larger than DRF's",
    "at once",
)
def reproduce(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
    """Let the agents of the instance arrive, for 2 to 8 resources; at once."""
    found = {m: shares_of(m, SMALL) for m in RESOURCES}
    return Reproduction(
        setting=f"m resources, m + 1 agents as printed, epsilon {SMALL:g}, m from 2 to 8.",
        readings=tuple(reading for m, shares in found.items() for reading in _readings(m, shares)),
        claims=judge_sums({m: shares.sums for m, shares in found.items()}),
        note=NOTE,
        tables=(_table(found),),
        data={
            str(m): {"first": s.first, "last": s.last, "full_knowledge": s.known}
            for m, s in found.items()
        },
    )


def shares_of(resources: int, small: float) -> SharesInTheEnd:
    """Return who has what after the last step of the instance."""
    demand = worst_case_max_sum(resources, small)
    agents, _ = divide(demand)
    n = len(demand)
    known = full_knowledge_levels(demand, np.ones(n), float(n))[-1]
    return SharesInTheEnd(agents.shares[:-1], float(agents.shares[-1]), float(known))


def judge_sums(sums: dict[int, tuple[float, float]]) -> tuple[PrintedClaim, ...]:
    """Check whether sums of dynamic DRF exceed those of DRF, for every number of resources."""
    excess = {m: dynamic / known for m, (dynamic, known) in sums.items()}
    least = min(excess.values())
    return (
        PrintedClaim(
            "the sum of dominant shares is larger than under DRF with full knowledge for every "
            "m from 2 on",
            least > 1,
            f"{number(least)} to {number(max(excess.values()))} times as large",
        ),
    )


def _readings(m: int, shares: SharesInTheEnd) -> tuple[Reading, ...]:
    off = 2 * m * SMALL
    dynamic, known = shares.sums
    # Of the agents with one resource each, the one that is farthest off.
    limit = m / (m + 1)
    first = float(shares.first[np.abs(shares.first - limit).argmax()])
    return (
        Reading(f"m = {m}: shares of agents 1 to {m}", first, limit, DIGIT, off),
        Reading(f"m = {m}: share of the last", shares.last, 1 / (m + 1), DIGIT, off),
        Reading(f"m = {m}: everybody's under DRF", shares.known, 1 / 2, DIGIT, off),
        Reading(
            f"m = {m}: sum of shares", dynamic, (m * m + 1) / (m + 1), DIGIT, off * (m + 1), False
        ),
        Reading(f"m = {m}: sum under DRF", known, (m + 1) / 2, DIGIT, off * (m + 1), False),
    )


def _table(found: dict[int, SharesInTheEnd]) -> TextTable:
    rows = []
    for m, shares in found.items():
        dynamic, known = shares.sums
        limit = 2 * (m * m + 1) / (m + 1) ** 2
        rows.append(
            [str(m), number(dynamic), number(known), number(dynamic / known), number(limit)]
        )
    headings = ["m", "sum of shares", "under DRF", "ratio", "2 (m² + 1) / (m + 1)²"]
    return TextTable("Sums of dominant shares in the end.", headings, rows)
