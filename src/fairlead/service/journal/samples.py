"""Samples of the cluster and of users' shares in the journal, and hourly sums of users' shares.

Samples are for charts of the last days. Slots of time last five minutes (Unix time // 300).
A slot keeps the last sample taken in it, with the shares of the 100 users with the largest shares.
Samples are kept for eight days.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import sqlalchemy as sql
from pydantic_core import from_json, to_json
from sqlalchemy.dialects import sqlite

from fairlead.service.journal._journal_file import (
    cluster_samples,
    journal_errors,
    share_hours,
    share_samples,
)

SLOT_SECONDS = 300
KEPT_SECONDS = 8 * 86400
KEPT_USERS = 100  # in a slot
MOST_STEPS = 300  # in an answer; one more if the period does not begin with a step
DRAWN_USERS = 8  # in an answer for all users
SECONDS_PER_HOUR = 3600


class ClusterSample(NamedTuple):
    """Figures of the cluster at one time."""

    waiting: int  # number of waiting tasks
    running: int  # number of running tasks
    used: dict[str, float]  # by resource
    capacity: dict[str, float]  # of all servers, by resource
    journal: int  # bytes of the journal's files


class UserShare(NamedTuple):
    """A user's held and fair dominant shares, not divided by its weight."""

    user: str
    held: float
    fair: float


