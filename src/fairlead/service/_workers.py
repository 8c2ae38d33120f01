"""The service's side of its workers: joins, reports, orders, and requests for output."""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
from collections.abc import Sequence, Set
from contextlib import nullcontext, suppress
from functools import partial
from time import monotonic, time
from typing import Any

from fairlead.errors import FairleadError, InputError
from fairlead.scheduler.explanation import list_in_words
from fairlead.service._state_thread import StateThread, Transaction
from fairlead.service.jobs import Running, TaskKey
from fairlead.service.journal.event_journal import Journal
from fairlead.service.journal.job_records import DAMAGED
from fairlead.service.journal.tokens import Caller
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
from fairlead.service.sessions import Session, Sessions, StartOrder

LOG = logging.getLogger("fairlead.service")
MOST_NAMED = 5  # servers in a line of the log
MARKED_AT_ONCE = 20  # servers that become unreachable or lost in one transaction
JOIN_SECONDS = 0.05  # longest transaction that adds servers
MOST_SERVERS = 10_000  # of one worker's token
SILENT_SECONDS = 15.0  # after the last request of a worker; then its servers get no new tasks
POLL_SECONDS = 10.0  # for which a worker's request waits for orders
CHECK_SECONDS = 1.0  # between checks for silent workers
LOGS_SECONDS = 10.0  # for a worker to send output
NEW_NAMES_SECONDS = 60.0  # between new names of resources by one worker's token


