"""Unsent notices for a webhook: changes of alerts, and ends of jobs with `notify`.

A notice is written in the commit of its cause, and deleted when the receiver has accepted it. So a
notice outlives a restart of the service, and may arrive twice.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any, NamedTuple

import sqlalchemy as sql
from pydantic_core import to_json

from fairlead.service.jobs import Job
from fairlead.service.journal._journal_file import notices
from fairlead.service.journal.job_records import job_view, short_view

LOG = logging.getLogger("fairlead.service")
MOST_NOTICES = 1000  # unsent notices of a user, or of no user
KEPT_SECONDS = 3 * 86400.0


class Notice(NamedTuple):
    """A notice to send."""

    id: str
    user: str  # the concerned user, or empty
    made: float  # seconds since 1970
    body: bytes  # JSON


class Notices:
    """Unsent notices in a journal's file; any thread may use them."""

    def __init__(self, engine: sql.Engine) -> None:
        self._engine = engine
        self.has_receiver = False  # whether there is a webhook, so that notices are written

    def insert_ends(self, connection: sql.Connection, ended: Sequence[Job], now: float) -> None:
        """Within a commit, write notices of ended jobs with `notify`."""
        if not self.has_receiver:
            return
        by_user: dict[str, list[bytes]] = defaultdict(list)
        for job in ended:
            if job.notify:
                view = short_view(job_view(job)) | {"ended": now}
                by_user[job.user].append(to_json({"type": "job.ended", "job": view}))
        for user, bodies in by_user.items():
            _insert(connection, user, bodies, now)

    def insert_alert(
        self, connection: sql.Connection, user: str, content: Mapping[str, Any], now: float
    ) -> None:
        """Write a notice of an alert under the concerned user."""
        if self.has_receiver:
            _insert(connection, user, [to_json(content)], now)

    def first_of_each(self) -> list[Notice]:
        """Return the oldest notice of each user, and of no user."""
        oldest = sql.func.min(notices.c.made)
        # Beside min(), SQLite takes the other columns from the row of the minimum.
        columns = (notices.c.id, notices.c.user, oldest, notices.c.body)
        chosen = sql.select(*columns).group_by(notices.c.user)
        with self._engine.connect() as connection:
            return [Notice(*row) for row in connection.execute(chosen.order_by(notices.c.user))]

    def delete(self, notice: str) -> None:
        """Delete a notice by its id."""
        with self._engine.begin() as connection:
            connection.execute(sql.delete(notices).where(notices.c.id == notice))

    def delete_old(self, now: float) -> int:
        """Delete notices that are older than three days; return their number."""
        old = notices.c.made < now - KEPT_SECONDS
        with self._engine.begin() as connection:
            return int(connection.execute(sql.delete(notices).where(old)).rowcount)


def _insert(connection: sql.Connection, user: str, bodies: Sequence[bytes], now: float) -> None:
    """Write notices of a user; drop those beyond `MOST_NOTICES`."""
    present = sql.select(sql.func.count()).where(notices.c.user == user)
    most = max(MOST_NOTICES - int(connection.scalar(present) or 0), 0)
    if len(bodies) > most:
        left_out = len(bodies) - most
        LOG.warning("too many unsent notices; some are left out", extra={"notices": left_out})
    rows = [
        {"id": f"msg_{token_hex(12)}", "user": user, "made": now, "body": body}
        for body in bodies[:most]
    ]
    if rows:
        connection.execute(sql.insert(notices), rows)
