"""An agent: an actor of a driver that runs what the driver asked for, as the dispatcher says.

It belongs to the driver's job, so tasks have that job's code and environment, and end with it. A
task is handed to Ray when the dispatcher says where it starts, and not before: nothing queues in
Ray. Where calls of a function are short, several that wait go with one start, for `LEASE_SECONDS`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
import traceback
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ray
from ray import exceptions
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fairlead.errors import FairleadError
from fairlead.ray.cluster import MOVED, demand_of, ray_options
from fairlead.ray.dispatcher import PROTOCOL
from fairlead.ray.reach import NAME, NAMESPACE, NoDispatcherError
from fairlead.service.engines.protocol import Ending, Key

LOG = logging.getLogger("fairlead.ray")
LEASE_SECONDS = 0.05  # that short calls run on one start, at most
GATHER_SECONDS = 0.002  # in which calls become one job
# Until a lost task is told of, twice as long each time: Ray may take seconds to see that a node is
# gone, and until then the same node is tried again.
HELD_SECONDS = 0.5
LOOK_SECONDS = 0.5
STOPPED_SECONDS = 6.0  # in which another dispatcher may follow one that was stopped
MOST_TASKS = 100_000  # of a job
PART = 64  # results of a map that are handed over together, at most
SMALL = (type(None), bool, int, float, complex)  # results that go with the message
SHORT = 4096  # characters, of texts that do
ENDED = 143  # the status of what was told to end
LOST = (
    exceptions.NodeDiedError,
    exceptions.WorkerCrashedError,
    exceptions.LocalRayletDiedError,
    exceptions.ObjectLostError,
    exceptions.OutOfMemoryError,
    exceptions.TaskUnschedulableError,
)


class LostError(FairleadError):
    """A task was lost at each start: its worker or node died, or it took too much memory."""


class CallOptions(NamedTuple):
    """What is the same for calls that make one job.

    Attributes
    ----------
    kind : str
        ``tasks``, ``actor`` or ``group``.
    function : int
        By number, as `Agent.define` has it.
    request : str
        Amounts, and where, as a job request has them; JSON.
    attempts : int
        How often a call that is lost is made, at most.
    """

    kind: str
    function: int
    request: str
    attempts: int


class Stored:
    """A result that stays where it was made until somebody reads the message."""

    def __init__(self, values: Any, place: int, kind: str) -> None:
        self.values, self.place, self.kind = values, place, kind

    def __reduce__(self) -> tuple[Any, ...]:
        return _fetch, (self.values, self.place, self.kind)


def _fetch(values: Any, place: int, kind: str) -> Any:
    value = ray.get(values)[place]
    return ray.cloudpickle.loads(value) if kind == "packed" else value


@dataclass(eq=False)
class Item:
    """A call that is to be made, and where its outcome goes."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outcome: asyncio.Future[Any]
    batch: CallBatch | None = None
    index: int = 0
    key: Key | None = None  # under which it runs
    tries: int = 0  # that were lost
    is_alone: bool = False  # whether no other call goes with it, as one of several was lost

    @property
    def waits(self) -> bool:
        """Whether it is neither over nor running."""
        return self.key is None and not self.outcome.done()

    def take(self) -> Any:
        """Return its result, and refer to nothing of it any more: Ray keeps what is referred to."""
        value = self.outcome.result()
        self.args, self.kwargs = (), {}
        self.outcome = asyncio.get_running_loop().create_future()
        self.outcome.set_result(None)
        return value

    def fail(self, fault: BaseException) -> None:
        """End the call by an error, unless it is over."""
        if not self.outcome.done():
            self.outcome.set_exception(fault)


