"""A table or figure of a paper: what it is, and what came of computing it here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fairlead.metrics.plain_values import plain
from fairlead.papers.setting import Setting
from fairlead.papers.verdict import PrintedClaim, Reading, give_reason, judge
from fairlead.report.document import Picture

__all__ = ["ENTRIES", "Entry", "Finding", "Paper", "Picture", "Reproduction", "TextTable"]

Compute: TypeAlias = "Callable[[Setting], Reproduction]"


@dataclass(frozen=True)
class Paper:
    """A paper, and what of it is reproduced.

    Attributes
    ----------
    key : str
        The first part of the names of its tables and figures.
    order : tuple of str
        The second parts, as they come in the paper.
    """

    key: str
    authors: str
    title: str
    venue: str
    order: tuple[str, ...] = ()

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
    """A table or figure that is reproduced.

    Attributes
    ----------
    key : str
        Its name: ``drfh/figure-4``.
    number : str
        As the paper has it: ``Figure 4``.
    printed : str
        What the paper reads off it.
    compute : callable
        Takes a `Setting`, returns a `Reproduction`.
    takes : str
        How long that is on two processors, roughly.
    known_to_differ : bool
        Whether it is on record, with its reason, that ours is not the paper's.
    """

    key: str
    paper: Paper
    number: str
    shows: str
    printed: str
    compute: Compute
    takes: str
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
    """What a paper got wrong, or left open, and what is so.

    Attributes
    ----------
    claim : str
        What the paper says, with the place; or what it does not say.
    found : str
        A counterexample, a number or a proof, in a sentence or two.
    command : str
        What shows it.
    """

    claim: str
    found: str
    command: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"claim": self.claim, "found": self.found, "command": self.command}


@dataclass(frozen=True)
class Reproduction:
    """What came of computing a table or figure.

    Attributes
    ----------
    setting : str
        What was run, in a sentence.
    readings : tuple of Reading
        Numbers beside the paper's.
    claims : tuple of PrintedClaim
        Statements of the paper, and whether they hold.
    findings : tuple of Finding
        What the paper got wrong or left open.
    note : str
        What is known about differences.
    pictures : tuple of Picture
        In the paper's layout.
    data : dict
        What the pictures show, as plain values for JSON.
    """

    setting: str
    readings: tuple[Reading, ...] = ()
    claims: tuple[PrintedClaim, ...] = ()
    findings: tuple[Finding, ...] = ()
    note: str = ""
    tables: tuple[TextTable, ...] = ()
    pictures: tuple[Picture, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """One of `fairlead.papers.verdict.VERDICTS`."""
        return judge(self.readings, self.claims)

    @property
    def reason(self) -> str:
        """Why, in a sentence."""
        return give_reason(self.readings, self.claims)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but tables and pictures as plain values."""
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
