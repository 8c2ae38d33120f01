"""Whether what is computed here is what a paper prints: numbers, statements, and one verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

EQUAL = "equal"
WITHIN = "within its interval"
SHAPE = "same shape"
DIFFERS = "differs"
# Of a number, that is no verdict yet: statements may hold all the same.
FARTHER = "farther off"
VERDICTS = (EQUAL, WITHIN, SHAPE, DIFFERS)

# Of the last digit that is printed: what is not rounded may be so far from it.
_HALF = 0.5 + 1e-9


@dataclass(frozen=True)
class Reading:
    """A number of a paper, and ours."""

    what: str  # what it is of
    ours: float
    paper: float
    # What one unit of the last printed digit is worth: 0.01 for a share printed as 62 %.
    digit: float
    # How far the two may be apart by chance or by what the paper leaves open, half a digit
    # included; None if nothing is known about that.
    interval: float | None = None
    is_share: bool = True  # whether it is a share of one, which is written in per cent

    @property
    def verdict(self) -> str:
        """``equal`` to what is printed, ``within its interval``, or else ``farther off``."""
        apart = abs(self.ours - self.paper)
        if apart <= _HALF * self.digit:
            return EQUAL
        # Not a number is in no interval.
        if self.interval is not None and apart <= self.interval + 1e-9:
            return WITHIN
        return FARTHER

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, None for what is not a finite number."""
        return {
            "what": self.what,
            "ours": self.ours if isfinite(self.ours) else None,
            "paper": self.paper,
            "interval": self.interval,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class PrintedClaim:
    """A statement of a paper, with its tolerance if it has one, and whether it is true of ours.

    `measured` says in a few words what was found.
    """

    sentence: str
    holds: bool
    measured: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"claim": self.sentence, "holds": self.holds, "measured": self.measured}


def judge(readings: Sequence[Reading], claims: Sequence[PrintedClaim]) -> str:
    """Give one verdict on a table or figure.

    Parameters
    ----------
    readings : sequence of Reading
        Its numbers; none where a figure prints none.
    claims : sequence of PrintedClaim
        What is said about it; not both empty.

    Returns
    -------
    str
        ``differs`` if a claim does not hold, or there is none and a number is neither equal nor
        within its interval. Otherwise ``equal`` if all numbers are, ``within its interval`` if all
        are one or the other, and ``same shape`` if not or if there are none.

    Raises
    ------
    ValueError
        When there is nothing to judge by.
    """
    if not readings and not claims:
        raise ValueError("there is neither a number nor a claim")
    if not all(claim.holds for claim in claims):
        return DIFFERS
    numbers = {reading.verdict for reading in readings}
    if numbers and FARTHER not in numbers:
        return WITHIN if WITHIN in numbers else EQUAL
    return SHAPE if claims else DIFFERS


def give_reason(
    readings: Sequence[Reading], claims: Sequence[PrintedClaim], *, in_full: bool = True
) -> str:
    """Explain the verdict of `judge` in a sentence; `in_full` lists statements that hold, too."""
    failing = [claim for claim in claims if not claim.holds]
    if failing:
        return "; ".join(f"not so here: {c.sentence} ({c.measured})" for c in failing) + "."
    verdicts = [reading.verdict for reading in readings]
    parts = []
    if readings:
        counts = [
            (verdicts.count(EQUAL), "as printed"),
            (verdicts.count(WITHIN), "within the interval stated"),
            (verdicts.count(FARTHER), FARTHER),
        ]
        said = ", ".join(f"{count} {how}" for count, how in counts if count)
        numbers = "number" if len(readings) == 1 else "numbers"
        parts.append(f"of {len(readings)} {numbers}, {said}")
    if claims:
        if len(claims) == 1:
            statements = "the statement holds"
        else:
            statements = "all statements hold" if in_full else f"all {len(claims)} statements hold"
        listed = f": {'; '.join(claim.sentence for claim in claims)}" if in_full else ""
        parts.append(statements + listed)
    return f"{'; '.join(parts)}."
