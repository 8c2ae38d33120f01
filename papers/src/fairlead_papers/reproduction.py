"""A table or figure of a paper: what it is, and what came of computing it here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fairlead.simulation.metrics.summary import plain
from fairlead_papers.setting import Setting
from fairlead_papers.verdict import PrintedClaim, Reading, give_reason, judge

__all__ = ["ENTRIES", "Entry", "Finding", "Paper", "Reproduction", "TextTable"]

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
    ) -> Callable[[Compute], Compute]:
        """Register the function below as what computes a table or figure; see `Entry`."""
        key = f"{self.key}/{part}"

        def register(compute: Compute) -> Compute:
            assert key not in ENTRIES, f"{key} is registered twice"
            ENTRIES[key] = Entry(key, self, number, shows, printed, compute, takes, known_to_differ)
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
    """What a paper got wrong, or left open, and what is so."""

    claim: str  # what the paper says, with the place; or what it does not say
    found: str  # a counterexample, a number or a proof, in a sentence or two
    command: str  # what shows it

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"claim": self.claim, "found": self.found, "command": self.command}


@dataclass(frozen=True)
class Reproduction:
    """What came of computing a table or figure."""

    setting: str  # what was run, in a sentence
    readings: tuple[Reading, ...] = ()  # numbers beside the paper's
    claims: tuple[PrintedClaim, ...] = ()  # statements of the paper, and whether they hold
    findings: tuple[Finding, ...] = ()  # what the paper got wrong or left open
    note: str = ""  # what is known about differences
    tables: tuple[TextTable, ...] = ()
    # What a figure of the paper shows, as plain values for JSON.
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """One of `fairlead_papers.verdict.VERDICTS`."""
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
