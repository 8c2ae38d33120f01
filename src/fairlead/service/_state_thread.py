"""The one thread that changes the state: requests in, answers after their events are on disk.

Requests that arrived together are carried out together, tasks are placed, all events are written
and synced once, and only then are answers given (group commit). When a batch fails, the state is
read from the journal again and its requests are carried out one by one, so that a request which
cannot be committed is refused alone.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import closing, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, Protocol, TypeVar

from pydantic_core import from_json, to_json

from fairlead.errors import FairleadError, InputError
from fairlead.service._counters import Tally
from fairlead.service.jobs import Effects
from fairlead.service.journal.event_journal import PART_BYTES, Answer, Batch, Journal
from fairlead.service.journal.journal_tables import JournalError
from fairlead.service.journal.repeated_events import digest_of_placements
from fairlead.service.messages import UnavailableError
from fairlead.service.service_state import ServiceState

LOG = logging.getLogger("fairlead.service")
TICK = 2.0**-20  # moments are multiples of it, so that differences are exact
PLACED_AT_ONCE = 2000  # tasks, before others are heard
HEARD_AT_ONCE = 500  # requests
SNAPSHOT_EVENTS = 50_000
COPY_SECONDS = 300.0  # that a copy of the process may take for a snapshot
RETRY_SECONDS = 1.0
LEAST_WAIT, MOST_WAIT = 1.0, 3600.0  # seconds before tasks are placed again, without an event
UNWRITABLE = "nothing has changed, as the journal cannot be written"
INTERNAL = "nothing has changed, because of an internal error; the service's log has more"


@dataclass
class Turn:
    """The state, and the batch of events, while a request is carried out.

    Attributes
    ----------
    state : ServiceState
        To read; `tell` changes it.
    now : float
        Seconds since 1970.
    """

    state: ServiceState
    now: float
    batch: Batch

    def tell(self, kind: str, **body: Any) -> Any:
        """Carry out an event and add it to the batch; return its outcome."""
        written = to_json(body)  # first: an event that cannot be written changes nothing
        outcome = self.state.apply(kind, body, self.now)
        self.batch.note(self.now, kind, written)
        return outcome


Answered = TypeVar("Answered")
Request = Callable[[Turn], Any]


@dataclass(slots=True)
class Asked:
    """A request that waits for its turn.

    Attributes
    ----------
    request : callable
    outcome : Future
    key, digest : str
        See `Engine.ask`.
    came : float
        When it arrived, by the monotonic clock.
    cost : Cost
        Grows by the time that the engine spends on it.
    """

    request: Request
    outcome: Future[Any]
    key: str
    digest: str
    came: float
    cost: Cost


@dataclass(slots=True)
class Cost:
    """Seconds of the engine's thread that a caller's request has taken."""

    seconds: float = 0.0


class Caller(Protocol):
    """A caller of the service, who is charged for the engine's time."""

    turns: asyncio.Semaphore  # how many of its requests may be with the engine at once

    def check(self) -> None:
        """Refuse a request where too much time is spent already."""

    def charge_engine(self, seconds: float) -> None:
        """Count the time that a request took."""


CALLER: ContextVar[Caller | None] = ContextVar("CALLER", default=None)
"""The caller of the request that is being answered."""


