"""The result of checking one property."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Finding = Literal["holds", "fails", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """Whether a property holds, with a witness if it fails."""

    name: str  # of the property
    # "holds" after an exhaustive check, "fails" with a witness, "unknown" when a search found no
    # witness or the property could not be decided.
    verdict: Finding
    witness: dict[str, Any] = field(default_factory=dict)  # plain values; empty unless it fails
    searched: int = 0  # cases checked
    detail: str = ""  # the checked cases, in words
    sentence: str = ""  # the finding in a sentence; empty if the report words it
    applies: bool = True  # False if the property's premise is not met; it then holds
    # The relative size of the violation, by the property's own measure: tasks lacked or gained,
    # relative to the tasks that the user has or should have; or amounts, relative to a capacity or
    # quota. Infinite for impossible tasks, and if the divisor is 0.
    severity: float = 0.0
    vacuous: tuple[str, ...] = ()  # names of users for which the property could not fail

    @classmethod
    def undecided(cls, name: str, why: str, searched: int = 0, detail: str = "") -> Verdict:
        """Return the verdict "unknown", with a reason."""
        return cls(name, "unknown", {}, searched, detail, f"not decided: {why}")

    @classmethod
    def not_applicable(cls, name: str, why: str) -> Verdict:
        """Return the verdict "holds" of a property whose premise is not met, with a reason."""
        return cls(name, "holds", sentence=f"not applicable: {why}", applies=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values, for JSON."""
        values: dict[str, Any] = {
            "name": self.name,
            "verdict": self.verdict,
            "witness": self.witness,
            "searched": self.searched,
        }
        if self.sentence:
            values["sentence"] = self.sentence
        if not self.applies:
            values["applies"] = False
        if self.vacuous:
            values["vacuous"] = {"count": len(self.vacuous), "users": list(self.vacuous)}
        return values