class Workers:
    """The service's side of its workers; its methods are for the event loop's thread."""

    def __init__(self, state_thread: StateThread, journal: Journal, grace: float) -> None:
        self.sessions = Sessions()
        self.lost: dict[str, float] = {}  # by server lost after the grace: time of the loss
        self.is_closing = False
        self._state_thread, self._journal = state_thread, journal
        self._silent_after, self._grace = min(SILENT_SECONDS, grace / 2), grace  # seconds
        # Less than `_silent_after`, so that a waiting worker counts as responding.
        self._poll = min(POLL_SECONDS, self._silent_after / 2)
        # By id of a request for output: the server, and the future of the answer.
        self._log_requests: dict[str, tuple[str, asyncio.Future[LogsPiece]]] = {}
        self._without_command: set[TaskKey] = set()  # tasks with damaged commands, which will fail
        self._new_names_lock = asyncio.Lock()
        self._new_names: dict[str, float] = {}  # by name of a token: when it last added a resource

    async def join(self, request: JoinRequest, caller: Caller) -> dict[str, Any]:
        """Add or reconnect a worker's servers; return its session and their running tasks."""
        names = {server.name for server in request.servers}
        if len(names) < len(request.servers):
            raise InputError("names a server twice", "servers")
        is_of_one_server = caller.role == "worker" and bool(caller.subject)
        if is_of_one_server and names != {caller.subject}:
            named = ", ".join(map(repr, sorted(names)))
            raise DeniedError(f"this token is for server {caller.subject!r}, not {named:.100}")
        session = Session(request.identity, names, caller.name)
        self.sessions.begin_join(session)
        resources = {name for server in request.servers for name in server.resources}

        def check(tx: Transaction) -> list[str]:
            """Check the join; return the worker's earlier servers that it no longer names."""
            _check_no_other_worker(tx.state, request)
            self._check_new_names(tx.state, resources, names, caller)
            if is_of_one_server:
                return []  # the token may not remove other servers
            mine = (s for s in tx.state.servers.values() if s.identity == request.identity)
            return [server.name for server in mine if server.name not in names]

        has_new_names = not resources <= set(self._state_thread.state.resources)
        try:
            self._check_number_of_servers(session, caller)
            # One join at a time, because the limit counts the new names of other joins, too.
            async with self._new_names_lock if has_new_names else nullcontext():
                gone = await self._state_thread.run(check)
                await self._mark("lost", gone)
                at = 0
                while at < len(request.servers):
                    at = await self._state_thread.run(partial(_add, request=request, first=at))
            runs = await self._state_thread.run(partial(_tasks_to_send, request=request))
        except BaseException:
            self.sessions.end_join(session)
            # Some servers may have been added. They become lost unless their worker joins in time.
            self.sessions.expect(names - self.sessions.by_server.keys())
            raise
        self.sessions.join(session, runs)
        for name in gone:
            self.sessions.forget(name)
        tasks = [(run.server, run.key) for run in runs]
        return {"session": session.id, "wait": self._poll, "tasks": tasks}

    def _check_number_of_servers(self, session: Session, caller: Caller) -> None:
        """Limit the servers of one worker's token, over all of its workers."""
        if caller.role != "worker":
            return
        if len(session.servers) > MOST_SERVERS:
            raise InputError(
                f"one worker's token registers at most {MOST_SERVERS:,} servers, "
                f"not {len(session.servers):,}",
                "servers",
            )
        others = sum(
            len(other.servers)
            for other in self.sessions.all()
            if other.owner == caller.name and other.identity != session.identity
        )
        if others + len(session.servers) > MOST_SERVERS:
            raise FullError(
                f"this token has registered {others:,} servers; {len(session.servers):,} more "
                f"exceed the limit of {MOST_SERVERS:,}"
            )

    def _check_new_names(
        self, state: ServiceState, resources: Set[str], joining: Set[str], caller: Caller
    ) -> None:
        """Limit new names of resources, because each rebuilds the scheduler.

        `resources` are those of the `joining` servers.
        """
        new = resources - set(state.resources)
        if not new:
            return
        if len(state.resources_with(resources, joining)) > MOST_RESOURCES:
            raise InputError(
                f"all servers together have at most {MOST_RESOURCES} resources", "resources"
            )
        now = monotonic()
        if caller.role == "worker":
            latest = self._new_names.get(caller.name, -NEW_NAMES_SECONDS)
            if now - latest < NEW_NAMES_SECONDS:
                raise FullError(
                    f"one token may add names of resources only every {NEW_NAMES_SECONDS:.0f} s; "
                    f"try {min(new)!r:.60} again later"
                )
            self._new_names[caller.name] = now

    async def sync(self, request: SyncRequest, caller: Caller) -> dict[str, Any]:
        """Record ended tasks; return the worker's next orders, after at most `request.wait` s."""
        session = self.sessions.by_id.get(request.session)
        if session is None or session.owner != caller.name:
            raise StaleSessionError("join again")
        session.last_request = monotonic()
        session.note_seen(request.seen)
        responding_again = session.servers & self.sessions.unreachable
        if request.ended or responding_again:
            self.sessions.unreachable -= responding_again

            def record(tx: Transaction) -> None:
                for name in sorted(responding_again & tx.state.servers.keys()):
                    tx.apply("reached", name=name)
                known = []
                for job, index, attempt, status, reason in request.ended:
                    run = tx.state.find(TaskKey(job, index, attempt))
                    if run is not None and not run.is_over and run.server in session.servers:
                        why = reason
                        if run.key in self._without_command:
                            self._without_command.discard(run.key)
                            why = DAMAGED if status else reason  # status None: it will run again
                        known.append([job, index, attempt, status, why])
                if known:
                    tx.apply("end", tasks=known)

            with session.reporting():
                await self._state_thread.run(record)
        if request.wait and not (request.ended or session.messages or self.is_closing):
            # Not `wait_for`: in Python 3.11 it may ignore a cancellation when the event is set.
            with suppress(TimeoutError):
                async with asyncio.timeout(min(request.wait, self._poll)):
                    await session.wake_up.wait()
        if session.id not in self.sessions.by_id:
            raise StaleSessionError("join again")
        return await self._orders(session)

    async def _orders(self, session: Session) -> dict[str, Any]:
        """Return the next orders, as many as fit into one answer."""
        orders: dict[str, list[Any]] = {"start": [], "stop": [], "logs": []}
        last = 0
        for message in session.first_messages():
            orders[message.kind].append(message.content)
            last = message.number
        if last < session.last_number:
            session.wake_up.set()  # so that the next request gets the other orders at once
        starts: list[StartOrder] = orders["start"]
        ids = {start.key.job for start in starts}
        specs = self._journal.jobs.cached_specs(ids)
        if len(specs) < len(ids):
            specs = await asyncio.to_thread(self._journal.jobs.specs, ids)
            keys = (start.key for start in starts)
            self._without_command.update(key for key in keys if key.job not in specs)
        # Devices are sent separately: workers of earlier versions expect starts without them.
        devices = [start.devices for start in starts]
        orders["start"] = [(s.server, s.key, s.demand, s.time_limit) for s in starts]
        return {"seen": last, **orders, "devices": devices, "jobs": specs}

    async def logs(
        self, session: Session, server: str, key: TaskKey, stream: str, offset: int
    ) -> LogsPiece:
        """Request a piece of a task's output from its worker, from a byte offset."""
        request = secrets.token_hex(8)
        answer: asyncio.Future[LogsPiece] = asyncio.get_running_loop().create_future()
        self._log_requests[request] = server, answer
        session.queue("logs", (request, server, key, stream, offset))
        try:
            async with asyncio.timeout(LOGS_SECONDS):
                return await answer
        except TimeoutError:
            raise UnavailableError(f"server {server!r} does not answer") from None
        finally:
            self._log_requests.pop(request, None)

    def take_logs(self, piece: LogsPiece, caller: Caller) -> bool:
        """Pass a piece of output to the request that waits for it; return whether there is one."""
        session = self.sessions.by_id.get(piece.session)
        if session is None or session.owner != caller.name:
            return False
        if piece.request not in self._log_requests:
            return False
        server, answer = self._log_requests[piece.request]
        if server not in session.servers or answer.done():
            return False
        with suppress(ValueError):
            base64.b64decode(piece.data, validate=True)
            answer.set_result(piece)
        return True

    async def watch_responses(self) -> None:
        """Mark servers without a responding worker as unreachable, and later as lost."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            with suppress(FairleadError):
                gone = set(self.sessions.silent_for(self._grace))
                silent = set(self.sessions.silent_for(self._silent_after)) - gone
                silent -= self.sessions.unreachable
                await self._mark("unreachable", sorted(silent))
                self.sessions.unreachable |= silent
                await self._mark("lost", sorted(gone))
                for name in gone:
                    self.sessions.forget(name)
                    self.lost[name] = time()
                if gone:
                    names = list_in_words(sorted(gone)[:MOST_NAMED])
                    LOG.warning(
                        "servers lost after %g s without a request of their workers: %s; "
                        "their tasks run again",
                        self._grace,
                        names + (f" and {n:,} more" if (n := len(gone) - MOST_NAMED) > 0 else ""),
                    )

    async def _mark(self, kind: str, names: Sequence[str]) -> None:
        """Mark servers, a few in each transaction, so that many do not delay other requests."""

        def mark(tx: Transaction, some: Sequence[str]) -> None:
            for name in some:
                server = tx.state.servers.get(name)
                if server is not None and not server.lost:
                    tx.apply(kind, name=name)

        for at in range(0, len(names), MARKED_AT_ONCE):
            await self._state_thread.run(partial(mark, some=names[at : at + MARKED_AT_ONCE]))


def _check_no_other_worker(state: ServiceState, request: JoinRequest) -> None:
    """Raise `InputError` for a server that another worker has registered."""
    for server in request.servers:
        known = state.servers.get(server.name)
        if known is not None and (known.lost or known.identity != request.identity):
            # `WorkerLoop` recognises "held by another", and tries again.
            fault = "is held by another worker, until that is lost"
            raise InputError(fault, f"server {server.name!r:.60}")


def _add(tx: Transaction, request: JoinRequest, first: int) -> int:
    """Add servers from index `first` for 50 ms; return the index of the next server.

    A longer transaction would delay other requests.
    """
    until = monotonic() + JOIN_SECONDS
    for at, server in enumerate(request.servers[first:], first):
        if at > first and monotonic() > until:
            return at
        capacity = {"cpu": server.cpu, "memory": server.memory, "gpu": server.gpu}
        was_drained = {"drained": True} if server.name in tx.state.drained else {}
        tx.apply(
            "server",
            name=server.name,
            capacity=capacity | server.resources,
            labels=server.labels,
            identity=request.identity,
            **was_drained,
        )
    return len(request.servers)


def _tasks_to_send(tx: Transaction, request: JoinRequest) -> list[Running]:
    """Return the tasks on a worker's servers, without those that wait for others to stop.

    Raises `UnavailableError` if a server was lost during the join.
    """
    runs: list[Running] = []
    for server in request.servers:
        known = tx.state.servers.get(server.name)
        if known is None or known.lost or known.identity != request.identity:
            raise UnavailableError(f"server {server.name!r:.60} was lost meanwhile; join again")
        runs += [run for run in known.running.values() if not run.is_over and not run.awaits]
    return runs
