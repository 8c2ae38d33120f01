"""Users' shares and a summary of the cluster, each computed once for all callers that wait.

The size of the summary, for the live page, does not grow with the number of servers. It is computed
at least each minute, and at most every few seconds. A transaction reads only some servers, so that
no other request waits long.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter as Tally
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from math import inf
from time import monotonic
from typing import Any, NamedTuple

from pydantic_core import to_json

from fairlead.errors import FairleadError
from fairlead.model.quotas import in_words
from fairlead.scheduler.live_shares import LiveShares, SharesQuestion
from fairlead.service._state_thread import StateThread, Transaction
from fairlead.service.jobs import Server
from fairlead.service.messages import DeniedError, FullError, UnavailableError

LOG = logging.getLogger("fairlead.service")
FRESH_SECONDS = 2.0  # shortest age at which a summary is replaced
WARM_SECONDS = 60.0  # between summaries without a request, so that a new page starts with one
BUSY_FACTOR = 30  # a summary stays for at least this multiple of the time that it took
SERVERS_AT_ONCE = 4000  # in one transaction, which takes some 20 ms
MOST_GROUPS = 100  # of servers, in a summary
MOST_USERS = 100  # in a summary
MOST_STREAMS, MOST_STREAMS_OF_A_CALLER = 500, 8  # open at a time
PULSE_SECONDS = 15.0  # between comments in an idle stream, so that proxies keep it open

# The capacity of each resource, and the labels with their values; both sorted by name.
ServerKind = tuple[tuple[tuple[str, float], ...], tuple[tuple[str, str], ...]]


@dataclass
class ServerGroup:
    """Servers with equal capacity and labels, and the amounts that their tasks hold."""

    capacity: dict[str, float]  # of one server
    labels: dict[str, str]
    states: Tally[str] = field(default_factory=Tally)
    used: dict[str, float] = field(default_factory=dict)
    tasks: int = 0

    def add(self, server: Server) -> None:
        """Add a server and its tasks."""
        self.states[server.state] += 1
        for run in server.running.values():
            if not run.awaits:  # else the tasks that it preempts still hold the amounts
                self.tasks += 1
                for resource, amount in run.demand.items():
                    self.used[resource] = self.used.get(resource, 0.0) + amount

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "servers": self.states.total()}


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


@dataclass(frozen=True)
class StateCopy:
    """A copy of the numbers in the state that summaries, metrics and samples need."""

    weight: dict[str, float]  # by user
    pending: dict[str, int]  # number of waiting tasks by user
    withheld: dict[str, int]  # number of tasks kept from the scheduler, by reason
    servers: dict[str, int]  # number of servers by state
    resources: tuple[str, ...]
    shares_input: SharesQuestion  # from which shares are computed

    @property
    def amounts(self) -> dict[str, dict[str, float]]:
        """The used amounts, and the capacity of all servers, by resource."""
        found = {"used": self.shares_input.used, "capacity": self.shares_input.total_capacity}
        return {
            name: dict(zip(self.resources, values.tolist(), strict=True))
            for name, values in found.items()
        }

    @property
    def reasons(self) -> dict[str, int]:
        """The number of waiting tasks by reason; under `room` they wait for free capacity."""
        others = self.withheld | {"too_large": self.shares_input.too_large}
        return others | {"room": sum(self.pending.values()) - sum(others.values())}


def copy_state(tx: Transaction) -> StateCopy:
    """Copy the state. O(users + servers + kinds of tasks), however many tasks wait."""
    state = tx.state
    return StateCopy(
        {name: user.weight for name, user in state.users.items()},
        {name: user.pending for name, user in state.users.items()},
        dict(state.withheld),
        Tally(server.state for server in state.servers.values()),
        tuple(state.resources),
        state.scheduler.shares_question(),
    )


class Overview:
    """The latest summary; its methods are for the event loop's thread."""

    def __init__(self, state_thread: StateThread, shares: CurrentShares) -> None:
        self._state_thread, self._shares = state_thread, shares
        self.users: dict[str, dict[str, Any]] = {}  # shares and tasks by user
        self._latest: dict[str, Any] = {}
        self._fault = ""
        self._fresh_until = -inf
        self._computing: asyncio.Task[None] | None = None
        self._streams: Tally[str] = Tally()  # number of open streams by caller
        self._closed = asyncio.Event()

    async def keep_warm(self) -> None:
        """Compute a summary every minute."""
        while True:
            with suppress(UnavailableError):
                await self.latest()
            await asyncio.sleep(WARM_SECONDS)

    async def latest(self) -> dict[str, Any]:
        """Return a summary that is at most a few seconds old.

        Raises `UnavailableError` if it could not be computed.
        """
        if self._computing is None and monotonic() >= self._fresh_until:
            # In a new context, so that its time is not charged to the present caller.
            computing = asyncio.get_running_loop().create_task(self._compute(), context=Context())
            self._computing = computing
        if self._computing is not None:
            await asyncio.shield(self._computing)
        if self._fault:
            raise UnavailableError(self._fault)
        return self._latest

    def open_stream(self, caller: str) -> None:
        """Count a stream; raise `FullError` if the caller, or all together, have too many."""
        is_full = self._streams.total() >= MOST_STREAMS
        if is_full or self._streams[caller] >= MOST_STREAMS_OF_A_CALLER:
            raise FullError("too many live pages are open; close one")
        self._streams[caller] += 1

    def close_stream(self, caller: str) -> None:
        self._streams[caller] -= 1
        if not self._streams[caller]:
            del self._streams[caller]

    async def events(
        self, added: Callable[[], Mapping[str, Any]], admit: Callable[[int], bool]
    ) -> AsyncIterator[bytes]:
        """Yield server-sent events: each new summary with the fields of `added` for the caller.

        Each round first calls `admit` with the bytes that the last round sent. `admit` returns
        whether the caller may get more now, and raises `DeniedError` to end the stream.
        """
        last, sent_at, size = b"", monotonic(), 0
        if self._latest:  # at most a minute old; a new one follows
            last = _event({**self._latest, **added()})
            yield last
        while not self._closed.is_set():
            try:
                content = last
                if admit(size):
                    content = _event({**await self.latest(), **added()})
            except UnavailableError as fault:
                content = _event({"fault": str(fault)})
            except DeniedError:
                return
            size = 0
            if content != last:
                last, sent_at, size = content, monotonic(), len(content)
                yield content
            elif monotonic() - sent_at > PULSE_SECONDS:
                sent_at = monotonic()
                yield b":\n\n"
            with suppress(TimeoutError):
                async with asyncio.timeout(max(self._fresh_until - monotonic(), 0.5)):
                    await self._closed.wait()

    def close(self) -> None:
        """End all streams."""
        self._closed.set()

    async def _compute(self) -> None:
        """Compute a summary."""
        began = monotonic()
        thread = self._state_thread
        try:
            copy = await asyncio.wrap_future(thread.enqueue(copy_state))
            groups = await self._groups()
            found = await self._shares.now()
            policy = thread.state.scheduler.policy.name
            summary = await asyncio.to_thread(_summary, copy, groups, found, policy)
            self._latest, self.users = summary
            self._fault = ""
        except FairleadError as fault:
            self._fault = str(fault)
        except Exception:  # a defect; the next summary may succeed
            LOG.exception("the summary failed unexpectedly")
            self._fault = "the summary of the cluster failed; the service's log has more"
        finally:
            self._computing = None
            self._fresh_until = monotonic() + max(
                FRESH_SECONDS, BUSY_FACTOR * (monotonic() - began)
            )

    async def _groups(self) -> list[ServerGroup]:
        by_kind: dict[ServerKind, ServerGroup] = {}
        names = await asyncio.wrap_future(
            self._state_thread.enqueue(lambda tx: list(tx.state.servers))
        )
        for at in range(0, len(names), SERVERS_AT_ONCE):
            part = partial(_add_servers, names=names[at : at + SERVERS_AT_ONCE], groups=by_kind)
            await asyncio.wrap_future(self._state_thread.enqueue(part))
        return list(by_kind.values())


