"""What is known of one property of one mechanism, and the smallest witness against it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fairlead.formats.writing import document_of
from fairlead.mechanisms.mechanism import Claim
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.properties.lies import Lie
from fairlead.properties.shrinking import size_of


@dataclass(frozen=True, eq=False)
class Witness:
    """A problem on which a mechanism lacks a property.

    Attributes
    ----------
    verdict : Verdict
        What the audit of the mechanism says there.
    lie : Lie or None
        The lie that pays, where that is what it shows.
    covered : bool
        Whether the claim says that the mechanism has the property there.
    number : int
        Which of the random problems it came from.
    """

    problem: Problem
    verdict: Verdict
    lie: Lie | None
    covered: bool
    number: int

    def order(self) -> tuple[Any, ...]:
        """Return by what witnesses are preferred: against a claim, then small, then the first."""
        return (not self.covered, *size_of(self.problem), self.number)


@dataclass(frozen=True, eq=False)
class Cell:
    """What is known of one property of one mechanism.

    Attributes
    ----------
    claim : Claim or None
        What is proved of it.
    asked : int
        Random problems on which the property was checked, its premise being met.
    violations : int
        Problems on which it fails.
    covered, refutations : int
        Those asked, and those violated, about which the claim says something.
    witness : Witness or None
        The smallest witness against it.
    """

    mechanism: str
    property: str
    claim: Claim | None
    asked: int = 0
    covered: int = 0
    violations: int = 0
    refutations: int = 0
    witness: Witness | None = None

    def joined(self, other: Cell) -> Cell:
        """Return both counts together, with the smaller witness."""
        witnesses = [w for w in (self.witness, other.witness) if w is not None]
        return replace(
            self,
            asked=self.asked + other.asked,
            covered=self.covered + other.covered,
            violations=self.violations + other.violations,
            refutations=self.refutations + other.refutations,
            witness=min(witnesses, key=Witness.order) if witnesses else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as plain values, for JSON."""
        values: dict[str, Any] = {
            "mechanism": self.mechanism,
            "property": self.property,
            "claimed": self.claim is not None,
        }
        if self.claim is not None and self.claim.without:
            values["claimed_without"] = list(self.claim.without)
        values |= {
            "asked": self.asked,
            "violations": self.violations,
            "refutations": self.refutations,
        }
        if self.witness is not None:
            values["witness"] = {
                "problem": document_of(self.witness.problem),
                "verdict": self.witness.verdict.to_dict(),
            }
        return values
