"""Sessions of workers: the unseen orders of each, and the servers without a responding worker.

All of it belongs to the event loop's thread. Orders are repeated until the worker has seen them;
after a restart of either side all of them are sent again. The worker avoids carrying an order out
twice, by the attempt's number.
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
    """A message to a worker: ``start``, ``stop`` or ``logs``, with its content."""

    number: int
    kind: str
    what: Any
    size: int = 0  # bytes of the job that starts


@dataclass(eq=False)  # two sessions are never alike, and comparing their servers takes long
class Session:
    """A joined worker, its servers, and its unseen messages."""

    identity: str
    servers: set[str]
    owner: str  # the token that it joined with
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    heard: float = field(default_factory=monotonic)
    sent: int = 0
    # Reports of the worker under way. Their answers carry all messages, so these wake no other
    # request of the worker, which would carry them a second time.
    reports: int = 0
    messages: deque[Message] = field(default_factory=deque)
    news: asyncio.Event = field(default_factory=asyncio.Event)  # set when there are messages

    def tell(self, kind: str, what: Any, size: int = 0) -> None:
        """Queue a message for the worker."""
        self.sent += 1
        self.messages.append(Message(self.sent, kind, what, size))
        if not self.reports:
            self.news.set()

    def tell_start(self, run: Running) -> None:
        """Queue the start of a task, with its demand and time limit."""
        what = run.server, run.key, run.demand, run.entry.time_limit
        self.tell("start", what, run.entry.job.size)

    def tell_stop(self, run: Running) -> None:
        """Queue the stop of a task."""
        self.tell("stop", (run.server, run.key, run.stopping))

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Count a report whose answer carries all messages; wake others if it fails."""
        self.reports += 1
        try:
            yield
        except BaseException:
            self.news.set()
            raise
        finally:
            self.reports -= 1

    def note_seen(self, seen: int) -> None:
        """Drop the messages that the worker has seen."""
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
    """The sessions of all workers, and the servers without one."""

    def __init__(self) -> None:
        self.by_id: dict[str, Session] = {}
        self.by_server: dict[str, Session] = {}
        self.joining: dict[str, list[Session]] = {}
        self.silent: dict[str, float] = {}  # since when a server has no session
        self.unreachable: set[str] = set()

    def all(self) -> list[Session]:
        """Return the sessions of joined and of joining workers."""
        joining = {session.id: session for these in self.joining.values() for session in these}
        return list((self.by_id | joining).values())

    def expect(self, servers: Iterable[str]) -> None:
        """Begin to count the silence of servers without a session."""
        for name in servers:
            self.silent[name] = monotonic()

    def begin(self, session: Session) -> None:
        """Queue decisions from now on for a worker that is about to join."""
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
        sent = set()
        for run in runs:
            sent.add(run.key)
            session.tell_start(run)
            if run.stopping:
                session.tell_stop(run)
        for _, kind, what, size in decided:
            if kind != "start" or what[1] not in sent:
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
                session.tell_start(run)
        for run in stops:
            for session in self._of(run.server):
                session.tell_stop(run)

    def forget_all(self, servers: Iterable[str]) -> None:
        """End all sessions, so that workers join again."""
        for session in self.by_id.values():
            session.servers.clear()
            session.news.set()
        self.by_id.clear()
        self.by_server.clear()
        self.expect(servers)

    def forget(self, server: str) -> None:
        """Remove a server from its session."""
        session = self.by_server.pop(server, None)
        if session is not None:
            session.servers.discard(server)
            if not session.servers:
                self.by_id.pop(session.id, None)
                session.news.set()
        self.silent.pop(server, None)
        self.unreachable.discard(server)

    def silent_for(self, seconds: float) -> list[str]:
        """Return the servers whose worker has not responded for that long."""
        limit = monotonic() - seconds
        names = [name for name, since in self.silent.items() if since <= limit]
        for session in self.by_id.values():
            if session.heard <= limit:
                names += sorted(session.servers)
        return names

    def _of(self, server: str) -> list[Session]:
        session = self.by_server.get(server)
        return [*([] if session is None else [session]), *self.joining.get(server, ())]