class Samples:
    """Samples in a journal's file; any thread may use them."""

    def __init__(self, engine: sql.Engine) -> None:
        self._engine = engine

    @journal_errors()
    def add(self, time: float, cluster: ClusterSample, shares: Iterable[UserShare]) -> None:
        """Store the sample of a Unix time, the only one of its slot; delete old samples."""
        slot = int(time // SLOT_SECONDS)
        largest = sorted(shares, key=lambda row: max(row.held, row.fair), reverse=True)
        rows = [{"slot": slot, **row._asdict()} for row in largest[:KEPT_USERS]]
        oldest = slot - KEPT_SECONDS // SLOT_SECONDS
        with self._engine.begin() as connection:
            for table in (cluster_samples, share_samples):
                # If the clock was set back, there are samples of later slots.
                is_replaced = (table.c.slot >= slot) | (table.c.slot < oldest)
                connection.execute(sql.delete(table).where(is_replaced))
            figures = to_json(cluster._asdict())
            connection.execute(sql.insert(cluster_samples).values(slot=slot, figures=figures))
            if rows:
                connection.execute(sql.insert(share_samples), rows)

    def cluster(self, since: float) -> list[tuple[float, ClusterSample]]:
        """Return the samples since a time, each with the start of its slot."""
        chosen = sql.select(cluster_samples).where(
            cluster_samples.c.slot >= int(since // SLOT_SECONDS)
        )
        with self._engine.connect() as connection:
            rows = connection.execute(chosen.order_by(cluster_samples.c.slot)).all()
        found = []
        for row in rows:
            with suppress(ValueError, TypeError):  # a damaged row
                found.append((row.slot * SLOT_SECONDS, ClusterSample(**from_json(row.figures))))
        return found

    def cluster_over_time(self, since: float, now: float) -> dict[str, Any]:
        """Return means of samples in some 300 steps of a period; None for a step without one."""
        samples = dict(self.cluster(since))
        times, sampled = _steps(since, now, list(samples))
        found = samples.values()
        resources = list(dict.fromkeys(r for s in found for r in s.capacity))

        def means(figures: Iterable[float]) -> list[float | None]:
            return _means(sampled, dict(zip(samples, figures, strict=True)))

        return {
            "times": times,
            "waiting": means(s.waiting for s in found),
            "running": means(s.running for s in found),
            "used": {r: means(s.used.get(r, 0.0) for s in found) for r in resources},
            "capacity": {r: means(s.capacity.get(r, 0.0) for s in found) for r in resources},
        }

    def shares_over_time(self, since: float, now: float, user: str | None) -> dict[str, Any]:
        """Return mean shares of a user, or of the 8 with the largest, in some 300 steps."""
        first = int(since // SLOT_SECONDS)
        chosen, slot = share_samples.c.slot >= first, cluster_samples.c.slot
        size = sql.func.sum(sql.func.max(share_samples.c.held, share_samples.c.fair))
        by_user = sql.select(share_samples.c.user).where(chosen).group_by(share_samples.c.user)
        with self._engine.connect() as connection:
            slots = connection.scalars(sql.select(slot).where(slot >= first).order_by(slot)).all()
            names = [user]
            if user is None:
                names = list(connection.scalars(by_user.order_by(size.desc()).limit(DRAWN_USERS)))
            of_users = sql.select(share_samples).where(chosen, share_samples.c.user.in_(names))
            rows = connection.execute(of_users).all()
        times, sampled = _steps(since, now, [slot * SLOT_SECONDS for slot in slots])
        users = []
        for name in names:
            own = [row for row in rows if row.user == name]
            held = _means(sampled, {row.slot * SLOT_SECONDS: row.held for row in own})
            fair = _means(sampled, {row.slot * SLOT_SECONDS: row.fair for row in own})
            users.append({"user": name, "held": held, "fair": fair})
        return {"times": times, "users": users}


def _steps(
    since: float, now: float, sampled: Sequence[float]
) -> tuple[list[float], list[list[float]]]:
    """Return the mean time of each step of a period, and the times of the samples in it.

    Steps are equal, each of whole slots, from the first sample on. The sample of a slot stands for
    the end of the slot, or the present if that is earlier.
    """
    slots = -(-(now - since) // SLOT_SECONDS)
    width = SLOT_SECONDS * max(-(-slots // MOST_STEPS), 1)
    inside: dict[float, list[float]] = defaultdict(list)
    for time in sampled:
        inside[time // width].append(time)
    steps = range(int(sampled[0] // width), int(now // width) + 1) if sampled else range(0)
    times = [min((step + 0.5) * width + SLOT_SECONDS / 2, now) for step in steps]
    return times, [inside[step] for step in steps]


def _means(sampled: Sequence[Sequence[float]], values: Mapping[float, float]) -> list[float | None]:
    """Return the mean value of the samples of each step; a sample without a value counts as 0."""
    return [
        sum(values.get(time, 0.0) for time in step) / len(step) if step else None
        for step in sampled
    ]


class ShareHours(NamedTuple):
    """A user's held and fair dominant shares, summed over time, in hours of the whole cluster.

    `active` is the time in hours with a held or fair share above 0.
    """

    user: str
    active: float
    held: float
    fair: float


class ShareRecords:
    """Users' share hours in a journal's file, by the hour; any thread may use them."""

    def __init__(self, engine: sql.Engine) -> None:
        self._engine = engine

    @journal_errors()
    def add(self, time: float, rows: Iterable[ShareHours]) -> None:
        """Add share hours of users to the hour that contains a time, in Unix seconds."""
        hour = int(time // SECONDS_PER_HOUR)
        with self._engine.begin() as connection:
            added = sqlite.insert(share_hours)
            names = ("active", "held", "fair")
            sums = {name: share_hours.c[name] + added.excluded[name] for name in names}
            added = added.on_conflict_do_update(["hour", "user"], set_=sums)
            if values := [{"hour": hour, **row._asdict()} for row in rows]:
                connection.execute(added, values)

    def since(self, time: float) -> list[ShareHours]:
        """Return the sums of each user, in order of name, from the hour that contains a time on."""
        names = (share_hours.c.active, share_hours.c.held, share_hours.c.fair)
        sums = (sql.func.sum(column).label(column.name) for column in names)
        chosen = sql.select(share_hours.c.user, *sums).group_by(share_hours.c.user)
        chosen = chosen.where(share_hours.c.hour >= int(time // SECONDS_PER_HOUR))
        with self._engine.connect() as connection:
            rows = connection.execute(chosen.order_by(share_hours.c.user))
            return [ShareHours(*row) for row in rows]

    def delete_before(self, time: float) -> None:
        """Delete the hours before the hour that contains a time."""
        old = share_hours.c.hour < int(time // SECONDS_PER_HOUR)
        with self._engine.begin() as connection:
            connection.execute(sql.delete(share_hours).where(old))
