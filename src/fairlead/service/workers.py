"""What workers tell the service and are told: they join, tasks end, tasks are to start."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any

from fairlead.errors import FairleadError, InputError
from fairlead.service.engine import Engine, Turn
from fairlead.service.jobs import Running, TaskKey
from fairlead.service.journal import Journal
from fairlead.service.messages import (
    DeniedError,
    FullError,
    JoinRequest,
    LogsPiece,
    StaleSessionError,
    SyncRequest,
    UnavailableError,
)
from fairlead.service.sessions import AT_ONCE, Session, Sessions
from fairlead.service.state import MOST_RESOURCES, ServiceState
from fairlead.service.tokens import Token

MARKED_AT_ONCE = 20  # servers that become unreachable or lost in one turn of the engine
POLL_SECONDS = 10.0  # for which a worker waits for news
LOOK_SECONDS = 1.0
LOGS_SECONDS = 10.0
LONGEST_SPECS = 4 * 2**20  # characters of jobs in one answer, which take up to six bytes each
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
        self._new_names: dict[str, float] = {}  # when a token last brought some, by its name

    async def join(self, asked: JoinRequest, who: Token) -> dict[str, Any]:
        """Have a worker's servers join, or come back; tell it what runs there.

        Servers of its that it does not name any more are lost.
        """
        names = {server.name for server in asked.servers}
        if len(names) < len(asked.servers):
            raise InputError("names a server twice", "servers")
        if who.role == "worker" and who.subject and names != {who.subject}:
            raise DeniedError(f"this token is for server {who.subject!r}")
        is_bound = who.role == "worker" and bool(who.subject)  # to one server; it touches no other
        session = Session(asked.identity, names, who.name)
        gone: list[str] = []
        self.sessions.begin(session)

        def take(turn: Turn) -> list[Running]:
            runs = []
            for server in asked.servers:
                there = turn.state.servers.get(server.name)
                if there is not None and (there.lost or there.identity != asked.identity):
                    fault = "is held by another worker, until that is given up"
                    raise InputError(fault, f"server {server.name!r:.60}")
            self._check_new_names(turn.state, asked, who)
            for machine in list(turn.state.servers.values()):
                is_gone = machine.identity == asked.identity and machine.name not in names
                if is_gone and not machine.lost and not is_bound:
                    turn.tell("lost", name=machine.name)
                    gone.append(machine.name)
            for server in asked.servers:
                capacity = {"cpu": server.cpu, "memory": server.memory, "gpu": server.gpu}
                capacity |= server.resources
                turn.tell(
                    "server",
                    name=server.name,
                    capacity=capacity,
                    labels=server.labels,
                    identity=asked.identity,
                )
                there = turn.state.servers[server.name]
                runs += [run for run in there.running.values() if not run.is_over]
            return runs

        try:
            runs = await self._engine.answer(take)
        except BaseException:
            self.sessions.give_up(session)
            self.sessions.expect(names - self.sessions.by_server.keys())  # some may have joined
            raise
        self.sessions.join(session, runs)
        for name in gone:
            self.sessions.forget(name)
        tasks = [(run.server, run.key) for run in runs]
        return {"session": session.id, "wait": self._poll, "tasks": tasks}

    def _check_new_names(self, state: ServiceState, asked: JoinRequest, who: Token) -> None:
        """Limit the names of resources that workers bring: each new one rebuilds the scheduler."""
        coming = {name for server in asked.servers for name in server.resources}
        new = coming - set(state.resources)
        if not new:
            return
        changed = {server.name for server in asked.servers}
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
        """Hear what ended, and return what is to do, at once or when there is something."""
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
                        known.append([job, index, attempt, status, reason])
                if known:
                    turn.tell("end", tasks=known)

            await self._engine.answer(take)
        if not (asked.ended or session.messages or self.is_closing) and asked.wait:
            with suppress(TimeoutError):
                await asyncio.wait_for(session.news.wait(), min(asked.wait, self._poll))
        if session.id not in self.sessions.by_id:
            raise StaleSessionError("join again")
        return await self._orders(session)

    async def _orders(self, session: Session) -> dict[str, Any]:
        """Return the next orders, within the size of an answer that a worker reads."""
        messages = list(islice(session.messages, AT_ONCE))
        ids = {what[1].job for _, kind, what in messages if kind == "start"}
        known = {}
        if ids:
            known = self._journal.jobs.cached_specs(ids)
            if len(known) < len(ids):
                known = await asyncio.to_thread(self._journal.jobs.specs, ids)
        orders: dict[str, list[Any]] = {"start": [], "stop": [], "logs": []}
        specs: dict[int, dict[str, Any]] = {}
        seen, length = 0, 0
        for number, kind, what in messages:
            if kind == "start" and (job := what[1].job) in known and job not in specs:
                length += _length(known[job])
                if specs and length > LONGEST_SPECS:
                    break
                specs[job] = known[job]
            orders[kind].append(what)
            seen = number
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

    def take_logs(self, piece: LogsPiece, who: Token) -> None:
        """Hand a piece of output to whoever asked for it."""
        session = self.sessions.by_id.get(piece.session)
        reading = self._readings.get(piece.request)
        if session is None or session.owner != who.name:
            return
        if reading is None or reading.server not in session.servers:
            return
        if not reading.answer.done():
            with suppress(ValueError):
                base64.b64decode(piece.data, validate=True)
                reading.answer.set_result(piece)

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


def _length(spec: dict[str, Any]) -> int:
    """Return about how many characters a job's command and environment have."""
    environment = spec.get("environment") or {}
    return sum(map(len, (*spec.get("command", ()), *environment, *environment.values())))


def _mark(turn: Turn, kind: str, names: Sequence[str]) -> None:
    """Mark servers as unreachable or lost."""
    for name in names:
        machine = turn.state.servers.get(name)
        if machine is not None and not machine.lost:
            turn.tell(kind, name=name)
