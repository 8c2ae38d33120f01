"""Users' shares and fair shares of the live state, computed once for all callers that wait."""

from __future__ import annotations

import asyncio
import logging
from math import inf
from time import monotonic
from typing import Any, NamedTuple

from fairlead.errors import FairleadError
from fairlead.model.quotas import in_words
from fairlead.scheduler.live_shares import LiveShares, SharesQuestion
from fairlead.service._state_thread import StateThread, Transaction

LOG = logging.getLogger("fairlead.service")


class FoundShares(NamedTuple):
    """The shares and quotas of one state."""

    shares: LiveShares
    quotas: dict[str, Any]  # the fields `quotas` and `unmet_quotas` of a `SharesView`
    since: float  # when their computation began, by the monotonic clock

    def to_dict(self) -> dict[str, Any]:
        """Return a `SharesView`."""
        return self.shares.to_dict() | self.quotas


class CurrentShares:
    """The latest shares; its methods are for the event loop's thread."""

    def __init__(self, state_thread: StateThread) -> None:
        self._state_thread = state_thread
        self._latest: FoundShares | None = None  # None also after a computation that failed
        self._computation: asyncio.Task[FoundShares] | None = None  # the latest one
        self._began_at = -inf  # when it began, by the monotonic clock
        self.took = 0.0  # seconds that the last computation took

    async def now(self) -> FoundShares:
        """Return shares of a state no older than this call; raise `FairleadError` on failure."""
        if earlier := self._running():
            await asyncio.wait({earlier})
        return await asyncio.shield(self._running() or self._start())

    async def recent(self, patience: float, most_age: float = 0.0) -> FoundShares | None:
        """Return the latest shares; compute new ones if these are older than `most_age` seconds.

        Older shares, or None, are returned if the new ones take longer than `patience` seconds.
        """
        running = self._running()
        if running is None and monotonic() - self._began_at > most_age:
            running = self._start()
        if running is not None:
            await asyncio.wait({running}, timeout=patience)
        return self._latest

    def _running(self) -> asyncio.Task[FoundShares] | None:
        task = self._computation
        return task if task is not None and not task.done() else None

    def _start(self) -> asyncio.Task[FoundShares]:
        """Start a computation, which charges the caller for the copy of the state."""
        self._began_at = monotonic()
        self._computation = asyncio.create_task(self._compute(self._began_at))
        self._computation.add_done_callback(self._note_failure)
        return self._computation

    async def _compute(self, since: float) -> FoundShares:
        try:
            question, quotas = await self._state_thread.ask(_shares_and_quotas)
            shares = await asyncio.to_thread(question.answer)
        finally:
            self.took = monotonic() - since
        self._latest = FoundShares(shares, quotas, since)
        return self._latest

    def _note_failure(self, task: asyncio.Task[FoundShares]) -> None:
        """Log a failed computation once, however many callers wait for it."""
        if task.cancelled() or (fault := task.exception()) is None:
            return
        self._latest = None
        if isinstance(fault, FairleadError):
            LOG.warning("no shares were found", extra={"fault": str(fault)})
        else:
            LOG.error("shares could not be computed", exc_info=fault)


def _shares_and_quotas(tx: Transaction) -> tuple[SharesQuestion, dict[str, Any]]:
    uses = [
        {**use._asdict(), "where": in_words(use.where).strip()}
        for use in tx.state.scheduler.quotas()
    ]
    quotas = {"quotas": uses, "unmet_quotas": tx.state.unmet_quotas()}
    return tx.state.scheduler.shares_question(), quotas
