"""Samples in the journal of the cluster and of users' shares, and what users held by the hour.

Samples are for pictures of the last days. There is one sample in each slot of five minutes, the
last one taken in it. Samples are kept for eight days, and in each slot only the shares of the users
with the largest ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
KEPT_USERS = 100  # of a slot
POINTS = 300  # of an answer, at most
DRAWN_USERS = 8  # of an answer
SECONDS_PER_HOUR = 3600


class ClusterSample(NamedTuple):
    """Figures of the cluster: tasks, amounts by resource, and bytes of the journal's files."""

    waiting: int
    running: int
    used: dict[str, float]
    capacity: dict[str, float]
    journal: int


class UserShare(NamedTuple):
    """A user's part of the cluster, and its fair part; dominant shares, not divided by weights."""

    user: str
    held: float
    fair: float


class Samples:
    """Samples in a journal's file; any thread may use it."""

    def __init__(self, engine: sql.Engine) -> None:
        self._engine = engine

    @journal_errors()
    def add(self, time: float, cluster: ClusterSample, shares: Iterable[UserShare]) -> None:
        """Replace the sample of a time's slot, in Unix seconds; delete old samples."""
        slot = int(time // SLOT_SECONDS)
        largest = sorted(shares, key=lambda row: max(row.held, row.fair), reverse=True)
        rows = [{"slot": slot, **row._asdict()} for row in largest[:KEPT_USERS]]
        oldest = slot - KEPT_SECONDS // SLOT_SECONDS
        with self._engine.begin() as connection:
            for table in (cluster_samples, share_samples):
                # Later ones are there if the clock was wrong.
                is_replaced = (table.c.slot >= slot) | (table.c.slot < oldest)
                connection.execute(sql.delete(table).where(is_replaced))
            figures = to_json(cluster._asdict())
            connection.execute(sql.insert(cluster_samples).values(slot=slot, figures=figures))
            if rows:
                connection.execute(sql.insert(share_samples), rows)

    def cluster(self, since: float) -> list[tuple[float, ClusterSample]]:
        """Return the samples since a time, each with the time at which its slot begins."""
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
        """Return means of the samples of a period in at most 300 equal steps; null without any."""
        samples = self.cluster(since)
        steps = Steps(since, now, [time for time, _ in samples])
        resources = list(dict.fromkeys(r for _, sample in samples for r in sample.capacity))

        def means(figures: Sequence[float]) -> list[float | None]:
            return steps.means(zip((time for time, _ in samples), figures, strict=True))

        found = [sample for _, sample in samples]
        return {
            "times": steps.times,
            "waiting": means([sample.waiting for sample in found]),
            "running": means([sample.running for sample in found]),
            "used": {r: means([s.used.get(r, 0.0) for s in found]) for r in resources},
            "capacity": {r: means([s.capacity.get(r, 0.0) for s in found]) for r in resources},
        }

    def shares_over_time(self, since: float, now: float, user: str | None) -> dict[str, Any]:
        """Return shares of a user, or of the users with the largest ones, in 300 steps at most."""
        chosen = share_samples.c.slot >= int(since // SLOT_SECONDS)
        size = sql.func.sum(sql.func.max(share_samples.c.held, share_samples.c.fair))
        by_user = sql.select(share_samples.c.user).where(chosen).group_by(share_samples.c.user)
        with self._engine.connect() as connection:
            sampled = sql.select(cluster_samples.c.slot).where(
                cluster_samples.c.slot >= int(since // SLOT_SECONDS)
            )
            slots = connection.scalars(sampled.order_by(cluster_samples.c.slot)).all()
            names = [user]
            if user is None:
                names = list(connection.scalars(by_user.order_by(size.desc()).limit(DRAWN_USERS)))
            its = sql.select(share_samples).where(chosen, share_samples.c.user.in_(names))
            rows = connection.execute(its).all()
        steps = Steps(since, now, [slot * SLOT_SECONDS for slot in slots])
        by_name: dict[str, list[Any]] = {str(name): [] for name in names}
        for row in rows:
            by_name[row.user].append(row)
        return {
            "times": steps.times,
            "users": [
                {
                    "user": name,
                    "held": steps.means((r.slot * SLOT_SECONDS, r.held) for r in found),
                    "fair": steps.means((r.slot * SLOT_SECONDS, r.fair) for r in found),
                }
                for name, found in by_name.items()
            ],
        }


class Steps:
    """Equal steps of a period, of whole slots, from its first sample on.

    A slot has its last sample, so the time of a slot is its end; `times` are the means of these
    times over a step, at most the present.
    """

    def __init__(self, since: float, now: float, sampled: Sequence[float]) -> None:
        slots = -(-(now - since) // SLOT_SECONDS)
        self._width = SLOT_SECONDS * max(-(-slots // POINTS), 1)
        self._first = int(sampled[0] // self._width) if sampled else 0
        steps = int(now // self._width) - self._first + 1 if sampled else 0
        begins = ((self._first + step) * self._width for step in range(steps))
        self.times = [min(begin + (self._width + SLOT_SECONDS) / 2, now) for begin in begins]
        self._samples = [0] * steps
        for time in sampled:
            if (step := self._step(time)) is not None:
                self._samples[step] += 1

    def means(self, values: Iterable[tuple[float, float]]) -> list[float | None]:
        """Return the means of values with times, over all samples of a step."""
        sums = [0.0] * len(self.times)
        for time, value in values:
            if (step := self._step(time)) is not None:
                sums[step] += value
        return [total / n if n else None for total, n in zip(sums, self._samples, strict=True)]

    def _step(self, time: float) -> int | None:
        """Return the step of a time; None beyond the period, as of a clock that was set back."""
        step = int(time // self._width) - self._first
        return step if 0 <= step < len(self.times) else None


class ShareHours(NamedTuple):
    """A user's dominant share and its fair one over some time, in hours of the whole cluster.

    `active` counts the hours in which the user held anything or was due anything.
    """

    user: str
    active: float
    held: float
    fair: float


class ShareRecords:
    """Share hours of users by the hour in a journal's file; any thread may use it."""

    def __init__(self, engine: sql.Engine) -> None:
        self._engine = engine

    @journal_errors()
    def add(self, time: float, rows: Iterable[ShareHours]) -> None:
        """Add the hours of users to those of the hour of a time, in Unix seconds."""
        hour = int(time // SECONDS_PER_HOUR)
        with self._engine.begin() as connection:
            for row in rows:
                values = {"hour": hour, **row._asdict()}
                names = ("active", "held", "fair")
                sums = {name: share_hours.c[name] + values[name] for name in names}
                added = sqlite.insert(share_hours).values(**values)
                connection.execute(added.on_conflict_do_update(["hour", "user"], set_=sums))

    def since(self, time: float) -> list[ShareHours]:
        """Return the sums of all users since the beginning of the hour of a time, by name."""
        names = (share_hours.c.active, share_hours.c.held, share_hours.c.fair)
        sums = (sql.func.sum(column).label(column.name) for column in names)
        chosen = sql.select(share_hours.c.user, *sums).group_by(share_hours.c.user)
        chosen = chosen.where(share_hours.c.hour >= int(time // SECONDS_PER_HOUR))
        with self._engine.connect() as connection:
            rows = connection.execute(chosen.order_by(share_hours.c.user))
            return [ShareHours(*row) for row in rows]

    def delete_before(self, time: float) -> None:
        """Delete the hours before that of a time."""
        old = share_hours.c.hour < int(time // SECONDS_PER_HOUR)
        with self._engine.begin() as connection:
            connection.execute(sql.delete(share_hours).where(old))
