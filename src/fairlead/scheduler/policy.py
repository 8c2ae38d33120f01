"""Policies by name: who is next (the criterion) and where the task goes (the selection)."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.errors import InputError, RefusalError
from fairlead.model.arguments import switch

CRITERIA = ("drf", "tsf", "ps-dsf")
SELECTIONS = ("first-fit", "best-fit", "best-fit-first", "rrr", "joint")


@dataclass(frozen=True)
class Policy:
    """A criterion and a selection that have a meaning together.

    Attributes
    ----------
    criterion : str
        ``drf``, ``tsf`` or ``ps-dsf``: the score of which the user with the least is next.
    select : str
        ``first-fit``, ``best-fit``, ``best-fit-first``, ``rrr`` or ``joint``: which server.
    residual : bool
        Whether free amounts stand for capacities in the score.
    """

    criterion: str
    select: str
    residual: bool = False

    @property
    def name(self) -> str:
        """``criterion/selection``, with ``/residual`` where that applies."""
        return f"{self.criterion}/{self.select}{'/residual' if self.residual else ''}"

    @property
    def is_random(self) -> bool:
        """Whether another seed may give another answer."""
        return self.select == "rrr"


def find_policy(criterion: str, select: str, residual: bool = False) -> Policy:
    """Return the policy of that criterion and selection.

    Raises
    ------
    InputError
        When the criterion or the selection is not known.
    RefusalError
        When they have no meaning together.
    """
    residual = switch(residual, "residual")
    if criterion not in CRITERIA:
        known = ", ".join(CRITERIA)
        raise InputError(f"no criterion is named {criterion!r}; known: {known}", "criterion")
    if select not in SELECTIONS:
        known = ", ".join(SELECTIONS)
        raise InputError(f"no selection is named {select!r}; known: {known}", "select")
    policy = Policy(criterion, select, residual)
    if select == "joint" and criterion != "ps-dsf":
        raise RefusalError(
            policy.name,
            f"{criterion} scores a user alike on every server, so there is no pair to choose; "
            "take first-fit or best-fit",
        )
    if residual and criterion == "ps-dsf" and select not in ("joint", "rrr"):
        raise RefusalError(
            policy.name,
            f"{select} chooses the user before the server, by the sum of its scores over the "
            "servers, which is infinite once one of them is full; take joint or rrr",
        )
    return policy
