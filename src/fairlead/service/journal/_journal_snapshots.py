"""Snapshots of the state in a journal, from which recovery and replays start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from zlib import crc32

import sqlalchemy as sql

from fairlead.errors import InputError
from fairlead.service.journal._journal_tables import snapshot_parts
from fairlead.service.service_state import ServiceState

LOG = logging.getLogger("fairlead.service")
NEWEST_KEPT = 2  # for recovery
OLDEST_KEPT = 2  # where replays start, now and after older events are deleted


class Snapshots:
    """The snapshots of a journal, each after an event.

    They are written in parts, so that none delays a commit. A snapshot is complete when its last
    part is written.
    """

    def __init__(
        self, engine: sql.Engine, path: Path, read_state: Callable[[bytes], ServiceState]
    ) -> None:
        self._engine, self._path, self._read_state = engine, path, read_state

    def save(self, seq: int, parts: Iterable[bytes]) -> None:
        """Save the state after an event; of the other snapshots keep the newest and the oldest.

        Any thread may call it, one at a time. If `parts` raises, the snapshot is incomplete, and
        never read.
        """
        part, data, digest = 0, b"", 0
        self._delete(snapshot_parts.c.seq == seq)
        for part, later in enumerate(parts):
            if part:
                self._insert(seq, part - 1, data)
            data = later
            digest = crc32(data, digest)
        self._insert(seq, part, data, digest)
        kept = self.seqs()
        kept = kept[:OLDEST_KEPT] + kept[OLDEST_KEPT:][-NEWEST_KEPT:]
        self._delete(snapshot_parts.c.seq.not_in(kept))

    def seqs(self) -> list[int]:
        """Return the numbers of the events with a complete snapshot, in order."""
        whole = sql.select(snapshot_parts.c.seq).where(snapshot_parts.c.is_last)
        with self._engine.connect() as connection:
            return list(connection.scalars(whole.order_by(snapshot_parts.c.seq)))

    def first_readable(self, seqs: Sequence[int]) -> tuple[int, ServiceState] | None:
        """Return the first readable snapshot, and the number of its event."""
        for seq in seqs:
            try:
                data, digest = self._parts(seq)
                if digest not in (None, crc32(data)):
                    raise InputError("is damaged: its digest differs", "snapshot")
                return seq, self._read_state(data)
            except (InputError, KeyError, TypeError, ValueError, IndexError) as fault:
                extra = {"path": str(self._path), "fault": str(fault)}
                LOG.warning("a damaged snapshot is skipped; more events are read", extra=extra)
        return None

    def is_sound(self, seq: int) -> bool:
        """Return whether a snapshot matches its digest."""
        data, digest = self._parts(seq)
        return digest == crc32(data)

    def sound(self) -> Iterator[bytes]:
        """Yield the bytes of the snapshots that match their digests."""
        for seq in self.seqs():
            data, digest = self._parts(seq)
            if digest == crc32(data):
                yield data

    def delete_before(self, seq: int) -> None:
        """Delete the snapshots before an event."""
        self._delete(snapshot_parts.c.seq < seq)

    def _insert(self, seq: int, part: int, data: bytes, digest: int | None = None) -> None:
        row = {"seq": seq, "part": part, "is_last": digest is not None, "data": data}
        with self._engine.begin() as connection:
            connection.execute(sql.insert(snapshot_parts).values(**row, digest=digest))

    def _parts(self, seq: int) -> tuple[bytes, int | None]:
        parts = sql.select(snapshot_parts).where(snapshot_parts.c.seq == seq)
        with self._engine.connect() as connection:
            rows = connection.execute(parts.order_by(snapshot_parts.c.part)).all()
        return b"".join(row.data for row in rows), rows[-1].digest

    def _delete(self, chosen: sql.ColumnElement[bool]) -> None:
        with self._engine.begin() as connection:
            connection.execute(sql.delete(snapshot_parts).where(chosen))
