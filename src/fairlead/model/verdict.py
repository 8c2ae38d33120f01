"""Whether an answer has a property, and what shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Finding = Literal["holds", "fails", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """What a check of one property came to.

    Attributes
    ----------
    name : str
        The property.
    verdict : str
        ``"holds"`` when everything there is to check was checked, ``"fails"`` when a witness
        against it was found, ``"unknown"`` when a search found none.
    witness : dict
        What shows that it fails, in plain values; empty otherwise.
    searched : int
        How many cases were looked at.
    detail : str
        What was looked at, in words.
    sentence : str
        The finding in one sentence; empty where whoever shows the verdict words it.
    applies : bool
        Whether the property's premise is met; a property holds where it is not.
    severity : float
        By what fraction of what it has, or should have, the user of the witness is wronged;
        infinite where it has nothing, 0 where nobody is.
    vacuous : tuple of str
        Users about which the verdict says nothing: whatever others had, they could not have been
        wronged as the property counts it.
    """

    name: str
    verdict: Finding
    witness: dict[str, Any] = field(default_factory=dict)
    searched: int = 0
    detail: str = ""
    sentence: str = ""
    applies: bool = True
    severity: float = 0.0
    vacuous: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values, for JSON."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "witness": self.witness,
            "searched": self.searched,
            **({"sentence": self.sentence} if self.sentence else {}),
            **({} if self.applies else {"applies": False}),
            **(
                {"vacuous": {"count": len(self.vacuous), "users": list(self.vacuous)}}
                if self.vacuous
                else {}
            ),
        }
