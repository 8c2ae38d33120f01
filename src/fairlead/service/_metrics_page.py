"""``/metrics``: counters since the start, and gauges of the state, in Prometheus' text format.

The state's thread only copies numbers. Shares are some seconds old; a gauge shows their age.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from heapq import nlargest
from math import inf, isnan, nan
from time import monotonic

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    generate_latest,
)

from fairlead.scheduler.live_shares import LiveShares
from fairlead.service._overview import CurrentShares, FoundShares, StateCopy, copy_state
from fairlead.service._state_thread import StateThread
from fairlead.service.messages import UnavailableError

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_USERS = 1000  # users with gauges
SHARES_SECONDS = 5.0  # for which computed shares are cached
SHARES_FACTOR = 10  # shares are cached for at least this multiple of the time that they took
PATIENCE = 2.0  # seconds to wait for new shares before the page shows the previous ones
STATES = ("ready", "drained", "unreachable", "lost")


class MetricsPage:
    """Writes the page; its methods are for the event loop's thread."""

    def __init__(self, state_thread: StateThread, shares: CurrentShares) -> None:
        self.state_thread, self._shares = state_thread, shares
        self.most_age, self.most_users = SHARES_SECONDS, MOST_USERS

    async def text(self) -> bytes:
        """Return the page; without the gauges of the state if that cannot be copied."""
        copy, found = None, None
        users: dict[str, dict[str, float]] = {}
        with suppress(UnavailableError):  # the counters are still known
            copy = await asyncio.wrap_future(self.state_thread.enqueue(copy_state))
            most_age = max(self.most_age, SHARES_FACTOR * self._shares.took)
            found = await self._shares.recent(PATIENCE, most_age)
            users = self._users(copy, found)
        ready, counters = self.state_thread.ready, self.state_thread.counters.registry
        return await asyncio.to_thread(_page, ready, copy, users, found, counters)

    def _users(self, copy: StateCopy, found: FoundShares | None) -> dict[str, dict[str, float]]:
        """Return gauges, by name, of the users with the most running, then waiting tasks."""
        shares_input, pending = copy.shares_input, copy.pending
        running = dict(zip(shares_input.names, shares_input.running.tolist(), strict=True))
        queues = {} if found is None else {q.name: q for q in found.shares.queues}
        missing = nan if found is None else 0.0  # the share of a user that was added later
        names = nlargest(self.most_users, copy.weight, lambda n: (running[n], pending[n]))
        return {
            "share": {n: queues[n].share if n in queues else missing for n in names},
            "fair_share": {n: queues[n].fair_share if n in queues else missing for n in names},
            "weight": {n: copy.weight[n] for n in names},
            "pending_tasks": {n: pending[n] for n in names},
            "running_tasks": {n: running[n] for n in names},
        }


def fairness_error(shares: LiveShares) -> float:
    """Return ``sum |share - fair| / sum fair`` over active queues, as in the metrics of a run."""
    active = [queue for queue in shares.queues if queue.waiting or queue.running]
    differences = sum(abs(queue.difference) for queue in active)
    fair = sum(queue.fair_share for queue in active)
    if not active:
        return nan
    return differences / fair if fair > 0 else (inf if differences else 0.0)


def _page(
    is_ready: bool,
    copy: StateCopy | None,
    users: Mapping[str, Mapping[str, float]],
    found: FoundShares | None,
    counters: CollectorRegistry,
) -> bytes:
    page = CollectorRegistry()

    def add(name: str, about: str, value: float) -> None:
        Gauge(f"fairlead_{name}", about, registry=page).set(value)

    def add_by(label: str, name: str, about: str, values: Mapping[str, float]) -> None:
        gauge = Gauge(f"fairlead_{name}", about, [label], registry=page)
        for key, value in values.items():
            if not isnan(value):
                gauge.labels(key).set(value)

    add("ready", "Whether the service carries out requests.", is_ready)
    if copy is not None:
        for name, about in (
            ("share", "Dominant share of the usable capacity, divided by the weight."),
            ("fair_share", "Fair share, divided by the weight."),
            ("weight", "Weight of a user."),
            ("pending_tasks", "Waiting tasks."),
            ("running_tasks", "Running tasks."),
        ):
            add_by("user", name, about, users[name])
        add_by("reason", "pending_by_reason", "Waiting tasks by reason.", copy.reasons)
        servers = dict.fromkeys(STATES, 0) | copy.servers
        add_by("state", "servers", "Servers by state.", servers)
        for name, of in (("capacity", "Capacity of all servers"), ("used", "Amounts in use")):
            add_by("resource", name, f"{of}: cores, GiB, devices.", copy.amounts[name])
    error = nan if found is None else fairness_error(found.shares)
    add("fairness_error", "sum |share - fair share| / sum fair share, over active users.", error)
    age = nan if found is None else monotonic() - found.since
    add("shares_age_seconds", "Age of the shares and fair shares in seconds.", age)
    return generate_latest(page) + generate_latest(counters)
