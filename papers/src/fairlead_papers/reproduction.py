"""Tables and figures of papers: entries, our numbers beside the printed ones, and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, SupportsFloat, TypeAlias

from fairlead.simulation.metrics.summary import plain
from fairlead_papers.setting import Parameter, Setting

EQUAL = "equal"
WITHIN = "within its interval"
SHAPE = "same shape"
DIFFERS = "differs"
# Of a number, that is no verdict yet: statements may hold all the same.
FARTHER = "farther off"
VERDICTS = (EQUAL, WITHIN, SHAPE, DIFFERS)

# Units of the last printed digit within which a number counts as equal.
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
        """``equal`` to the printed number, ``within its interval``, or ``farther off``."""
        apart = abs(self.ours - self.paper)
        if apart <= _HALF * self.digit:
            return EQUAL
        # Not a number is in no interval.
        if self.interval is not None and apart <= self.interval + 1e-9:
            return WITHIN
        return FARTHER

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with None for numbers that are not finite."""
        return {
            "what": self.what,
            "ours": self.ours if isfinite(self.ours) else None,
            "paper": self.paper,
            "interval": self.interval,
            "verdict": self.verdict,
        }


def amount(
    what: str, ours: SupportsFloat, paper: float, digit: float, interval: float | None = None
) -> Reading:
    """Return the reading of an amount, which is not written in per cent."""
    return Reading(what, float(ours), paper, digit, interval, is_share=False)


@dataclass(frozen=True)
class PrintedClaim:
    """A statement of a paper, with its tolerance if it has one, and whether it is true of ours.

    `measured` is the finding, in a few words.
    """

    sentence: str
    holds: bool
    measured: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"claim": self.sentence, "holds": self.holds, "measured": self.measured}


def judge(readings: Sequence[Reading], claims: Sequence[PrintedClaim]) -> str:
    """Judge the numbers and claims of a table or figure as one.

    ``differs`` if a claim does not hold, or there is none and a number is neither equal nor within
    its interval. Otherwise ``equal`` if all numbers are, ``within its interval`` if all are one or
    the other, and ``same shape`` if not or if there are none. Raises ValueError without either.
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


Compute: TypeAlias = "Callable[[Setting], Reproduction]"


@dataclass(frozen=True)
class Paper:
    """A paper, and what of it is reproduced."""

    key: str  # the first part of the names of its tables and figures
    authors: str
    title: str
    venue: str
    order: tuple[str, ...] = ()  # the second parts, as they come in the paper

    def reproduces(
        self,
        part: str,
        number: str,
        shows: str,
        printed: str,
        takes: str,
        known_to_differ: bool = False,
        parameters: tuple[Parameter, ...] = (),
    ) -> Callable[[Compute], Compute]:
        """Register the function below as what computes a table or figure; see `Entry`."""
        key = f"{self.key}/{part}"

        def register(compute: Compute) -> Compute:
            assert key not in ENTRIES, f"{key} is registered twice"
            ENTRIES[key] = Entry(
                key, self, number, shows, printed, compute, takes, known_to_differ, parameters
            )
            return compute

        return register


@dataclass(frozen=True)
class Entry:
    """A table or figure that is reproduced."""

    key: str  # its name: ``drfh/figure-4``
    paper: Paper
    number: str  # as the paper has it: ``Figure 4``
    shows: str
    printed: str  # what the paper reads off it
    compute: Compute  # takes a `Setting`, returns a `Reproduction`
    takes: str  # how long that is on two processors, roughly
    # Whether it is on record, with its reason, that ours is not the paper's.
    known_to_differ: bool = False
    parameters: tuple[Parameter, ...] = ()  # what may be changed

    @property
    def place(self) -> tuple[int, str]:
        """Where the paper has it: new ones come after those whose order is given."""
        order, part = self.paper.order, self.key.partition("/")[2]
        return order.index(part) if part in order else len(order), part


ENTRIES: dict[str, Entry] = {}  # by name; filled by those who compute them


@dataclass(frozen=True)
class TextTable:
    """A table of texts; the first column names the rows."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Finding:
    """An error or a gap of a paper, and the correct statement."""

    claim: str  # what the paper says, with the place; or what it does not say
    found: str  # a counterexample, a number or a proof, in a sentence or two
    command: str  # what shows it

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"claim": self.claim, "found": self.found, "command": self.command}


@dataclass(frozen=True)
class Reproduction:
    """A table or figure computed again, beside the printed one."""

    setting: str  # the experiment, in a sentence
    readings: tuple[Reading, ...] = ()  # numbers beside the paper's
    claims: tuple[PrintedClaim, ...] = ()  # statements of the paper, and whether they hold
    findings: tuple[Finding, ...] = ()  # what the paper got wrong or left open
    note: str = ""  # known differences
    tables: tuple[TextTable, ...] = ()
    # The series of a figure, as plain values for JSON.
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """One of `fairlead_papers.reproduction.VERDICTS`."""
        return judge(self.readings, self.claims)

    @property
    def reason(self) -> str:
        """Why, in a sentence."""
        return give_reason(self.readings, self.claims)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but tables as plain values."""
        figures: dict[str, Any] = plain(
            {
                "verdict": self.verdict,
                "why": self.reason,
                "note": self.note,
                "setting": self.setting,
                "readings": [reading.to_dict() for reading in self.readings],
                "claims": [claim.to_dict() for claim in self.claims],
                "findings": [finding.to_dict() for finding in self.findings],
                "data": self.data,
            }
        )
        return figures
