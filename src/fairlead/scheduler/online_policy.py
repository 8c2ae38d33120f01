"""Policies of a scheduler that runs on, by name: who is next, where, and what users reveal."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.errors import InputError, RefusalError
from fairlead.scheduler.policy import CRITERIA, SELECTIONS, Policy, find_policy

MOST_SLOTS = 1_000_000
_GRAMMAR = (
    "CRITERION/SELECTION with /residual or /oblivious after it, or slots:S; "
    f"criteria: {', '.join(CRITERIA)}; selections: {', '.join(SELECTIONS)}"
)


@dataclass(frozen=True)
class OnlinePolicy:
    """A policy by which jobs are placed while they come and go.

    Attributes
    ----------
    fill : Policy
        Criterion, selection and whether scores are residual.
    oblivious : bool
        Whether demands are unknown to the scheduler: it offers all that a server has free to a
        user, who takes what it can use and declines the rest for a while (Kesidis et al., VI).
    slots : int, optional
        Slots into which the largest server is cut; tasks take whole slots (Wang, Liang and Li,
        VI). None where tasks take amounts.
    """

    fill: Policy
    oblivious: bool = False
    slots: int | None = None

    @property
    def name(self) -> str:
        """The name by which `parse_policy` gives this policy."""
        if self.slots is not None:
            return f"slots:{self.slots}"
        return self.fill.name + ("/oblivious" if self.oblivious else "")

    @property
    def is_random(self) -> bool:
        """Whether another seed may give another run."""
        return self.fill.is_random


def parse_policy(name: str) -> OnlinePolicy:
    """Return the policy of a name: ``drf/best-fit``, ``ps-dsf/joint/residual``, ``slots:14``.

    Raises
    ------
    InputError
        When the name is none.
    RefusalError
        When its parts have no meaning together.
    """
    if name.startswith("slots:"):
        return OnlinePolicy(find_policy("drf", "first-fit"), slots=_slots(name))
    criterion, *rest = name.split("/")
    forms = rest[1:]
    if not rest or any(form not in ("residual", "oblivious") for form in forms):
        raise InputError(f"no policy is named {name!r}; known: {_GRAMMAR}", "policy")
    if len(forms) > 1:
        raise RefusalError(name, "residual and oblivious do not go together, nor does one twice")
    policy = OnlinePolicy(
        find_policy(criterion, rest[0], "residual" in forms), oblivious="oblivious" in forms
    )
    if policy.oblivious and rest[0] != "rrr":
        raise RefusalError(name, "offers go round the servers; take rrr")
    if policy.oblivious and criterion == "tsf":
        raise RefusalError(name, "tsf divides by the tasks a user could run, which takes demands")
    return policy


def _slots(name: str) -> int:
    digits = name.removeprefix("slots:")
    if not digits.isascii() or not digits.isdigit() or not 1 <= int(digits) <= MOST_SLOTS:
        fault = f"takes a number from 1 to {MOST_SLOTS:,} for the largest server, not {digits!r}"
        raise InputError(f"slots: {fault}", "policy")
    return int(digits)
