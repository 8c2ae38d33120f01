"""Sample the cluster and users' shares into the journal, and update the alerts."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, time
from typing import Any

from fairlead.errors import FairleadError
from fairlead.service import alerts as rules
from fairlead.service._overview import StateCopy, copy_state
from fairlead.service._state_thread import StateThread, Transaction
from fairlead.service.alerts import (
    Alert,
    Alerts,
    EndedTask,
    EndedTasks,
    Finding,
    Thresholds,
)
from fairlead.service.bounds import STOPPED
from fairlead.service.jobs import Effects
from fairlead.service.journal.event_journal import ALERTS, Journal, JournalError
from fairlead.service.journal.samples import (
    SECONDS_PER_HOUR,
    ClusterSample,
    ShareHours,
    UserShare,
)
from fairlead.service.rate_limits import in_turn

LOG = logging.getLogger("fairlead.service")
SAMPLE_SECONDS = 60.0  # between samples
BUSY_FACTOR = 50  # the pause after a sample is at least this multiple of the time it took
MOST_UNWRITTEN = 1000  # changes of alerts that are kept while the journal cannot be written
GROWTH_SECONDS = 86400.0  # the journal's growth in this time gives the forecast


@dataclass(frozen=True)
class Sample:
    """The parts of the state that a sample needs."""

    copy: StateCopy
    unplaceable: dict[str, Finding]  # by job
    last_tasks: dict[str, list[EndedTask]]  # by server
    servers: frozenset[str]
    lost: dict[str, float]  # by server: time of the loss


class StateHistory:
    """Samples the state every minute; its methods are for the event loop's thread."""

    def __init__(
        self,
        state_thread: StateThread,
        journal: Journal,
        thresholds: Thresholds,
        lost: dict[str, float],
        on_notices: Callable[[], None],
    ) -> None:
        self.state_thread, self.journal = state_thread, journal
        self._lost = lost  # by server: time of the loss; `Workers` adds to it
        self.pause = SAMPLE_SECONDS
        self.alerts = Alerts(thresholds, journal.stored_text(ALERTS).encode())
        self._ended_tasks = EndedTasks()
        self._on_notices = on_notices  # called when notices were written
        # Changes of alerts: `alert.raised` or `alert.cleared`, the alert, the time of the change.
        self._unwritten: deque[tuple[str, Alert, float]] = deque(maxlen=MOST_UNWRITTEN)
        self._read_lock = asyncio.Lock()  # held while a caller reads the journal

    def learn(self, effects: Effects) -> None:
        """Note ended tasks, to find failing servers; called in the state's thread."""
        self._ended_tasks.add(effects.attempts, STOPPED)

    async def record(self) -> None:
        """Take samples for ever; each stands for the time since the previous one."""
        last = monotonic()
        pause = self.pause
        while True:
            await asyncio.sleep(pause)
            began = monotonic()
            # The machine may have slept; shares in that time are unknown.
            seconds = min(began - last, 2 * pause)
            last = began
            try:
                await self.sample(seconds)
            except (FairleadError, JournalError) as fault:
                LOG.warning("no shares were recorded", extra={"fault": str(fault)})
            except Exception:  # a defect; the next sample may succeed
                LOG.exception("a sample failed unexpectedly")
            pause = max(self.pause, BUSY_FACTOR * (monotonic() - began))

    async def sample(self, seconds: float) -> None:
        """Record the present figures for the last `seconds`, and update the alerts."""
        sample = await self.state_thread.ask(self._take)
        notices = await asyncio.to_thread(self._record, sample, seconds)
        for kind, number in self.alerts.counts().items():
            self.state_thread.counters.alerts.labels(kind).set(number)
        if notices:
            self._on_notices()

    async def share_hours(self, seconds: float) -> dict[str, Any]:
        """Return a `ShareHoursView` of the last `seconds`."""
        cluster = await self.state_thread.ask(_total_amounts)
        since = max(time() - seconds, 0.0)
        async with in_turn(self._read_lock):
            rows = await asyncio.to_thread(self.journal.shares.since, since)
        return {
            "since": since,
            "cluster": cluster,
            "users": [row._asdict() | {"owed": row.fair - row.held} for row in rows],
        }

    async def over_time(self, read: Callable[..., dict[str, Any]], seconds: float) -> Any:
        """Call `read` with the start and end of the last `seconds`; return its answer."""
        now = time()
        async with in_turn(self._read_lock):
            return await asyncio.to_thread(read, max(now - seconds, 0.0), now)

    def _take(self, tx: Transaction) -> Sample:
        state = tx.state
        copy = copy_state(tx)
        unplaceable: dict[str, Finding] = {}
        if copy.shares_input.too_large:
            found = state.scheduler.unplaceable_groups(rules.MOST_OF_A_USER)
            for group, held_by in found.items():
                job = state.groups[group].job
                where = job.where if held_by == "where" else None
                unplaceable[str(job.id)] = rules.unplaceable_job(job.id, job.user, where)
        last_tasks = self._ended_tasks.last_tasks(state.servers.keys())
        return Sample(
            copy=copy,
            unplaceable=unplaceable,
            last_tasks=last_tasks,
            servers=frozenset(state.servers),
            lost=dict(self._lost),
        )

    def _record(self, sample: Sample, seconds: float) -> bool:
        """Update the alerts and write a sample; return whether notices were written."""
        now, shares_input = time(), sample.copy.shares_input
        shares = shares_input.answer()
        names = set(shares_input.names)  # of users, without the queues above them
        users = [queue for queue in shares.queues if queue.name in names]
        # Only users with a held or a fair share above 0.
        of_users = {q.name: UserShare(q.name, q.held, q.fair) for q in users if q.held or q.fair}
        size = self.journal.size()
        waiting, running = int(shares_input.waiting.sum()), int(shares_input.running.sum())
        cluster = ClusterSample(waiting, running, journal=size, **sample.copy.amounts)
        short = [of_users[queue.name] for queue in users if queue.is_short]
        lost = {alert.about: alert.since for alert in self.alerts if alert.kind == rules.LOST}
        lost |= sample.lost
        lost_now = rules.find_lost_servers(lost, sample.servers, now)
        for name, since in sample.lost.items():
            if name not in lost_now and self._lost.get(name) == since:  # not lost again meanwhile
                del self._lost[name]
        samples = self.journal.samples.cluster(now - GROWTH_SECONDS)
        found = {
            rules.OWED: self.alerts.debts.add(short, seconds, cluster.capacity, now),
            rules.NEVER_RUNS: sample.unplaceable,
            rules.FAILING: rules.find_failing_servers(sample.last_tasks, now),
            rules.LOST: lost_now,
            rules.JOURNAL: rules.find_full_disk(self.journal.path, size, samples, now),
        }
        for kind, findings in found.items():
            raised, cleared = self.alerts.update(kind, findings, now)
            for change, changed in (("alert.raised", raised), ("alert.cleared", cleared)):
                for alert in changed:
                    # Formatted here: `RepeatFilter` shows each format only once a minute.
                    LOG.warning(f"{change}: {alert.text}")
                    self._unwritten.append((change, alert, now))
        has_notices = bool(self._unwritten)
        # If this raises, the changes stay unwritten until the next sample.
        self.journal.add_alerts(self._unwritten, self.alerts.to_json())
        self._unwritten.clear()
        hours, shares_of_users = seconds / SECONDS_PER_HOUR, of_users.values()
        rows = [ShareHours(s.user, hours, s.held * hours, s.fair * hours) for s in shares_of_users]
        self.journal.shares.add(now, rows)
        self.journal.samples.add(now, cluster, shares_of_users)
        return has_notices


def _total_amounts(tx: Transaction) -> dict[str, float]:
    """Return the capacity of all servers together, by resource."""
    amounts = dict.fromkeys(tx.state.resources, 0.0)
    for server in tx.state.servers.values():
        for resource, amount in server.capacity.items():
            amounts[resource] += amount
    return amounts