class Engine:
    """Carries out requests one after the other, in a thread of its own.

    Parameters
    ----------
    journal : Journal
    policy : str, optional
        The policy from now on; that of the journal when absent, or ``drf/best-fit``.
    seed : int, optional
        Its seed from now on; that of the journal when absent, or 0.
    publish : callable
        Told what followed from events, after they are on disk; in the engine's thread.
    rebuilt : callable
        Told when the state was read from the journal again.
    """

    def __init__(
        self,
        journal: Journal,
        policy: str | None,
        seed: int | None,
        publish: Callable[[Effects], None],
        rebuilt: Callable[[ServiceState], None],
    ) -> None:
        self.journal = journal
        self.tally = Tally()
        self._publish, self._rebuilt = publish, rebuilt
        self._requests: SimpleQueue[Asked | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="engine", daemon=True)
        self.ready = False
        self.fault = ""  # for callers; the log has the details
        self._copy: Copy | None = None
        self._latest = self._latest_clock = 0.0  # the last moment, and the clock then
        self._recover(policy or "drf/best-fit")
        scheduler = self.state.scheduler
        had = scheduler.policy.name, scheduler.seed
        wanted = policy or scheduler.policy.name, scheduler.seed if seed is None else seed
        # In a new journal also what the default is, so that the journal names it.
        is_new = not self.journal.seq or wanted != had
        self._wanted = wanted if is_new else None

    def start(self) -> None:
        """Begin to carry out requests."""
        if self._wanted is not None:
            policy, seed = self._wanted
            self.ask(lambda turn: turn.tell("policy", policy=policy, seed=seed))
        self.ready = True
        self._thread.start()

    def stop(self) -> None:
        """Carry out what has come in, keep a snapshot, and end."""
        self._requests.put(None)
        self._thread.join()

    def ask(
        self,
        request: Callable[[Turn], Answered],
        key: str = "",
        digest: str = "",
        cost: Cost | None = None,
    ) -> Future[Answered]:
        """Queue a request; its outcome comes when all its events are on disk.

        Parameters
        ----------
        request : callable
            With a key, its outcome must be writable as JSON.
        key, digest : str
            An idempotency key, and a digest of the request.
        cost : Cost, optional
            The time that the request takes is added to it.
        """
        outcome: Future[Answered] = Future()
        asked = Asked(request, outcome, key, digest, monotonic(), cost or Cost())
        self._requests.put(asked)
        return outcome

    async def answer(
        self, request: Callable[[Turn], Answered], key: str = "", digest: str = ""
    ) -> Answered:
        """Carry out a request of the present caller; see `ask`.

        A caller's requests wait for each other here, not with the engine, where those of others
        would wait for them.
        """
        caller = CALLER.get()
        if caller is None:
            return await asyncio.wrap_future(self.ask(request, key, digest))
        async with caller.turns:
            caller.check()
            cost = Cost()
            try:
                return await asyncio.wrap_future(self.ask(request, key, digest, cost))
            finally:
                caller.charge_engine(cost.seconds)

    # The thread

    def _run(self) -> None:
        while True:
            batch = self._heard()
            is_over = None in batch
            requests = [item for item in batch if item is not None]
            if not self.ready:
                self._retry()
            if self.ready:
                self._turn(requests)
            else:
                _fail([asked.outcome for asked in requests], UnavailableError(self.fault))
            if is_over:
                break
        if self._copy is not None:
            self._copy.end()
        if self.ready:
            try:
                self._save()
            except JournalError as fault:
                LOG.warning("no snapshot could be kept", extra={"fault": str(fault)})

    def _heard(self) -> list[Asked | None]:
        """Wait for requests, or for the time at which something is to do without any."""
        heard: list[Asked | None] = []
        try:
            if not self.ready:
                heard.append(self._requests.get(timeout=RETRY_SECONDS))
            elif self.state.unplaced:
                heard.append(self._requests.get_nowait())
            elif (moment := self.state.scheduler.next_moment()) < math.inf:
                seconds = min(max(moment - time.time(), LEAST_WAIT), MOST_WAIT)
                heard.append(self._requests.get(timeout=seconds))
            else:
                heard.append(self._requests.get())
            while len(heard) < HEARD_AT_ONCE and heard[-1] is not None:
                heard.append(self._requests.get_nowait())
        except Empty:
            pass
        return heard

    def _turn(self, requests: list[Asked]) -> None:
        """Carry out requests together; if that fails, one by one."""
        before = self.journal.seq
        fault = self._try(requests)
        if fault is None:
            return
        self._rebuild()
        # Where the batch is in the journal after all, carrying it out again would double it.
        if len(requests) == 1 or not self.ready or self.journal.seq != before:
            _fail([asked.outcome for asked in requests], fault)
            return
        for asked in requests:
            if (fault := self._try([asked])) is not None:
                _fail([asked.outcome], fault)
                self._rebuild()
            if not self.ready:
                break
        _fail([asked.outcome for asked in requests], UnavailableError(self.fault))

    def _try(self, requests: list[Asked]) -> UnavailableError | None:
        """Carry out requests, place, write, and answer; return why that failed, if it did.

        Then the state may differ from the journal.
        """
        began = monotonic()
        turn = Turn(self.state, self._moment(), Batch())
        done: list[tuple[Future[Any], Any, FairleadError | None]] = []
        changing: list[float] = []  # when requests came that changed something
        try:
            for asked in requests:
                if asked.outcome.cancelled():
                    continue
                before, since = len(turn.batch.events), monotonic()
                try:
                    answer = self._known(turn, asked.key, asked.digest) if asked.key else None
                    if answer is None:
                        answer = asked.request(turn)
                        # An answer that changed nothing is the same when asked again.
                        if asked.key and len(turn.batch.events) > before:
                            turn.batch.answers[asked.key] = Answer(asked.digest, to_json(answer))
                    done.append((asked.outcome, answer, None))
                except FairleadError as fault:
                    done.append((asked.outcome, None, fault))
                asked.cost.seconds += monotonic() - since
                if len(turn.batch.events) > before:
                    changing.append(asked.came)
            if self.state.unplaced or self.state.scheduler.next_moment() <= turn.now:
                limit = {"limit": PLACED_AT_ONCE}
                placed = digest_of_placements(self.state.apply("place", limit, turn.now))
                turn.batch.note(turn.now, "place", to_json(limit | {"placed": placed}))
            decided = monotonic()
            effects = self.state.take_effects()
            if turn.batch.events or turn.batch.answers:
                self.journal.commit(turn.batch, effects)
                written = monotonic()
                self.tally.commit.add(written - decided)
                self.tally.cycle.add(decided - began)
                for came in changing:
                    self.tally.decision.add(written - came)
                self.tally.note((kind for _, kind, _ in turn.batch.events), effects)
        except JournalError as fault:
            LOG.error("the journal cannot be written", extra={"fault": str(fault)})
            return UnavailableError(f"{UNWRITABLE}: {fault}")
        except BaseException:  # a defect: the journal is right, the state may not be
            LOG.exception("a request failed unexpectedly")
            return UnavailableError(INTERNAL)
        self._publish(effects)
        for outcome, answer, refused in done:
            if not outcome.set_running_or_notify_cancel():
                continue
            if refused is None:
                outcome.set_result(answer)
            else:
                outcome.set_exception(refused)
        if self.journal.seq - self._saved >= SNAPSHOT_EVENTS:
            self._save_aside()
        return None

    def _known(self, turn: Turn, key: str, digest: str) -> Any:
        """Return what was answered under a key, or None."""
        known = turn.batch.answers.get(key) or self.journal.answer(key)
        if known is None:
            return None
        if known.digest != digest:
            raise InputError("was used for another request", "Idempotency-Key")
        return from_json(known.body)

    def _moment(self) -> float:
        """Return the present moment, later than all that is written.

        While the wall clock is behind the last moment, because it was set back, moments go on at
        the pace of the monotonic clock: durations stay right.
        """
        clock = monotonic()
        paced = self._latest + clock - self._latest_clock
        now = math.floor(max(time.time(), paced) / TICK) * TICK
        now = max(now, self.journal.last + TICK)
        self._latest, self._latest_clock = now, clock
        return now

    def _recover(self, policy: str) -> None:
        self.state, self.recovered = self.journal.recover(policy)
        self._saved = self.journal.seq - self.recovered
        self._latest, self._latest_clock = self.journal.last, monotonic()

    def _rebuild(self) -> None:
        """Read the state from the journal again; not ready until that succeeds."""
        self.ready = False
        self._retry()

    def _retry(self) -> None:
        """Read the journal, and write a snapshot to try whether it can be written."""
        try:
            self._recover(self.state.scheduler.policy.name)
            self._save()
        except Exception as fault:
            LOG.error("the journal cannot be read and written", extra={"fault": str(fault)})
            self.fault = f"{UNWRITABLE}: {fault}" if isinstance(fault, JournalError) else INTERNAL
            return
        LOG.info("the journal was read again")
        self.ready, self.fault = True, ""
        self._rebuilt(self.state)

    def _save(self) -> None:
        data = self.state.snapshot()
        starts = range(0, len(data), PART_BYTES)
        self.journal.save(self.journal.seq, (data[at : at + PART_BYTES] for at in starts))
        self._saved = self.journal.seq

    def _save_aside(self) -> None:
        """Write the snapshot in a forked child, because a large state takes seconds."""
        if self._copy is not None and self._copy.keeper.is_alive():
            if monotonic() - self._copy.since > COPY_SECONDS:
                self._copy.end()
            return
        try:
            if sys.platform == "linux":
                self._copy = Copy(self.state, self.journal)
            else:  # where a process with threads cannot be copied
                self._save()
        except (OSError, JournalError) as fault:
            LOG.warning("no snapshot could be kept", extra={"fault": str(fault)})
        self._saved = self.journal.seq


