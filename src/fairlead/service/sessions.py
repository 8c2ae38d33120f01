"""Workers as the service hears them: what each has still to do, and who has gone silent.

All of it belongs to the event loop's thread. What is to be done is told again until the worker has
said that it saw it; after a restart of either side the whole of it is told again. Doing a thing
twice is the worker's to avoid, by the attempt's number.
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

AT_ONCE = 5000  # messages in an answer
BYTES_AT_ONCE = 4 * 2**20  # of the jobs that they start, in an answer; one job may be alone in it


class Message(NamedTuple):
    """A message to a worker: ``start``, ``stop`` or ``logs``, and what it says of which task."""

    number: int
    kind: str
    what: Any
    size: int = 0  # bytes of the job that starts


@dataclass(eq=False)  # two sessions are never alike, and comparing their servers takes long
class Session:
    """A worker that is here, the servers it speaks for, and what it has not seen yet.

    Attributes
    ----------
    reports : int
        Reports of the worker under way. Their answers carry all messages, so these wake no other
        request of the worker, which would carry them a second time.
    """

    identity: str
    servers: set[str]
    owner: str  # the token that it joined with
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    heard: float = field(default_factory=monotonic)
    sent: int = 0
    reports: int = 0
    messages: deque[Message] = field(default_factory=deque)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, kind: str, what: Any, size: int = 0) -> None:
        """Queue an order for the worker."""
        self.sent += 1
        self.messages.append(Message(self.sent, kind, what, size))
        if not self.reports:
            self.news.set()

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Count a report whose answer carries all messages; wake others where it fails."""
        self.reports += 1
        try:
            yield
        except BaseException:
            self.news.set()
            raise
        finally:
            self.reports -= 1

    def note_seen(self, seen: int) -> None:
        """Forget what the worker has seen."""
        while self.messages and self.messages[0].number <= seen:
            self.messages.popleft()
        if not self.messages:
            self.news.clear()

    def first_messages(self) -> list[Message]:
        """Return the messages of one answer."""
        found: list[Message] = []
        jobs: set[int] = set()
        size = 0
        for message in islice(self.messages, AT_ONCE):
            if message.kind == "start" and message.what[1].job not in jobs:
                jobs.add(message.what[1].job)
                size += message.size
                if found and size > BYTES_AT_ONCE:
                    break
            found.append(message)
        return found


class Sessions:
    """All workers, and the servers that none speaks for just now."""

    def __init__(self) -> None:
        self.by_id: dict[str, Session] = {}
        self.by_server: dict[str, Session] = {}
        self.joining: dict[str, list[Session]] = {}
        self.silent: dict[str, float] = {}  # since when nobody speaks for a server
        self.unreachable: set[str] = set()

    def all(self) -> list[Session]:
        """Return the sessions of joined and of joining workers."""
        coming = {session.id: session for these in self.joining.values() for session in these}
        return list((self.by_id | coming).values())

    def expect(self, servers: Iterable[str]) -> None:
        """Give servers of a service that has just begun the time to come back."""
        for name in servers:
            self.silent[name] = monotonic()

    def begin(self, session: Session) -> None:
        """Keep what is decided from now on for a worker that is about to join."""
        for name in session.servers:
            self.joining.setdefault(name, []).append(session)

    def give_up(self, session: Session) -> None:
        """Forget a worker that may not join."""
        for name in session.servers:
            self.joining[name].remove(session)
            if not self.joining[name]:
                del self.joining[name]

    def join(self, session: Session, runs: Iterable[Running]) -> None:
        """Open a session of a worker for its servers, and send it their running tasks."""
        self.give_up(session)
        decided, session.messages, session.sent = session.messages, deque(), 0
        told = set()
        for run in runs:
            told.add(run.key)
            session.tell("start", _start(run), run.entry.job.size)
            if run.stopping:
                session.tell("stop", (run.server, run.key, run.stopping))
        for _, kind, what, size in decided:
            if kind != "start" or what[1] not in told:
                session.tell(kind, what, size)
        self.by_id[session.id] = session
        for name in session.servers:
            before = self.by_server.get(name)
            if before is not None:
                before.servers.discard(name)
                before.news.set()
                if not before.servers:
                    self.by_id.pop(before.id, None)
            self.by_server[name] = session
            self.silent.pop(name, None)
            self.unreachable.discard(name)

    def deliver(self, starts: list[Running], stops: list[Running]) -> None:
        """Send decisions to workers."""
        for run in starts:
            for session in self._of(run.server):
                session.tell("start", _start(run), run.entry.job.size)
        for run in stops:
            for session in self._of(run.server):
                session.tell("stop", (run.server, run.key, run.stopping))

    def forget_all(self, servers: Iterable[str]) -> None:
        """Make all workers register again."""
        for session in self.by_id.values():
            session.servers.clear()
            session.news.set()
        self.by_id.clear()
        self.by_server.clear()
        self.expect(servers)

    def forget(self, server: str) -> None:
        """End the sessions of a removed server."""
        session = self.by_server.pop(server, None)
        if session is not None:
            session.servers.discard(server)
            if not session.servers:
                self.by_id.pop(session.id, None)
                session.news.set()
        self.silent.pop(server, None)
        self.unreachable.discard(server)

    def silent_for(self, seconds: float) -> list[str]:
        """Return the servers that nobody has spoken for that long."""
        limit = monotonic() - seconds
        names = [name for name, since in self.silent.items() if since <= limit]
        for session in self.by_id.values():
            if session.heard <= limit:
                names += sorted(session.servers)
        return names

    def _of(self, server: str) -> list[Session]:
        session = self.by_server.get(server)
        return [*([] if session is None else [session]), *self.joining.get(server, ())]


def _start(run: Running) -> tuple[Any, ...]:
    """Return what a worker is told of a start: where, which, what it holds, for how long."""
    return run.server, run.key, run.demand, run.entry.time_limit
