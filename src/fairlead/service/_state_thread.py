"""The only thread that changes the state: it answers requests when their events are on disk.

It carries out the requests that arrived together, places tasks, writes and syncs all events once,
and only then answers (group commit). If such a batch fails, it reads the state from the journal
again and carries out the requests one by one, so that only requests that fail alone are refused.

Questions are requests that only read the state. They are answered between two batches, before all
waiting requests, so that a full queue does not delay them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from pydantic_core import from_json, to_json

from fairlead.errors import FairleadError, InputError
from fairlead.formats.queue_file import QueueFile
from fairlead.model.queues import JOBS, TASKS
from fairlead.scheduler.policies import parse_policy
from fairlead.service._forks import SnapshotFork
from fairlead.service.alerts import KINDS
from fairlead.service.bounds import INTERRUPTED
from fairlead.service.jobs import Effects, EndedAttempt
from fairlead.service.journal.event_journal import (
    PART_BYTES,
    Answer,
    Batch,
    Journal,
    JournalError,
    digest_of_placements,
)
from fairlead.service.messages import UnavailableError
from fairlead.service.rate_limits import CALLER
from fairlead.service.service_state import ServiceState

LOG = logging.getLogger("fairlead.service")
TICK = 2.0**-20  # times are multiples of it, so that differences are exact
PLACED_AT_ONCE = 500  # largest number of tasks placed before the next requests
PREEMPTING_AT_ONCE = 2000  # tasks that one round of preemption may start
REQUESTS_AT_ONCE = 100  # larger batches delay questions, and place no more tasks a second
SNAPSHOT_EVENTS = 50_000  # after which the next snapshot is written
FORK_SECONDS = 300.0  # after which a forked child that writes a snapshot is killed
RETRY_SECONDS = 1.0  # between attempts to read the journal after a failure
QUESTION_SECONDS = 0.1  # for questions between two batches; a single one may take longer
LEAST_WAIT, MOST_WAIT = 1.0, 3600.0  # bounds on the wait for the scheduler's `next_moment`
ROUND_SECONDS = 1.0  # shortest time between rounds of preemption
ROUND_FACTOR = 20  # the pause after a round is at least this multiple of the time that it took
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)  # seconds
OUTCOMES = ("finished", "failed", "cancelled", "lost")
UNWRITABLE = "nothing has changed, because the journal cannot be written"
INTERNAL = "nothing has changed, because of an internal error; the service's log has more"

# The creation time of each metric would double the page.
disable_created_metrics()  # type: ignore[no-untyped-call]


@dataclass
class Transaction:
    """The state and the batch of events while a request is carried out."""

    state: ServiceState  # to read; `apply` changes it
    now: float  # seconds since 1970
    batch: Batch

    def apply(self, kind: str, **body: Any) -> Any:
        """Carry out an event and add it to the batch; return its outcome."""
        written = to_json(body)  # first: an event that cannot be written changes nothing
        outcome = self.state.apply(kind, body, self.now)
        self.batch.add(self.now, kind, written)
        return outcome


Outcome = TypeVar("Outcome")
Request = Callable[[Transaction], Any]


@dataclass(slots=True)
class QueuedRequest:
    """A request in the queue."""

    request: Request
    key: str  # idempotency key, or empty
    digest: str  # of the content of a request with a key
    outcome: Future[Any]
    arrived: float  # time by the monotonic clock
    seconds: float = 0.0  # time of the state's thread that it took

    def settle(self, answer: Any, fault: Exception | None = None) -> None:
        """Pass the answer or the error to the caller if it still waits."""
        if self.outcome.done() or not self.outcome.set_running_or_notify_cancel():
            return
        if fault is None:
            self.outcome.set_result(answer)
        else:
            self.outcome.set_exception(fault)

    def fail(self, fault: Exception) -> None:
        self.settle(None, fault)


async def _charged(queue: Callable[[], QueuedRequest]) -> Any:
    """Queue a request, and charge its time to the current caller; return its outcome."""
    caller = CALLER.get()
    if caller is None:
        return await asyncio.wrap_future(queue().outcome)
    async with caller.at_once:
        caller.check()
        queued = queue()
        try:
            return await asyncio.wrap_future(queued.outcome)
        finally:
            caller.charge(seconds=queued.seconds)


class Counters:
    """Counters and histograms since the start of the service, and the present alerts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.decision = self._histogram(
            "decision_seconds", "Seconds from a request's arrival until its change is on disk."
        )
        self.cycle = self._histogram(
            "cycle_seconds", "Seconds to carry out requests and place tasks."
        )
        self.commit = self._histogram("commit_seconds", "Seconds to write and sync the journal.")
        self.refused = self._counter("requests_refused", "Answers of status 400 or above.", "code")
        self.alerts = Gauge("fairlead_alerts", "Present alerts.", ["kind"], registry=self.registry)
        self._placements = self._counter("placements", "Started tasks.")
        self._ended = self._counter("tasks_ended", "Ended attempts of tasks.", "outcome")
        self._events = self._counter("events", "Events on disk.", "kind")
        for kind in KINDS:
            self.alerts.labels(kind)
        for outcome in OUTCOMES:
            self._ended.labels(outcome)
        ProcessCollector(registry=self.registry)

    def count(self, kinds: Iterable[str], effects: Effects) -> None:
        """Count events that are on disk, and their effects."""
        for kind, n in Tally(kinds).items():
            self._events.labels(kind).inc(n)
        self._placements.inc(len(effects.starts))
        for outcome, n in Tally(map(_outcome, effects.attempts)).items():
            self._ended.labels(outcome).inc(n)

    def _histogram(self, name: str, what: str) -> Histogram:
        return Histogram(f"fairlead_{name}", what, buckets=BUCKETS, registry=self.registry)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"fairlead_{name}", what, labels, registry=self.registry)


