"""The service's side of its workers: joins, ends of tasks, and orders to start and stop them."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Sequence, Set
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from fairlead.errors import FairleadError, InputError
from fairlead.service._state_thread import Engine, Turn
from fairlead.service.jobs import Running, TaskKey
from fairlead.service.journal.event_journal import Journal
from fairlead.service.journal.job_records import DAMAGED
from fairlead.service.journal.tokens import Token
from fairlead.service.messages import (
    DeniedError,
    FullError,
    JoinRequest,
    LogsPiece,
    StaleSessionError,
    SyncRequest,
    UnavailableError,
)
from fairlead.service.service_state import MOST_RESOURCES, ServiceState
from fairlead.service.sessions import Session, Sessions

MARKED_AT_ONCE = 20  # servers that become unreachable or lost in one turn of the engine
JOIN_SECONDS = 0.05  # for which servers are added in one turn of the engine
MOST_SERVERS = 10_000  # of one worker's token
POLL_SECONDS = 10.0  # for which a worker waits for news
LOOK_SECONDS = 1.0
LOGS_SECONDS = 10.0
NEW_NAMES_SECONDS = 60.0  # between new names of resources by one worker's token


@dataclass
class LogsRequest:
    """A request for a task's output that is with its worker."""

    server: str
    answer: asyncio.Future[LogsPiece] = field(default_factory=asyncio.Future)


class Workers:
    """The workers' side of a service; its methods are for the event loop's thread.

    Parameters
    ----------
    engine : Engine
    journal : Journal
    silent, grace : float
        Seconds without a word from a worker: after the first nothing is placed on its servers,
        after the second its tasks run again elsewhere.
    """

    def __init__(self, engine: Engine, journal: Journal, silent: float, grace: float) -> None:
        self.sessions = Sessions()
        self.is_closing = False
        self._engine, self._journal = engine, journal
        self._silent, self._grace = silent, grace
        self._poll = min(POLL_SECONDS, silent / 2)  # a worker that waits is heard so often
        self._readings: dict[str, LogsRequest] = {}
        self._without_command: set[TaskKey] = set()  # told to start, as workers refuse them then
        self._one_brings_names = asyncio.Lock()
        self._new_names: dict[str, float] = {}  # when a token last brought some, by its name

    async def join(self, asked: JoinRequest, who: Token) -> dict[str, Any]:
        """Add a worker's servers, or reconnect them; return their running tasks.

        Servers of its that it does not name any more are lost.
        """
        names = {server.name for server in asked.servers}
        if len(names) < len(asked.servers):
            raise InputError("names a server twice", "servers")
        if who.role == "worker" and who.subject and names != {who.subject}:
            named = ", ".join(map(repr, sorted(names)))
            raise DeniedError(f"this token is for server {who.subject!r}, not {named:.100}")
        session = Session(asked.identity, names, who.name)
        self.sessions.begin(session)

        def check(turn: Turn) -> list[str]:
            _check_holders(turn.state, asked)
            self._check_new_names(turn.state, coming, names, who)
            if who.role == "worker" and who.subject:
                return []  # to one server; it touches no other
            mine = (m for m in turn.state.servers.values() if m.identity == asked.identity)
            return [machine.name for machine in mine if machine.name not in names]

        coming = {name for server in asked.servers for name in server.resources}
        brings_names = not coming <= set(self._engine.state.resources)
        try:
            self._check_number(session, who)
            # One at a time, as the names that others are about to bring count, too.
            async with self._one_brings_names if brings_names else nullcontext():
                gone = await self._engine.answer(check)
                await self._mark("lost", gone)
                at = 0
                while at < len(asked.servers):
                    at = await self._engine.answer(partial(_add, asked=asked, first=at))
            runs = await self._engine.answer(partial(_runs_of, asked=asked))
        except BaseException:
            self.sessions.give_up(session)
            self.sessions.expect(names - self.sessions.by_server.keys())  # some may have joined
            raise
        self.sessions.join(session, runs)
        for name in gone:
            self.sessions.forget(name)
        tasks = [(run.server, run.key) for run in runs]
        return {"session": session.id, "wait": self._poll, "tasks": tasks}

    def _check_number(self, session: Session, who: Token) -> None:
        """Limit the servers that one worker's token speaks for; each takes memory and time."""
        if who.role != "worker":
            return
        if len(session.servers) > MOST_SERVERS:
            raise InputError(
                f"one worker's token speaks for at most {MOST_SERVERS:,} servers, "
                f"not {len(session.servers):,}",
                "servers",
            )
        others = sum(
            len(other.servers)
            for other in self.sessions.all()
            if other.owner == who.name and other.identity != session.identity
        )
        if others + len(session.servers) > MOST_SERVERS:
            raise FullError(
                f"this token speaks for {others:,} servers already; {len(session.servers):,} more "
                f"exceed the limit of {MOST_SERVERS:,}"
            )

    def _check_new_names(
        self, state: ServiceState, coming: Set[str], changed: Set[str], who: Token
    ) -> None:
        """Limit the names of resources that workers bring: each new one rebuilds the scheduler."""
        new = coming - set(state.resources)
        if not new:
            return
        if len(state.resources_with(coming, changed)) > MOST_RESOURCES:
            raise InputError(
                f"all servers together have at most {MOST_RESOURCES} resources", "resources"
            )
        now = monotonic()
        if who.role == "worker":
            latest = self._new_names.get(who.name, -NEW_NAMES_SECONDS)
            if now - latest < NEW_NAMES_SECONDS:
                raise FullError(
                    f"one token brings new names of resources every {NEW_NAMES_SECONDS:.0f} s at "
                    f"most: {min(new)!r:.60}"
                )
            self._new_names[who.name] = now

    async def sync(self, asked: SyncRequest, who: Token) -> dict[str, Any]:
        """Take ends of tasks; return the worker's next orders, at once or when there are some."""
        session = self.sessions.by_id.get(asked.session)
        if session is None or session.owner != who.name:
            raise StaleSessionError("join again")
        session.heard = monotonic()
        session.note_seen(asked.seen)
        back = session.servers & self.sessions.unreachable
        if asked.ended or back:
            self.sessions.unreachable -= back

            def take(turn: Turn) -> None:
                for name in sorted(back & turn.state.servers.keys()):
                    turn.tell("reached", name=name)
                known = []
                for job, index, attempt, status, reason in asked.ended:
                    run = turn.state.find(TaskKey(job, index, attempt))
                    if run is not None and not run.is_over and run.server in session.servers:
                        is_damaged = run.key in self._without_command and status
                        self._without_command.discard(run.key)
                        why = DAMAGED if is_damaged else reason
                        known.append([job, index, attempt, status, why])
                if known:
                    turn.tell("end", tasks=known)

            with session.reporting():
                await self._engine.answer(take)
        if not (asked.ended or session.messages or self.is_closing) and asked.wait:
            with suppress(TimeoutError):
                await asyncio.wait_for(session.news.wait(), min(asked.wait, self._poll))
        if session.id not in self.sessions.by_id:
            raise StaleSessionError("join again")
        return await self._orders(session)

    async def _orders(self, session: Session) -> dict[str, Any]:
        """Return the next orders, within the size of an answer that a worker reads."""
        orders: dict[str, list[Any]] = {"start": [], "stop": [], "logs": []}
        seen = 0
        for message in session.first_messages():
            orders[message.kind].append(message.what)
            seen = message.number
        if seen < session.sent:
            session.news.set()  # for the next request
        ids = {start[1].job for start in orders["start"]}
        specs = {}
        if ids:
            specs = self._journal.jobs.cached_specs(ids)
            if len(specs) < len(ids):
                specs = await asyncio.to_thread(self._journal.jobs.specs, ids)
                keys = (start[1] for start in orders["start"])
                self._without_command.update(key for key in keys if key.job not in specs)
        return {"seen": seen, **orders, "jobs": specs}

    async def logs(self, session: Session, what: tuple[Any, ...]) -> LogsPiece:
        """Ask a worker for a piece of a task's output: server, key, stream and offset."""
        name, reading = secrets.token_hex(8), LogsRequest(what[0])
        self._readings[name] = reading
        session.tell("logs", (name, *what))
        try:
            return await asyncio.wait_for(reading.answer, LOGS_SECONDS)
        except TimeoutError:
            raise UnavailableError(f"server {what[0]!r} does not answer") from None
        finally:
            self._readings.pop(name, None)

    def take_logs(self, piece: LogsPiece, who: Token) -> bool:
        """Pass a piece of output to its waiting request; return whether there is one."""
        session = self.sessions.by_id.get(piece.session)
        reading = self._readings.get(piece.request)
        if session is None or session.owner != who.name:
            return False
        if reading is None or reading.server not in session.servers or reading.answer.done():
            return False
        with suppress(ValueError):
            base64.b64decode(piece.data, validate=True)
            reading.answer.set_result(piece)
        return True

    async def watch_silence(self) -> None:
        """Place nothing on servers that are silent, and give them up after a while."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(FairleadError):
                gone = set(self.sessions.silent_for(self._grace))
                silent = set(self.sessions.silent_for(self._silent)) - gone
                silent -= self.sessions.unreachable
                await self._mark("unreachable", sorted(silent))
                self.sessions.unreachable |= silent
                await self._mark("lost", sorted(gone))
                for name in gone:
                    self.sessions.forget(name)

    async def _mark(self, kind: str, names: Sequence[str]) -> None:
        """Mark servers a few at a time, so that a whole network's silence holds up no decisions."""
        for at in range(0, len(names), MARKED_AT_ONCE):
            await self._engine.answer(
                partial(_mark, kind=kind, names=names[at : at + MARKED_AT_ONCE])
            )


