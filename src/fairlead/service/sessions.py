"""Sessions of workers: the unseen orders of each, and the servers without a responding worker.

Sessions belong to the event loop's thread. An order is repeated until the worker has seen it. After
a restart of the service or the worker, all orders are sent again. A start carries the attempt's
number, so the worker does not start an attempt twice.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import Any, NamedTuple

from fairlead.service.jobs import Running, TaskKey

AT_ONCE = 5000  # messages in one answer
BYTES_AT_ONCE = 4 * 2**20  # of job requests in one answer; a larger job gets an answer of its own


class StartOrder(NamedTuple):
    """The content of a ``start`` message to a worker."""

    server: str
    key: TaskKey
    demand: dict[str, float]  # by resource
    time_limit: float | None  # seconds
    devices: tuple[int, ...]  # the numbers of its GPUs on the server


class Message(NamedTuple):
    """A message to a worker, or to an agent of a Ray driver."""

    number: int  # from 1 in each session
    kind: str  # to a worker: start, stop or logs
    content: Any  # for a worker's start: a StartOrder
    size: int = 0  # bytes of the job that starts


@dataclass(eq=False)  # compared by identity, because comparing sets of servers is slow
class Session:
    """A joined worker, its servers, and its unseen messages."""

    identity: str  # of the worker, the same after its restart
    servers: set[str]
    owner: str  # the name of the token with which the worker joined
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    last_request: float = field(default_factory=monotonic)  # time by the monotonic clock
    last_number: int = 0  # of the last queued message
    # Number of the worker's reports being recorded. Their answers will have the queued messages, so
    # these wake no waiting request, which would send them a second time.
    reports: int = 0
    messages: deque[Message] = field(default_factory=deque)
    wake_up: asyncio.Event = field(default_factory=asyncio.Event)  # set by messages, and at the end

    def queue(self, kind: str, content: Any, size: int = 0) -> None:
        self.last_number += 1
        self.messages.append(Message(self.last_number, kind, content, size))
        if not self.reports:
            self.wake_up.set()

    def queue_start(self, run: Running) -> None:
        limit = run.job_group.time_limit
        order = StartOrder(run.server, run.key, run.demand, limit, run.devices)
        self.queue("start", order, run.job_group.job.size)

    def queue_stop(self, run: Running) -> None:
        self.queue("stop", (run.server, run.key, run.stopping))

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Count a report during a block; if the block fails, wake the waiting request."""
        self.reports += 1
        try:
            yield
        except BaseException:
            self.wake_up.set()
            raise
        finally:
            self.reports -= 1

    def note_seen(self, seen: int) -> None:
        """Drop the messages up to number `seen`, which the worker has received."""
        while self.messages and self.messages[0].number <= seen:
            self.messages.popleft()
        if not self.messages:
            self.wake_up.clear()

    def first_messages(self) -> list[Message]:
        """Return the oldest messages, as many as fit into one answer."""
        found: list[Message] = []
        jobs: set[int] = set()
        size = 0
        for message in islice(self.messages, AT_ONCE):
            if message.kind == "start" and message.content.key.job not in jobs:
                jobs.add(message.content.key.job)
                size += message.size
                if found and size > BYTES_AT_ONCE:
                    break
            found.append(message)
        return found


class Sessions:
    """The sessions of all workers, and the servers without one."""

    def __init__(self) -> None:
        self.by_id: dict[str, Session] = {}
        self.by_server: dict[str, Session] = {}
        self.joining: dict[str, list[Session]] = {}  # by server: sessions that are about to open
        self.without_session: dict[str, float] = {}  # by server: since when, monotonic
        self.unreachable: set[str] = set()  # servers marked so, because their worker is silent

    def all(self) -> list[Session]:
        joining = {session.id: session for some in self.joining.values() for session in some}
        return list((self.by_id | joining).values())

    def expect(self, servers: Iterable[str]) -> None:
        """Note that the workers of servers have to join, from now on."""
        for name in servers:
            self.without_session[name] = monotonic()

    def begin_join(self, session: Session) -> None:
        """Start queueing orders for a worker that is about to join."""
        for name in session.servers:
            self.joining.setdefault(name, []).append(session)

    def end_join(self, session: Session) -> None:
        """Stop queueing orders for a worker that has joined, or failed to."""
        for name in session.servers:
            self.joining[name].remove(session)
            if not self.joining[name]:
                del self.joining[name]

    def join(self, session: Session, runs: Iterable[Running]) -> None:
        """Open a worker's session; queue the tasks on its servers before newer orders."""
        self.end_join(session)
        newer, session.messages, session.last_number = session.messages, deque(), 0
        queued = set()
        for run in runs:
            queued.add(run.key)
            session.queue_start(run)
            if run.stopping:
                session.queue_stop(run)
        for _, kind, content, size in newer:
            if kind != "start" or content.key not in queued:
                session.queue(kind, content, size)
        self.by_id[session.id] = session
        for name in session.servers:
            previous = self.by_server.get(name)
            if previous is not None:
                previous.servers.discard(name)
                previous.wake_up.set()
                if not previous.servers:
                    self.by_id.pop(previous.id, None)
            self.by_server[name] = session
            self.without_session.pop(name, None)
            self.unreachable.discard(name)

    def deliver(self, starts: list[Running], stops: list[Running]) -> None:
        """Queue starts and stops for the workers of their servers."""
        for run in starts:
            for session in self._sessions_of(run.server):
                session.queue_start(run)
        for run in stops:
            for session in self._sessions_of(run.server):
                session.queue_stop(run)

    def forget_all(self, servers: Iterable[str]) -> None:
        """End all sessions, so that workers join again."""
        for session in self.by_id.values():
            session.servers.clear()
            session.wake_up.set()
        self.by_id.clear()
        self.by_server.clear()
        self.expect(servers)

    def forget(self, server: str) -> None:
        """Remove a lost server from its session; end a session without servers."""
        session = self.by_server.pop(server, None)
        if session is not None:
            session.servers.discard(server)
            if not session.servers:
                self.by_id.pop(session.id, None)
                session.wake_up.set()
        self.without_session.pop(server, None)
        self.unreachable.discard(server)

    def silent_for(self, seconds: float) -> list[str]:
        """Return the servers whose worker has sent no request for `seconds`."""
        limit = monotonic() - seconds
        names = [name for name, since in self.without_session.items() if since <= limit]
        for session in self.by_id.values():
            if session.last_request <= limit:
                names += sorted(session.servers)
        return names

    def _sessions_of(self, server: str) -> list[Session]:
        """Return the open session of a server, if any, and those that are about to open."""
        session = self.by_server.get(server)
        return [*([] if session is None else [session]), *self.joining.get(server, ())]
