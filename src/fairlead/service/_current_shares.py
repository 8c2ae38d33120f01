"""Users' shares of the live state and the fair ones, computed once for all callers that wait."""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context
from math import inf
from time import monotonic
from typing import Any, NamedTuple

from fairlead.errors import FairleadError
from fairlead.model.quotas import in_words
from fairlead.scheduler.live_shares import LiveShares, SharesQuestion
from fairlead.service._state_thread import StateThread, Transaction

LOG = logging.getLogger("fairlead.service")


class FoundShares(NamedTuple):
    """Shares of the state at a time of the monotonic clock, and its quotas."""

    shares: LiveShares
    quotas: dict[str, Any]  # those fields of a `SharesView`
    since: float

    def to_dict(self) -> dict[str, Any]:
        """Return a `SharesView`."""
        return self.shares.to_dict() | self.quotas


class CurrentShares:
    """The latest shares; its methods are for the event loop's thread."""

    def __init__(self, state_thread: StateThread) -> None:
        self._state_thread = state_thread
        self._lock = asyncio.Lock()
        self._latest: FoundShares | None = None  # None also after a computation that failed
        self._computing: asyncio.Task[FoundShares] | None = None

    async def now(self) -> FoundShares:
        """Return shares of a state since this call."""
        arrived = monotonic()
        async with self._lock:
            if self._latest is None or self._latest.since < arrived:
                since = monotonic()
                question, quotas = await self._state_thread.ask(_shares_and_quotas)
                try:
                    shares = await asyncio.to_thread(question.answer)
                except FairleadError:
                    self._latest = None
                    raise
                self._latest = FoundShares(shares, quotas, since)
            return self._latest

    async def recent(self, patience: float, most_age: float = 0.0) -> FoundShares | None:
        """Return shares that are at most `most_age` seconds old, or earlier ones.

        Earlier ones are returned if new ones are not known within `patience` seconds.
        """
        age = inf if self._latest is None else monotonic() - self._latest.since
        if (self._computing is None or self._computing.done()) and age > most_age:
            # In a new context, so that no caller is charged for all others.
            self._computing = asyncio.create_task(self.now(), context=Context())
        if self._computing is not None:
            done, _ = await asyncio.wait({self._computing}, timeout=patience)
            if done and (fault := self._computing.exception()) is not None:
                LOG.warning("no shares were found", extra={"fault": str(fault)})
        return self._latest


def _shares_and_quotas(tx: Transaction) -> tuple[SharesQuestion, dict[str, Any]]:
    uses = [
        {**use._asdict(), "where": in_words(use.where).strip()}
        for use in tx.state.scheduler.quotas()
    ]
    quotas = {"quotas": uses, "unmet_quotas": tx.state.unmet_quotas()}
    return tx.state.scheduler.shares_question(), quotas