def _mark(turn: Turn, kind: str, names: Sequence[str]) -> None:
    """Mark servers as unreachable or lost."""
    for name in names:
        machine = turn.state.servers.get(name)
        if machine is not None and not machine.lost:
            turn.tell(kind, name=name)


def _check_holders(state: ServiceState, asked: JoinRequest) -> None:
    for server in asked.servers:
        there = state.servers.get(server.name)
        if there is not None and (there.lost or there.identity != asked.identity):
            fault = "is held by another worker, until that is given up"
            raise InputError(fault, f"server {server.name!r:.60}")


def _add(turn: Turn, asked: JoinRequest, first: int) -> int:
    """Add servers from a position on for a while; return the position of the next one.

    Each turn of the engine holds up all other requests, so a long list takes several.
    """
    until = monotonic() + JOIN_SECONDS
    for at, server in enumerate(asked.servers[first:], first):
        if at > first and monotonic() > until:
            return at
        capacity = {"cpu": server.cpu, "memory": server.memory, "gpu": server.gpu}
        was_drained = {"drained": True} if server.name in turn.state.drained else {}
        turn.tell(
            "server",
            name=server.name,
            capacity=capacity | server.resources,
            labels=server.labels,
            identity=asked.identity,
            **was_drained,
        )
    return len(asked.servers)


def _runs_of(turn: Turn, asked: JoinRequest) -> list[Running]:
    """Return the running tasks of servers that were just added."""
    runs: list[Running] = []
    for server in asked.servers:
        there = turn.state.servers.get(server.name)
        if there is None or there.lost or there.identity != asked.identity:
            raise UnavailableError(f"server {server.name!r:.60} was given up meanwhile; join again")
        runs += [run for run in there.running.values() if not run.is_over]
    return runs
