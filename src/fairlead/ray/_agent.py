"""The agent: an actor of a driver that runs the driver's calls when the dispatcher orders starts.

The agent belongs to the driver's job in Ray, so tasks have the code and environment of that job,
and end with it. A task is submitted to Ray only when the dispatcher orders its start, so no task
waits in Ray. A start of short calls also runs other waiting calls of the same function, one after
another, for up to `LEASE_SECONDS`.

`run` and `map` gather calls, `_submit` makes them tasks of jobs, `_start` submits these to Ray, and
`_finish` sets the outcomes of the calls, or `_lose` lets them run again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from math import inf
from typing import Any

import ray
from ray import exceptions
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fairlead.ray._ray_calls import (
    MOVED,
    NAME,
    NAMESPACE,
    PROTOCOL,
    STOPPED_STATUS,
    CallBatch,
    CallOptions,
    CallStart,
    Function,
    LostError,
    NoDispatcherError,
    RayCall,
    StoredResult,
    cancelled_error,
    demand_of,
    one_line,
    ray_options,
    worker_function,
)
from fairlead.service.bounds import PREEMPTED
from fairlead.service.engines.protocol import Ending, Key
from fairlead.service.engines.worker_loop import repeat

LOG = logging.getLogger("fairlead.ray")
LEASE_SECONDS = 0.05  # longest run of all calls that share a start
GATHER_SECONDS = 0.002  # calls that arrive within this time become one job
# Seconds until the loss of a task is reported, doubled at each further loss. Ray may take seconds
# to notice a lost node, and until then the task would start on the same node again.
LOSS_REPORT_SECONDS = 0.5
# Between checks for ended actors and placement groups, and between tries to find a dispatcher.
CHECK_SECONDS = 0.5
REPLACEMENT_SECONDS = 6.0  # for which a dispatcher that replaces a stopped one is awaited
MOST_TASKS = 100_000  # largest number of tasks of a job
RESULTS_AT_ONCE = 64  # largest number of results of a map in one message
LOST = (
    exceptions.NodeDiedError,
    exceptions.WorkerCrashedError,
    exceptions.LocalRayletDiedError,
    exceptions.ObjectLostError,
    exceptions.OutOfMemoryError,
    exceptions.TaskUnschedulableError,
)


class Agent:
    """Runs the calls of one driver; its methods are called by the driver."""

    def __init__(self, name: str, user: str, dispatcher: Any) -> None:
        self.name, self.user, self.dispatcher = name, user, dispatcher
        self.session = ""  # the id that the dispatcher gave at the last join
        self.wait = 0.0  # seconds after which the dispatcher answers without orders
        self.seen = 0  # the number of the last order that was carried out
        self.grace = 0.0  # seconds until a preempted call is killed
        self._functions: defaultdict[int, Function] = defaultdict(Function)  # by number
        self._remote_functions: dict[tuple[CallOptions, str], Any] = {}  # by options and node's id
        self._gathered: dict[CallOptions, list[RayCall]] = {}  # calls to submit
        self._batches: dict[str, CallBatch] = {}  # by id of the job
        self._waiting: dict[CallOptions, deque[RayCall]] = {}  # calls that wait for a start
        self._is_submitting = False  # whether gathered calls are being submitted
        self._awaits_ids = False  # whether the dispatcher is about to return ids of jobs
        # Ordered starts of jobs whose ids are not known yet: key and node's id.
        self._early_starts: list[tuple[Key, str]] = []
        self._starts: dict[Key, CallStart] = {}
        self._ended: dict[Key, Ending] = {}  # the ends of starts, until they are acknowledged
        self._skipped: dict[str, list[int]] = {}  # to report, by job: tasks that need no start
        self._cancelled: list[str] = []  # to report: jobs without a call whose result is awaited
        self._running: Counter[CallOptions] = Counter()  # number of tasks in Ray
        self._awaited: dict[Any, list[asyncio.Future[None]]] = {}  # waits, by unready argument
        self._has_reports = asyncio.Event()
        self._join_lock, self._find_lock = asyncio.Lock(), asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        # Ray cancels tasks together with the call of this actor that submitted them. So all work
        # runs in the context of a call that is never cancelled.
        self._context = copy_context()

    # Calls by the driver

    async def begin(self) -> str:
        """Join the dispatcher; return why it refuses, or an empty text."""
        self._context = copy_context()
        fault = await self._join()
        if not fault:
            for step in (self._receive, self._report, self._watch_runs):
                self._spawn(repeat(step))
        return fault

    async def live(self) -> None:
        """Never return, so that the call fails when this actor is gone."""
        await asyncio.Event().wait()

    async def define(self, number: int, function: bytes, name: str) -> None:
        """Register a pickled function or class under a number."""
        defined = self._functions[number]
        defined.pickled, defined.name = function, name
        defined.is_defined.set()

    async def run(
        self, options: CallOptions, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call a function when the dispatcher starts it; return its result.

        For the kind ``actor`` or ``group``, make and return an actor or a placement group instead.
        """
        call = RayCall(args, kwargs, asyncio.get_running_loop().create_future())
        try:
            await self._await_arguments(options, [call])
            self._gather(options, [call])
            await asyncio.wait([call.outcome])
            return call.take()
        finally:
            self._give_up([call])

    async def map(
        self, options: CallOptions, rows: Iterable[tuple[Any, ...]]
    ) -> AsyncIterator[list[Any]]:
        """Call a function for each row; yield the results in order, in lists."""
        new = asyncio.get_running_loop().create_future
        calls = [RayCall(args, {}, new()) for args in rows]
        try:
            await self._await_arguments(options, calls)
            self._gather(options, calls)
            at = 0
            while at < len(calls):
                await asyncio.wait([calls[at].outcome])
                part: list[Any] = []
                for call in calls[at : at + RESULTS_AT_ONCE]:
                    # A failed call raises in `take`, so results before it are yielded first.
                    if not call.outcome.done() or (part and call.outcome.exception()):
                        break
                    part.append(call.take())
                yield part
                at += len(part)
        finally:
            self._give_up(calls)

    async def close(self) -> None:
        """Stop running tasks, and drop waiting ones. The driver kills this actor afterwards."""
        for task in list(self._tasks):
            task.cancel()  # else this agent would join again
        for key in [key for key, start in self._starts.items() if start.run is not None]:
            self._stop(key, "its driver disconnects")
        await self.dispatcher.leave.remote(self.name)

    # Jobs

    async def _await_arguments(self, options: CallOptions, calls: Sequence[RayCall]) -> None:
        """Wait until a function is defined and the arguments of its calls are ready."""
        if options.kind != "group":
            await self._functions[options.function].is_defined.wait()
        taken = (arg for call in calls for arg in (*call.args, *call.kwargs.values()))
        refs = {arg for arg in taken if isinstance(arg, ray.ObjectRef)}
        if refs:
            if not self._awaited:
                self._spawn(self._watch_arguments())
            waits = [asyncio.get_running_loop().create_future() for _ in refs]
            for ref, wait in zip(refs, waits, strict=True):
                self._awaited.setdefault(ref, []).append(wait)
            await asyncio.gather(*waits)

    async def _watch_arguments(self) -> None:
        """Wake the calls that wait for arguments, as these become ready."""
        await asyncio.sleep(0)  # so that the first wait has the arguments of all calls made now
        while self._awaited:
            # This wait is short, because references that are added meanwhile join the next one.
            ready, _ = await asyncio.to_thread(
                ray.wait, list(self._awaited), timeout=GATHER_SECONDS * 10, fetch_local=False
            )
            for ref in ready:
                for wait in self._awaited.pop(ref):
                    if not wait.done():
                        wait.set_result(None)

    def _gather(self, options: CallOptions, calls: Sequence[RayCall]) -> None:
        """Gather calls, which are submitted with the next jobs."""
        self._gathered.setdefault(options, []).extend(calls)
        if not self._is_submitting:
            self._is_submitting = True
            self._spawn(self._submit_gathered())

    async def _submit_gathered(self) -> None:
        """Submit gathered calls until none is left; under load, more calls become one job."""
        try:
            while self._gathered:
                # While short calls run, wait longer: more calls may arrive before a start ends,
                # and one start can run many of them.
                is_busy = any(self._is_short(o) and self._running[o] for o in self._gathered)
                await asyncio.sleep(LEASE_SECONDS / 2 if is_busy else GATHER_SECONDS)
                gathered, self._gathered = self._gathered, {}
                batches = []
                for options, calls in gathered.items():
                    size = MOST_TASKS if options.kind == "tasks" else 1
                    parts = [calls[at : at + size] for at in range(0, len(calls), size)]
                    batches += [
                        CallBatch(options, json.loads(options.request), part) for part in parts
                    ]
                await self._submit(batches)
        finally:
            self._is_submitting = False

    async def _submit(self, batches: list[CallBatch]) -> None:
        """Submit batches as jobs; fail the calls of refused jobs."""
        request_id, jobs = secrets.token_hex(16), []  # a repeated request has the same id
        for batch in batches:
            tasks = {} if batch.options.kind == "group" else {"tasks": len(batch.calls)}
            jobs.append(dict(batch.request) | tasks)
        ids = None
        self._awaits_ids = True
        try:
            while ids is None:
                dispatcher = self.dispatcher
                try:
                    ids = await dispatcher.submit.remote(self.name, self.session, request_id, jobs)
                    if ids is None and (refused := await self._join()):
                        raise NoDispatcherError(refused)
                except exceptions.ActorDiedError:
                    await self._find_replacement(dispatcher)
        except NoDispatcherError as fault:
            for call in (call for batch in batches for call in batch.calls):
                call.fail(fault)
            return
        except exceptions.RayError as fault:
            is_one_refused = len(batches) > 1 and isinstance(fault, exceptions.RayTaskError)
            for batch in batches:
                if is_one_refused:  # one refused job refuses the whole request
                    await self._submit([batch])
                else:
                    for call in batch.calls:
                        call.fail(fault)
            return
        finally:
            self._awaits_ids = False
        for batch, job in zip(batches, ids, strict=True):
            batch.job, batch.starts_left = job, len(batch.calls)
            self._batches[job] = batch
            self._waiting.setdefault(batch.options, deque()).extend(batch.calls)
            self._give_up([call for call in batch.calls if call.outcome.done()])
        early, self._early_starts = self._early_starts, []
        for start in early:
            self._start(*start)

    def _give_up(self, calls: Sequence[RayCall]) -> None:
        """Stop those of the calls that were abandoned, or prevent their start."""
        abandoned = [call for call in calls if not call.outcome.done() or call.outcome.cancelled()]
        for call in abandoned:
            call.outcome.cancel()
        submitted = [call for call in abandoned if call.batch and call.batch.job in self._batches]
        # A job is cancelled as a whole if no result of it is awaited any more.
        batches = {call.batch for call in submitted if call.batch}
        cancelled_jobs = {batch.job for batch in batches if batch.is_over}
        self._cancelled += sorted(cancelled_jobs)
        for call in submitted:
            if call.batch is None or call.batch.job in cancelled_jobs:
                continue
            if call.key is None:
                self._skip(call)
            elif all(other.outcome.done() for other in self._starts[call.key].calls):
                self._stop(call.key, "cancelled")
        self._has_reports.set()

    def _skip(self, call: RayCall) -> None:
        """Report that the task of a call needs no start of its own."""
        assert call.batch is not None
        self._skipped.setdefault(call.batch.job, []).append(call.index)
        call.batch.starts_left -= 1
        self._has_reports.set()

    # Messages of the dispatcher

    async def _join(self) -> str:
        """Join the dispatcher, also after a restart; return the reason of a refusal, or nothing."""
        async with self._join_lock:
            handle = ray.get_runtime_context().current_actor
            answer = await self.dispatcher.join.remote(
                self.name, self.user, PROTOCOL, list(self._batches), handle
            )
            if "fault" in answer:
                await asyncio.sleep(CHECK_SECONDS)  # delays the driver's next try
                return str(answer["fault"])
            if self.session != answer["session"]:
                self.session, self.wait, self.seen = answer["session"], answer["wait"], 0
                self.grace = answer["grace"]
                self._has_reports.set()
            return ""

    async def _find_replacement(self, gone: Any) -> None:
        """Join the dispatcher that replaces `gone`; fail all waiting calls if there is none."""
        async with self._find_lock:
            deadline = time.monotonic() + REPLACEMENT_SECONDS
            while self.dispatcher is gone:
                with suppress(ValueError, exceptions.ActorDiedError):
                    found = await asyncio.to_thread(ray.get_actor, NAME, namespace=NAMESPACE)
                    if found._actor_id != gone._actor_id:
                        self.dispatcher, self.session = found, ""
                        await self._join()
                        return
                if time.monotonic() > deadline:
                    fault = NoDispatcherError("the dispatcher of this Ray cluster was stopped")
                    self._fail_waiting(fault)
                    raise fault
                await asyncio.sleep(CHECK_SECONDS)

    def _fail_waiting(self, fault: NoDispatcherError) -> None:
        """Fail all waiting calls, because nothing will start them."""
        for call in (call for batch in self._batches.values() for call in batch.calls):
            if call.waits:
                call.fail(fault)

    async def _receive(self) -> None:
        """Receive and apply orders to start and stop tasks."""
        session, dispatcher = self.session, self.dispatcher
        try:
            orders = await dispatcher.sync.remote(self.name, session, self.seen, wait=self.wait)
            await self._apply(session, orders)
        except exceptions.ActorDiedError:
            with suppress(NoDispatcherError):
                await self._find_replacement(dispatcher)

    async def _report(self) -> None:
        """Report ended tasks, tasks that need no start, and cancelled jobs until acknowledged."""
        await self._has_reports.wait()
        await asyncio.sleep(GATHER_SECONDS)
        self._has_reports.clear()
        endings = list(self._ended.values())
        skipped, cancelled = self._skipped, self._cancelled
        if not (endings or skipped or cancelled):
            return
        self._skipped, self._cancelled = {}, []
        session, dispatcher, orders = self.session, self.dispatcher, None
        try:
            orders = await dispatcher.sync.remote(
                self.name, session, self.seen, endings, skipped, cancelled
            )
            if orders is not None:
                for ending in endings:
                    self._forget(ending.key)
            await self._apply(session, orders)
        except exceptions.ActorDiedError:
            with suppress(NoDispatcherError):
                await self._find_replacement(dispatcher)
        finally:
            if orders is None:
                for job, indices in skipped.items():
                    self._skipped.setdefault(job, []).extend(indices)
                self._cancelled += cancelled
                self._has_reports.set()

    async def _apply(self, session: str, orders: Sequence[tuple[int, str, Any]] | None) -> None:
        """Carry out orders, each a number, a kind and a content; join again if given None."""
        if orders is None and (fault := await self._join()):
            self._fail_waiting(NoDispatcherError(fault))
        if orders is None or session != self.session:
            return  # the new session repeats these orders
        for number, kind, order in orders:
            if number <= self.seen:
                continue  # two answers may hold the same order
            self.seen = number
            if kind == "start":
                self._start(*order)
            elif kind == "stop":
                self._stop(*order)
            else:
                self._end_job(order)

    def _forget(self, key: Key) -> None:
        """Drop a start whose end the dispatcher has acknowledged."""
        del self._ended[key]
        for call in self._starts.pop(key).calls:
            if call.key == key:
                call.key = None
        batch = self._batches.get(str(key[0]))
        if batch is not None and batch.starts_left <= 0 and batch.is_over:
            del self._batches[batch.job]

    # Tasks

    def _start(self, key: Key, node_id: str) -> None:
        """Run the call of an ordered start, unless this attempt has started already."""
        if key in self._starts:
            return
        batch = self._batches.get(str(key[0]))
        if batch is None and self._awaits_ids:
            self._early_starts.append((key, node_id))
            return
        start = self._starts[key] = CallStart()
        if batch is None:  # all of its calls shared other starts
            self._end_task(key, 0, "")
            return
        if batch.options.kind == "group":
            batch.starts[key[1]] = node_id
            if len(batch.starts) == sum(b.get("tasks", 1) for b in batch.request["bundles"]):
                self._spawn(self._start_group(batch, key[2]))
            return
        call = batch.calls[key[1]]
        if call.key is not None and call.key[:2] == key[:2] and not call.outcome.done():
            call.key = None  # the dispatcher detected the loss of that attempt first
        if not call.waits and (other := self._next_call(batch.options)) is not None:
            self._skip(other)
            call = other  # another start ran the first one, so this start is used for another call
        if not call.waits:
            self._end_task(key, 0, "")
        elif batch.options.kind == "actor":
            call.key, start.calls = key, [call]
            self._spawn(self._start_actor(call, key, start, node_id))
        else:
            # Set now, so that `_next_call` skips it: a lost call may be in `_waiting` twice.
            call.key = key
            more = [] if call.is_alone else self._calls_to_share(batch, key)
            start.calls = [call, *more]
            self._submit_to_ray(batch, key, start, node_id)

    def _calls_to_share(self, batch: CallBatch, key: Key) -> list[RayCall]:
        """Return waiting calls to share the start `key`; none unless the function is short."""
        waiting = self._waiting[batch.options]
        if not (waiting and self._is_short(batch.options)):
            return []
        seconds = max(self._functions[batch.options.function].seconds, 1e-5)
        # Divide the waiting calls evenly among this start and the running tasks of these options.
        limit = len(waiting) // (self._running[batch.options] + 1)
        limit = min(int(LEASE_SECONDS / seconds), limit)
        calls: list[RayCall] = []
        alone: list[RayCall] = []
        while len(calls) < limit and (call := self._next_call(batch.options)) is not None:
            if call.is_alone:
                alone.append(call)
            else:
                call.key = key
                calls.append(call)
                self._skip(call)
        waiting.extendleft(reversed(alone))
        return calls

    def _is_short(self, options: CallOptions) -> bool:
        """Return whether calls of a function are known to be short enough to share a start."""
        return self._functions[options.function].seconds < LEASE_SECONDS / 2

    def _next_call(self, options: CallOptions) -> RayCall | None:
        """Remove and return the next call that still waits; None if there is none."""
        waiting = self._waiting[options]
        while waiting:
            call = waiting.popleft()
            if call.waits:
                return call
        return None

    def _submit_to_ray(self, batch: CallBatch, key: Key, start: CallStart, node_id: str) -> None:
        """Submit the calls of a start to Ray as one task."""
        try:
            bound = self._remote_function(batch, node_id)
            start.run, values = bound.remote([(call.args, call.kwargs) for call in start.calls])
        except Exception as fault:
            for call in start.calls:
                call.fail(fault)
            self._end_task(key, 1, one_line(fault))
            return
        self._running[batch.options] += 1
        self._spawn(self._finish(batch, key, start, values))

    def _remote_function(self, batch: CallBatch, node_id: str) -> Any:
        """Return the function of a batch as Ray's remote function on a node, with its demand."""
        which = (batch.options, node_id)
        if which not in self._remote_functions:
            function = self._functions[batch.options.function]
            self._remote_functions[which] = ray.remote(
                worker_function(function.pickled, function.name)
            ).options(
                **ray_options(demand_of(batch.request)),
                num_returns=2,
                max_retries=0,
                name=function.name,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
            )
        return self._remote_functions[which]

    async def _finish(self, batch: CallBatch, key: Key, start: CallStart, values: Any) -> None:
        """Await a task of Ray; give the results to its calls, or let them run again."""
        status = 0
        try:
            try:
                lasted, rows = await start.run
            finally:
                self._running[batch.options] -= 1
        except LOST as fault:
            await self._lose(batch, key, start, fault)
            return
        except (Exception, asyncio.CancelledError) as fault:
            if start.repeated and isinstance(fault, exceptions.TaskCancelledError):
                await self._lose(batch, key, start, fault)
                return
            for call in start.calls:  # the whole task was cancelled or failed
                call.fail(fault)
            status = STOPPED_STATUS if isinstance(fault, exceptions.TaskCancelledError) else 1
            self._end_task(key, status, one_line(fault))
            return
        function = self._functions[batch.options.function]
        function.seconds = lasted if function.seconds == inf else (function.seconds + lasted) / 2
        is_preempted = start.repeated == PREEMPTED
        interrupted: Exception | None = None
        for index, (call, (kind, result)) in enumerate(zip(start.calls, rows, strict=True)):
            if kind == "fault" and is_preempted:
                interrupted = result  # perhaps caused by the KeyboardInterrupt
            elif kind == "fault":
                status = 1
                call.fail(result.as_instanceof_cause())
            elif not call.outcome.done():
                call.outcome.set_result(
                    result if kind == "small" else StoredResult(values, index, kind)
                )
        if interrupted is not None:
            await self._lose(batch, key, start, interrupted)
        else:
            self._end_task(key, status, "")

    async def _lose(self, batch: CallBatch, key: Key, start: CallStart, fault: Exception) -> None:
        """Let calls run again that were preempted, or lost with their worker or node.

        A loss counts as a try only if the task had a single call, because any of several may have
        caused it. A preemption never counts.
        """
        again, calls = [], start.calls
        is_preempted = start.repeated == PREEMPTED
        for call in calls:
            if call.key == key and not call.outcome.done():
                if not is_preempted:
                    call.tries += len(calls) == 1
                    call.is_alone |= len(calls) > 1
                if call.tries >= batch.options.attempts:
                    call.fail(
                        LostError(f"was lost {call.tries} times, at last by {one_line(fault)}")
                    )
                else:
                    again.append(call)
        if not is_preempted:
            tries = max(1, *(call.tries for call in calls))
            await asyncio.sleep(LOSS_REPORT_SECONDS * 2 ** (tries - 1))
        again = [call for call in again if call.key == key and not call.outcome.done()]
        for call in again:
            call.key = None
        own = batch.calls[key[1]]
        if own in again:  # this call keeps its start; the others need new ones
            again.remove(own)
            if batch.is_gone:
                own.fail(cancelled_error(batch.job))
            else:
                self._waiting[batch.options].appendleft(own)
        if again:
            self._gather(batch.options, again)
        # If the call waits again or another start runs it, the status is None: the dispatcher
        # starts the task again.
        runs_again = own.waits or own.key not in (None, key)
        if is_preempted:
            self._end_task(key, None if runs_again else 0, PREEMPTED)
        else:
            self._end_task(key, None if runs_again else 1, one_line(fault))

    def _stop(self, key: Key, why: str) -> None:
        """Stop the task of an attempt."""
        self._early_starts = [start for start in self._early_starts if start[0] != key]
        start = self._starts.setdefault(key, CallStart())
        if key in self._ended or (why == PREEMPTED and start.repeated):
            return
        start.repeated = why if why in (MOVED, PREEMPTED) else ""
        run = start.run
        if isinstance(run, ray.ObjectRef):
            if why == PREEMPTED:
                ray.cancel(run)  # raises KeyboardInterrupt in the call
                self._spawn(self._kill_after_grace(key, start))
            else:
                ray.cancel(run, force=True)
        elif run is not None:
            _drop(run)
        else:
            self._end_task(key, STOPPED_STATUS, why)

    async def _kill_after_grace(self, key: Key, start: CallStart) -> None:
        await asyncio.sleep(self.grace)
        if self._starts.get(key) is start and key not in self._ended:
            ray.cancel(start.run, force=True)

    def _end_task(self, key: Key, status: int | None, reason: str) -> None:
        """Record the end of a start to report it; a status of None asks for another start."""
        if key in self._ended:
            return
        self._starts.setdefault(key, CallStart())
        self._ended[key] = Ending(key, status, reason[:200])
        self._has_reports.set()
        batch = self._batches.get(str(key[0]))
        if batch is not None and status is not None:
            batch.starts_left -= 1

    def _end_job(self, job: str) -> None:
        """Handle the end of a job: fail its waiting calls, which were cancelled."""
        batch = self._batches.get(job)
        if batch is None:
            return
        for call in batch.calls:
            if call.waits and call.batch is batch:
                call.fail(cancelled_error(job))
        batch.is_gone = True
        if not any(str(key[0]) == job for key in self._starts):
            del self._batches[job]

    # Actors and placement groups

    async def _start_actor(self, call: RayCall, key: Key, start: CallStart, node_id: str) -> None:
        """Make an actor on a node, and give it to its call once it is ready."""
        batch = call.batch
        assert batch is not None
        if key in self._ended:  # stopped before it was made
            return
        try:
            made = ray.remote(
                ray.cloudpickle.loads(self._functions[batch.options.function].pickled)
            ).options(
                **ray_options(demand_of(batch.request)),
                max_restarts=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
            )
            actor = start.run = made.remote(*call.args, **call.kwargs)
            await actor.__ray_ready__.remote()
        except Exception as fault:
            if start.repeated and not call.outcome.done():
                call.key = None
                self._end_task(key, None, start.repeated)
            else:
                call.fail(fault)
                self._end_task(key, 1, one_line(fault))
            return
        if call.outcome.done():
            ray.kill(actor)
        else:
            call.outcome.set_result(actor)
        # Drop this handle, so that only the driver's handle keeps the actor alive.
        start.run = _ActorId(actor._actor_id.hex())

    async def _start_group(self, batch: CallBatch, attempt: int) -> None:
        """Make a placement group on the nodes of its bundles, and give it to its call."""
        call = batch.calls[0]
        starts, batch.starts = sorted(batch.starts.items()), {}
        keys = [(int(batch.job), index, attempt) for index, _ in starts]
        if any(key in self._ended for key in keys):  # stopped before it was made
            for key in keys:
                self._end_task(key, STOPPED_STATUS, "stopped before it was made")
            return
        shapes = [b for b in batch.request["bundles"] for _ in range(b.get("tasks", 1))]
        bundles = [_bundle(ray_options(demand_of(shape))) for shape in shapes]
        nodes = [{"ray.io/node-id": node_id} for _, node_id in starts]
        try:
            group = placement_group(bundles, bundle_label_selector=nodes)
            for key in keys:
                self._starts.setdefault(key, CallStart()).run = group
            await group.ready()
        except Exception as fault:
            call.fail(fault)
            for key in keys:
                self._end_task(key, 1, one_line(fault))
            return
        if call.outcome.done():
            _drop(group)
        else:
            call.outcome.set_result(group)

    async def _watch_runs(self) -> None:
        """Detect the ends of actors and placement groups."""
        await asyncio.sleep(CHECK_SECONDS)
        runs = [(key, s.run) for key, s in self._starts.items() if key not in self._ended]
        held = [(key, run) for key, run in runs if isinstance(run, _ActorId | PlacementGroup)]
        over = await asyncio.to_thread(lambda: [key for key, run in held if _is_over(run)])
        # Without a pause between them, because all bundles of a group are freed at once.
        for key in over:
            self._end_task(key, 0, "")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, context=self._context)
        self._tasks.add(task)
        task.add_done_callback(self._log_fault)

    def _log_fault(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            LOG.error("agent %s: %r", self.name, fault, exc_info=fault)


class _ActorId(str):
    """The id of an actor whose handle was returned to the driver."""

    __slots__ = ()


def _is_over(run: _ActorId | PlacementGroup) -> bool:
    if isinstance(run, _ActorId):
        row = ray._private.state.actors(str(run))  # the public function needs Ray's dashboard
        return not row or row["State"] == "DEAD"
    return bool(placement_group_table(run).get("state") == "REMOVED")


def _drop(run: Any) -> None:
    """End an actor, or a placement group and its tasks."""
    if isinstance(run, PlacementGroup):
        ray.util.remove_placement_group(run)
    elif isinstance(run, _ActorId):
        core = ray._private.worker.global_worker.core_worker  # a new handle would keep it alive
        with suppress(ValueError, exceptions.RayError):
            core.kill_actor(ray.ActorID.from_hex(str(run)), True)
    else:
        ray.kill(run)


def _bundle(options: Mapping[str, Any]) -> dict[str, float]:
    """Return the positive amounts in options of Ray, by Ray's names of resources."""
    amounts = {"CPU": options["num_cpus"], "GPU": options["num_gpus"]}
    amounts |= {"memory": options.get("memory", 0)} | options.get("resources", {})
    return {resource: amount for resource, amount in amounts.items() if amount}
