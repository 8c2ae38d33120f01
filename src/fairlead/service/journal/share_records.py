"""Share hours in the journal: what each user held and was due, by the hour."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import sqlalchemy as sql
from sqlalchemy.dialects import sqlite

from fairlead.service.journal._journal_file import share_hours

SECONDS_PER_HOUR = 3600


class ShareHours(NamedTuple):
    """A user's dominant share and its fair one over some time, in hours of the whole cluster.

    `active` counts the hours in which the user held anything or was due anything.
    """

    user: str
    active: float
    held: float
    fair: float


class ShareRecords:
    """Share hours in a journal's file; any thread may use it."""

    def __init__(self, engine: sql.Engine) -> None:
        self._engine = engine

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
