"""Records what users held and were due, so that a service can show who was owed how much."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic, time
from typing import Any

from fairlead.errors import FairleadError
from fairlead.scheduler.live_shares import SharesQuestion
from fairlead.service._state_thread import StateThread, Transaction
from fairlead.service.journal.event_journal import Journal, JournalError
from fairlead.service.journal.share_records import SECONDS_PER_HOUR, ShareHours
from fairlead.service.messages import UnavailableError

LOG = logging.getLogger("fairlead.service")
SAMPLE_SECONDS = 300.0  # between samples
BUSY_PART = 20  # sampling takes at most a twentieth of the time


class ShareHistory:
    """Samples the shares every few minutes; its methods are for the event loop's thread."""

    def __init__(self, state_thread: StateThread, journal: Journal) -> None:
        self.state_thread, self.journal = state_thread, journal
        self.pause = SAMPLE_SECONDS
        # One question at a time, so that a caller with many of them delays only these.
        self._asking = asyncio.Lock()

    async def record(self) -> None:
        """Sample for ever; each sample stands for the time since the one before."""
        last = monotonic()
        pause = self.pause
        while True:
            await asyncio.sleep(pause)
            began = monotonic()
            # A machine may have slept: then nothing is known of most of that time.
            seconds = min(began - last, 2 * pause)
            last = began
            try:
                await self.sample(seconds)
            except (FairleadError, JournalError, UnavailableError) as fault:
                LOG.warning("no shares were recorded", extra={"fault": str(fault)})
            pause = max(self.pause, BUSY_PART * (monotonic() - began))

    async def sample(self, seconds: float) -> None:
        """Record the present shares of all users as those of some seconds."""
        question = await self.state_thread.run(_question)
        rows = await asyncio.to_thread(_hours_of, question, seconds / SECONDS_PER_HOUR)
        await asyncio.to_thread(self.journal.add_shares, time(), rows)

    async def over(self, seconds: float) -> dict[str, Any]:
        """Return the hours of users over the last seconds, and what they were owed."""
        cluster = await self.state_thread.run(_cluster)
        since = max(time() - seconds, 0.0)
        async with self._asking:
            rows = await asyncio.to_thread(self.journal.shares.since, since)
        return {
            "since": since,
            "cluster": cluster,
            "users": [row._asdict() | {"owed": row.fair - row.held} for row in rows],
        }


def _question(tx: Transaction) -> SharesQuestion:
    return tx.state.scheduler.shares_question()


def _cluster(tx: Transaction) -> dict[str, float]:
    """Return the amounts of all servers by resource."""
    amounts = dict.fromkeys(tx.state.resources, 0.0)
    for server in tx.state.servers.values():
        for resource, amount in server.capacity.items():
            amounts[resource] += amount
    return amounts


def _hours_of(question: SharesQuestion, hours: float) -> Sequence[ShareHours]:
    """Return the share hours of the users that hold or are due anything."""
    weight = dict(zip(question.names, question.weight.tolist(), strict=True))
    found = []
    for queue in question.answer().queues:
        if queue.name in weight and (queue.share > 0 or queue.fair_share > 0):
            # Shares are divided by weights; a user of weight 0 is due nothing.
            factor = (weight[queue.name] or 1.0) * hours
            held, fair = queue.share * factor, queue.fair_share * factor
            found.append(ShareHours(queue.name, hours, held, fair))
    return found