def _outcome(attempt: EndedAttempt) -> str:
    if attempt.status is None:
        return "lost"
    if not attempt.status:
        return "finished"
    return "cancelled" if attempt.reason in ("cancelled", INTERRUPTED) else "failed"


class StateThread:
    """Carries out requests one after the other, in its own thread.

    It calls `publish` with the effects of each committed batch, and `rebuilt` with the state after
    it was read from the journal again.
    """

    def __init__(
        self,
        journal: Journal,
        policy: str | None,
        seed: int | None,
        publish: Callable[[Effects], None],
        rebuilt: Callable[[ServiceState], None],
        queues: QueueFile | None = None,
    ) -> None:
        self.journal = journal
        self.counters = Counters()
        self._publish, self._rebuilt = publish, rebuilt
        self._requests: SimpleQueue[QueuedRequest | None] = SimpleQueue()
        self._questions: SimpleQueue[QueuedRequest] = SimpleQueue()
        self._thread = Thread(target=self._loop, name="state", daemon=True)
        self.ready = False
        self.fault = ""  # for callers; the log has the details
        self._fork: SnapshotFork | None = None
        self._latest = self._latest_clock = 0.0  # the last time, and the monotonic clock then
        self._next_round = 0.0  # earliest next round of preemption, by the monotonic clock
        self._recover(policy or "drf/best-fit")
        self._first_events = self._events_of_options(policy, seed, queues)

    def _events_of_options(
        self, policy: str | None, seed: int | None, queues: QueueFile | None
    ) -> list[tuple[str, dict[str, Any]]]:
        """Return kind and body of the events that carry out the options, before any request.

        Raises `InputError` for an unusable policy or seed, or if the policy does not serve the tree
        of queues, its limits or quotas.
        """
        events: list[tuple[str, dict[str, Any]]] = []
        scheduler = self.state.scheduler
        wanted_policy = policy or scheduler.policy.name
        wanted_seed = scheduler.seed if seed is None else seed
        ServiceState(wanted_policy, wanted_seed)  # the event would fail after the start, unnoticed
        is_current = (wanted_policy, wanted_seed) == (scheduler.policy.name, scheduler.seed)
        # A new journal also records the default, so that it always names its policy. The event also
        # replaces the scheduler of an earlier journal, which does not count GPUs by device.
        if not self.journal.seq or not is_current or not scheduler.counts_devices:
            events.append(("policy", {"policy": wanted_policy, "seed": wanted_seed}))
        state = self.state
        tree: dict[str, Any] = {
            "rows": state.queue_rows,
            "users": state.queue_of,
            "limits": state.limits,
            **({"quotas": state.quotas} if state.quotas else {}),
        }
        old_tree = tree
        if queues is not None:
            tree = queues.to_dict(list(state.users))
        if tree != old_tree:
            events.append(("queues", tree))
            if not tree["rows"] and not tree.get("quotas"):
                # The new policy may serve neither, so the old queues and quotas are removed first.
                events.reverse()
        if tree["rows"]:
            parse_policy(wanted_policy).require_trees()
        if any(limit.keys() - {TASKS, JOBS} for limit in tree["limits"].values()):
            parse_policy(wanted_policy).require_amounts()
        if tree.get("quotas"):
            parse_policy(wanted_policy).require_quotas()
        return events

    def start(self) -> None:
        for kind, body in self._first_events:
            self.enqueue(partial(Transaction.apply, kind=kind, **body))
        self.ready = True
        self._thread.start()

    def stop(self) -> None:
        """Carry out the queued requests, save a snapshot, and end."""
        self._requests.put(None)
        self._thread.join()

    def enqueue(
        self, request: Callable[[Transaction], Outcome], key: str = "", digest: str = ""
    ) -> Future[Outcome]:
        """Queue a request; the future gets its outcome when all of its events are on disk."""
        return self._queue(request, key, digest).outcome

    async def run(
        self, request: Callable[[Transaction], Outcome], key: str = "", digest: str = ""
    ) -> Outcome:
        """Carry out a request of the current caller; return its outcome."""
        outcome: Outcome = await _charged(partial(self._queue, request, key, digest))
        return outcome

    async def ask(self, question: Callable[[Transaction], Outcome]) -> Outcome:
        """Answer a question of the current caller; it must change nothing."""
        outcome: Outcome = await _charged(partial(self._queue_question, question))
        return outcome

    def _queue(self, request: Request, key: str, digest: str) -> QueuedRequest:
        queued = QueuedRequest(request, key, digest, Future(), monotonic())
        self._requests.put(queued)
        return queued

    def _queue_question(self, question: Request) -> QueuedRequest:
        queued = QueuedRequest(question, "", "", Future(), monotonic())
        self._questions.put(queued)
        self._wake()
        return queued

    def _wake(self) -> None:
        self._queue(lambda _: None, "", "")

    # The thread

    def _loop(self) -> None:
        """Answer questions and carry out requests until `stop`; then save a snapshot."""
        is_last = False
        while not is_last:
            batch = self._next_requests()
            is_last = None in batch
            requests = [item for item in batch if item is not None]
            if not self.ready:
                self._retry()
            self._answer_questions()
            if self.ready:
                self._carry_out(requests)
            else:
                for queued in requests:
                    queued.fail(UnavailableError(self.fault))
        if self._fork is not None:
            self._fork.end()
        if self.ready:
            try:
                self._save()
            except JournalError as fault:
                LOG.warning("no snapshot could be kept", extra={"fault": str(fault)})

    def _next_requests(self) -> list[QueuedRequest | None]:
        """Wait for requests until the next time to place or preempt tasks; return them."""
        found: list[QueuedRequest | None] = []
        wait: float | None = None
        if not self.ready:
            wait = RETRY_SECONDS
        elif self.state.unplaced:
            wait = 0.0
        elif (due := self.state.scheduler.next_moment()) < math.inf:
            wait = min(max(due - time.time(), LEAST_WAIT), MOST_WAIT)
        elif self._may_preempt():
            wait = max(self._next_round - monotonic(), 0.0)
        with suppress(Empty):
            found.append(self._requests.get(timeout=wait))
            while len(found) < REQUESTS_AT_ONCE and found[-1] is not None:
                found.append(self._requests.get_nowait())
        return found

    def _answer_questions(self) -> None:
        """Answer waiting questions for a short time."""
        until = monotonic() + QUESTION_SECONDS
        with suppress(Empty):
            while monotonic() < until:
                self._answer(self._questions.get_nowait())
        if not self._questions.empty():
            self._wake()  # so that `_next_requests` does not wait

    def _answer(self, queued: QueuedRequest) -> None:
        """Answer a question; read the state again after an unexpected error."""
        if not self.ready:
            queued.fail(UnavailableError(self.fault))
            return
        if queued.outcome.cancelled():
            return
        tx, since = Transaction(self.state, self._next_time(), Batch()), monotonic()
        answer, refused = None, None
        try:
            answer = queued.request(tx)
            assert not tx.batch.events, "a question changed the state"
        except FairleadError as fault:
            refused = fault
        except BaseException:  # a defect: the journal is right, the state may not be
            LOG.exception("a question failed unexpectedly")
            refused = UnavailableError(INTERNAL)
            self._rebuild()
        queued.seconds = monotonic() - since
        queued.settle(answer, refused)

    def _carry_out(self, requests: list[QueuedRequest]) -> None:
        """Carry out requests together; if that fails, one by one."""
        seq_before = self.journal.seq
        fault = self._try(requests)
        if fault is None:
            return
        self._rebuild()
        # If the journal has the batch in spite of the error, do not write its events twice.
        if len(requests) == 1 or not self.ready or self.journal.seq != seq_before:
            for queued in requests:
                queued.fail(fault)
            return
        for queued in requests:
            if not self.ready:
                queued.fail(UnavailableError(self.fault))
            elif (fault := self._try([queued])) is not None:
                queued.fail(fault)
                self._rebuild()

    def _try(self, requests: list[QueuedRequest]) -> UnavailableError | None:
        """Carry out requests, place tasks, write events, and answer; return an error, if any."""
        began = monotonic()
        tx = Transaction(self.state, self._next_time(), Batch())
        done: list[tuple[QueuedRequest, Any, FairleadError | None]] = []
        changing: list[float] = []  # arrivals of the requests that changed something
        try:
            for queued in requests:
                if queued.outcome.cancelled():
                    continue
                events_before = len(tx.batch.events)
                done.append((queued, *self._outcome_of(queued, tx)))
                if len(tx.batch.events) > events_before:
                    changing.append(queued.arrived)
            self._place_and_preempt(tx)
            decided_at = monotonic()
            effects = self.state.take_effects()
            if tx.batch.events or tx.batch.answers:
                self.journal.commit(tx.batch, effects)
                written_at = monotonic()
                self.counters.commit.observe(written_at - decided_at)
                self.counters.cycle.observe(decided_at - began)
                for arrived in changing:
                    self.counters.decision.observe(written_at - arrived)
                self.counters.count((kind for _, kind, _ in tx.batch.events), effects)
        except JournalError as fault:
            LOG.error("the journal cannot be written", extra={"fault": str(fault)})
            return UnavailableError(f"{UNWRITABLE}: {fault}")
        except BaseException:  # a defect: the journal is right, the state may not be
            LOG.exception("a request failed unexpectedly")
            return UnavailableError(INTERNAL)
        self._publish(effects)
        for queued, answer, refused in done:
            queued.settle(answer, refused)
        if self.journal.seq - self._saved >= SNAPSHOT_EVENTS:
            self._save_in_fork()
        return None

    def _outcome_of(
        self, queued: QueuedRequest, tx: Transaction
    ) -> tuple[Any, FairleadError | None]:
        """Carry out a request; return its answer, or None and the reason why it is refused."""
        events_before, since = len(tx.batch.events), monotonic()
        try:
            answer = self._known_answer(tx, queued) if queued.key else None
            if answer is None:
                answer = queued.request(tx)
                # A repeated request that changes nothing gets the same answer anyway.
                if queued.key and len(tx.batch.events) > events_before:
                    tx.batch.answers[queued.key] = Answer(queued.digest, to_json(answer))
            refused = None
        except FairleadError as fault:
            answer, refused = None, fault
        queued.seconds += monotonic() - since
        return answer, refused

    def _place_and_preempt(self, tx: Transaction) -> None:
        """Place tasks if the state has changed or the time has come; preempt if a round is due."""
        if self.state.unplaced or self.state.scheduler.next_moment() <= tx.now:
            body = {"limit": PLACED_AT_ONCE}
            placed = digest_of_placements(self.state.apply("place", body, tx.now))
            tx.batch.add(tx.now, "place", to_json(body | {"placed": placed}))
        if self._may_preempt() and monotonic() >= self._next_round:
            self._preempt(tx)

    def _may_preempt(self) -> bool:
        """Return whether tasks wait under a policy with preemption."""
        scheduler = self.state.scheduler
        return bool(scheduler.policy.preempts) and any(
            user.pending for user in self.state.users.values()
        )

    def _preempt(self, tx: Transaction) -> None:
        """Run a round of preemption; a round that starts a task is an event."""
        body, began = {"limit": PREEMPTING_AT_ONCE}, monotonic()
        runs = self.state.apply("preempt", body, tx.now)
        if runs:
            tx.batch.add(tx.now, "preempt", to_json(body | {"placed": digest_of_placements(runs)}))
        took = monotonic() - began
        self._next_round = monotonic() + max(ROUND_SECONDS, ROUND_FACTOR * took)

    def _known_answer(self, tx: Transaction, queued: QueuedRequest) -> Any:
        """Return the earlier answer to an idempotency key, or None."""
        known = tx.batch.answers.get(queued.key) or self.journal.answer(queued.key)
        if known is None:
            return None
        if known.digest != queued.digest:
            raise InputError("was used for another request", "Idempotency-Key")
        return from_json(known.body)

    def _next_time(self) -> float:
        """Return the current time, later than all times in the journal.

        After the wall clock was set back, times advance with the monotonic clock until the wall
        clock has caught up. So durations stay right.
        """
        clock = monotonic()
        by_clock = self._latest + clock - self._latest_clock
        now = math.floor(max(time.time(), by_clock) / TICK) * TICK
        now = max(now, self.journal.last + TICK)
        self._latest, self._latest_clock = now, clock
        return now

    def _recover(self, policy: str) -> None:
        self.state, self.recovered = self.journal.recover(policy)
        self._saved = self.journal.seq - self.recovered  # the last event in a snapshot
        self._latest, self._latest_clock = self.journal.last, monotonic()

    def _rebuild(self) -> None:
        self.ready = False
        self._retry()

    def _retry(self) -> None:
        """Read the journal, and write a snapshot to test whether the journal can be written."""
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
        """Write a snapshot of the state into the journal."""
        data = self.state.snapshot()
        starts = range(0, len(data), PART_BYTES)
        self.journal.save(self.journal.seq, (data[at : at + PART_BYTES] for at in starts))
        self._saved = self.journal.seq

    def _save_in_fork(self) -> None:
        """Write the snapshot in a forked child, because a large state takes seconds."""
        if self._fork is not None and self._fork.reader.is_alive():
            if monotonic() - self._fork.since > FORK_SECONDS:
                self._fork.end()
            return
        try:
            if sys.platform == "linux":
                self._fork = SnapshotFork(self.state, self.journal)
            else:  # a process with threads cannot be forked there
                self._save()
        except (OSError, JournalError) as fault:
            LOG.warning("no snapshot could be kept", extra={"fault": str(fault)})
        self._saved = self.journal.seq