@dataclass(eq=False)
class CallBatch:
    """A job: calls by index, and how many of its starts are not over."""

    asked: CallOptions
    request: Mapping[str, Any]
    items: list[Item]
    job: str = ""
    starts_left: int = 0
    starts: dict[int, str] = field(default_factory=dict)  # of a group: ids of nodes, by index
    is_gone: bool = False  # whether the dispatcher has it no more

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for any of it."""
        return all(item.outcome.done() for item in self.items)


class Agent:
    """See the module; its methods are called by the driver.

    Parameters
    ----------
    name, user : str
        Its own name, and who asks.
    dispatcher : actor handle
    """

    def __init__(self, name: str, user: str, dispatcher: Any) -> None:
        self.name, self.user, self.dispatcher = name, user, dispatcher
        self.session, self.wait, self.seen = "", 0.0, 0
        self._functions: dict[int, bytes] = {}
        self._names: dict[int, str] = {}
        self._defined: dict[int, asyncio.Event] = {}
        self._bound: dict[tuple[CallOptions, str], Any] = {}
        self._gathered: dict[CallOptions, list[Item]] = {}
        self._batches: dict[str, CallBatch] = {}
        self._waiting: dict[CallOptions, deque[Item]] = {}  # calls for which a start is to come
        self._submits = self._is_asking = False  # calls that came in; and their ids are to come
        self._early: list[tuple[Key, str]] = []  # starts that came before them
        self._runs: dict[Key, Any] = {}  # a ref, an actor, its id, a group; None until it is there
        self._items: dict[Key, list[Item]] = {}
        self._over: dict[Key, Ending] = {}
        self._moved: set[Key] = set()  # what is stopped as its node was lost
        self._skipped: dict[str, list[int]] = {}
        self._cancelled: list[str] = []
        self._running: Counter[CallOptions] = Counter()  # tasks in Ray
        self._lasts: dict[int, float] = {}  # seconds of a call, by function
        self._awaited: dict[Any, list[asyncio.Future[None]]] = {}  # what calls take, by ref
        self._news = asyncio.Event()
        self._one_joins, self._one_finds = asyncio.Lock(), asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        # Ray takes what is started while it answers a call for that call's child, and cancels it
        # with the call. So what serves all calls runs as the child of one that is never cancelled.
        self._context = copy_context()

    # What the driver says

    async def begin(self) -> str:
        """Come to the dispatcher; return what it has against that, or nothing."""
        self._context = copy_context()
        fault = await self._join()
        if not fault:
            for loop in (self._hear, self._report, self._look):
                self._go(loop())
        return fault

    async def live(self) -> None:
        """Never answer; the call fails when this actor is gone."""
        await asyncio.Event().wait()

    async def define(self, number: int, function: bytes, name: str) -> None:
        """Register a function or a class under a number; only workers can unpickle it."""
        self._functions[number], self._names[number] = function, name
        self._defined.setdefault(number, asyncio.Event()).set()

    async def run(
        self, asked: CallOptions, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call a function where there is room, when it is the user's turn; return its result.

        Or make an actor, or a placement group, and return that.
        """
        item = Item(args, kwargs, asyncio.get_running_loop().create_future())
        try:
            await self._until_ready(asked, [item])
            self._gather(asked, [item])
            await asyncio.wait([item.outcome])
            return item.take()
        finally:
            self._give_up([item])

    async def map(
        self, asked: CallOptions, rows: Iterable[tuple[Any, ...]]
    ) -> AsyncIterator[list[Any]]:
        """Call a function for each row; yield the results in order, some at a time."""
        new = asyncio.get_running_loop().create_future
        items = [Item(args, {}, new()) for args in rows]
        try:
            await self._until_ready(asked, items)
            self._gather(asked, items)
            at = 0
            while at < len(items):
                await asyncio.wait([items[at].outcome])
                part: list[Any] = []
                for item in items[at : at + PART]:
                    if not item.outcome.done() or (part and item.outcome.exception()):
                        break
                    part.append(item.take())
                yield part
                at += len(part)
        finally:
            self._give_up(items)

    async def close(self) -> None:
        """Stop what runs, and drop what waits; the driver ends this actor then."""
        for task in list(self._tasks):
            task.cancel()  # else it would come back
        for key in [key for key, what in self._runs.items() if what is not None]:
            self._stop(key, "its driver leaves")
        await self.dispatcher.leave.remote(self.name)

    # Jobs

    async def _until_ready(self, asked: CallOptions, items: Sequence[Item]) -> None:
        """Wait until a function is known, and what calls take is there: not in Ray."""
        if asked.kind != "group":
            await self._defined.setdefault(asked.function, asyncio.Event()).wait()
        taken = (arg for item in items for arg in (*item.args, *item.kwargs.values()))
        refs = {arg for arg in taken if isinstance(arg, ray.ObjectRef)}
        if refs:
            if not self._awaited:
                self._go(self._see_what_is_there())
            waits = [asyncio.get_running_loop().create_future() for _ in refs]
            for ref, wait in zip(refs, waits, strict=True):
                self._awaited.setdefault(ref, []).append(wait)
            await asyncio.gather(*waits)

    async def _see_what_is_there(self) -> None:
        await asyncio.sleep(0)
        while self._awaited:
            ready, _ = await asyncio.to_thread(
                ray.wait, list(self._awaited), timeout=GATHER_SECONDS * 10, fetch_local=False
            )
            for ref in ready:
                for wait in self._awaited.pop(ref):
                    if not wait.done():
                        wait.set_result(None)

    def _gather(self, asked: CallOptions, items: Sequence[Item]) -> None:
        self._gathered.setdefault(asked, []).extend(items)
        if not self._submits:
            self._submits = True
            self._go(self._submit_gathered())

    async def _submit_gathered(self) -> None:
        """Submit what came in, and what comes in meanwhile: the busier, the more goes together."""
        try:
            while self._gathered:
                # Where short calls run already, more may come in before they are told of.
                is_busy = any(self._is_short(a) and self._running[a] for a in self._gathered)
                await asyncio.sleep(LEASE_SECONDS / 2 if is_busy else GATHER_SECONDS)
                gathered, self._gathered = self._gathered, {}
                batches = []
                for asked, items in gathered.items():
                    size = MOST_TASKS if asked.kind == "tasks" else 1
                    parts = [items[at : at + size] for at in range(0, len(items), size)]
                    batches += [CallBatch(asked, json.loads(asked.request), part) for part in parts]
                for batch in batches:
                    for index, item in enumerate(batch.items):
                        item.batch, item.index = batch, index
                await self._submit(batches)
        finally:
            self._submits = False

    async def _submit(self, batches: list[CallBatch]) -> None:
        key, jobs = secrets.token_hex(16), []
        for batch in batches:
            tasks = {} if batch.asked.kind == "group" else {"tasks": len(batch.items)}
            jobs.append(dict(batch.request) | tasks)
        ids = None
        self._is_asking = True
        try:
            while ids is None:
                asked = self.dispatcher
                try:
                    ids = await asked.submit.remote(self.name, self.session, key, jobs)
                    if ids is None and (refused := await self._join()):
                        raise NoDispatcherError(refused)
                except exceptions.ActorDiedError:
                    await self._find(asked)
        except NoDispatcherError as fault:
            for item in (item for batch in batches for item in batch.items):
                item.fail(fault)
            return
        except exceptions.RayError as fault:
            is_one_refused = len(batches) > 1 and isinstance(fault, exceptions.RayTaskError)
            for batch in batches:
                if is_one_refused:  # and with it all
                    await self._submit([batch])
                else:
                    for item in batch.items:
                        item.fail(fault)
            return
        finally:
            self._is_asking = False
        for batch, job in zip(batches, ids, strict=True):
            batch.job, batch.starts_left = job, len(batch.items)
            self._batches[job] = batch
            self._waiting.setdefault(batch.asked, deque()).extend(batch.items)
            self._give_up([item for item in batch.items if item.outcome.done()])
        early, self._early = self._early, []
        for start in early:
            self._start(*start)

    def _give_up(self, items: Sequence[Item]) -> None:
        """Stop abandoned calls, or prevent their start."""
        left = [item for item in items if not item.outcome.done() or item.outcome.cancelled()]
        for item in left:
            item.outcome.cancel()
        submitted = [item for item in left if item.batch and item.batch.job in self._batches]
        over = {batch.job for batch in {i.batch for i in submitted if i.batch} if batch.is_over}
        self._cancelled += sorted(over)
        for item in submitted:
            if item.batch is None or item.batch.job in over:
                continue
            if item.key is None:
                self._skip(item)
            elif all(other.outcome.done() for other in self._items.get(item.key, ())):
                self._stop(item.key, "cancelled")
        self._news.set()

    def _skip(self, item: Item) -> None:
        """Cancel the request to start a call."""
        assert item.batch is not None
        self._skipped.setdefault(item.batch.job, []).append(item.index)
        item.batch.starts_left -= 1
        self._news.set()

    # The dispatcher

    async def _join(self) -> str:
        """Come to the dispatcher, or come back to one that began again."""
        async with self._one_joins:
            handle = ray.get_runtime_context().current_actor
            answer = await self.dispatcher.join.remote(
                self.name, self.user, PROTOCOL, list(self._batches), handle
            )
            if "fault" in answer:
                await asyncio.sleep(LOOK_SECONDS)  # who asks again should not at once
                return str(answer["fault"])
            if self.session != answer["session"]:
                self.session, self.wait, self.seen = answer["session"], answer["wait"], 0
                self._news.set()
            return ""

    async def _find(self, gone: Any) -> None:
        """Come to the dispatcher that follows one that was stopped.

        Raises
        ------
        NoDispatcherError
            When none came for a while; what waits fails by it, too.
        """
        async with self._one_finds:
            latest = time.monotonic() + STOPPED_SECONDS
            while self.dispatcher is gone:
                with suppress(ValueError, exceptions.ActorDiedError):
                    found = await asyncio.to_thread(ray.get_actor, NAME, namespace=NAMESPACE)
                    if found._actor_id != gone._actor_id:
                        self.dispatcher, self.session = found, ""
                        await self._join()
                        return
                if time.monotonic() > latest:
                    fault = NoDispatcherError("the dispatcher of this Ray cluster was stopped")
                    self._fail_waiting(fault)
                    raise fault
                await asyncio.sleep(LOOK_SECONDS)

    def _fail_waiting(self, fault: NoDispatcherError) -> None:
        """Fail all waiting calls, as nothing will start them."""
        for item in (item for batch in self._batches.values() for item in batch.items):
            if item.waits:
                item.fail(fault)

    async def _hear(self) -> None:
        """Receive orders to start and stop tasks, for ever."""
        while True:
            session, asked = self.session, self.dispatcher
            try:
                told = await asked.sync.remote(self.name, session, self.seen, wait=self.wait)
                await self._carry_out(session, told)
            except exceptions.ActorDiedError:
                with suppress(NoDispatcherError):
                    await self._find(asked)

    async def _report(self) -> None:
        """Report ended and cancelled tasks until they are acknowledged."""
        while True:
            await self._news.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._news.clear()
            over, skipped, cancelled = list(self._over.values()), self._skipped, self._cancelled
            if not (over or skipped or cancelled):
                continue
            self._skipped, self._cancelled = {}, []
            session, asked, told = self.session, self.dispatcher, None
            try:
                told = await asked.sync.remote(
                    self.name, session, self.seen, over, skipped, cancelled
                )
                if told is not None:
                    for ending in over:
                        self._forget(ending.key)
                await self._carry_out(session, told)
            except exceptions.ActorDiedError:
                with suppress(NoDispatcherError):
                    await self._find(asked)
            if told is None:
                for job, indices in skipped.items():
                    self._skipped.setdefault(job, []).extend(indices)
                self._cancelled += cancelled
                self._news.set()

    async def _carry_out(self, session: str, told: Sequence[tuple[int, str, Any]] | None) -> None:
        if told is None and (fault := await self._join()):
            self._fail_waiting(NoDispatcherError(fault))
        if told is None or session != self.session:
            return  # all of it is told again
        for number, kind, what in told:
            if number <= self.seen:
                continue  # the same may be in two answers
            self.seen = number
            if kind == "start":
                self._start(*what)
            elif kind == "stop":
                self._stop(*what)
            else:
                self._note_over(what)

    def _forget(self, key: Key) -> None:
        del self._over[key]
        self._moved.discard(key)
        self._runs.pop(key, None)
        for item in self._items.pop(key, ()):
            if item.key == key:
                item.key = None
        batch = self._batches.get(str(key[0]))
        if batch is not None and batch.starts_left <= 0 and batch.is_over:
            del self._batches[batch.job]

    # Tasks

    def _start(self, key: Key, node_id: str) -> None:
        """Run what a start is for, unless it was run under this attempt."""
        if key in self._runs or key in self._over:
            return
        batch = self._batches.get(str(key[0]))
        if batch is None and self._is_asking:
            self._early.append((key, node_id))
            return
        self._runs[key] = None
        if batch is None:  # all of it went with other starts, and is forgotten
            self._end(key, 0, "")
            return
        if batch.asked.kind == "group":
            batch.starts[key[1]] = node_id
            if len(batch.starts) == sum(b.get("tasks", 1) for b in batch.request["bundles"]):
                self._go(self._start_group(batch, key[2]))
            return
        item = batch.items[key[1]]
        if item.key is not None and item.key[:2] == key[:2] and not item.outcome.done():
            item.key = None  # that attempt is lost, which the dispatcher saw first
        if not item.waits:  # it went with another start: this one may serve another
            taken = self._next(batch.asked)
            if taken is not None:
                self._skip(taken)
            item = taken or item
        if not item.waits:
            self._end(key, 0, "")
        elif batch.asked.kind == "actor":
            item.key, self._items[key] = key, [item]
            self._go(self._start_actor(item, key, node_id))
        else:
            more = [] if item.is_alone else self._more(batch)
            self._call(batch, key, [item, *more], node_id)

    def _more(self, batch: CallBatch) -> list[Item]:
        """Return what else that waits goes with a start, where calls are short."""
        waiting = self._waiting[batch.asked]
        if not (waiting and self._is_short(batch.asked)):
            return []
        lasts = max(self._lasts[batch.asked.function], 1e-5)
        most = min(int(LEASE_SECONDS / lasts), len(waiting) // (self._running[batch.asked] + 1))
        items: list[Item] = []
        alone: list[Item] = []
        while len(items) < most and (item := self._next(batch.asked)) is not None:
            (alone if item.is_alone else items).append(item)
        for item in items:
            self._skip(item)
        waiting.extendleft(reversed(alone))
        return items

    def _is_short(self, asked: CallOptions) -> bool:
        return self._lasts.get(asked.function, LEASE_SECONDS) < LEASE_SECONDS / 2

    def _next(self, asked: CallOptions) -> Item | None:
        """Take the first call that waits."""
        waiting = self._waiting[asked]
        while waiting:
            item = waiting.popleft()
            if item.waits:
                return item
        return None

    def _call(self, batch: CallBatch, key: Key, items: list[Item], node_id: str) -> None:
        """Hand calls to Ray, as one task."""
        self._items[key] = items
        for item in items:
            item.key = key
        try:
            calls = self._bound_to(batch, node_id)
            outcomes, values = calls.remote([(item.args, item.kwargs) for item in items])
        except Exception as fault:
            for item in items:
                item.fail(fault)
            self._end(key, 1, _line(fault))
            return
        self._runs[key] = outcomes
        self._running[batch.asked] += 1
        self._go(self._finish(batch, key, items, outcomes, values))

    def _bound_to(self, batch: CallBatch, node_id: str) -> Any:
        """Return a function as Ray calls it on a node, by what was counted."""
        mark = (batch.asked, node_id)
        if mark not in self._bound:
            function, name = batch.asked.function, self._names[batch.asked.function]
            self._bound[mark] = ray.remote(_calling(self._functions[function], name)).options(
                **ray_options(demand_of(batch.request)),
                num_returns=2,
                max_retries=0,
                name=name,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
            )
        return self._bound[mark]

    async def _finish(
        self, batch: CallBatch, key: Key, items: list[Item], outcomes: Any, values: Any
    ) -> None:
        status = 0
        try:
            try:
                lasted, rows = await outcomes
            finally:
                self._running[batch.asked] -= 1
        except LOST as fault:
            await self._lose(batch, key, items, fault)
            return
        except (Exception, asyncio.CancelledError) as fault:
            if key in self._moved and isinstance(fault, exceptions.TaskCancelledError):
                await self._lose(batch, key, items, fault)
                return
            for item in items:
                item.fail(fault)
            status = ENDED if isinstance(fault, exceptions.TaskCancelledError) else 1
            self._end(key, status, _line(fault))
            return
        function = batch.asked.function
        self._lasts[function] = (self._lasts.get(function, lasted) + lasted) / 2
        for place, (item, (kind, what)) in enumerate(zip(items, rows, strict=True)):
            if kind == "fault":
                status = 1
                item.fail(what.as_instanceof_cause())
            elif not item.outcome.done():
                item.outcome.set_result(what if kind == "small" else Stored(values, place, kind))
        self._end(key, status, "")

    async def _lose(self, batch: CallBatch, key: Key, items: list[Item], fault: Exception) -> None:
        """Repeat calls whose worker or node was lost.

        Of several that went together nobody knows which did it. So only what is lost alone counts.
        """
        again = []
        for item in items:
            if item.key == key and not item.outcome.done():
                item.tries += len(items) == 1
                item.is_alone |= len(items) > 1
                again.append(item)
                if item.tries >= batch.asked.attempts:
                    again.pop()
                    item.fail(LostError(f"was lost {item.tries} times, at last by {_line(fault)}"))
        tries = max(1, *(item.tries for item in items))
        await asyncio.sleep(HELD_SECONDS * 2 ** (tries - 1))
        again = [item for item in again if item.key == key and not item.outcome.done()]
        for item in again:
            item.key = None
        own = batch.items[key[1]]
        if own in again:  # the same start comes again; the others need starts of their own
            again.remove(own)
            if batch.is_gone:
                own.fail(_cancelled(batch.job))
            else:
                self._waiting[batch.asked].appendleft(own)
        if again:
            self._gather(batch.asked, again)
        is_again = own.waits or own.key not in (None, key)
        self._end(key, None if is_again else 1, _line(fault))

    def _stop(self, key: Key, why: str) -> None:
        """End what runs under an attempt."""
        self._early = [start for start in self._early if start[0] != key]
        what = self._runs.get(key)
        if key in self._over:
            return
        if why == MOVED:  # its calls are made again
            self._moved.add(key)
        if isinstance(what, ray.ObjectRef):
            ray.cancel(what, force=True)
        elif what is not None:
            _drop(what)
        else:
            self._end(key, ENDED, why)

    def _end(self, key: Key, status: int | None, reason: str) -> None:
        """Note how a task ended."""
        if key in self._over:
            return
        self._runs.setdefault(key, None)
        self._over[key] = Ending(key, status, reason[:200])
        self._news.set()
        batch = self._batches.get(str(key[0]))
        if batch is not None and status is not None:
            batch.starts_left -= 1

    def _note_over(self, job: str) -> None:
        """Handle the end of a job; its tasks that wait here were cancelled."""
        batch = self._batches.get(job)
        for item in batch.items if batch is not None else ():
            if item.waits and item.batch is batch:
                item.fail(_cancelled(job))
        if batch is not None:
            batch.is_gone = True
        if batch is not None and not any(str(key[0]) == job for key in self._runs):
            del self._batches[job]

    # Actors and placement groups

    async def _start_actor(self, item: Item, key: Key, node_id: str) -> None:
        batch = item.batch
        assert batch is not None
        try:
            made = ray.remote(ray.cloudpickle.loads(self._functions[batch.asked.function])).options(
                **ray_options(demand_of(batch.request)),
                max_restarts=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
            )
            actor = self._runs[key] = made.remote(*item.args, **item.kwargs)
            await actor.__ray_ready__.remote()
        except Exception as fault:
            item.fail(fault)
            self._end(key, 1, _line(fault))
            return
        if item.outcome.done():
            ray.kill(actor)
        else:
            item.outcome.set_result(actor)
        self._runs[key] = _ActorId(actor._actor_id.hex())  # so that only the driver's handle counts

    async def _start_group(self, batch: CallBatch, attempt: int) -> None:
        item = batch.items[0]
        starts, batch.starts = sorted(batch.starts.items()), {}
        keys = [(int(batch.job), index, attempt) for index, _ in starts]
        shapes = [b for b in batch.request["bundles"] for _ in range(b.get("tasks", 1))]
        bundles = [_bundle(ray_options(demand_of(shape))) for shape in shapes]
        nodes = [{"ray.io/node-id": node_id} for _, node_id in starts]
        try:
            group = placement_group(bundles, bundle_label_selector=nodes)
            for key in keys:
                self._runs[key] = group
            await group.ready()
        except Exception as fault:
            item.fail(fault)
            for key in keys:
                self._end(key, 1, _line(fault))
            return
        if item.outcome.done():
            _drop(group)
        else:
            item.outcome.set_result(group)

    async def _look(self) -> None:
        """See which actors and placement groups are over."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            runs = [(key, what) for key, what in self._runs.items() if key not in self._over]
            held = {k: what for k, what in runs if isinstance(what, _ActorId | PlacementGroup)}
            over = await asyncio.to_thread(_over, held)
            for key in over:  # told together: all parts of a group are free at once
                self._end(key, 0, "")

    def _go(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, context=self._context)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[Any]) -> None:
        """Log a fault of an internal task, which nothing awaits."""
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            LOG.error("agent %s: %r", self.name, fault, exc_info=fault)


class _ActorId(str):
    """An actor that the driver has."""

    __slots__ = ()


def _over(held: Mapping[Key, _ActorId | PlacementGroup]) -> list[Key]:
    """Return which actors and placement groups are over."""
    return [key for key, what in held.items() if _is_over(what)]


def _is_over(what: _ActorId | PlacementGroup) -> bool:
    if isinstance(what, _ActorId):
        row = ray._private.state.actors(str(what))  # the public call needs Ray's dashboard
        return not row or row["State"] == "DEAD"
    return bool(placement_group_table(what).get("state") == "REMOVED")


def _drop(what: Any) -> None:
    """End an actor, or a placement group and what runs in it."""
    if isinstance(what, PlacementGroup):
        ray.util.remove_placement_group(what)
    elif isinstance(what, _ActorId):
        core = ray._private.worker.global_worker.core_worker  # a handle would keep it alive
        with suppress(ValueError, exceptions.RayError):
            core.kill_actor(ray.ActorID.from_hex(str(what)), True)
    else:
        ray.kill(what)


def _bundle(options: Mapping[str, Any]) -> dict[str, float]:
    amounts = {"CPU": options["num_cpus"], "GPU": options["num_gpus"]}
    amounts |= {"memory": options.get("memory", 0)} | options.get("resources", {})
    return {resource: amount for resource, amount in amounts.items() if amount}


def _calling(pickled: bytes, name: str) -> Callable[..., Any]:
    """Return what a worker runs: the function for each row; it tells seconds of one, outcomes."""
    small, short = SMALL, SHORT
    function: Any = None

    def call(rows: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]]) -> tuple[Any, list[Any]]:
        nonlocal function
        if function is None:
            function = ray.cloudpickle.loads(pickled)
        began = time.monotonic()
        outcomes: list[tuple[str, Any]] = []
        values: list[Any] = []
        for args, kwargs in rows:
            value = None
            try:
                got = [ray.get(a) if isinstance(a, ray.ObjectRef) else a for a in args]
                named = {
                    k: ray.get(a) if isinstance(a, ray.ObjectRef) else a for k, a in kwargs.items()
                }
                value = function(*got, **named)
                if type(value) in small or (type(value) in (str, bytes) and len(value) < short):
                    outcome, value = ("small", value), None
                elif len(rows) > 1:  # apart, so that one that cannot be pickled spoils no other
                    outcome, value = ("packed", None), ray.cloudpickle.dumps(value)
                else:
                    outcome = ("stored", None)
            except Exception as fault:
                cause, text = getattr(fault, "cause", None), traceback.format_exc()
                told = cause if isinstance(fault, exceptions.RayTaskError) and cause else fault
                outcome, value = ("fault", exceptions.RayTaskError(name, text, told)), None
            outcomes.append(outcome)
            values.append(value)
        return ((time.monotonic() - began) / len(rows), outcomes), values

    return call


def _cancelled(job: str) -> LostError:
    return LostError(f"job {job} was cancelled before this started")


def _line(fault: BaseException) -> str:
    return f"{type(fault).__name__}: {(str(fault).strip() or ' ').splitlines()[0]}"[:200]
