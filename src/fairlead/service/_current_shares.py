"""Users' shares of the live state and the fair ones, computed once for all callers that wait."""

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
        self._begun = -inf  # when the latest computation began
        self.took = 0.0  # seconds of the latest computation

    async def now(self) -> FoundShares:
        """Return shares of a state since this call."""
        arrived = monotonic()
        async with self._lock:
            if self._latest is None or self._latest.since < arrived:
                since = self._begun = monotonic()
                question, quotas = await self._state_thread.ask(_shares_and_quotas)
                try:
                    shares = await asyncio.to_thread(question.answer)
                except FairleadError:
                    self._latest = None
                    raise
                finally:
                    self.took = monotonic() - since
                self._latest = FoundShares(shares, quotas, since)
            return self._latest

    async def recent(self, patience: float, most_age: float = 0.0) -> FoundShares | None:
        """Return the latest shares; compute new ones if these are older than `most_age` seconds.

        Earlier ones are returned if new ones are not known within `patience` seconds.
        """
        is_idle = self._computing is None or self._computing.done()
        if is_idle and monotonic() - self._begun > most_age:
            # The first caller is charged for the copy of the state.
            self._computing = asyncio.create_task(self.now())
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
