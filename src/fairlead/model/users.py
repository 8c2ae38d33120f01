"""The users who share it, what one task of theirs takes, and where it may run."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.read_only import ReadOnlyArrays


@dataclass(frozen=True, eq=False, repr=False)
class Users(ReadOnlyArrays):
    """Users with one shape of task each; arrays are read-only copies.

    Attributes
    ----------
    names : tuple of str, length N
    demand : (N, R) float
        Amount of each resource that one task takes.
    weight : (N,) float
        Weight phi of each user.
    eligible : (N, G) bool
        Whether the user's placement constraint allows the group (delta). Whether a group has what
        the user needs is a matter of capacity, not of eligibility.
    task_limit : (N,) float
        Tasks the user has in all; infinite where it has as many as one will run.
    rates : (N, G) float or None
        Tasks a second, say, that the user completes when it has *one* server of the group to
        itself (gamma), given directly; NaN in the rows of users that give none, 0 where a user
        that does give them cannot run.
    resource_weight : (N, R) float or None
        Weight per resource, for the one-pool mechanisms that define it.
    """

    names: tuple[str, ...]
    demand: FloatArray
    weight: FloatArray
    eligible: BoolArray
    task_limit: FloatArray
    rates: FloatArray | None = None
    resource_weight: FloatArray | None = None

    def __repr__(self) -> str:
        """Return a summary on one line; the arrays are in the fields."""
        return f"<Users: N={len(self.names)}>"
