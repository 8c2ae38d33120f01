"""A stand-in until the parser of policies is there."""

from __future__ import annotations

from typing import NamedTuple

from fairlead.errors import InputError
from fairlead.scheduler.policy import find_policy


class OnlinePolicy(NamedTuple):
    """A policy by its name."""

    name: str


def parse_policy(name: str) -> OnlinePolicy:
    """Read ``CRITERION/SELECTION``, with ``/residual`` or ``/oblivious``, or ``slots:S``."""
    if name.startswith("slots:"):
        return OnlinePolicy(name)
    criterion, _, rest = name.partition("/")
    select, _, form = rest.partition("/")
    if form not in ("", "residual", "oblivious"):
        raise InputError(f"no policy is named {name!r}")
    find_policy(criterion, select, residual=form == "residual")
    return OnlinePolicy(name)
