"""Sessions of workers: the unseen orders of each, and the servers without a responding worker.

It belongs to the event loop's thread. Orders are repeated until the worker has seen them; after a
restart of either side all are sent again. The attempt's number keeps the worker from carrying out
an order twice.
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

from fairlead.service.jobs import Running

AT_ONCE = 5000  # messages in one answer
BYTES_AT_ONCE = 4 * 2**20  # of job requests in one answer; a larger job is sent in its own


class Message(NamedTuple):
    """A message to a worker: ``start``, ``stop`` or ``logs``, with its content."""

    number: int
    kind: str
    content: Any
    size: int = 0  # bytes of the job that starts


@dataclass(eq=False)  # by identity, as comparing sets of servers is slow
class Session:
    """A joined worker, its servers, and its unseen messages."""

    identity: str
    servers: set[str]
    owner: str  # the token that it joined with
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    last_request: float = field(default_factory=monotonic)  # time by the monotonic clock
    sent: int = 0  # number of the last message
    # Number of reports being processed. Their answers will have all messages, so a new message does
    # not wake the worker's waiting request, whose answer would repeat it.
    reports: int = 0
    messages: deque[Message] = field(default_factory=deque)
    wake_up: asyncio.Event = field(default_factory=asyncio.Event)  # set by messages, and at the end

    def queue(self, kind: str, content: Any, size: int = 0) -> None:
        self.sent += 1
        self.messages.append(Message(self.sent, kind, content, size))
        if not self.reports:
            self.wake_up.set()

    def queue_start(self, run: Running) -> None:
        content = run.server, run.key, run.demand, run.entry.time_limit, run.devices
        self.queue("start", content, run.entry.job.size)

    def queue_stop(self, run: Running) -> None:
        self.queue("stop", (run.server, run.key, run.stopping))

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Count a report in the block; if it fails, wake the waiting request instead."""
        self.reports += 1
        try:
            yield
        except BaseException:
            self.wake_up.set()
            raise
        finally:
            self.reports -= 1

    def note_seen(self, seen: int) -> None:
        while self.messages and self.messages[0].number <= seen:
            self.messages.popleft()
        if not self.messages:
            self.wake_up.clear()

    def first_messages(self) -> list[Message]:
        found: list[Message] = []
        jobs: set[int] = set()
        size = 0
        for message in islice(self.messages, AT_ONCE):
            if message.kind == "start" and message.content[1].job not in jobs:
                jobs.add(message.content[1].job)
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
        self.joining: dict[str, list[Session]] = {}
        self.silent: dict[str, float] = {}  # by server: since when it has no session, monotonic
        self.unreachable: set[str] = set()

    def all(self) -> list[Session]:
        joining = {session.id: session for these in self.joining.values() for session in these}
        return list((self.by_id | joining).values())

    def expect(self, servers: Iterable[str]) -> None:
        """Start the time limit for the workers of servers to join again."""
        for name in servers:
            self.silent[name] = monotonic()

    def begin(self, session: Session) -> None:
        """Start queueing orders for a worker that is about to join."""
        for name in session.servers:
            self.joining.setdefault(name, []).append(session)

    def give_up(self, session: Session) -> None:
        """Drop the queued orders of a worker whose join failed."""
        for name in session.servers:
            self.joining[name].remove(session)
            if not self.joining[name]:
                del self.joining[name]

    def join(self, session: Session, runs: Iterable[Running]) -> None:
        """Open the session of a worker; send it the running tasks of its servers."""
        self.give_up(session)
        decided, session.messages, session.sent = session.messages, deque(), 0
        sent = set()
        for run in runs:
            sent.add(run.key)
            session.queue_start(run)
            if run.stopping:
                session.queue_stop(run)
        for _, kind, content, size in decided:
            if kind != "start" or content[1] not in sent:
                session.queue(kind, content, size)
        self.by_id[session.id] = session
        for name in session.servers:
            before = self.by_server.get(name)
            if before is not None:
                before.servers.discard(name)
                before.wake_up.set()
                if not before.servers:
                    self.by_id.pop(before.id, None)
            self.by_server[name] = session
            self.silent.pop(name, None)
            self.unreachable.discard(name)

    def deliver(self, starts: list[Running], stops: list[Running]) -> None:
        """Queue starts and stops for the workers of their servers."""
        for run in starts:
            for session in self._of(run.server):
                session.queue_start(run)
        for run in stops:
            for session in self._of(run.server):
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
        session = self.by_server.pop(server, None)
        if session is not None:
            session.servers.discard(server)
            if not session.servers:
                self.by_id.pop(session.id, None)
                session.wake_up.set()
        self.silent.pop(server, None)
        self.unreachable.discard(server)

    def silent_for(self, seconds: float) -> list[str]:
        """Return the servers whose worker has not responded for some seconds."""
        limit = monotonic() - seconds
        names = [name for name, since in self.silent.items() if since <= limit]
        for session in self.by_id.values():
            if session.last_request <= limit:
                names += sorted(session.servers)
        return names

    def _of(self, server: str) -> list[Session]:
        session = self.by_server.get(server)
        return [*([] if session is None else [session]), *self.joining.get(server, ())]
