"""Who is there when: users come and go, and what holds in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import BoolArray
from fairlead.model.problem import Problem


@dataclass(frozen=True)
class JoinOrLeave:
    """A user, by index, comes or goes at a `time` in seconds from the start."""

    time: float
    user: int
    joins: bool


@dataclass(frozen=True, eq=False)
class Phase:
    """A time in which nobody comes or goes."""

    # In seconds from the start; what changes at `begin` has changed, what changes at `end` has not.
    begin: float
    end: float
    active: BoolArray  # (N,): who is there
    # What its beginning changed; empty for the first phase unless somebody goes at once.
    changes: tuple[JoinOrLeave, ...] = ()

    @property
    def users(self) -> tuple[int, ...]:
        """Who is there, by index."""
        return tuple(np.flatnonzero(self.active).tolist())


def phases_between(
    problem: Problem, changes: Sequence[JoinOrLeave], until: float
) -> tuple[Phase, ...]:
    """Divide the time from 0 to `until` (seconds) where users come or go, without gaps.

    A user whose first change is to come is absent before it; all others are there from the start.
    Raises InputError for a change before the start or not before the end, of a user that is not
    there, or of one that comes or goes twice in a row.
    """
    for change in changes:
        if not 0 <= change.user < problem.n_users:
            raise InputError(f"there is no user {change.user}", "changes")
        if not (isfinite(change.time) and 0 <= change.time < until):
            name = problem.users.names[change.user]
            raise InputError(
                f"{name!r} cannot {_verb(change)} at {change.time:g} s: the time is 0 s to "
                f"{until:g} s, its end excluded",
                "changes",
            )
    ordered = sorted(changes, key=lambda change: (change.time, change.user))
    active = np.ones(problem.n_users, dtype=bool)
    for change in reversed(ordered):
        active[change.user] = not change.joins
    phases = [Phase(0.0, until, active)]
    for time, together in groupby(ordered, key=lambda change: change.time):
        now = tuple(together)
        active = _changed(problem, phases[-1].active, now)
        before = phases.pop()
        if time > 0:
            phases.append(Phase(before.begin, time, before.active, before.changes))
        phases.append(Phase(time, until, active, now))
    return tuple(phases)


def _changed(problem: Problem, before: BoolArray, now: Sequence[JoinOrLeave]) -> BoolArray:
    active = before.copy()
    seen: set[int] = set()
    for change in now:
        name = problem.users.names[change.user]
        if change.user in seen:
            raise InputError(f"{name!r} both comes and goes at {change.time:g} s", "changes")
        if active[change.user] == change.joins:
            state = "there already" if change.joins else "not there"
            raise InputError(
                f"{name!r} cannot {_verb(change)} at {change.time:g} s: it is {state}", "changes"
            )
        seen.add(change.user)
        active[change.user] = change.joins
    return active


def _verb(change: JoinOrLeave) -> str:
    return "join" if change.joins else "leave"
