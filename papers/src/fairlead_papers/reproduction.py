"""Reproduced tables and figures: entries, our numbers with the printed ones, and verdicts."""

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
# A verdict on a number only: the table or figure may still have the same shape.
FARTHER = "farther off"
VERDICTS = (EQUAL, WITHIN, SHAPE, DIFFERS)

# Largest difference, in units of the last printed digit, of numbers that count as equal.
_HALF = 0.5 + 1e-9


@dataclass(frozen=True)
class Reading:
    """A printed number and ours."""

    what: str  # the name of the number, such as "tasks of user 1"
    ours: float
    paper: float
    # The value of one unit of the last printed digit: 0.01 for a share printed as 62 %.
    digit: float
    # The largest difference that chance, or details that the paper does not state, explain, half a
    # digit included; None if it is not known.
    interval: float | None = None
    is_share: bool = True  # whether it is a fraction, which is shown in per cent

    @property
    def verdict(self) -> str:
        """``equal`` to the printed number, ``within its interval``, or ``farther off``."""
        apart = abs(self.ours - self.paper)
        if apart <= _HALF * self.digit:
            return EQUAL
        # NaN is in no interval.
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


def compare_amount(
    what: str, ours: SupportsFloat, paper: float, digit: float, interval: float | None = None
) -> Reading:
    """Return the reading of an amount, which is not shown in per cent; see `Reading`."""
    return Reading(what, float(ours), paper, digit, interval, is_share=False)


@dataclass(frozen=True)
class PrintedClaim:
    """A statement of a paper, and whether our numbers meet it."""

    sentence: str  # with the tolerance, if there is one
    holds: bool
    measured: str  # our numbers, in a few words

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as plain values."""
        return {"claim": self.sentence, "holds": self.holds, "measured": self.measured}


def judge(readings: Sequence[Reading], claims: Sequence[PrintedClaim]) -> str:
    """Return the verdict on a table or figure from its numbers and claims.

    ``differs`` if a claim does not hold, or if there are no claims and a number is farther off.
    Otherwise ``equal`` if all numbers are equal, ``within its interval`` if all are equal or within
    their intervals, and ``same shape`` if a number is farther off or there are no numbers. Raises
    ValueError without numbers and claims.
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
    """Explain the verdict of `judge` in a sentence; `in_full` also lists statements that hold."""
    failing = [claim for claim in claims if not claim.holds]
    if failing:
        return "; ".join(f"does not hold here: {c.sentence} ({c.measured})" for c in failing) + "."
    verdicts = [reading.verdict for reading in readings]
    parts = []
    if readings:
        counts = [
            (verdicts.count(EQUAL), "as printed"),
            (verdicts.count(WITHIN), "within the interval stated"),
            (verdicts.count(FARTHER), FARTHER),
        ]
        by_verdict = ", ".join(f"{count} {verdict}" for count, verdict in counts if count)
        numbers = "number" if len(readings) == 1 else "numbers"
        parts.append(f"of {len(readings)} {numbers}, {by_verdict}")
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
    """A paper whose tables and figures are reproduced."""

    key: str  # first part of the names of its entries: ``drfh``
    authors: str
    title: str
    venue: str
    order: tuple[str, ...] = ()  # second parts of the names, in the order of the paper

    def reproduces(
        self,
        name: str,
        number: str,
        shows: str,
        printed: str,
        takes: str,
        known_to_differ: bool = False,
        parameters: tuple[Parameter, ...] = (),
    ) -> Callable[[Compute], Compute]:
        """Return a decorator that registers the function of a table or figure; see `Entry`."""
        key = f"{self.key}/{name}"

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
    number: str  # in the paper: ``Figure 4``
    shows: str  # the subject, in a few words
    printed: str  # the result that the paper states
    compute: Compute  # takes a `Setting`, returns a `Reproduction`
    takes: str  # rough time on two processors, in words
    # Whether papers/docs/reproducing.md lists that our result differs, with the reason.
    known_to_differ: bool = False
    parameters: tuple[Parameter, ...] = ()  # those that --set may change

    @property
    def sort_key(self) -> tuple[int, str]:
        """A sort key: the position in the paper; entries that `Paper.order` lacks come last."""
        order, part = self.paper.order, self.key.partition("/")[2]
        return order.index(part) if part in order else len(order), part


ENTRIES: dict[str, Entry] = {}  # by name; filled by `Paper.reproduces`


@dataclass(frozen=True)
class TextTable:
    """A table of texts; the first column names the rows."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Finding:
    """An error or a gap of a paper, and the correct statement."""

    claim: str  # the statement of the paper, with its section; or the missing detail
    found: str  # a counterexample, a number or a proof, in a sentence or two
    command: str  # a command that shows it

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain values."""
        return {"claim": self.claim, "found": self.found, "command": self.command}


@dataclass(frozen=True)
class Reproduction:
    """A table or figure computed again, with the printed numbers and claims."""

    setting: str  # the experiment, in a sentence
    readings: tuple[Reading, ...] = ()  # our numbers with the printed ones
    claims: tuple[PrintedClaim, ...] = ()
    findings: tuple[Finding, ...] = ()  # errors and gaps of the paper
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
        """The reason of the verdict, in a sentence."""
        return give_reason(self.readings, self.claims)

    def to_dict(self) -> dict[str, Any]:
        """Return all but the tables as plain values, for JSON."""
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