def _event(content: Mapping[str, Any]) -> bytes:
    return b"data: " + to_json(content) + b"\n\n"


def _add_servers(
    tx: Transaction, names: Sequence[str], groups: dict[ServerKind, ServerGroup]
) -> None:
    for name in names:
        server = tx.state.servers.get(name)
        if server is not None:
            kind = tuple(sorted(server.capacity.items())), tuple(sorted(server.labels.items()))
            if kind not in groups:
                groups[kind] = ServerGroup(server.capacity, server.labels)
            groups[kind].add(server)


def _summary(
    copy: StateCopy, groups: list[ServerGroup], found: FoundShares, policy: str
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the summary, and the shares of all users by name."""
    shares = found.shares
    users: dict[str, dict[str, Any]] = {
        queue.name: {
            "name": queue.name,
            "weight": copy.weight.get(queue.name, queue.weight),
            "held": queue.held,
            "fair": queue.fair,
            "waiting": queue.waiting,
            "running": queue.running,
            "is_short": queue.is_short,  # tasks wait, and it holds less than its fair share
        }
        for queue in shares.queues
    }
    active = sorted(
        (user for user in users.values() if user["waiting"] or user["running"]),
        key=lambda user: (not user["is_short"], user["held"] - user["fair"], user["name"]),
    )
    groups = sorted(groups, key=lambda group: (-group.states.total(), str(group.labels)))
    summary = {
        "policy": policy,
        "mechanism": shares.mechanism,
        "proof_holds": None if shares.certificate is None else shares.certificate.holds,
        "waiting": sum(copy.pending.values()),
        "running": int(copy.shares_input.running.sum()),
        "reasons": copy.reasons,
        **copy.amounts,
        "servers": copy.servers,
        "groups": [group.to_dict() for group in groups[:MOST_GROUPS]],
        "more_groups": max(len(groups) - MOST_GROUPS, 0),
        "users": active[:MOST_USERS],
        "all_users": len(users),
        "active_users": len(active),
        "short_users": sum(user["is_short"] for user in active),
        "unmet_quotas": found.quotas["unmet_quotas"],
    }
    return summary, users