class Copy:
    """A copy of this process that writes down the state as it is now, and a thread that keeps it.

    Raises
    ------
    OSError
        When there is no room for another process.
    """

    def __init__(self, state: ServiceState, journal: Journal) -> None:
        reading, writing = os.pipe()
        try:
            self.process = os.fork()
        except OSError:
            os.close(reading)
            os.close(writing)
            raise
        if not self.process:
            _write_down(state, writing)
        os.close(writing)
        self.since = monotonic()
        self.keeper = Thread(
            target=self._keep, args=(journal, journal.seq, reading), name="snapshot", daemon=True
        )
        self.keeper.start()

    def end(self) -> None:
        """Stop keeping events."""
        with suppress(ProcessLookupError):
            if self.keeper.is_alive():
                os.kill(self.process, signal.SIGKILL)
        self.keeper.join()

    def _keep(self, journal: Journal, seq: int, reading: int) -> None:
        try:
            with closing(self._parts(reading)) as parts:
                journal.save(seq, parts)
        except JournalError as fault:
            LOG.warning("no snapshot could be kept", extra={"fault": str(fault)})

    def _parts(self, reading: int) -> Generator[bytes]:
        """Yield what the copy wrote; raise where that is not all."""
        try:
            with os.fdopen(reading, "rb") as pipe:
                while part := pipe.read(PART_BYTES):
                    yield part
        finally:
            _, status = os.waitpid(self.process, 0)
        if status:
            raise JournalError(f"the copy of the process ended with status {status}")


def _write_down(state: ServiceState, writing: int) -> None:
    """Be the copy: write the snapshot into a pipe, and end without anything that was to come."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service decides what a Ctrl-C means
        gc.disable()  # it would touch, and so copy, all of the memory
        os.nice(5)
        os.dup2(writing, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))  # so that it holds no port and no lock
        with os.fdopen(3, "wb") as pipe:
            pipe.write(state.snapshot())
        status = 0
    finally:
        os._exit(status)


def _fail(outcomes: list[Future[Any]], fault: Exception) -> None:
    """Answer those requests with a fault that have no answer yet."""
    for outcome in outcomes:
        if not outcome.done() and outcome.set_running_or_notify_cancel():
            outcome.set_exception(fault)
